"""Parses expressions and queries of MySQL's SELECT language.

Invariant: accepts what MySQL accepts and nothing wider: reserved words, double quotes and nesting are judged as MySQL judges them;
nesting is bounded, so no text can exhaust the stack.
"""

from __future__ import annotations

from decimal import Decimal

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.lexer import RESERVED, Token, error_at, identifier, tokenize, unquote

MAX_DEPTH = 60
MAX_CHAIN = 400
COMPARISONS = frozenset(["=", "<=>", "<", ">", "<=", ">=", "<>", "!="])
UNITS = frozenset(
    """MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND
    HOUR_MICROSECOND HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH""".split()
)
_WORD_CALLS = frozenset(
    """IF LEFT RIGHT REPLACE REPEAT INSERT MOD CHAR DATABASE SCHEMA VALUES CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME
    LOCALTIMESTAMP UTC_DATE UTC_TIME UTC_TIMESTAMP CURRENT_USER ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD
    FIRST_VALUE LAST_VALUE NTH_VALUE GROUPING""".split()
)
_BARE_CALLS = frozenset(
    "CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP UTC_DATE UTC_TIME UTC_TIMESTAMP CURRENT_USER".split()
)
_BINARY = {"|": 1, "&": 2, "<<": 3, ">>": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "DIV": 5, "MOD": 5, "^": 6}
_CLAUSE_ENDS = frozenset("FROM WHERE GROUP HAVING ORDER LIMIT UNION INTERSECT EXCEPT FOR INTO WINDOW ON".split())
NO_SPACE_CALLS = frozenset(
    """ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB EXTRACT GROUP_CONCAT MAX MID MIN NOW POSITION
    SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP SUBDATE SUBSTR SUBSTRING SUM SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP
    VAR_SAMP""".split()
)


class Grammar:
    """One statement's tokens and the place reached in them."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = tokenize(sql)
        self.at = 0
        self.depth = 0
        self.tok: Token = self.tokens[0]

    # ---- tokens

    def step(self) -> Token:
        token = self.tok
        if self.at < len(self.tokens) - 1:
            self.at += 1
        self.tok = self.tokens[self.at]
        return token

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def back_to(self, at: int) -> None:
        self.at = at
        self.tok = self.tokens[at]

    def accept(self, *words: str) -> bool:
        """Consume the given sequence of words or operators if all of it comes next."""
        for offset, word in enumerate(words):
            if self.tokens[min(self.at + offset, len(self.tokens) - 1)].up != word:
                return False
        self.back_to(self.at + len(words))
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.tok.up != word:
                raise self.error()
            self.step()

    def one_of(self, *words: str) -> str | None:
        if self.tok.up in words:
            return self.step().up
        return None

    def error(self, token: Token | None = None) -> MySQLError:
        return error_at(self.sql, (token or self.tok).pos)

    def text_between(self, start: Token, end_at: int) -> str:
        return self.sql[start.pos : self.tokens[end_at].end]

    def ident(self) -> str:
        token = self.tok
        if token.kind == "qid" or (token.kind == "id" and token.up not in RESERVED):
            self.step()
            name = identifier(token)
            if not name:
                raise self.error(token)
            return name
        raise self.error()

    def alias(self) -> str | None:
        """An optional select-list alias: ``AS x``, ``x`` or a string."""
        if self.accept("AS"):
            if self.tok.kind == "str":
                return unquote(self.step().text)
            return self.ident()
        if self.tok.kind == "str":
            return unquote(self.step().text)
        if self.tok.kind == "qid" or (self.tok.kind == "id" and self.tok.up not in RESERVED):
            return self.ident()
        return None

    def string(self) -> str:
        if self.tok.kind != "str":
            raise self.error()
        value = unquote(self.step().text)
        while self.tok.kind == "str":
            value += unquote(self.step().text)
        return value

    def number(self) -> int:
        if self.tok.kind != "num" or not self.tok.text.isdigit():
            raise self.error()
        return int(self.step().text)

    # ---- expressions

    def expr(self) -> n.Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep()
        try:
            if self.tok.text == "@" and self.ahead(2).up == ":=":
                self.step()
                name = self.ident()
                self.step()
                return n.Assign(name.lower(), self.expr())
            return self._or()
        finally:
            self.depth -= 1

    def _or(self) -> n.Expr:
        operands = [self._xor()]
        while self.tok.up in ("OR", "||"):
            self.step()
            operands.append(self._xor())
        return operands[0] if len(operands) == 1 else n.Logic("OR", operands)

    def _xor(self) -> n.Expr:
        left = self._and()
        while self.tok.up == "XOR":
            self.step()
            left = n.Binary("XOR", left, self._and())
        return left

    def _and(self) -> n.Expr:
        operands = [self._not()]
        while self.tok.up in ("AND", "&&"):
            self.step()
            operands.append(self._not())
        return operands[0] if len(operands) == 1 else n.Logic("AND", operands)

    def _not(self) -> n.Expr:
        negations = 0
        while self.tok.up == "NOT":
            self.step()
            negations += 1
        operand = self._comparison()
        if negations == 0:
            return operand
        operand = n.Unary("NOT", operand)
        return operand if negations % 2 else n.Unary("NOT", operand)

    def _comparison(self) -> n.Expr:
        left = self._predicate()
        links = 0
        while True:
            up = self.tok.up
            if up in COMPARISONS:
                self.step()
                quantifier = self.one_of("ALL", "ANY", "SOME") if self.ahead().up == "(" else None
                if quantifier:
                    self.expect("(")
                    query = self.query()
                    self.expect(")")
                    left = n.Quantified(up, left, quantifier, query)
                else:
                    left = n.Binary("<>" if up == "!=" else up, left, self._predicate())
            elif up == "IS":
                self.step()
                negated = self.accept("NOT")
                what = self.one_of("NULL", "TRUE", "FALSE", "UNKNOWN")
                if what is None:
                    raise self.error()
                left = n.Is(left, "NULL" if what == "UNKNOWN" else what, negated)
            else:
                return left
            links = self._chained(links)

    def _chained(self, links: int) -> int:
        if links >= MAX_CHAIN:
            raise too_deep()
        return links + 1

    def _predicate(self) -> n.Expr:
        left = self._bits(0)
        while True:
            at = self.at
            negated = self.accept("NOT")
            word = self.tok.up
            if word == "IN":
                self.step()
                left = self._in(left, negated)
            elif word == "BETWEEN":
                self.step()
                low = self._bits(0)
                self.expect("AND")
                left = n.Between(left, low, self._bits(0), negated)
            elif word == "LIKE":
                self.step()
                pattern = self._bits(0)
                escape = self._bits(0) if self.accept("ESCAPE") else None
                left = n.Like(left, pattern, escape, negated)
            elif word in ("REGEXP", "RLIKE"):
                self.step()
                matched: n.Expr = n.Call("REGEXP_LIKE", [left, self._bits(0)])
                left = n.Unary("NOT", matched) if negated else matched
            elif word == "SOUNDS" and not negated and self.ahead().up == "LIKE":
                self.step()
                self.step()
                left = n.Binary("=", n.Call("SOUNDEX", [left]), n.Call("SOUNDEX", [self._bits(0)]))
            else:
                self.back_to(at)
                return left

    def _in(self, left: n.Expr, negated: bool) -> n.Expr:
        self.expect("(")
        if self.starts_query():
            query = self.query()
            self.expect(")")
            return n.In(left, [], query, negated)
        items = self.expr_list()
        self.expect(")")
        return n.In(left, items, None, negated)

    def _bits(self, level: int) -> n.Expr:
        left = self._prefix()
        links = 0
        while True:
            op = self.tok.up
            power = _BINARY.get(op, 0)
            if power <= level:
                return left
            self.step()
            if op in "+-" and self.tok.up == "INTERVAL":
                self.step()
                left = n.Call("DATE_ADD" if op == "+" else "DATE_SUB", [left, self.interval()])
            else:
                left = n.Binary("%" if op == "MOD" else op, left, self._bits(power))
            links = self._chained(links)

    def interval(self) -> n.Expr:
        amount = self.expr()
        if self.tok.up not in UNITS:
            raise self.error()
        # An interval is only ever an argument of a date call; Row carries both to it.
        return n.Row([amount, n.Literal(self.step().up)])

    def _prefix(self) -> n.Expr:
        ops: list[str] = []
        while (self.tok.kind == "op" and self.tok.up in "-+~!") or self.tok.up == "BINARY":
            ops.append(self.step().up)
            self._chained(len(ops) * 8)
        value = self._postfix()
        for op in reversed(ops):
            if op == "-" and isinstance(value, n.Literal) and type(value.value) in (int, float, Decimal):
                value = n.Literal(-value.value)  # type: ignore[operator]  # narrowed by type() above
            elif op != "+":
                value = n.Unary(op, value)
        return value

    def _postfix(self) -> n.Expr:
        value = self._primary()
        while True:
            if self.tok.up == "COLLATE":
                self.step()
                name = self.string() if self.tok.kind == "str" else (self.step().text)
                value = n.Collate(value, name.lower())
            elif self.tok.up in ("->", "->>"):
                op = self.step().up
                value = n.Call("JSON_EXTRACT", [value, n.Literal(self.string())])
                if op == "->>":
                    value = n.Call("JSON_UNQUOTE", [value])
            else:
                return value

    def _primary(self) -> n.Expr:
        token = self.tok
        kind = token.kind
        if kind == "num":
            self.step()
            return n.Literal(_number(token.text))
        if kind == "str":
            return n.Literal(self.string())
        if kind == "hex":
            self.step()
            digits = token.text[2:].rstrip("'")
            if token.text[0] != "0" and len(digits) % 2:
                raise self.error(token)
            return n.Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits))
        if kind == "bit":
            self.step()
            number = int(token.text[2:].rstrip("'") or "0", 2)
            return n.Literal(number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big"))
        if kind == "op":
            return self._primary_op(token)
        if kind == "end":
            raise self.error()
        if kind == "id" and (self.ahead().up == "(" or token.up in RESERVED or token.up in _STARTERS):
            special = self._primary_word(token)
            if special is not None:
                return special
        return self._column()

    def _primary_op(self, token: Token) -> n.Expr:
        if token.text == "(":
            self.step()
            if self.starts_query():
                query = self.query()
                self.expect(")")
                return n.Subquery(query)
            items = self.expr_list()
            self.expect(")")
            return items[0] if len(items) == 1 else n.Row(items)
        if token.text == "@":
            self.step()
            if self.tok.text == "@":
                self.step()
                name = self._system_name()
                return n.Variable(name, system=True)
            name = unquote(self.step().text) if self.tok.kind == "str" else self.ident()
            return n.Variable(name.lower())
        if token.text == "{":
            self.step()
            self.ident()
            value = self.expr()
            self.expect("}")
            return value
        raise self.error()

    def _system_name(self) -> str:
        name = self.step().text.lower()
        while self.accept("."):
            name = self.step().text.lower()
        return name

    def _column(self) -> n.Expr:
        parts = [self.ident()]
        while self.tok.text == "." and self.tok.kind == "op" and len(parts) < 3:
            self.step()
            if self.tok.text == "*" and self.tok.kind == "op":
                self.step()
                return n.Star(parts[-1])
            parts.append(self.ident())
        return n.Name(tuple(parts))

    def _primary_word(self, token: Token) -> n.Expr | None:
        up = token.up
        called = self.ahead().up == "("
        if up in ("NULL", "TRUE", "FALSE"):
            self.step()
            return n.Literal({"NULL": None, "TRUE": 1, "FALSE": 0}[up])
        if up == "CASE":
            self.step()
            return self._case()
        if up == "EXISTS" and called:
            self.step()
            self.step()
            query = self.query()
            self.expect(")")
            return n.Exists(query)
        if up == "DEFAULT" and not called:
            self.step()
            return n.Default()
        if up == "INTERVAL":
            self.step()
            if called:
                at = self.at
                self.step()
                items = self.expr_list()
                if self.accept(")") and len(items) > 1 and self.tok.up not in UNITS:
                    return n.Call("INTERVAL", items)
                self.back_to(at)
            row = self.interval()
            self.expect("+")
            return n.Call("DATE_ADD", [self._bits(4), row])
        if up == "ROW" and called:
            self.step()
            self.step()
            items = self.expr_list()
            self.expect(")")
            return n.Row(items)
        if up in ("DATE", "TIME", "TIMESTAMP") and self.ahead().kind == "str":
            self.step()
            return n.Literal(self.string(), "datetime" if up == "TIMESTAMP" else up.lower())
        if up.startswith("_") and self.ahead().kind == "str":
            self.step()
            return n.Literal(self.string())
        if called and (up not in RESERVED or up in _WORD_CALLS or up in ("CONVERT",)):
            if up in NO_SPACE_CALLS and self.ahead().pos != token.end:
                return None
            return self._call(token)
        if up in _BARE_CALLS:
            self.step()
            return n.Call(up, [])
        return None

    def _case(self) -> n.Expr:
        operand = None if self.tok.up == "WHEN" else self.expr()
        whens: list[tuple[n.Expr, n.Expr]] = []
        while self.accept("WHEN"):
            condition = self.expr()
            self.expect("THEN")
            whens.append((condition, self.expr()))
        if not whens:
            raise self.error()
        default = self.expr() if self.accept("ELSE") else None
        self.expect("END")
        return n.Case(operand, whens, default)

    # ---- calls

    def _call(self, token: Token) -> n.Expr:
        name = token.up
        self.step()
        self.expect("(")
        special = _SPECIAL_CALLS.get(name)
        call = special(self, name) if special else self._plain_call(name)
        self.expect(")")
        if isinstance(call, n.Call):
            if self.accept("IGNORE", "NULLS"):
                raise self.error()
            self.accept("RESPECT", "NULLS")
            if self.accept("OVER"):
                call.over = self.window() if self.tok.text == "(" else self.ident()
        return call

    def _plain_call(self, name: str) -> n.Call:
        if self.tok.text == ")" and self.tok.kind == "op":
            return n.Call(name, [])
        if self.tok.text == "*" and self.tok.kind == "op" and name == "COUNT":
            self.step()
            return n.Call(name, [n.Star()])
        distinct = self.accept("DISTINCT") or self.accept("DISTINCTROW")
        if not distinct:
            self.accept("ALL")
        return n.Call(name, self.expr_list(), distinct)

    def cast_type(self) -> str:
        word = self.step().up
        args = ""
        if self.accept("("):
            parts = [str(self.number())]
            while self.accept(","):
                parts.append(str(self.number()))
            self.expect(")")
            args = "(" + ",".join(parts) + ")"
        if word in ("SIGNED", "UNSIGNED"):
            self.accept("INTEGER") or self.accept("INT")
        if word == "CHARACTER":
            word = "CHAR"
        if word == "CHAR" and (self.accept("CHARACTER", "SET") or self.accept("CHARSET")):
            self.step()
        return word + args

    def window(self) -> n.Window:
        self.expect("(")
        window = n.Window()
        if self.tok.kind in ("id", "qid") and self.tok.up not in RESERVED:
            window.base = self.ident()
        if self.accept("PARTITION", "BY"):
            window.partition = self.expr_list()
        if self.accept("ORDER", "BY"):
            window.order = self.order_list()
        unit = self.one_of("ROWS", "RANGE")
        if unit:
            window.frame = f"{unit} {self._frame()}"
        self.expect(")")
        return window

    def _frame(self) -> str:
        if self.accept("BETWEEN"):
            low = self._bound()
            self.expect("AND")
            return f"BETWEEN {low} AND {self._bound()}"
        return self._bound()

    def _bound(self) -> str:
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW"
        if self.accept("UNBOUNDED"):
            start = "UNBOUNDED"
        else:
            start = str(self.number())
        end = self.one_of("PRECEDING", "FOLLOWING")
        if end is None:
            raise self.error()
        return f"{start} {end}"

    def expr_list(self) -> list[n.Expr]:
        items = [self.expr()]
        while self.accept(","):
            items.append(self.expr())
        return items

    def order_list(self) -> list[n.Order]:
        orders = []
        while True:
            value = self.expr()
            descending = self.accept("DESC")
            if not descending:
                self.accept("ASC")
            orders.append(n.Order(value, descending))
            if not self.accept(","):
                return orders

    # ---- queries

    def starts_query(self) -> bool:
        offset = 0
        while self.ahead(offset).text == "(" and self.ahead(offset).kind == "op":
            offset += 1
            if offset > MAX_DEPTH:
                raise too_deep()
        word = self.ahead(offset).up
        if word == "VALUES":
            return self.ahead(offset + 1).up == "ROW"
        if offset and word in ("SELECT", "WITH"):
            return self._parenthesised_query()
        return word in ("SELECT", "WITH")

    def _parenthesised_query(self) -> bool:
        """``((SELECT 1) + 1)`` is an expression, ``((SELECT 1) UNION ...)`` a query: look behind the inner parentheses."""
        at = self.at
        depth = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "op" and token.text == "(":
                depth += 1
            elif token.kind == "op" and token.text == ")":
                depth -= 1
                if depth == 0:
                    break
            at += 1
        following = self.tokens[min(at + 1, len(self.tokens) - 1)]
        return following.up in ("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", ")")

    def query(self) -> n.Query:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep()
        try:
            ctes: list[n.CTE] = []
            recursive = False
            if self.accept("WITH"):
                recursive, ctes = self.ctes()
            query = self._compound()
            if self.tok.up in ("ORDER", "LIMIT"):
                if query.order or query.limit is not None or query.ctes:
                    query = n.Select([n.Item(n.Star(), None, "*")], n.Derived(query, "", []))
                self.order_limit(query)
            self.accept("FOR", "UPDATE") or self.accept("FOR", "SHARE") or self.accept("LOCK", "IN", "SHARE", "MODE")
            query.ctes = ctes + query.ctes
            query.recursive = recursive or query.recursive
            return query
        finally:
            self.depth -= 1

    def ctes(self) -> tuple[bool, list[n.CTE]]:
        recursive = self.accept("RECURSIVE")
        ctes: list[n.CTE] = []
        while True:
            name = self.ident()
            columns = self.name_list() if self.tok.text == "(" else []
            self.expect("AS", "(")
            ctes.append(n.CTE(name, columns, self.query()))
            self.expect(")")
            if not self.accept(","):
                return recursive, ctes

    def name_list(self) -> list[str]:
        self.expect("(")
        names = [self.ident()]
        while self.accept(","):
            names.append(self.ident())
        self.expect(")")
        return names

    def _compound(self) -> n.Query:
        left = self._intersect()
        links = 0
        while self.tok.up in ("UNION", "EXCEPT"):
            left = self._append(left)
            links = self._chained(links)
        return left

    def _intersect(self) -> n.Query:
        left = self._query_term()
        while self.tok.up == "INTERSECT":
            left = self._append(left)
        return left

    def _append(self, left: n.Query) -> n.Query:
        op = self.step().up
        everything = self.accept("ALL")
        if not everything:
            self.accept("DISTINCT")
        right = self._intersect() if op != "INTERSECT" else self._query_term()
        return n.Compound(left, op, everything, right)

    def _query_term(self) -> n.Query:
        if self.tok.text == "(" and self.tok.kind == "op":
            self.step()
            query = self.query()
            self.expect(")")
            return query
        if self.accept("VALUES"):
            rows = []
            while self.accept("ROW"):
                self.expect("(")
                rows.append(self.expr_list())
                self.expect(")")
                if not self.accept(","):
                    break
            return n.Values(rows)
        return self._select()

    def _select(self) -> n.Query:
        self.expect("SELECT")
        distinct = False
        while True:
            word = self.one_of(
                "DISTINCT", "DISTINCTROW", "ALL", "SQL_CALC_FOUND_ROWS", "SQL_NO_CACHE", "HIGH_PRIORITY",
                "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT",
            )  # fmt: skip
            if word is None:
                break
            distinct = distinct or word.startswith("DISTINCT")
        select = n.Select(self._items(), distinct=distinct)
        if self.accept("FROM") and not self.accept("DUAL"):
            select.source = self.sources()
        if self.accept("WHERE"):
            select.where = self.expr()
        if self.accept("GROUP", "BY"):
            select.group = [order.expr for order in self.order_list()]
            select.rollup = self.accept("WITH", "ROLLUP")
        if self.accept("HAVING"):
            select.having = self.expr()
        if self.accept("WINDOW"):
            while True:
                name = self.ident()
                self.expect("AS")
                select.windows[name.lower()] = self.window()
                if not self.accept(","):
                    break
        return select

    def order_limit(self, query: n.Query) -> None:
        if self.accept("ORDER", "BY"):
            query.order = self.order_list()
        if self.accept("LIMIT"):
            query.limit = self._limit_value()
            if self.accept(","):
                query.offset, query.limit = query.limit, self._limit_value()
            elif self.accept("OFFSET"):
                query.offset = self._limit_value()

    def _limit_value(self) -> n.Expr:
        return n.Literal(min(self.number(), (1 << 63) - 1))

    def _items(self) -> list[n.Item]:
        items: list[n.Item] = []
        while True:
            start = self.tok
            if start.text == "*" and start.kind == "op":
                if items:
                    raise self.error()
                self.step()
                items.append(n.Item(n.Star(), None, "*"))
            else:
                value = self.expr()
                text = self.text_between(start, self.at - 1)
                items.append(n.Item(value, self.alias(), text))
            if not self.accept(","):
                return items

    def sources(self) -> n.Source:
        left = self._joined()
        while self.accept(","):
            left = n.Join(left, self._joined(), "COMMA")
        return left

    def _joined(self) -> n.Source:
        left = self._source()
        links = 0
        while True:
            natural = self.accept("NATURAL")
            kind = self._join_kind()
            if kind is None:
                if natural:
                    raise self.error()
                return left
            join = n.Join(left, self._source(), kind, natural=natural)
            if not natural:
                if self.accept("ON"):
                    join.on = self.expr()
                elif self.accept("USING"):
                    join.using = self.name_list()
                elif kind != "INNER":
                    raise self.error()
            left = join
            links = self._chained(links * 4) // 4 + 1

    def _join_kind(self) -> str | None:
        if self.accept("JOIN") or self.accept("INNER", "JOIN") or self.accept("CROSS", "JOIN") or self.accept("STRAIGHT_JOIN"):
            return "INNER"
        side = self.one_of("LEFT", "RIGHT")
        if side is None:
            return None
        self.accept("OUTER")
        self.expect("JOIN")
        return side

    def _source(self) -> n.Source:
        if self.accept("LATERAL"):
            raise self.error()
        if self.tok.text == "(" and self.tok.kind == "op":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise too_deep()
            self.step()
            if self.starts_query():
                query = self.query()
                self.expect(")")
                self.depth -= 1
                self.accept("AS")
                if self.tok.kind not in ("id", "qid") or (self.tok.kind == "id" and self.tok.up in RESERVED):
                    raise MySQLError(1248, "Every derived table must have its own alias")
                alias = self.ident()
                return n.Derived(query, alias, self.name_list() if self.tok.text == "(" else [])
            source = self.sources()
            self.expect(")")
            self.depth -= 1
            return source
        table = self.table_name()
        alias = self._table_alias()
        if alias:
            table.alias = alias
        while (self.tok.up in ("USE", "IGNORE", "FORCE")) and self.ahead().up in ("INDEX", "KEY"):
            self.step()
            self.step()
            if self.accept("FOR"):
                self.step()
            self.name_list()
        return table

    def _table_alias(self) -> str | None:
        if self.accept("AS"):
            return self.ident()
        if self.tok.kind == "qid" or (self.tok.kind == "id" and self.tok.up not in RESERVED):
            return self.ident()
        return None

    def table_name(self) -> n.TableRef:
        name = self.ident()
        if self.tok.text == "." and self.tok.kind == "op":
            self.step()
            table = self.ident()
            return n.TableRef(name, table, table)
        return n.TableRef(None, name, name)


_STARTERS = frozenset(["TRUE", "FALSE", "DATE", "TIME", "TIMESTAMP", "_UTF8MB4", "_UTF8", "_LATIN1", "_BINARY"])


def _number(text: str) -> int | float | Decimal:
    if text.isdigit():
        return int(text)
    if "e" in text or "E" in text:
        return float(text)
    return Decimal(text)


def _cast_call(g: Grammar, name: str) -> n.Expr:
    value = g.expr()
    if name == "CONVERT" and g.accept("USING"):
        g.step()
        return n.Cast(value, "CHAR")
    g.expect("AS") if name == "CAST" else g.expect(",")
    return n.Cast(value, g.cast_type())


def _extract_call(g: Grammar, name: str) -> n.Expr:
    if g.tok.up not in UNITS:
        raise g.error()
    unit = g.step().up
    g.expect("FROM")
    return n.Call(name, [n.Literal(unit), g.expr()])


def _unit_call(g: Grammar, name: str) -> n.Expr:
    unit = g.tok.up.removeprefix("SQL_TSI_")
    if unit not in UNITS:
        raise g.error()
    g.step()
    g.expect(",")
    return n.Call(name, [n.Literal(unit), *g.expr_list()])


def _date_add_call(g: Grammar, name: str) -> n.Expr:
    value = g.expr()
    g.expect(",")
    if g.accept("INTERVAL"):
        return n.Call({"ADDDATE": "DATE_ADD", "SUBDATE": "DATE_SUB"}.get(name, name), [value, g.interval()])
    if name in ("DATE_ADD", "DATE_SUB"):
        raise g.error()
    days: n.Expr = n.Row([g.expr(), n.Literal("DAY")])
    return n.Call("DATE_ADD" if name == "ADDDATE" else "DATE_SUB", [value, days])


def _trim_call(g: Grammar, name: str) -> n.Expr:
    side = g.one_of("BOTH", "LEADING", "TRAILING") or "BOTH"
    if g.accept("FROM"):
        return n.Call("TRIM", [n.Literal(side), n.Literal(" "), g.expr()])
    first = g.expr()
    if g.accept("FROM"):
        return n.Call("TRIM", [n.Literal(side), first, g.expr()])
    return n.Call("TRIM", [n.Literal(side), n.Literal(" "), first])


def _substring_call(g: Grammar, name: str) -> n.Expr:
    args = [g.expr()]
    if g.accept("FROM"):
        args.append(g.expr())
        if g.accept("FOR"):
            args.append(g.expr())
        return n.Call("SUBSTRING", args)
    while g.accept(","):
        args.append(g.expr())
    return n.Call("SUBSTRING", args)


def _position_call(g: Grammar, name: str) -> n.Expr:
    needle = g._bits(0)
    g.expect("IN")
    return n.Call("LOCATE", [needle, g.expr()])


def _group_concat_call(g: Grammar, name: str) -> n.Expr:
    call = n.Call(name, [], g.accept("DISTINCT"))
    call.args = g.expr_list()
    if g.accept("ORDER", "BY"):
        call.order = g.order_list()
    call.separator = ","
    if g.accept("SEPARATOR"):
        call.separator = g.string()
    return call


def _char_call(g: Grammar, name: str) -> n.Expr:
    args = g.expr_list()
    if g.accept("USING"):
        g.step()
    return n.Call(name, args)


def _format_call(g: Grammar, name: str) -> n.Expr:
    kind = g.one_of("DATE", "TIME", "DATETIME", "TIMESTAMP")
    if kind is None:
        raise g.error()
    g.expect(",")
    return n.Call(name, [n.Literal(kind), g.expr()])


_SPECIAL_CALLS = {
    "CAST": _cast_call,
    "CONVERT": _cast_call,
    "EXTRACT": _extract_call,
    "TIMESTAMPDIFF": _unit_call,
    "TIMESTAMPADD": _unit_call,
    "DATE_ADD": _date_add_call,
    "DATE_SUB": _date_add_call,
    "ADDDATE": _date_add_call,
    "SUBDATE": _date_add_call,
    "TRIM": _trim_call,
    "SUBSTRING": _substring_call,
    "SUBSTR": _substring_call,
    "MID": _substring_call,
    "POSITION": _position_call,
    "GROUP_CONCAT": _group_concat_call,
    "CHAR": _char_call,
    "GET_FORMAT": _format_call,
}

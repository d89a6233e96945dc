"""Parses MySQL expressions.

Invariant: accepts what MySQL accepts and nothing wider: reserved words, double quotes and nesting are judged as MySQL judges them;
nesting is bounded, so no text can exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.errors import too_deep
from envhub.envs.db.sqlite.lexer import RESERVED, Token, unquote
from envhub.envs.db.sqlite.reader import MAX_DEPTH, TokenReader

COMPARISONS = frozenset(["=", "<=>", "<", ">", "<=", ">=", "<>", "!="])
UNITS = frozenset(
    [
        "MICROSECOND",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
        "SECOND_MICROSECOND",
        "MINUTE_MICROSECOND",
        "MINUTE_SECOND",
        "HOUR_MICROSECOND",
        "HOUR_SECOND",
        "HOUR_MINUTE",
        "DAY_MICROSECOND",
        "DAY_SECOND",
        "DAY_MINUTE",
        "DAY_HOUR",
        "YEAR_MONTH",
    ]
)
WINDOW_ONLY = frozenset(
    [
        "ROW_NUMBER",
        "RANK",
        "DENSE_RANK",
        "PERCENT_RANK",
        "CUME_DIST",
        "NTILE",
        "LAG",
        "LEAD",
        "FIRST_VALUE",
        "LAST_VALUE",
        "NTH_VALUE",
    ]
)
_BARE_CALLS = frozenset(
    [
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "UTC_DATE",
        "UTC_TIME",
        "UTC_TIMESTAMP",
        "CURRENT_USER",
    ]
)
_WORD_CALLS = (
    _BARE_CALLS
    | WINDOW_ONLY
    | frozenset(
        [
            "IF",
            "LEFT",
            "RIGHT",
            "REPLACE",
            "REPEAT",
            "INSERT",
            "MOD",
            "CHAR",
            "DATABASE",
            "SCHEMA",
            "VALUES",
            "GROUPING",
        ]
    )
)
_BINARY = {"|": 1, "&": 2, "<<": 3, ">>": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "DIV": 5, "MOD": 5, "^": 6}
NO_SPACE_CALLS = frozenset(
    [
        "ADDDATE",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "CAST",
        "COUNT",
        "CURDATE",
        "CURTIME",
        "DATE_ADD",
        "DATE_SUB",
        "EXTRACT",
        "GROUP_CONCAT",
        "MAX",
        "MID",
        "MIN",
        "NOW",
        "POSITION",
        "SESSION_USER",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "SUBDATE",
        "SUBSTR",
        "SUBSTRING",
        "SUM",
        "SYSDATE",
        "SYSTEM_USER",
        "TRIM",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
    ]
)
_STARTERS = frozenset(["TRUE", "FALSE", "DATE", "TIME", "TIMESTAMP", "_UTF8MB4", "_UTF8", "_LATIN1", "_BINARY"])


class Grammar(TokenReader):
    """Expressions; ``special_calls`` are the functions with a syntax of their own."""

    special_calls: dict[str, SpecialCall]

    def query(self) -> n.Query:
        """A SELECT and its relatives; the query grammar supplies it."""
        raise NotImplementedError

    def starts_query(self) -> bool:
        """Whether a query comes next, parenthesised or not; the query grammar supplies it."""
        raise NotImplementedError

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
            links = self.chained(links)

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
        left = self.prefix()
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
            links = self.chained(links)

    def operand(self) -> n.Expr:
        """An operand of a comparison."""
        return self._bits(0)

    def interval(self) -> n.Expr:
        amount = self.expr()
        if self.tok.up not in UNITS:
            raise self.error()
        # An interval is only ever an argument of a date call; Row carries both to it.
        return n.Row([amount, n.Literal(self.step().up)])

    def prefix(self) -> n.Expr:
        ops: list[str] = []
        while (self.tok.kind == "op" and self.tok.up in "-+~!") or self.tok.up == "BINARY":
            ops.append(self.step().up)
            self.chained(len(ops) * 8)
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
                collation = self.string() if self.tok.kind == "str" else self.step().text
                value = n.Collate(value, collation.lower())
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
        return self.column()

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
                name = self.system_name()
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

    def system_name(self) -> str:
        name = self.step().text.lower()
        while self.accept("."):
            name = self.step().text.lower()
        return name

    def column(self) -> n.Expr:
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
        special = self.special_calls.get(name)
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
        start = "UNBOUNDED" if self.accept("UNBOUNDED") else str(self.number())
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


SpecialCall: TypeAlias = Callable[[Grammar, str], n.Expr]


def _number(text: str) -> int | float | Decimal:
    if text.isdigit():
        return int(text)
    if "e" in text or "E" in text:
        return float(text)
    return Decimal(text)

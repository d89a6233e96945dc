"""Parses queries: SELECT, UNION and its relatives, VALUES, WITH, and what FROM may hold.

Invariant: ORDER BY and LIMIT belong to the query they follow, a parenthesised one included.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.call_grammar import SPECIAL_CALLS
from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.grammar import Grammar
from envhub.envs.db.sqlite.lexer import RESERVED
from envhub.envs.db.sqlite.reader import MAX_DEPTH


class QueryGrammar(Grammar):
    special_calls = SPECIAL_CALLS

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
            links = self.chained(links)
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
            links = self.chained(links * 4) // 4 + 1

    def _join_kind(self) -> str | None:
        if (
            self.accept("JOIN")
            or self.accept("INNER", "JOIN")
            or self.accept("CROSS", "JOIN")
            or self.accept("STRAIGHT_JOIN")
        ):
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
        table.alias = self.table_alias() or table.alias
        while (self.tok.up in ("USE", "IGNORE", "FORCE")) and self.ahead().up in ("INDEX", "KEY"):
            self.step()
            self.step()
            if self.accept("FOR"):
                self.step()
            self.name_list()
        return table

    def table_alias(self) -> str | None:
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

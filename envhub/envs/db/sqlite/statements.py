"""Parses whole MySQL statements: queries, data changes, definitions and the SHOW family.

Invariant: one text is one statement (a trailing ``;`` aside); what a session may not do parses to ``Refused``, never to an action.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.definition_grammar import DefinitionGrammar
from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.lexer import error_at, unquote

_REFUSED_WORDS = frozenset(
    [
        "GRANT",
        "REVOKE",
        "KILL",
        "SHUTDOWN",
        "FLUSH",
        "RESET",
        "PURGE",
        "INSTALL",
        "UNINSTALL",
        "LOAD",
        "CALL",
        "HANDLER",
        "PREPARE",
        "EXECUTE",
        "DEALLOCATE",
        "CHANGE",
        "START",
        "STOP",
        "CLONE",
        "IMPORT",
        "RESTART",
        "BINLOG",
        "SIGNAL",
        "RESIGNAL",
        "XA",
    ]
)


def parse(sql: str) -> n.Statement:
    """The statement in ``sql``. Raises MySQLError."""
    if len(sql) <= 4096:
        return _parse_cached(sql)
    return _parse(sql)


def _parse(sql: str) -> n.Statement:
    grammar = Statements(sql)
    try:
        return grammar.statement()
    except RecursionError:
        raise too_deep() from None


_parse_cached = lru_cache(maxsize=512)(_parse)


class Statements(DefinitionGrammar):
    """The grammar of statements, on top of that of queries."""

    def statement(self) -> n.Statement:
        if self.tok.kind == "end":
            raise MySQLError(1065, "Query was empty")
        statement = self._one()
        self.accept(";")
        if self.tok.kind != "end":
            raise self.error()
        return statement

    def _one(self) -> n.Statement:
        word = self.tok.up
        if self.starts_query() or (self.tok.text == "(" and self.tok.kind == "op"):
            return self._query_or_change()
        reader = _READERS.get(word)
        if reader is not None:
            self.step()
            return reader(self)
        if word in _REFUSED_WORDS:
            return self.refused()
        raise self.error()

    def _query_or_change(self) -> n.Statement:
        if self.tok.up == "WITH":
            at = self.at
            self.step()
            recursive, ctes = self.ctes()
            change: n.Update | n.Delete | None = None
            if self.accept("UPDATE"):
                change = self._update()
            elif self.accept("DELETE"):
                change = self._delete()
            if change is not None:
                change.ctes, change.recursive = ctes, recursive
                return change
            self.back_to(at)
        query = self.query()
        if self.tok.up == "INTO":
            return self.refused()
        return query

    # ---- data changes

    def _insert(self) -> n.Insert:
        mode = "IGNORE" if self._insert_words() else ""
        return self._insert_rest(mode)

    def _insert_words(self) -> bool:
        while self.one_of("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"):
            pass
        return self.accept("IGNORE")

    def _replace(self) -> n.Insert:
        self._insert_words()
        return self._insert_rest("REPLACE")

    def _insert_rest(self, mode: str) -> n.Insert:
        self.accept("INTO")
        table = self.table_name()
        insert = n.Insert(table, None, [], None, mode)
        if self.tok.text == "(" and not self.starts_query():
            insert.columns = [] if self.accept("(", ")") else self._target_columns()
        if self.accept("SET"):
            pairs = self._assignments()
            insert.columns = [name.parts[-1] for name, _ in pairs]
            insert.rows = [[value for _, value in pairs]]
        elif self.accept("VALUES") or self.accept("VALUE"):
            insert.rows = self._rows()
        elif self.starts_query():
            insert.query = self.query()
        else:
            raise self.error()
        if self.accept("AS"):
            insert.row_alias = self.ident()
        if mode != "REPLACE" and self.accept("ON", "DUPLICATE", "KEY", "UPDATE"):
            insert.update = self._assignments()
        return insert

    def _target_columns(self) -> list[str]:
        self.expect("(")
        names = []
        while True:
            name = self.column()
            if not isinstance(name, n.Name):
                raise self.error()
            names.append(name.parts[-1])
            if not self.accept(","):
                break
        self.expect(")")
        return names

    def _rows(self) -> list[list[n.Expr]]:
        rows = []
        while True:
            self.accept("ROW")
            self.expect("(")
            rows.append([] if self.accept(")") else self._row_rest())
            if not self.accept(","):
                return rows

    def _row_rest(self) -> list[n.Expr]:
        items = self.expr_list()
        self.expect(")")
        return items

    def _assignments(self) -> list[tuple[n.Name, n.Expr]]:
        pairs = []
        while True:
            name = self.column()
            if not isinstance(name, n.Name):
                raise self.error()
            if not (self.accept("=") or self.accept(":=")):
                raise self.error()
            pairs.append((name, self.expr()))
            if not self.accept(","):
                return pairs

    def _update(self) -> n.Update:
        self.accept("LOW_PRIORITY")
        ignore = self.accept("IGNORE")
        source = self.sources()
        self.expect("SET")
        assignments = self._assignments()
        where = self.expr() if self.accept("WHERE") else None
        order, limit = self._order_limit()
        if isinstance(source, n.Join) and (order or limit is not None):
            raise MySQLError(1221, "Incorrect usage of UPDATE and " + ("ORDER BY" if order else "LIMIT"))
        return n.Update(source, assignments, where, order, limit, ignore=ignore)

    def _order_limit(self) -> tuple[list[n.Order], n.Expr | None]:
        order = self.order_list() if self.accept("ORDER", "BY") else []
        return order, n.Literal(self.number()) if self.accept("LIMIT") else None

    def _delete(self) -> n.Delete:
        while self.one_of("LOW_PRIORITY", "QUICK", "IGNORE"):
            pass
        if not self.accept("FROM"):
            targets = self._delete_targets()
            self.expect("FROM")
            return self._delete_join(targets)
        at = self.at
        targets = self._delete_targets()
        if self.accept("USING"):
            return self._delete_join(targets)
        self.back_to(at)
        table = self.table_name()
        alias = self.table_alias()
        if alias:
            table.alias = alias
        where = self.expr() if self.accept("WHERE") else None
        order, limit = self._order_limit()
        return n.Delete(table, [table.alias], where, order, limit)

    def _delete_targets(self) -> list[str]:
        targets = []
        while True:
            name = self.ident()
            while self.accept("."):
                if self.accept("*"):
                    break
                name = self.ident()
            targets.append(name)
            if not self.accept(","):
                return targets

    def _delete_join(self, targets: list[str]) -> n.Delete:
        source = self.sources()
        where = self.expr() if self.accept("WHERE") else None
        return n.Delete(source, targets, where, [], None)

    # ---- the rest

    def _show(self) -> n.Statement:
        full = self.accept("FULL")
        self.one_of("EXTENDED", "GLOBAL", "SESSION")
        word = self.step().up
        if word == "TABLES":
            if self.one_of("FROM", "IN"):
                self.ident()
            return self._show_filter(n.Show("TABLES", full=full))
        if word in ("COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS"):
            if self.one_of("FROM", "IN") is None:
                raise self.error()
            table = self.table_name()
            if self.one_of("FROM", "IN"):
                table.database = self.ident()
            what = "COLUMNS" if word in ("COLUMNS", "FIELDS") else "INDEX"
            return self._show_filter(n.Show(what, table, full))
        if word == "CREATE":
            if self.one_of("TABLE", "VIEW"):
                return n.Show("CREATE", self.table_name())
            return n.Show("CREATE DATABASE", self.table_name()) if self.one_of("DATABASE", "SCHEMA") else self.refused()
        if word in ("DATABASES", "SCHEMAS"):
            return self._show_filter(n.Show("DATABASES"))
        if word == "TABLE" and self.accept("STATUS"):
            if self.one_of("FROM", "IN"):
                self.ident()
            return self._show_filter(n.Show("TABLE STATUS"))
        if word in ("VARIABLES", "STATUS", "COLLATION"):
            return self._show_filter(n.Show("VARIABLES" if word == "VARIABLES" else "EMPTY"))
        if word == "CHARACTER" and self.accept("SET"):
            return self._show_filter(n.Show("EMPTY"))
        if word in (
            "WARNINGS",
            "ERRORS",
            "ENGINES",
            "PROCESSLIST",
            "PLUGINS",
            "PRIVILEGES",
            "EVENTS",
            "TRIGGERS",
            "COUNT",
        ):
            while self.tok.kind != "end" and self.tok.text != ";":
                self.step()
            return n.Show("EMPTY")
        if word in ("GRANTS", "MASTER", "BINARY", "SLAVE", "REPLICA", "ENGINE", "PROCEDURE", "FUNCTION", "BINLOG"):
            return self.refused()
        raise error_at(self.sql, self.tokens[max(self.at - 1, 0)].pos)

    def _show_filter(self, show: n.Show) -> n.Show:
        if self.accept("LIKE"):
            show.like = self.string()
        elif self.accept("WHERE"):
            show.where = self.expr()
        return show

    def _describe(self) -> n.Statement:
        self.one_of("EXTENDED", "ANALYZE")
        if self.accept("FORMAT"):
            self.expect("=")
            self.step()
        if self.starts_query() or self.tok.up in ("UPDATE", "DELETE", "INSERT", "REPLACE"):
            statement = self._one()
            query = statement if isinstance(statement, n.Select | n.Compound | n.Values) else None
            return n.Explain(query or n.Select([n.Item(n.Literal(1), None, "1")]))
        table = self.table_name()
        show = n.Show("COLUMNS", table)
        if self.tok.kind == "str":
            show.like = self.string()
        elif self.tok.kind in ("id", "qid"):
            show.like = self.ident()
        return show

    def _use(self) -> n.Use:
        return n.Use(self.ident())

    def _begin(self) -> n.Transaction:
        self.accept("WORK")
        return n.Transaction("BEGIN")

    def _start(self) -> n.Statement:
        if not self.accept("TRANSACTION"):
            return self.refused()
        while self.tok.kind == "id":
            self.step()
        return n.Transaction("BEGIN")

    def _commit(self) -> n.Transaction:
        self.accept("WORK")
        return n.Transaction("COMMIT")

    def _rollback(self) -> n.Transaction:
        self.accept("WORK")
        if self.accept("TO"):
            self.accept("SAVEPOINT")
            return n.Transaction("ROLLBACK_TO", self.ident())
        return n.Transaction("ROLLBACK")

    def _savepoint(self) -> n.Transaction:
        return n.Transaction("SAVEPOINT", self.ident())

    def _release(self) -> n.Transaction:
        self.expect("SAVEPOINT")
        return n.Transaction("RELEASE", self.ident())

    def _set(self) -> n.Statement:
        if self.accept("NAMES") or self.accept("CHARACTER", "SET") or self.accept("CHARSET"):
            self.step()
            if self.accept("COLLATE"):
                self.step()
            return n.Nothing()
        if self.tok.up in ("PASSWORD", "ROLE", "GLOBAL", "PERSIST", "RESOURCE"):
            return self.refused()
        if self.tok.up in ("TRANSACTION",) or self.ahead().up == "TRANSACTION":
            while self.tok.kind != "end" and self.tok.text != ";":
                self.step()
            return n.Nothing()
        assignments = []
        while True:
            name, system = self._variable_name()
            if not (self.accept("=") or self.accept(":=")):
                raise self.error()
            word = self.tok.up
            if system and self.tok.kind == "id" and self.ahead().up in ("", ",", ";"):
                self.step()
                value: n.Expr = n.Literal(word)
            else:
                value = self.expr()
            assignments.append((name, system, value))
            if not self.accept(","):
                return n.SetVariables(assignments)

    def _variable_name(self) -> tuple[str, bool]:
        if self.accept("@"):
            if self.accept("@"):
                return self.system_name(), True
            if self.tok.kind == "str":
                return unquote(self.step().text).lower(), False
            return self.ident().lower(), False
        self.one_of("SESSION", "LOCAL")
        return self.system_name(), True

    def _do(self) -> n.Do:
        return n.Do(self.expr_list())

    def _ignored(self) -> n.Nothing:
        while self.tok.kind != "end" and self.tok.text != ";":
            self.step()
        return n.Nothing()

    def _tables_ignored(self) -> n.Nothing:
        if self.one_of("TABLE", "TABLES") is None:
            raise self.error()
        return self._ignored()


_READERS: dict[str, Callable[[Statements], n.Statement]] = {
    "INSERT": Statements._insert,
    "REPLACE": Statements._replace,
    "UPDATE": Statements._update,
    "DELETE": Statements._delete,
    "CREATE": Statements.create,
    "DROP": Statements.drop,
    "TRUNCATE": Statements.truncate,
    "RENAME": Statements.rename,
    "ALTER": Statements.alter,
    "SHOW": Statements._show,
    "DESCRIBE": Statements._describe,
    "DESC": Statements._describe,
    "EXPLAIN": Statements._describe,
    "USE": Statements._use,
    "BEGIN": Statements._begin,
    "START": Statements._start,
    "COMMIT": Statements._commit,
    "ROLLBACK": Statements._rollback,
    "SAVEPOINT": Statements._savepoint,
    "RELEASE": Statements._release,
    "SET": Statements._set,
    "DO": Statements._do,
    "ANALYZE": Statements._tables_ignored,
    "OPTIMIZE": Statements._tables_ignored,
    "CHECK": Statements._tables_ignored,
    "LOCK": Statements._tables_ignored,
    "UNLOCK": Statements._tables_ignored,
}

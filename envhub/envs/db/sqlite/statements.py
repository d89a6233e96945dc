"""Parses whole MySQL statements: queries, data changes, definitions and the SHOW family.

Invariant: one text is one statement (a trailing ``;`` aside); what a session may not do parses to ``Refused``, never to an action.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.grammar import Grammar
from envhub.envs.db.sqlite.lexer import error_at, unquote

_ACCESS = (1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation")
_REFUSED_WORDS = frozenset(
    """GRANT REVOKE KILL SHUTDOWN FLUSH RESET PURGE INSTALL UNINSTALL LOAD CALL HANDLER PREPARE EXECUTE DEALLOCATE CHANGE START STOP
    CLONE IMPORT RESTART BINLOG SIGNAL RESIGNAL XA""".split()
)
_REFUSED_TARGETS = frozenset(
    "USER ROLE PROCEDURE FUNCTION TRIGGER EVENT SERVER TABLESPACE LOGFILE UNDO DEFINER AGGREGATE SPATIAL RESOURCE".split()
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


class Statements(Grammar):
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
            return self._refused()
        raise self.error()

    def _refused(self) -> n.Refused:
        while self.tok.kind != "end":
            self.step()
        return n.Refused(*_ACCESS)

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
            return self._refused()
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
            name = self._column()
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
            name = self._column()
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
        alias = self._table_alias()
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

    # ---- definitions

    def _create(self) -> n.Statement:
        replace = self.accept("OR", "REPLACE")
        temporary = self.accept("TEMPORARY")
        if self.accept("TABLE"):
            return self._create_table(temporary)
        while self.tok.up in ("ALGORITHM", "SQL", "SECURITY", "UNDEFINED", "MERGE", "TEMPTABLE", "INVOKER", "DEFINER", "="):
            self.step()
        if self.accept("VIEW"):
            return self._create_view(replace)
        kind = "UNIQUE" if self.accept("UNIQUE") else "FULLTEXT" if self.accept("FULLTEXT") else "INDEX"
        if self.accept("INDEX"):
            return self._create_index("UNIQUE" if kind == "UNIQUE" else "INDEX")
        if self.tok.up in ("DATABASE", "SCHEMA"):
            self._refused()
            return n.Refused(1044, "Access denied for user 'agent'@'localhost' to database")
        if self.tok.up in _REFUSED_TARGETS:
            return self._refused()
        raise self.error()

    def _create_view(self, replace: bool) -> n.CreateView:
        if self.accept("IF", "NOT", "EXISTS"):
            replace = False
        table = self.table_name()
        columns = self.name_list() if self.tok.text == "(" else []
        self.expect("AS")
        start = self.tok
        query = self.query()
        text = self.text_between(start, self.at - 1)
        if self.accept("WITH"):
            self.one_of("CASCADED", "LOCAL")
            self.expect("CHECK", "OPTION")
        return n.CreateView(table, columns, query, replace, text)

    def _create_index(self, kind: str) -> n.AlterTable:
        name = self.ident()
        if self.accept("USING"):
            self.step()
        self.expect("ON")
        table = self.table_name()
        key = n.KeySpec(kind, name, self._key_columns())
        self._table_options()
        return n.AlterTable(table, [n.AlterAction("ADD_KEY", key=key)])

    def _create_table(self, temporary: bool) -> n.CreateTable:
        if_not_exists = self.accept("IF", "NOT", "EXISTS")
        table = self.table_name()
        create = n.CreateTable(table, [], [], [], [], if_not_exists, temporary)
        if self.accept("LIKE"):
            create.like = self.table_name()
            return create
        if self.tok.text == "(" and not self.starts_query():
            self.step()
            if self.accept("LIKE"):
                create.like = self.table_name()
                self.expect(")")
                return create
            while True:
                self._table_element(create)
                if not self.accept(","):
                    break
            self.expect(")")
        self._table_options()
        self.accept("AS")
        if self.starts_query():
            create.query = self.query()
        elif not create.columns:
            raise MySQLError(1113, "A table must have at least 1 column") if self.tok.kind == "end" else self.error()
        return create

    def _table_options(self) -> None:
        """ENGINE, CHARSET, COMMENT and the like: read and dropped."""
        while self.tok.kind not in ("end",) and self.tok.text != ";" and not self.starts_query() and self.tok.up != "AS":
            if self.tok.kind not in ("id", "qid", "str", "num") and self.tok.text not in ("=", ","):
                raise self.error()
            self.step()

    def _table_element(self, create: n.CreateTable) -> None:
        item = self._constraint()
        if item is None:
            create.columns.append(self.column_spec())
        elif isinstance(item, n.KeySpec):
            create.keys.append(item)
        elif isinstance(item, n.ForeignKey):
            create.foreign.append(item)
        else:
            create.checks.append(item)

    def _constraint(self) -> n.KeySpec | n.ForeignKey | n.CheckSpec | None:
        name = None
        named = self.accept("CONSTRAINT")
        if named and self.tok.up not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            name = self.ident()
        if self.accept("PRIMARY", "KEY"):
            return n.KeySpec("PRIMARY", "PRIMARY", self._key_columns())
        if self.accept("UNIQUE"):
            self.one_of("KEY", "INDEX")
            if self.tok.text != "(":
                name = self.ident()
            return n.KeySpec("UNIQUE", name, self._key_columns())
        if self.accept("FOREIGN", "KEY"):
            if self.tok.text != "(":
                name = self.ident()
            return self._references(name, self.name_list())
        if self.accept("CHECK"):
            return n.CheckSpec(name, self._check())
        if named:
            raise self.error()
        if self.tok.up in ("KEY", "INDEX", "FULLTEXT", "SPATIAL"):
            self.step()
            self.one_of("KEY", "INDEX")
            if self.tok.text != "(":
                name = self.ident()
            return n.KeySpec("INDEX", name, self._key_columns())
        return None

    def _check(self) -> n.Expr:
        self.expect("(")
        value = self.expr()
        self.expect(")")
        self.accept("NOT") and self.expect("ENFORCED") if self.ahead().up == "ENFORCED" else self.accept("ENFORCED")
        return value

    def _key_columns(self) -> list[str]:
        if self.accept("USING"):
            self.step()
        self.expect("(")
        names = []
        while True:
            names.append(self.ident())
            if self.accept("("):
                self.number()
                self.expect(")")
            self.one_of("ASC", "DESC")
            if not self.accept(","):
                break
        self.expect(")")
        if self.accept("USING"):
            self.step()
        return names

    def _references(self, name: str | None, columns: list[str]) -> n.ForeignKey:
        self.expect("REFERENCES")
        table = self.table_name()
        key = n.ForeignKey(name, columns, table.name, self.name_list() if self.tok.text == "(" else [])
        while self.accept("ON"):
            what = self.one_of("DELETE", "UPDATE")
            if self.accept("SET"):
                self.expect("NULL")
                action = "SET NULL"
            elif self.accept("NO"):
                self.expect("ACTION")
                action = "NO ACTION"
            else:
                found = self.one_of("CASCADE", "RESTRICT")
                if found is None:
                    raise self.error()
                action = found
            if what == "DELETE":
                key.on_delete = action
            elif what == "UPDATE":
                key.on_update = action
            else:
                raise self.error()
        return key

    def column_spec(self) -> n.ColumnSpec:
        name = self.ident()
        spec = n.ColumnSpec(name, self._type())
        while self._column_option(spec):
            pass
        return spec

    def _type(self) -> str:
        if self.tok.kind != "id":
            raise self.error()
        word = self.step().text.lower()
        if word == "double":
            self.accept("PRECISION")
        if word in ("character", "char") and self.accept("VARYING"):
            word = "varchar"
        args = ""
        if self.accept("("):
            parts = [self._type_argument()]
            while self.accept(","):
                parts.append(self._type_argument())
            self.expect(")")
            args = "(" + ",".join(parts) + ")"
        flags = ""
        while (flag := self.one_of("UNSIGNED", "ZEROFILL", "SIGNED")) is not None:
            if flag == "UNSIGNED":
                flags = " unsigned"
        return word + args + flags

    def _type_argument(self) -> str:
        if self.tok.kind == "str":
            return "'" + self.string().replace("'", "''") + "'"
        return str(self.number())

    def _column_option(self, spec: n.ColumnSpec) -> bool:
        if self.accept("NOT", "NULL"):
            spec.not_null = True
        elif self.accept("NULL") or self.accept("VISIBLE") or self.accept("STORED") or self.accept("VIRTUAL"):
            pass
        elif self.accept("DEFAULT"):
            spec.default = self._default()
        elif self.accept("ON", "UPDATE"):
            self._default()
            spec.on_update_now = True
        elif self.accept("AUTO_INCREMENT"):
            spec.auto_increment = True
        elif self.accept("PRIMARY", "KEY") or self.accept("KEY"):
            spec.primary = True
        elif self.accept("UNIQUE"):
            self.accept("KEY")
            spec.unique = True
        elif self.accept("COMMENT"):
            spec.comment = self.string()
        elif self.accept("COLLATE"):
            spec.collation = self.step().text.lower()
        elif self.accept("CHARACTER", "SET") or self.accept("CHARSET"):
            self.step()
        elif self.accept("CONSTRAINT"):
            if self.tok.up != "CHECK":
                self.ident()
        elif self.accept("CHECK"):
            spec.check = self._check()
        elif self.tok.up == "REFERENCES":
            self._references(None, [spec.name])  # MySQL reads and ignores an inline reference
        elif self.accept("GENERATED", "ALWAYS", "AS") or self.accept("AS"):
            self.expect("(")
            spec.generated = self.expr()
            self.expect(")")
        else:
            return False
        return True

    def _default(self) -> n.Expr:
        if self.tok.text == "(":
            self.step()
            value = self.expr()
            self.expect(")")
            return value
        return self._prefix()

    def _drop(self) -> n.Statement:
        self.accept("TEMPORARY")
        if self.accept("INDEX"):
            name = self.ident() if self.tok.up != "PRIMARY" else self.step().text
            self.expect("ON")
            table = self.table_name()
            self._table_options()
            return n.AlterTable(table, [n.AlterAction("DROP_KEY", name=name)])
        what = self.one_of("TABLE", "VIEW", "TABLES")
        if what is None:
            if self.tok.up in ("DATABASE", "SCHEMA"):
                self._refused()
                return n.Refused(1044, "Access denied for user 'agent'@'localhost' to database")
            if self.tok.up in _REFUSED_TARGETS:
                return self._refused()
            raise self.error()
        if_exists = self.accept("IF", "EXISTS")
        tables = [self.table_name()]
        while self.accept(","):
            tables.append(self.table_name())
        self.one_of("RESTRICT", "CASCADE")
        return n.Drop("VIEW" if what == "VIEW" else "TABLE", tables, if_exists)

    def _truncate(self) -> n.Truncate:
        self.accept("TABLE")
        return n.Truncate(self.table_name())

    def _rename(self) -> n.Statement:
        if not self.accept("TABLE"):
            return self._refused()
        pairs = []
        while True:
            old = self.table_name()
            self.expect("TO")
            pairs.append((old, self.table_name()))
            if not self.accept(","):
                return n.RenameTables(pairs)

    def _alter(self) -> n.Statement:
        self.accept("IGNORE")
        if not self.accept("TABLE"):
            return self._refused()
        table = self.table_name()
        actions = [self._alter_action()]
        while self.accept(","):
            actions.append(self._alter_action())
        return n.AlterTable(table, actions)

    def _alter_action(self) -> n.AlterAction:
        reader = {
            "ADD": self._alter_add, "DROP": self._alter_drop, "MODIFY": self._alter_modify, "CHANGE": self._alter_change,
            "RENAME": self._alter_rename, "ALTER": self._alter_default,
        }.get(self.tok.up)  # fmt: skip
        if reader is not None:
            self.step()
            return reader()
        if self.tok.kind != "id":
            raise self.error()
        while self.tok.kind != "end" and self.tok.text not in (",", ";"):
            self.step()
        return n.AlterAction("NOTHING")

    def _alter_add(self) -> n.AlterAction:
        item = self._constraint()
        if isinstance(item, n.KeySpec):
            return n.AlterAction("ADD_KEY", key=item)
        if isinstance(item, n.ForeignKey):
            return n.AlterAction("ADD_FOREIGN", foreign=item)
        if isinstance(item, n.CheckSpec):
            return n.AlterAction("ADD_CHECK", check=item)
        self.accept("COLUMN")
        exists = self.accept("IF", "NOT", "EXISTS")
        if self.accept("("):
            spec = self.column_spec()
            self.expect(")")
            return n.AlterAction("ADD", column=spec, if_exists=exists)
        spec = self.column_spec()
        return n.AlterAction("ADD", column=spec, position=self._position(), if_exists=exists)

    def _position(self) -> str | None:
        if self.accept("FIRST"):
            return ""
        return self.ident() if self.accept("AFTER") else None

    def _alter_drop(self) -> n.AlterAction:
        if self.accept("PRIMARY", "KEY"):
            return n.AlterAction("DROP_KEY", name="PRIMARY")
        if self.one_of("INDEX", "KEY"):
            return n.AlterAction("DROP_KEY", name=self.ident())
        if self.accept("FOREIGN", "KEY"):
            return n.AlterAction("DROP_FOREIGN", name=self.ident())
        if self.one_of("CHECK", "CONSTRAINT"):
            return n.AlterAction("DROP_CHECK", name=self.ident())
        self.accept("COLUMN")
        exists = self.accept("IF", "EXISTS")
        name = self.ident()
        self.one_of("RESTRICT", "CASCADE")
        return n.AlterAction("DROP", name=name, if_exists=exists)

    def _alter_modify(self) -> n.AlterAction:
        self.accept("COLUMN")
        spec = self.column_spec()
        return n.AlterAction("MODIFY", name=spec.name, column=spec, position=self._position())

    def _alter_change(self) -> n.AlterAction:
        self.accept("COLUMN")
        old = self.ident()
        return n.AlterAction("CHANGE", name=old, column=self.column_spec(), position=self._position())

    def _alter_rename(self) -> n.AlterAction:
        if self.accept("COLUMN"):
            old = self.ident()
            self.expect("TO")
            return n.AlterAction("RENAME_COLUMN", name=old, new_name=self.ident())
        if self.one_of("INDEX", "KEY"):
            old = self.ident()
            self.expect("TO")
            return n.AlterAction("RENAME_KEY", name=old, new_name=self.ident())
        self.one_of("TO", "AS")
        return n.AlterAction("RENAME", new_name=self.table_name().name)

    def _alter_default(self) -> n.AlterAction:
        self.accept("COLUMN")
        name = self.ident()
        if self.accept("DROP"):
            self.expect("DEFAULT")
            return n.AlterAction("DROP_DEFAULT", name=name)
        self.expect("SET", "DEFAULT")
        return n.AlterAction("SET_DEFAULT", name=name, default=self._default())

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
            what = self.one_of("TABLE", "VIEW", "DATABASE", "SCHEMA")
            if what is None:
                return self._refused()
            return n.Show("CREATE" if what in ("TABLE", "VIEW") else "CREATE DATABASE", self.table_name())
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
        if word in ("WARNINGS", "ERRORS", "ENGINES", "PROCESSLIST", "PLUGINS", "PRIVILEGES", "EVENTS", "TRIGGERS", "COUNT"):
            while self.tok.kind != "end" and self.tok.text != ";":
                self.step()
            return n.Show("EMPTY")
        if word in ("GRANTS", "MASTER", "BINARY", "SLAVE", "REPLICA", "ENGINE", "PROCEDURE", "FUNCTION", "BINLOG"):
            return self._refused()
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
            return self._refused()
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
            return self._refused()
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
                return self._system_name(), True
            if self.tok.kind == "str":
                return unquote(self.step().text).lower(), False
            return self.ident().lower(), False
        self.one_of("SESSION", "LOCAL")
        return self._system_name(), True

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
    "CREATE": Statements._create,
    "DROP": Statements._drop,
    "TRUNCATE": Statements._truncate,
    "RENAME": Statements._rename,
    "ALTER": Statements._alter,
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

"""Parses CREATE, ALTER, DROP, RENAME and TRUNCATE.

Invariant: what a session may not define or drop parses to ``Refused``.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.query_grammar import QueryGrammar

ACCESS = (1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation")
_REFUSED_TARGETS = frozenset(
    [
        "USER",
        "ROLE",
        "PROCEDURE",
        "FUNCTION",
        "TRIGGER",
        "EVENT",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "UNDO",
        "DEFINER",
        "AGGREGATE",
        "SPATIAL",
        "RESOURCE",
    ]
)


class DefinitionGrammar(QueryGrammar):
    def refused(self) -> n.Refused:
        while self.tok.kind != "end":
            self.step()
        return n.Refused(*ACCESS)

    def create(self) -> n.Statement:
        replace = self.accept("OR", "REPLACE")
        temporary = self.accept("TEMPORARY")
        if self.accept("TABLE"):
            return self._create_table(temporary)
        while self.tok.up in (
            "ALGORITHM",
            "SQL",
            "SECURITY",
            "UNDEFINED",
            "MERGE",
            "TEMPTABLE",
            "INVOKER",
            "DEFINER",
            "=",
        ):
            self.step()
        if self.accept("VIEW"):
            return self._create_view(replace)
        kind = "UNIQUE" if self.accept("UNIQUE") else "FULLTEXT" if self.accept("FULLTEXT") else "INDEX"
        if self.accept("INDEX"):
            return self._create_index("UNIQUE" if kind == "UNIQUE" else "INDEX")
        if self.tok.up in ("DATABASE", "SCHEMA"):
            self.refused()
            return n.Refused(1044, "Access denied for user 'agent'@'localhost' to database")
        if self.tok.up in _REFUSED_TARGETS:
            return self.refused()
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
        while (
            self.tok.kind not in ("end",) and self.tok.text != ";" and not self.starts_query() and self.tok.up != "AS"
        ):
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
        self.accept("NOT", "ENFORCED") or self.accept("ENFORCED")
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
        return self.prefix()

    def drop(self) -> n.Statement:
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
                self.refused()
                return n.Refused(1044, "Access denied for user 'agent'@'localhost' to database")
            if self.tok.up in _REFUSED_TARGETS:
                return self.refused()
            raise self.error()
        if_exists = self.accept("IF", "EXISTS")
        tables = [self.table_name()]
        while self.accept(","):
            tables.append(self.table_name())
        self.one_of("RESTRICT", "CASCADE")
        return n.Drop("VIEW" if what == "VIEW" else "TABLE", tables, if_exists)

    def truncate(self) -> n.Truncate:
        self.accept("TABLE")
        return n.Truncate(self.table_name())

    def rename(self) -> n.Statement:
        if not self.accept("TABLE"):
            return self.refused()
        pairs = []
        while True:
            old = self.table_name()
            self.expect("TO")
            pairs.append((old, self.table_name()))
            if not self.accept(","):
                return n.RenameTables(pairs)

    def alter(self) -> n.Statement:
        self.accept("IGNORE")
        if not self.accept("TABLE"):
            return self.refused()
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

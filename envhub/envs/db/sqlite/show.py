"""SHOW, DESCRIBE and EXPLAIN.

Invariant: every answer is read from the catalog; the column names and values are those a MySQL 8 server gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, ColumnDef, TableDef
from envhub.envs.db.sqlite.convert import literal, truth
from envhub.envs.db.sqlite.errors import MySQLError, unknown_table
from envhub.envs.db.sqlite.expressions import compile_expr
from envhub.envs.db.sqlite.functions.text import like
from envhub.envs.db.sqlite.kinds import INT, STR, T
from envhub.envs.db.sqlite.queries import compile_query
from envhub.envs.db.sqlite.schema_tables import column_key, default_text, extra_text, rows_sql
from envhub.envs.db.sqlite.scope import Col, Scope, Source
from envhub.envs.db.sqlite.session import Session

Answer = tuple[list[tuple[str, T]], list[tuple[Any, ...]]]


def show(session: Session, node: n.Show) -> Answer:
    columns, rows, filtered = _ANSWERS[node.what](session, node)
    if node.like is not None:
        pattern = node.like
        rows = [row for row in rows if like(str(row[filtered]), pattern)]
    if node.where is not None:
        rows = _where(session, node.where, columns, rows)
    return columns, rows


def _where(
    session: Session, where: n.Expr, columns: list[tuple[str, T]], rows: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    ctx = session.context()
    sql, cols = rows_sql(columns, [", ".join(literal(ctx, value).sql for value in row) for row in rows])
    scope = Scope(
        sources=[Source("", "s", [Col(c.name, c.x._replace(sql=f"s.{c.x.sql}")) for c in cols])], clause="where clause"
    )
    return session.rows(f"SELECT * FROM ({sql}) AS s WHERE {truth(compile_expr(ctx, where, scope))}", ctx.params)


_Found = tuple[list[tuple[str, T]], list[tuple[Any, ...]], int]


def _strings(*names: str) -> list[tuple[str, T]]:
    return [(name, STR) for name in names]


def _tables(session: Session, node: n.Show) -> _Found:
    names = [(name, "BASE TABLE") for name, table in session.catalog.tables.items() if not table.temporary]
    names = sorted(names + [(name, "VIEW") for name in session.catalog.views])
    title = f"Tables_in_{DATABASE}" + (f" ({node.like})" if node.like else "")
    if node.full:
        return _strings(title, "Table_type"), list(names), 0
    return _strings(title), [(name,) for name, _ in names], 0


def _described(session: Session, node: n.Show) -> list[tuple[ColumnDef, TableDef]]:
    assert node.table is not None
    session.catalog.check_database(node.table)
    name = node.table.name
    table = session.catalog.tables.get(name)
    if table is None:
        view = session.catalog.views.get(name)
        if view is None:
            raise unknown_table(DATABASE, name)
        plan = compile_query(session.context(), view.query, None)
        types = {
            "int": "bigint",
            "real": "double",
            "str": "text",
            "dec": "decimal(65,4)",
            "bin": "blob",
            "json": "json",
            "null": "binary(0)",
        }
        columns = [
            ColumnDef(label, types.get(out.x.t.kind, out.x.t.kind), out.x.t, f"c{place}")
            for place, (label, out) in enumerate(zip(view.columns, plan.outs, strict=True))
        ]
        table = TableDef(name, "", columns)
    return [(column, table) for column in table.columns]


def _columns(session: Session, node: n.Show) -> _Found:
    rows: list[tuple[Any, ...]] = []
    for column, table in _described(session, node):
        row: tuple[Any, ...] = (
            column.name, column.type, "YES" if column.nullable else "NO", column_key(table, column.name),
            default_text(table, column.name), extra_text(table, column.name),
        )  # fmt: skip
        if node.full:
            collation = "utf8mb4_0900_ai_ci" if column.t.kind == "str" else None
            row = (*row[:2], collation, *row[2:], "select,insert,update,references", column.comment)
        rows.append(row)
    names = ["Field", "Type", "Null", "Key", "Default", "Extra"]
    if node.full:
        names = ["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"]
    return _strings(*names), rows, 0


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column_line(column: ColumnDef, table: TableDef) -> str:
    line = f"  {_quoted(column.name)} {column.type}"
    if not column.nullable:
        line += " NOT NULL"
    default = default_text(table, column.name)
    if column.auto_increment:
        line += " AUTO_INCREMENT"
    elif default is not None:
        line += f" DEFAULT {default}" if default == "CURRENT_TIMESTAMP" else f" DEFAULT '{default}'"
    elif column.nullable and column.t.kind not in ("bin", "json") and "text" not in column.type:
        line += " DEFAULT NULL"
    if column.on_update_now:
        line += " ON UPDATE CURRENT_TIMESTAMP"
    return line + (f" COMMENT '{column.comment}'" if column.comment else "")


def _create(session: Session, node: n.Show) -> _Found:
    assert node.table is not None
    session.catalog.check_database(node.table)
    name = node.table.name
    view = session.catalog.views.get(name)
    if view is not None:
        text = f"CREATE VIEW {_quoted(name)} AS {view.text}"
        return _strings("View", "Create View", "character_set_client", "collation_connection"), [
            (name, text, "utf8mb4", "utf8mb4_0900_ai_ci")
        ], 0  # fmt: skip
    table = session.catalog.table(node.table)
    lines = [_column_line(column, table) for column in table.columns]
    for key in table.keys:
        columns = ",".join(_quoted(column) for column in key.columns)
        label = {
            "PRIMARY": "PRIMARY KEY",
            "UNIQUE": f"UNIQUE KEY {_quoted(key.name)}",
            "INDEX": f"KEY {_quoted(key.name)}",
        }[key.kind]
        lines.append(f"  {label} ({columns})")
    for foreign in table.foreign:
        own, theirs = (", ".join(map(_quoted, names)) for names in (foreign.columns, foreign.references))
        lines.append(
            f"  CONSTRAINT {_quoted(foreign.name or '')} FOREIGN KEY ({own}) REFERENCES {_quoted(foreign.table)} ({theirs})"
        )
    temporary = "TEMPORARY " if table.temporary else ""
    options = "ENGINE=InnoDB" + (f" AUTO_INCREMENT={table.auto_next}" if table.auto_next > 1 else "")
    text = f"CREATE {temporary}TABLE {_quoted(name)} (\n" + ",\n".join(lines)
    text += f"\n) {options} DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
    return _strings("Table", "Create Table"), [(name, text)], 0


def _create_database(session: Session, node: n.Show) -> _Found:
    assert node.table is not None
    if node.table.name != DATABASE:
        raise MySQLError(1049, f"Unknown database '{node.table.name}'")
    text = f"CREATE DATABASE `{DATABASE}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */"
    return _strings("Database", "Create Database"), [(DATABASE, text)], 0


def _databases(session: Session, node: n.Show) -> _Found:
    return _strings("Database"), [(DATABASE,), ("information_schema",)], 0


def _index(session: Session, node: n.Show) -> _Found:
    assert node.table is not None
    table = session.catalog.table(node.table)
    rows: list[tuple[Any, ...]] = []
    for key in table.keys:
        for place, name in enumerate(key.columns, 1):
            column = table.find(name)
            null = "YES" if column is not None and column.nullable else ""
            rows.append(
                (
                    table.name,
                    int(key.kind == "INDEX"),
                    key.name,
                    place,
                    name,
                    "A",
                    0,
                    None,
                    None,
                    null,
                    "BTREE",
                    "",
                    "",
                    "YES",
                    None,
                )
            )
    names = (
        "Table Non_unique# Key_name Seq_in_index# Column_name Collation Cardinality# Sub_part Packed Null Index_type Comment "
        "Index_comment Visible Expression"
    )
    return [(name.rstrip("#"), INT if name.endswith("#") else STR) for name in names.split()], rows, 2


def _variables(session: Session, node: n.Show) -> _Found:
    rows: list[tuple[Any, ...]] = [(name, str(value)) for name, value in sorted(session.system.items())]
    return _strings("Variable_name", "Value"), rows, 0


def _status(session: Session, node: n.Show) -> _Found:
    rows: list[tuple[Any, ...]] = []
    for name, table in sorted(session.catalog.tables.items()):
        count = session.rows(f"SELECT COUNT(*) FROM {table.phys}", [])[0][0]
        rows.append((name, "InnoDB", count, "utf8mb4_0900_ai_ci", ""))
    return [("Name", STR), ("Engine", STR), ("Rows", INT), ("Collation", STR), ("Comment", STR)], rows, 0


def _empty(session: Session, node: n.Show) -> _Found:
    return _strings("Level", "Code", "Message"), [], 0


_ANSWERS: dict[str, Callable[[Session, n.Show], _Found]] = {
    "TABLES": _tables,
    "COLUMNS": _columns,
    "CREATE": _create,
    "CREATE DATABASE": _create_database,
    "DATABASES": _databases,
    "INDEX": _index,
    "VARIABLES": _variables,
    "TABLE STATUS": _status,
    "EMPTY": _empty,
}


def explain(session: Session, node: n.Explain) -> Answer:
    """One row a table, enough to see that the statement is valid and what it reads."""
    ctx = session.context()
    compile_query(ctx, node.query, None)
    source = node.query.source if isinstance(node.query, n.Select) else None
    tables = list(_names(source)) or [None]
    columns = [
        ("id", INT),
        *_strings("select_type", "table", "type", "possible_keys", "key"),
        ("rows", INT),
        ("Extra", STR),
    ]
    rows: list[tuple[Any, ...]] = []
    for name in tables:
        table = session.catalog.tables.get(name) if name else None
        count = session.rows(f"SELECT COUNT(*) FROM {table.phys}", [])[0][0] if table else None
        rows.append((1, "SIMPLE", name, "ALL" if name else None, None, None, count, None if name else "No tables used"))
    return columns, rows


def _names(source: n.Source | None) -> list[str | None]:
    if isinstance(source, n.Join):
        return _names(source.left) + _names(source.right)
    if isinstance(source, n.TableRef):
        return [source.name]
    return [f"<{source.alias}>"] if source is not None else []

"""The information_schema tables a session can query: its own tables, columns and keys.

Invariant: they describe the catalog alone; SQLite's own schema is not reachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envhub.envs.db.sqlite.catalog import DATABASE, Catalog, TableDef
from envhub.envs.db.sqlite.columns import parse_type
from envhub.envs.db.sqlite.convert import literal
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.kinds import INT, STR, T
from envhub.envs.db.sqlite.scope import Col, Context, X

Row = tuple[object, ...]


def compile_table(ctx: Context, name: str) -> tuple[str, list[Col]]:
    """A literal table as SQL, and its columns."""
    found = _TABLES.get(name.lower())
    if found is None:
        raise MySQLError(1109, f"Unknown table '{name}' in information_schema")
    columns, rows = found
    lines = [", ".join(literal(ctx, value).sql for value in row) for row in rows(ctx.catalog)]
    return rows_sql(columns, lines)


def rows_sql(columns: list[tuple[str, T]], lines: list[str]) -> tuple[str, list[Col]]:
    names = ", ".join(f"column{place + 1} AS c{place}" for place in range(len(columns)))
    empty = ", ".join("NULL" for _ in columns)
    body = ", ".join(f"({line})" for line in lines) or f"({empty})"
    sql = f"SELECT {names} FROM (VALUES {body}){'' if lines else ' WHERE 0'}"
    return sql, [Col(name, X(f"c{place}", t)) for place, (name, t) in enumerate(columns)]


def column_key(table: TableDef, name: str) -> str:
    """The Key column of DESCRIBE."""
    lowered = name.lower()
    for key in table.keys:
        if key.kind == "PRIMARY" and lowered in [column.lower() for column in key.columns]:
            return "PRI"
    for key in table.keys:
        if key.columns[0].lower() == lowered:
            return "UNI" if key.kind == "UNIQUE" and len(key.columns) == 1 else "MUL"
    return ""


def default_text(table: TableDef, name: str) -> str | None:
    from envhub.envs.db.sqlite import nodes as n

    column = table.find(name)
    default = column.default if column else None
    if isinstance(default, n.Literal):
        return None if default.value is None else str(default.value)
    return "CURRENT_TIMESTAMP" if isinstance(default, n.Call) else None


def extra_text(table: TableDef, name: str) -> str:
    column = table.find(name)
    if column is None:
        return ""
    if column.auto_increment:
        return "auto_increment"
    return "on update CURRENT_TIMESTAMP" if column.on_update_now else ""


def _tables(catalog: Catalog) -> Iterable[Row]:
    for table in catalog.tables.values():
        if not table.temporary:
            yield ("def", DATABASE, table.name, "BASE TABLE", "InnoDB", "utf8mb4_0900_ai_ci", "")
    for view in catalog.views.values():
        yield ("def", DATABASE, view.name, "VIEW", None, None, "VIEW")


def _columns(catalog: Catalog) -> Iterable[Row]:
    for table in catalog.tables.values():
        for place, column in enumerate(table.columns, 1):
            name = parse_type(column.type).name
            size = parse_type(column.type).size(65535) if column.t.kind == "str" else None
            yield (
                "def", DATABASE, table.name, column.name, place, default_text(table, column.name), "YES" if column.nullable else "NO",
                name, size, column.type, column_key(table, column.name), extra_text(table, column.name), column.comment,
            )  # fmt: skip


def _keys(catalog: Catalog) -> Iterable[Row]:
    for table in catalog.tables.values():
        for key in table.unique_keys:
            for place, column in enumerate(key.columns, 1):
                yield ("def", DATABASE, key.name, DATABASE, table.name, column, place, None, None)
        for foreign in table.foreign:
            for place, (column, target) in enumerate(zip(foreign.columns, foreign.references, strict=False), 1):
                yield ("def", DATABASE, foreign.name, DATABASE, table.name, column, place, foreign.table, target)


def _statistics(catalog: Catalog) -> Iterable[Row]:
    for table in catalog.tables.values():
        for key in table.keys:
            for place, column in enumerate(key.columns, 1):
                yield ("def", DATABASE, table.name, int(key.kind == "INDEX"), key.name, place, column)


def _views(catalog: Catalog) -> Iterable[Row]:
    for view in catalog.views.values():
        yield ("def", DATABASE, view.name, view.text)


def _schemata(catalog: Catalog) -> Iterable[Row]:
    yield ("def", "information_schema", "utf8mb3", "utf8mb3_general_ci")
    yield ("def", DATABASE, "utf8mb4", "utf8mb4_0900_ai_ci")


def _fields(names: str) -> list[tuple[str, T]]:
    return [(name.removesuffix("#"), INT if name.endswith("#") else STR) for name in names.split()]


_TABLES: dict[str, tuple[list[tuple[str, T]], Callable[[Catalog], Iterable[Row]]]] = {
    "tables": (
        _fields("TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE TABLE_COLLATION TABLE_COMMENT"),
        _tables,
    ),
    "columns": (
        _fields(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION# COLUMN_DEFAULT IS_NULLABLE DATA_TYPE "
            "CHARACTER_MAXIMUM_LENGTH# COLUMN_TYPE COLUMN_KEY EXTRA COLUMN_COMMENT"
        ),
        _columns,
    ),
    "key_column_usage": (
        _fields(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION# "
            "REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME"
        ),
        _keys,
    ),
    "statistics": (
        _fields("TABLE_CATALOG TABLE_SCHEMA TABLE_NAME NON_UNIQUE# INDEX_NAME SEQ_IN_INDEX# COLUMN_NAME"),
        _statistics,
    ),
    "views": (_fields("TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION"), _views),
    "schemata": (_fields("CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME"), _schemata),
}

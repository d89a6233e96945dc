"""CREATE, RENAME, DROP and TRUNCATE.

Invariant: the catalog and the physical tables change together.
"""

from __future__ import annotations

import sqlite3

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, ColumnDef, KeyDef, TableDef, ViewDef
from envhub.envs.db.sqlite.columns import parse_type, static_type
from envhub.envs.db.sqlite.errors import MySQLError, column_list_mismatch, unknown_column
from envhub.envs.db.sqlite.kinds import STR, T
from envhub.envs.db.sqlite.queries import compile_query
from envhub.envs.db.sqlite.session import Session
from envhub.envs.db.sqlite.writes import Writer

MAX_COLUMNS = 1000
MAX_TABLES = 500


def create_table(session: Session, node: n.CreateTable) -> int:
    catalog = session.catalog
    catalog.check_database(node.table)
    name = node.table.name
    if name in catalog.tables or name in catalog.views:
        if node.if_not_exists:
            return 0
        raise MySQLError(1050, f"Table '{name}' already exists")
    if len(catalog.tables) >= MAX_TABLES:
        raise MySQLError(1114, "Too many tables")
    _check_name(name, 1103, "table")
    if node.like is not None:
        table = _copied(catalog.table(node.like), name, catalog.phys())
    else:
        table = TableDef(name, catalog.phys(), [], temporary=node.temporary)
        for spec in node.columns:
            add_spec(table, spec)
    rows = _selected(session, node.query, table) if node.query is not None else []
    if not table.columns:
        raise MySQLError(1113, "A table must have at least 1 column")
    _add_keys(session, table, node)
    table.temporary = node.temporary
    build_table(session, table)
    catalog.tables[name] = table
    writer = Writer(session, table)
    for row in rows:
        values = [writer.default(column) for column in table.columns]
        for place, value in row:
            values[place] = None if value is None else writer.converters[place](value)
        writer.insert(values)
    return len(rows)


def _check_name(name: str, code: int, what: str) -> None:
    if not name or len(name) > 64 or name.endswith(" "):
        if len(name) > 64:
            raise MySQLError(1059, f"Identifier name '{name}' is too long")
        raise MySQLError(code, f"Incorrect {what} name '{name}'")


def _copied(source: TableDef, name: str, phys: str) -> TableDef:
    columns = [
        ColumnDef(
            c.name,
            c.type,
            c.t,
            c.phys,
            c.nullable,
            c.default,
            c.auto_increment,
            c.on_update_now,
            c.generated,
            c.comment,
        )
        for c in source.columns
    ]
    return TableDef(
        name,
        phys,
        columns,
        [KeyDef(key.kind, key.name, list(key.columns)) for key in source.keys],
        checks=list(source.checks),
    )


def _selected(session: Session, query: n.Query, table: TableDef) -> list[list[tuple[int, object]]]:
    ctx = session.context()
    plan = compile_query(ctx, query, None)
    places = []
    for out in plan.outs:
        found = next((p for p, column in enumerate(table.columns) if column.name.lower() == out.name.lower()), None)
        if found is None:
            declared = _declared(out.x.t)
            add_spec(table, n.ColumnSpec(out.name, declared))
            found = len(table.columns) - 1
        elif found in places:
            raise MySQLError(1060, f"Duplicate column name '{out.name}'")
        places.append(found)
    return [list(zip(places, row, strict=True)) for row in session.rows(plan.render(), ctx.params)]


def _declared(t: T) -> str:
    """The column type that CREATE TABLE ... SELECT gives an expression."""
    names = {"int": "bigint", "real": "double", "str": "text", "bin": "blob", "null": "binary(0)", "json": "json"}
    if t.kind == "dec":
        return "bigint unsigned" if t.whole else f"decimal(65,{t.scale})" if t.scale else "decimal(65,0)"
    return names.get(t.kind, t.kind)


def add_spec(table: TableDef, spec: n.ColumnSpec, position: str | None = None) -> ColumnDef:
    _check_name(spec.name, 1166, "column")
    if table.find(spec.name) is not None:
        raise MySQLError(1060, f"Duplicate column name '{spec.name}'")
    if len(table.columns) >= MAX_COLUMNS:
        raise MySQLError(1117, "Too many columns")
    column = make_column(table, spec)
    table.columns.insert(position_index(table, position), column)
    if spec.primary:
        table.keys.insert(0, _primary(table, [spec.name]))
    if spec.unique:
        table.keys.append(KeyDef("UNIQUE", key_name(table, spec.name), [spec.name]))
    if spec.check is not None:
        table.checks.append(n.CheckSpec(f"{table.name}_chk_{len(table.checks) + 1}", spec.check))
    return column


def make_column(table: TableDef, spec: n.ColumnSpec) -> ColumnDef:
    declared = parse_type(spec.type)
    t = static_type(spec.type)
    if t == STR and spec.collation.endswith("_bin"):
        t = t._replace(binary=True)
    default = spec.default
    if declared.name == "serial":
        spec.auto_increment, spec.not_null, spec.unique = True, True, True
    if isinstance(default, n.Literal) and default.value is None and spec.not_null:
        raise MySQLError(1067, f"Invalid default value for '{spec.name}'")
    return ColumnDef(
        spec.name, declared.spelling, t, table.next_phys(), not (spec.not_null or spec.primary), default, spec.auto_increment,
        spec.on_update_now, spec.generated, spec.comment,
    )  # fmt: skip


def position_index(table: TableDef, position: str | None) -> int:
    if position is None:
        return len(table.columns)
    if position == "":
        return 0
    return next(
        (p for p, column in enumerate(table.columns) if column.name.lower() == position.lower()), -1
    ) + 1 or _no_column(table, position)


def _no_column(table: TableDef, name: str) -> int:
    raise unknown_column(name, table.name)


def _primary(table: TableDef, columns: list[str]) -> KeyDef:
    if table.primary is not None:
        raise MySQLError(1068, "Multiple primary key defined")
    return KeyDef("PRIMARY", "PRIMARY", columns)


def key_name(table: TableDef, base: str) -> str:
    used = {key.name.lower() for key in table.keys}
    name, number = base, 2
    while name.lower() in used:
        name, number = f"{base}_{number}", number + 1
    return name


def _add_keys(session: Session, table: TableDef, node: n.CreateTable) -> None:
    for spec in node.keys:
        add_key(table, spec)
    for check in node.checks:
        table.checks.append(n.CheckSpec(check.name or f"{table.name}_chk_{len(table.checks) + 1}", check.expr))
    for foreign in node.foreign:
        table.foreign.append(make_foreign(session, table, foreign))
    auto = [column for column in table.columns if column.auto_increment]
    keyed = {key.columns[0].lower() for key in table.keys}
    if len(auto) > 1 or any(column.name.lower() not in keyed for column in auto):
        raise MySQLError(
            1075, "Incorrect table definition; there can be only one auto column and it must be defined as a key"
        )
    Writer(session, table)  # compiles generated columns and CHECKs: an unknown column in them is an error now


def add_key(table: TableDef, spec: n.KeySpec) -> KeyDef:
    for name in spec.columns:
        column = table.find(name)
        if column is None:
            raise MySQLError(1072, f"Key column '{name}' doesn't exist in table")
        if spec.kind == "PRIMARY":
            column.nullable = False
    if spec.kind == "PRIMARY":
        key = _primary(table, spec.columns)
        table.keys.insert(0, key)
        return key
    if spec.name is not None and any(key.name.lower() == spec.name.lower() for key in table.keys):
        raise MySQLError(1061, f"Duplicate key name '{spec.name}'")
    key = KeyDef(spec.kind, spec.name or key_name(table, spec.columns[0]), spec.columns)
    table.keys.append(key)
    return key


def make_foreign(session: Session, table: TableDef, spec: n.ForeignKey) -> n.ForeignKey:
    parent = table if spec.table == table.name else session.catalog.tables.get(spec.table)
    if parent is None:
        raise MySQLError(1824, f"Failed to open the referenced table '{spec.table}'")
    for name in spec.columns:
        if table.find(name) is None:
            raise MySQLError(1072, f"Key column '{name}' doesn't exist in table")
    references = spec.references or (parent.primary.columns if parent.primary else [])
    wanted = [name.lower() for name in references]
    if not any([name.lower() for name in key.columns] == wanted for key in parent.unique_keys):
        raise MySQLError(
            1822,
            f"Failed to add the foreign key constraint. Missing index for constraint '{spec.name or ''}' in the referenced "
            f"table '{spec.table}'",
        )
    name = spec.name or f"{table.name}_ibfk_{len(table.foreign) + 1}"
    return n.ForeignKey(name, spec.columns, spec.table, references, spec.on_delete, spec.on_update)


def physical_column(column: ColumnDef) -> str:
    if column.t.kind == "dec":
        return f"{column.phys} COLLATE DEC"
    return f"{column.phys} COLLATE U" if column.t.kind == "str" and not column.t.binary else column.phys


def build_table(session: Session, table: TableDef) -> None:
    parts = [physical_column(column) for column in table.columns]
    for foreign in table.foreign:
        parent = table if foreign.table == table.name else session.catalog.tables[foreign.table]
        own = ", ".join(_found(table, name).phys for name in foreign.columns)
        theirs = ", ".join(_found(parent, name).phys for name in foreign.references)
        parts.append(
            f"FOREIGN KEY ({own}) REFERENCES {parent.phys} ({theirs}) ON DELETE {foreign.on_delete} ON UPDATE {foreign.on_update}"
        )
    session.connection.execute(f"CREATE TABLE {table.phys} ({', '.join(parts)})")
    for key in table.keys:
        build_index(session, table, key)


def _found(table: TableDef, name: str) -> ColumnDef:
    column = table.find(name)
    if column is None:
        raise MySQLError(1072, f"Key column '{name}' doesn't exist in table")
    return column


def build_index(session: Session, table: TableDef, key: KeyDef) -> None:
    session.catalog.made += 1
    columns = ", ".join(_found(table, name).phys for name in key.columns)
    unique = "" if key.kind == "INDEX" else "UNIQUE "
    try:
        session.connection.execute(f"CREATE {unique}INDEX i{session.catalog.made} ON {table.phys} ({columns})")
    except sqlite3.IntegrityError:
        raise MySQLError(1062, f"Duplicate entry for key '{table.name}.{key.name}'") from None


def create_view(session: Session, node: n.CreateView) -> int:
    catalog = session.catalog
    catalog.check_database(node.table)
    name = node.table.name
    if name in catalog.tables or (name in catalog.views and not node.replace):
        raise MySQLError(1050, f"Table '{name}' already exists")
    ctx = session.context()
    plan = compile_query(ctx, node.query, None)
    if node.columns and len(node.columns) != len(plan.outs):
        raise column_list_mismatch()
    names = node.columns or [out.name for out in plan.outs]
    for place, column in enumerate(names):
        if column.lower() in [other.lower() for other in names[:place]]:
            raise MySQLError(1060, f"Duplicate column name '{column}'")
    catalog.views[name] = ViewDef(name, names, node.query, node.text)
    return 0


def drop(session: Session, node: n.Drop) -> int:
    catalog = session.catalog
    kind = catalog.tables if node.what == "TABLE" else catalog.views
    for ref in node.tables:
        catalog.check_database(ref)
    missing = [ref.name for ref in node.tables if ref.name not in kind]
    if missing and not node.if_exists:
        raise MySQLError(1051, "Unknown table '" + ",".join(f"{DATABASE}.{name}" for name in missing) + "'")
    going = {ref.name for ref in node.tables}
    if node.what == "TABLE":
        for name in going - set(missing):
            _refuse_parent(session, name, going)
    for ref in sorted(node.tables, key=lambda ref: not getattr(catalog.tables.get(ref.name), "foreign", None)):
        if node.what == "VIEW":
            catalog.views.pop(ref.name, None)
        elif (table := catalog.tables.pop(ref.name, None)) is not None:
            session.connection.execute(f"DROP TABLE {table.phys}")
    return 0


def _refuse_parent(session: Session, name: str, going: set[str]) -> None:
    for other in session.catalog.tables.values():
        for key in other.foreign:
            if key.table == name and other.name not in going:
                raise MySQLError(
                    3730,
                    f"Cannot drop table '{name}' referenced by a foreign key constraint '{key.name}' on table '{other.name}'.",
                )


def truncate(session: Session, node: n.Truncate) -> int:
    table = session.catalog.table(node.table)
    for other in session.catalog.tables.values():
        if other is not table and any(key.table == table.name for key in other.foreign):
            raise MySQLError(
                1701, f"Cannot truncate a table referenced in a foreign key constraint (`{DATABASE}`.`{other.name}`)"
            )
    session.connection.execute(f"DELETE FROM {table.phys}")
    table.auto_next = 1
    return 0


def rename_tables(session: Session, node: n.RenameTables) -> int:
    for old, new in node.pairs:
        rename_table(session, session.catalog.table(old), new.name)
    return 0


def rename_table(session: Session, table: TableDef, name: str) -> None:
    catalog = session.catalog
    if name in catalog.tables or name in catalog.views:
        raise MySQLError(1050, f"Table '{name}' already exists")
    _check_name(name, 1103, "table")
    for other in catalog.tables.values():
        for key in other.foreign:
            if key.table == table.name:
                key.table = name
    del catalog.tables[table.name]
    table.name = name
    catalog.tables[name] = table

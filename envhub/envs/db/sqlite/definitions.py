"""CREATE, ALTER, RENAME, DROP and TRUNCATE.

Invariant: the catalog and the physical tables change together; a column is never rewritten in place, it gets a new physical column.
"""

from __future__ import annotations

import sqlite3

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, ColumnDef, KeyDef, TableDef, ViewDef
from envhub.envs.db.sqlite.columns import converter, implicit_default, parse_type, static_type
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
            _add_spec(table, spec)
    rows = _selected(session, node.query, table) if node.query is not None else []
    if not table.columns:
        raise MySQLError(1113, "A table must have at least 1 column")
    _add_keys(session, table, node)
    table.temporary = node.temporary
    _build(session, table)
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
            _add_spec(table, n.ColumnSpec(out.name, declared))
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


def _add_spec(table: TableDef, spec: n.ColumnSpec, position: str | None = None) -> ColumnDef:
    _check_name(spec.name, 1166, "column")
    if table.find(spec.name) is not None:
        raise MySQLError(1060, f"Duplicate column name '{spec.name}'")
    if len(table.columns) >= MAX_COLUMNS:
        raise MySQLError(1117, "Too many columns")
    column = _column(table, spec)
    table.columns.insert(_index(table, position), column)
    if spec.primary:
        table.keys.insert(0, _primary(table, [spec.name]))
    if spec.unique:
        table.keys.append(KeyDef("UNIQUE", _key_name(table, spec.name), [spec.name]))
    if spec.check is not None:
        table.checks.append(n.CheckSpec(f"{table.name}_chk_{len(table.checks) + 1}", spec.check))
    return column


def _column(table: TableDef, spec: n.ColumnSpec) -> ColumnDef:
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


def _index(table: TableDef, position: str | None) -> int:
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


def _key_name(table: TableDef, base: str) -> str:
    used = {key.name.lower() for key in table.keys}
    name, number = base, 2
    while name.lower() in used:
        name, number = f"{base}_{number}", number + 1
    return name


def _add_keys(session: Session, table: TableDef, node: n.CreateTable) -> None:
    for spec in node.keys:
        _add_key(table, spec)
    for check in node.checks:
        table.checks.append(n.CheckSpec(check.name or f"{table.name}_chk_{len(table.checks) + 1}", check.expr))
    for foreign in node.foreign:
        table.foreign.append(_foreign(session, table, foreign))
    auto = [column for column in table.columns if column.auto_increment]
    keyed = {key.columns[0].lower() for key in table.keys}
    if len(auto) > 1 or any(column.name.lower() not in keyed for column in auto):
        raise MySQLError(
            1075, "Incorrect table definition; there can be only one auto column and it must be defined as a key"
        )
    Writer(session, table)  # compiles generated columns and CHECKs: an unknown column in them is an error now


def _add_key(table: TableDef, spec: n.KeySpec) -> KeyDef:
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
    key = KeyDef(spec.kind, spec.name or _key_name(table, spec.columns[0]), spec.columns)
    table.keys.append(key)
    return key


def _foreign(session: Session, table: TableDef, spec: n.ForeignKey) -> n.ForeignKey:
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


def _physical(column: ColumnDef) -> str:
    if column.t.kind == "dec":
        return f"{column.phys} COLLATE DEC"
    return f"{column.phys} COLLATE U" if column.t.kind == "str" and not column.t.binary else column.phys


def _build(session: Session, table: TableDef) -> None:
    parts = [_physical(column) for column in table.columns]
    for foreign in table.foreign:
        parent = table if foreign.table == table.name else session.catalog.tables[foreign.table]
        own = ", ".join(_found(table, name).phys for name in foreign.columns)
        theirs = ", ".join(_found(parent, name).phys for name in foreign.references)
        parts.append(
            f"FOREIGN KEY ({own}) REFERENCES {parent.phys} ({theirs}) ON DELETE {foreign.on_delete} ON UPDATE {foreign.on_update}"
        )
    session.connection.execute(f"CREATE TABLE {table.phys} ({', '.join(parts)})")
    for key in table.keys:
        _index_on(session, table, key)


def _found(table: TableDef, name: str) -> ColumnDef:
    column = table.find(name)
    if column is None:
        raise MySQLError(1072, f"Key column '{name}' doesn't exist in table")
    return column


def _index_on(session: Session, table: TableDef, key: KeyDef) -> None:
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
        _rename(session, session.catalog.table(old), new.name)
    return 0


def _rename(session: Session, table: TableDef, name: str) -> None:
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


# ---- ALTER TABLE


def alter_table(session: Session, node: n.AlterTable) -> int:
    table = session.catalog.table(node.table)
    for action in node.actions:
        _ALTERATIONS[action.what](session, table, action)
    return 0


def _add_column(session: Session, table: TableDef, action: n.AlterAction) -> None:
    assert action.column is not None
    if action.if_exists and table.find(action.column.name) is not None:
        return
    keys = list(table.keys)
    column = _add_spec(table, action.column, action.position)
    session.connection.execute(f"ALTER TABLE {table.phys} ADD COLUMN {_physical(column)}")
    writer = Writer(session, table)
    place = table.columns.index(column)
    for (rowid,) in session.rows(f"SELECT rowid FROM {table.phys} ORDER BY rowid", []):
        value = writer.default(column)
        if column.auto_increment:
            value, table.auto_next = table.auto_next, table.auto_next + 1
        row = _row(session, table, rowid)
        row[place] = value
        writer.finish(row)
        session.connection.execute(f"UPDATE {table.phys} SET {column.phys} = ? WHERE rowid = ?", [row[place], rowid])
    for key in table.keys:
        if key not in keys:
            _index_on(session, table, key)


def _row(session: Session, table: TableDef, rowid: int) -> list[object]:
    names = ", ".join(column.phys for column in table.columns)
    return list(session.rows(f"SELECT {names} FROM {table.phys} WHERE rowid = ?", [rowid])[0])


def _drop_column(session: Session, table: TableDef, action: n.AlterAction) -> None:
    column = table.find(action.name)
    if column is None:
        if action.if_exists:
            return
        raise MySQLError(1091, f"Can't DROP '{action.name}'; check that column/key exists")
    if len(table.columns) == 1:
        raise MySQLError(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
    for key in list(table.keys):
        key.columns = [name for name in key.columns if name.lower() != action.name.lower()]
        if not key.columns:
            table.keys.remove(key)
    table.columns.remove(column)
    _rebuild(session, table)


def _modify_column(session: Session, table: TableDef, action: n.AlterAction) -> None:
    old = table.find(action.name)
    spec = action.column
    assert spec is not None
    if old is None:
        raise unknown_column(action.name, table.name)
    other = table.find(spec.name)
    if other is not None and other is not old:
        raise MySQLError(1060, f"Duplicate column name '{spec.name}'")
    _rename_in_keys(session, table, old.name, spec.name)
    place = table.columns.index(old)
    new = _column(table, spec)
    if table.primary and spec.name.lower() in [name.lower() for name in table.primary.columns]:
        new.nullable = False
    if action.position is not None:
        table.columns.remove(old)
        place = _index(table, action.position)
        table.columns.insert(place, old)
    table.columns[place] = new
    new.phys, source = f"{new.phys}", old.phys
    if spec.primary and table.primary is None:
        table.keys.insert(0, KeyDef("PRIMARY", "PRIMARY", [spec.name]))
    if spec.unique:
        table.keys.append(KeyDef("UNIQUE", _key_name(table, spec.name), [spec.name]))
    _rebuild(session, table, {new.phys: source})


def _rename_in_keys(session: Session, table: TableDef, old: str, new: str) -> None:
    for key in table.keys:
        key.columns = [new if name.lower() == old.lower() else name for name in key.columns]
    for foreign in table.foreign:
        foreign.columns = [new if name.lower() == old.lower() else name for name in foreign.columns]
    for other in session.catalog.tables.values():
        for foreign in other.foreign:
            if foreign.table == table.name:
                foreign.references = [new if name.lower() == old.lower() else name for name in foreign.references]


def _rebuild(session: Session, table: TableDef, moved: dict[str, str] | None = None) -> None:
    """The same rows in a new physical table. ``moved``: new physical column to the old one it converts."""
    moved = moved or {}
    if any(key.table == table.name for other in session.catalog.tables.values() for key in other.foreign):
        raise MySQLError(1846, "ALGORITHM=INPLACE is not supported for a table referenced by a foreign key")
    sources = ", ".join(moved.get(column.phys, column.phys) for column in table.columns)
    rows = session.rows(f"SELECT {sources} FROM {table.phys} ORDER BY rowid", [])
    old, table.phys = table.phys, session.catalog.phys()
    _build(session, table)
    writer = Writer(session, table)
    converters = [converter(column.type) if column.phys in moved else None for column in table.columns]
    for found in rows:
        row = list(found)
        for place, convert in enumerate(converters):
            column = table.columns[place]
            if row[place] is None and not column.nullable:
                row[place] = implicit_default(column.t)
            elif convert is not None and row[place] is not None:
                row[place] = convert(row[place])
            if column.auto_increment and isinstance(row[place], int):
                table.auto_next = max(table.auto_next, row[place] + 1)
        writer.insert(writer.finish(row))
    session.connection.execute(f"DROP TABLE {old}")


def _rename_column(session: Session, table: TableDef, action: n.AlterAction) -> None:
    column = table.find(action.name)
    if column is None:
        raise unknown_column(action.name, table.name)
    other = table.find(action.new_name)
    if other is not None and other is not column:
        raise MySQLError(1060, f"Duplicate column name '{action.new_name}'")
    _rename_in_keys(session, table, column.name, action.new_name)
    column.name = action.new_name


def _rename_table(session: Session, table: TableDef, action: n.AlterAction) -> None:
    if action.new_name != table.name:
        _rename(session, table, action.new_name)


def _add_index(session: Session, table: TableDef, action: n.AlterAction) -> None:
    assert action.key is not None
    nullable = {column.name: column.nullable for column in table.columns}
    key = _add_key(table, action.key)
    try:
        _index_on(session, table, key)
    except MySQLError:
        table.keys.remove(key)
        for column in table.columns:
            column.nullable = nullable[column.name]
        raise


def _drop_index(session: Session, table: TableDef, action: n.AlterAction) -> None:
    key = next((key for key in table.keys if key.name.lower() == action.name.lower()), None)
    if key is None:
        raise MySQLError(1091, f"Can't DROP '{action.name}'; check that column/key exists")
    table.keys.remove(key)
    _rebuild(session, table)


def _rename_index(session: Session, table: TableDef, action: n.AlterAction) -> None:
    key = next((key for key in table.keys if key.name.lower() == action.name.lower()), None)
    if key is None:
        raise MySQLError(1176, f"Key '{action.name}' doesn't exist in table '{table.name}'")
    key.name = action.new_name


def _add_foreign(session: Session, table: TableDef, action: n.AlterAction) -> None:
    assert action.foreign is not None
    table.foreign.append(_foreign(session, table, action.foreign))
    _rebuild(session, table)


def _drop_foreign(session: Session, table: TableDef, action: n.AlterAction) -> None:
    key = next((key for key in table.foreign if (key.name or "").lower() == action.name.lower()), None)
    if key is None:
        raise MySQLError(1091, f"Can't DROP '{action.name}'; check that column/key exists")
    table.foreign.remove(key)
    _rebuild(session, table)


def _add_check(session: Session, table: TableDef, action: n.AlterAction) -> None:
    assert action.check is not None
    table.checks.append(
        n.CheckSpec(action.check.name or f"{table.name}_chk_{len(table.checks) + 1}", action.check.expr)
    )
    writer = Writer(session, table)
    for (rowid,) in session.rows(f"SELECT rowid FROM {table.phys}", []):
        writer.finish(_row(session, table, rowid))


def _drop_check(session: Session, table: TableDef, action: n.AlterAction) -> None:
    check = next((check for check in table.checks if (check.name or "").lower() == action.name.lower()), None)
    if check is None:
        raise MySQLError(3940, f"Constraint '{action.name}' does not exist.")
    table.checks.remove(check)


def _set_default(session: Session, table: TableDef, action: n.AlterAction) -> None:
    column = table.find(action.name)
    if column is None:
        raise unknown_column(action.name, table.name)
    column.default = action.default if action.what == "SET_DEFAULT" else None


def _nothing(session: Session, table: TableDef, action: n.AlterAction) -> None:
    """ENGINE, CHARSET, AUTO_INCREMENT and the like change nothing here."""


_ALTERATIONS = {
    "ADD": _add_column,
    "DROP": _drop_column,
    "MODIFY": _modify_column,
    "CHANGE": _modify_column,
    "RENAME": _rename_table,
    "RENAME_COLUMN": _rename_column,
    "ADD_KEY": _add_index,
    "DROP_KEY": _drop_index,
    "RENAME_KEY": _rename_index,
    "ADD_FOREIGN": _add_foreign,
    "DROP_FOREIGN": _drop_foreign,
    "ADD_CHECK": _add_check,
    "DROP_CHECK": _drop_check,
    "SET_DEFAULT": _set_default,
    "DROP_DEFAULT": _set_default,
    "NOTHING": _nothing,
}

"""ALTER TABLE.

Invariant: every change that touches stored rows builds a new physical table or column and converts the rows into it.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import KeyDef, TableDef
from envhub.envs.db.sqlite.columns import converter, implicit_default
from envhub.envs.db.sqlite.definitions import (
    add_key,
    add_spec,
    build_index,
    build_table,
    key_name,
    make_column,
    make_foreign,
    physical_column,
    position_index,
    rename_table,
)
from envhub.envs.db.sqlite.errors import MySQLError, unknown_column
from envhub.envs.db.sqlite.session import Session
from envhub.envs.db.sqlite.writes import Writer


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
    column = add_spec(table, action.column, action.position)
    session.connection.execute(f"ALTER TABLE {table.phys} ADD COLUMN {physical_column(column)}")
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
            build_index(session, table, key)


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
    new = make_column(table, spec)
    if table.primary and spec.name.lower() in [name.lower() for name in table.primary.columns]:
        new.nullable = False
    if action.position is not None:
        table.columns.remove(old)
        place = position_index(table, action.position)
        table.columns.insert(place, old)
    table.columns[place] = new
    new.phys, source = f"{new.phys}", old.phys
    if spec.primary and table.primary is None:
        table.keys.insert(0, KeyDef("PRIMARY", "PRIMARY", [spec.name]))
    if spec.unique:
        table.keys.append(KeyDef("UNIQUE", key_name(table, spec.name), [spec.name]))
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
    build_table(session, table)
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
        rename_table(session, table, action.new_name)


def _add_index(session: Session, table: TableDef, action: n.AlterAction) -> None:
    assert action.key is not None
    nullable = {column.name: column.nullable for column in table.columns}
    key = add_key(table, action.key)
    try:
        build_index(session, table, key)
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
    table.foreign.append(make_foreign(session, table, action.foreign))
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

"""INSERT, REPLACE, UPDATE and DELETE.

Invariant: new values are all computed before the first row changes, every stored value went through its column's conversion, and a
broken key leaves the statement without effect (the caller holds a savepoint).
"""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import Any

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, ColumnDef, KeyDef, TableDef
from envhub.envs.db.sqlite.columns import Convert, converter, implicit_default
from envhub.envs.db.sqlite.convert import truth
from envhub.envs.db.sqlite.errors import MySQLError, unknown_column
from envhub.envs.db.sqlite.expressions import compile_expr
from envhub.envs.db.sqlite.functions.numbers import plain
from envhub.envs.db.sqlite.orders import order_term
from envhub.envs.db.sqlite.plans import final, limit_clause
from envhub.envs.db.sqlite.queries import compile_ctes, compile_query
from envhub.envs.db.sqlite.scope import Context, Scope, Source, X
from envhub.envs.db.sqlite.session import RowExpressions, Session
from envhub.envs.db.sqlite.sources import compile_source

_DEFAULT = object()


class Writer:
    """Changes rows of one table."""

    def __init__(self, session: Session, table: TableDef) -> None:
        self.session = session
        self.table = table
        self.converters: list[Convert] = [converter(column.type) for column in table.columns]
        names = ", ".join(column.phys for column in table.columns)
        marks = ", ".join("?" for _ in table.columns)
        self.insert_sql = f"INSERT INTO {table.phys} ({names}) VALUES ({marks})"
        self.generated = [place for place, column in enumerate(table.columns) if column.generated is not None]
        self.computed = (
            RowExpressions(session, table, [table.columns[p].generated or n.Literal(None) for p in self.generated])
            if self.generated
            else None
        )
        self.checks = RowExpressions(session, table, [check.expr for check in table.checks]) if table.checks else None

    def default(self, column: ColumnDef) -> Any:
        if column.default is None or (isinstance(column.default, n.Literal) and column.default.value is None):
            if column.nullable or column.auto_increment:
                return None
            return implicit_default(column.t) if not column.type.startswith("enum") else converter(column.type)(1)
        value, _ = self.session.value(column.default)
        return None if value is None else converter(column.type)(value)

    def finish(self, row: list[Any]) -> list[Any]:
        """Generated columns filled in and CHECKs tested."""
        if self.computed is not None:
            for place, value in zip(self.generated, self.computed.evaluate(row), strict=True):
                row[place] = None if value is None else self.converters[place](value)
        if self.checks is not None:
            for check, value in zip(self.table.checks, self.checks.evaluate(row), strict=True):
                if value is not None and not float(value):
                    raise MySQLError(3819, f"Check constraint '{check.name}' is violated.")
        return row

    def insert(self, row: list[Any]) -> int:
        """The new rowid. Raises MySQLError 1062, 1452."""
        try:
            return self.session.connection.execute(self.insert_sql, row).lastrowid or 0
        except sqlite3.IntegrityError as error:
            raise self.broken(error, row, None) from error

    def update(self, rowid: int, row: list[Any], places: list[int]) -> None:
        columns = ", ".join(f"{self.table.columns[place].phys} = ?" for place in places)
        values = [row[place] for place in places]
        try:
            self.session.connection.execute(f"UPDATE {self.table.phys} SET {columns} WHERE rowid = ?", [*values, rowid])
        except sqlite3.IntegrityError as error:
            raise self.broken(error, row, rowid) from error

    def delete(self, rowid: int) -> None:
        try:
            self.session.connection.execute(f"DELETE FROM {self.table.phys} WHERE rowid = ?", [rowid])
        except sqlite3.IntegrityError as error:
            raise foreign_parent(self.session, self.table) from error

    def conflict(self, row: list[Any], rowid: int | None = None) -> tuple[int, KeyDef] | None:
        """The row that a unique key would let ``row`` collide with."""
        for key in self.table.unique_keys:
            places = [self._place(name) for name in key.columns]
            values = [row[place] for place in places]
            if None in values:
                continue
            where = " AND ".join(f"{self.table.columns[place].phys} = ?" for place in places)
            sql = f"SELECT rowid FROM {self.table.phys} WHERE {where} AND rowid IS NOT ? LIMIT 1"
            found = self.session.connection.execute(sql, [*values, rowid]).fetchone()
            if found is not None:
                return int(found[0]), key
        return None

    def _place(self, name: str) -> int:
        return next(place for place, column in enumerate(self.table.columns) if column.name.lower() == name.lower())

    def broken(self, error: sqlite3.IntegrityError, row: list[Any], rowid: int | None) -> MySQLError:
        if "UNIQUE" in str(error):
            found = self.conflict(row, rowid)
            if found is not None:
                values = "-".join(_shown(row[self._place(name)]) for name in found[1].columns)
                return MySQLError(1062, f"Duplicate entry '{values}' for key '{self.table.name}.{found[1].name}'")
        return foreign_child(self.table) if rowid is None else foreign_parent(self.session, self.table, child=True)


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _constraint(table: TableDef, key: n.ForeignKey) -> str:
    own, theirs = (", ".join(f"`{name}`" for name in names) for names in (key.columns, key.references))
    return f" (`{DATABASE}`.`{table.name}`, CONSTRAINT `{key.name}` FOREIGN KEY ({own}) REFERENCES `{key.table}` ({theirs}))"


def foreign_child(table: TableDef) -> MySQLError:
    detail = _constraint(table, table.foreign[0]) if table.foreign else ""
    return MySQLError(1452, f"Cannot add or update a child row: a foreign key constraint fails{detail}")


def foreign_parent(session: Session, table: TableDef, *, child: bool = False) -> MySQLError:
    for other in session.catalog.tables.values():
        for key in other.foreign:
            if key.table == table.name:
                detail = _constraint(other, key)
                return MySQLError(1451, f"Cannot delete or update a parent row: a foreign key constraint fails{detail}")
    if child:
        return foreign_child(table)
    return MySQLError(1451, "Cannot delete or update a parent row: a foreign key constraint fails")


# ---- INSERT


def insert(session: Session, node: n.Insert) -> int:
    """Affected rows as MySQL counts them."""
    table = session.catalog.table(node.table)
    writer = Writer(session, table)
    places = _targets(table, node.columns)
    rows = (
        _query_rows(session, node, len(places)) if node.query is not None else _value_rows(session, node, len(places))
    )
    updater = _Upsert(session, table, node) if node.update else None
    auto = table.auto_column
    single = node.query is None and len(rows) == 1 and node.mode != "IGNORE"
    defaults: list[Any] = [_DEFAULT] * len(table.columns)
    affected, first_id = 0, 0
    for values in rows:
        row = list(defaults)
        for place, value in zip(places, values, strict=True):
            row[place] = value
        generated = _complete(writer, row, auto, single=single)
        writer.finish(row)
        done = _store(writer, row, node.mode, updater)
        affected += done
        if generated and done:
            first_id = first_id or generated
    if first_id:
        session.system["last_insert_id"] = first_id
    return affected


def _targets(table: TableDef, names: list[str] | None) -> list[int]:
    if names is None:
        return [place for place, column in enumerate(table.columns) if column.generated is None]
    places: list[int] = []
    for name in names:
        place = next((p for p, column in enumerate(table.columns) if column.name.lower() == name.lower()), None)
        if place is None:
            raise unknown_column(name, "field list")
        if place in places:
            raise MySQLError(1110, f"Column '{table.columns[place].name}' specified twice")
        if table.columns[place].generated is not None:
            raise MySQLError(
                3105, f"The value specified for generated column '{name}' in table '{table.name}' is not allowed."
            )
        places.append(place)
    return places


def _query_rows(session: Session, node: n.Insert, width: int) -> list[tuple[Any, ...]]:
    ctx = session.context()
    assert node.query is not None
    plan = compile_query(ctx, node.query, None)
    if len(plan.outs) != width:
        raise MySQLError(1136, "Column count doesn't match value count at row 1")
    return session.rows(plan.render(), ctx.params)


def _value_rows(session: Session, node: n.Insert, width: int) -> list[list[Any]]:
    rows = []
    for number, exprs in enumerate(node.rows, 1):
        if len(exprs) != width and not (not exprs and (node.columns is None or not node.columns)):
            raise MySQLError(1136, f"Column count doesn't match value count at row {number}")
        if not exprs:
            rows.append([_DEFAULT] * width)
            continue
        rows.append([_value(session, expr) for expr in exprs])
    return rows


def _value(session: Session, expr: n.Expr) -> Any:
    if type(expr) is n.Literal and not expr.kind:
        value = expr.value
        return (
            plain(value)
            if isinstance(value, Decimal)
            else str(value)
            if type(value) is int and not -(1 << 63) <= value < 1 << 63
            else value
        )
    if type(expr) is n.Default or (type(expr) is n.Call and expr.name == "DEFAULT"):
        return _DEFAULT
    return session.value(expr)[0]


def _complete(writer: Writer, row: list[Any], auto: ColumnDef | None, *, single: bool) -> int:
    """Defaults, conversions and AUTO_INCREMENT; returns the generated id or 0."""
    generated = 0
    for place, column in enumerate(writer.table.columns):
        value = row[place]
        if value is _DEFAULT:
            row[place] = writer.default(column)
        elif value is not None:
            row[place] = writer.converters[place](value)
        elif not column.nullable and column is not auto:
            if single:
                raise MySQLError(1048, f"Column '{column.name}' cannot be null")
            row[place] = implicit_default(column.t)
        if column is auto:
            if not row[place]:
                generated = row[place] = writer.table.auto_next
            if isinstance(row[place], int):
                writer.table.auto_next = max(writer.table.auto_next, row[place] + 1)
    return generated


def _store(writer: Writer, row: list[Any], mode: str, updater: _Upsert | None) -> int:
    if updater is None and mode == "":
        writer.insert(row)
        return 1
    removed = 0
    while (found := writer.conflict(row)) is not None:
        if updater is not None:
            return updater.apply(writer, found[0], row)
        if mode == "IGNORE":
            return 0
        writer.delete(found[0])
        removed += 1
    try:
        writer.insert(row)
    except MySQLError as error:
        if mode == "IGNORE" and error.code == 1452:
            return 0
        raise
    return 1 + removed


class _Upsert:
    """The ON DUPLICATE KEY UPDATE part of one INSERT."""

    def __init__(self, session: Session, table: TableDef, node: n.Insert) -> None:
        self.table = table
        self.session = session
        self.places = []
        for name, _ in node.update:
            place = next(
                (p for p, column in enumerate(table.columns) if column.name.lower() == name.parts[-1].lower()), None
            )
            if place is None:
                raise unknown_column(name.parts[-1], "field list")
            self.places.append(place)
        self.exprs = [RowExpressions(session, table, [expr], node.row_alias) for _, expr in node.update]

    def apply(self, writer: Writer, rowid: int, new: list[Any]) -> int:
        names = ", ".join(column.phys for column in self.table.columns)
        row = list(self.session.rows(f"SELECT {names} FROM {self.table.phys} WHERE rowid = ?", [rowid])[0])
        before = list(row)
        for place, expr in zip(self.places, self.exprs, strict=True):
            row[place] = _updated(writer, place, expr.evaluate(row, new)[0])
        writer.finish(row)
        changed = [place for place in range(len(row)) if not _same(row[place], before[place])]
        if changed:
            writer.update(rowid, row, changed)
        return 2 if changed else 0


def _updated(writer: Writer, place: int, value: Any) -> Any:
    column = writer.table.columns[place]
    if value is None:
        return None if column.nullable else implicit_default(column.t)
    return writer.converters[place](value)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


# ---- UPDATE


def update(session: Session, node: n.Update) -> int:
    ctx = session.context()
    scope = Scope()
    prefix = _change_ctes(ctx, node, scope)
    origin = compile_source(ctx, node.source, scope)
    targets: dict[str, _Target] = {}
    selected: list[str] = []
    for name, expr in node.assignments:
        source, place = _target_column(session, scope, name)
        target = targets.get(source.alias)
        if target is None:
            target = targets[source.alias] = _Target(session, source, len(selected))
            selected += target.selected()
        assert source.table is not None
        column = source.table.columns[place]
        if isinstance(expr, n.Default):
            value = X("NULL", column.t)
        else:
            scope.clause = "field list"
            value = compile_expr(ctx, expr, scope)
        target.places.append((place, len(selected), isinstance(expr, n.Default)))
        selected.append(final(value))
        _override(source, place, value, column)
    for target in targets.values():
        target.restore()
    tail = _change_tail(ctx, node, scope)
    rows = session.rows(f"{prefix}SELECT {', '.join(selected)}{origin}{tail}", ctx.params)
    return sum(target.apply(rows, ignore=node.ignore) for target in targets.values())


def _change_ctes(ctx: Context, node: n.Update | n.Delete, scope: Scope) -> str:
    return compile_ctes(ctx, n.Select([], ctes=node.ctes, recursive=node.recursive), scope)


def _change_tail(ctx: Context, node: n.Update | n.Delete, scope: Scope) -> str:
    tail = ""
    if node.where is not None:
        scope.clause = "where clause"
        tail += f" WHERE {truth(compile_expr(ctx, node.where, scope))}"
    if node.order:
        scope.clause = "order clause"
        tail += " ORDER BY " + ", ".join(order_term(ctx, order, scope) for order in node.order)
    return tail + limit_clause(n.Select([], limit=node.limit))


def _target_column(session: Session, scope: Scope, name: n.Name) -> tuple[Source, int]:
    scope.clause = "field list"
    x = scope.resolve(name.parts)
    for source in scope.sources:
        for place, column in enumerate(source.columns):
            if column.x.sql == x.sql:
                if source.table is None:
                    raise MySQLError(1288, f"The target table {source.alias} of the UPDATE is not updatable")
                if source.table.columns[place].generated is not None:
                    raise MySQLError(
                        3105,
                        f"The value specified for generated column '{column.name}' in table '{source.table.name}' is not allowed.",
                    )
                return source, place
    raise unknown_column(".".join(name.parts), "field list")


def _override(source: Source, place: int, value: X, column: ColumnDef) -> None:
    """Later assignments of the same UPDATE see the value just assigned."""
    old = source.columns[place]
    declared = "'" + column.type.replace("'", "''") + "'"
    source.columns[place] = old._replace(x=X(f"m_conv({declared}, {final(value)})", column.t))


class _Target:
    """One table of an UPDATE: where its rowid, old values and new values are in the selected rows."""

    def __init__(self, session: Session, source: Source, start: int) -> None:
        assert source.table is not None
        self.writer = Writer(session, source.table)
        self.source = source
        self.original = list(source.columns)
        self.start = start
        self.places: list[tuple[int, int, bool]] = []

    def selected(self) -> list[str]:
        return [f"{self.source.phys}.rowid", *(column.x.sql for column in self.original)]

    def restore(self) -> None:
        self.source.columns[:] = self.original

    def apply(self, rows: list[tuple[Any, ...]], *, ignore: bool) -> int:
        table, seen, affected = self.writer.table, set(), 0
        width = len(table.columns)
        for found in rows:
            rowid = found[self.start]
            if rowid is None or rowid in seen:
                continue
            seen.add(rowid)
            before = list(found[self.start + 1 : self.start + 1 + width])
            row = list(before)
            for place, at, is_default in self.places:
                row[place] = (
                    self.writer.default(table.columns[place]) if is_default else _updated(self.writer, place, found[at])
                )
            affected += self._change(rowid, row, before, ignore=ignore)
        return affected

    def _change(self, rowid: int, row: list[Any], before: list[Any], *, ignore: bool) -> int:
        self.writer.finish(row)
        changed = [place for place in range(len(row)) if not _same(row[place], before[place])]
        if not changed:
            return 0
        for place, column in enumerate(self.writer.table.columns):
            if column.on_update_now and place not in changed:
                row[place] = self.writer.converters[place](self.writer.session.now)
                changed.append(place)
        if ignore and self.writer.conflict(row, rowid) is not None:
            return 0
        self.writer.update(rowid, row, changed)
        return 1


# ---- DELETE


def delete(session: Session, node: n.Delete) -> int:
    ctx = session.context()
    scope = Scope()
    prefix = _change_ctes(ctx, node, scope)
    origin = compile_source(ctx, node.source, scope)
    sources = []
    for name in node.targets:
        source = next((s for s in scope.sources if s.alias == name), None)
        if source is None or source.table is None:
            raise MySQLError(1109, f"Unknown table '{name}' in MULTI DELETE")
        sources.append(source)
    tail = _change_tail(ctx, node, scope)
    rowids = ", ".join(f"{source.phys}.rowid" for source in sources)
    rows = session.rows(f"{prefix}SELECT {rowids}{origin}{tail}", ctx.params)
    affected = 0
    for place, source in enumerate(sources):
        found = {row[place]: None for row in rows if row[place] is not None}
        assert source.table is not None
        writer = Writer(session, source.table)
        for rowid in found:
            writer.delete(rowid)
        affected += len(found)
    return affected

"""Compiles FROM: tables, views, derived tables and joins, and makes their columns visible.

Invariant: an ON condition sees the tables of its own join alone.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import expressions, queries, schema_tables
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, TableDef
from envhub.envs.db.sqlite.convert import compare, truth
from envhub.envs.db.sqlite.errors import MySQLError, unknown_table
from envhub.envs.db.sqlite.plans import derived_columns
from envhub.envs.db.sqlite.scope import Col, Context, Scope, Source, X


def compile_source(ctx: Context, source: n.Source | None, scope: Scope) -> str:
    return "" if source is None else f" FROM {_source(ctx, source, scope)}"


def _source(ctx: Context, source: n.Source, scope: Scope) -> str:
    if isinstance(source, n.TableRef):
        return _table(ctx, source, scope)
    if isinstance(source, n.Derived):
        plan = queries.compile_query(ctx, source.query, Scope(scope.parent, ctes=scope.ctes))
        phys = ctx.name()
        _add(scope, Source(source.alias, phys, _prefixed(phys, derived_columns(plan.outs, source.columns))))
        return f"({plan.render()}) AS {phys}"
    return _join(ctx, source, scope)


def _prefixed(phys: str, columns: list[Col]) -> list[Col]:
    return [Col(column.name, column.x._replace(sql=f"{phys}.{column.x.sql}")) for column in columns]


def _add(scope: Scope, source: Source) -> None:
    if any(other.alias == source.alias for other in scope.sources):
        raise MySQLError(1066, f"Not unique table/alias: '{source.alias}'")
    scope.sources.append(source)


def table_source(table: TableDef, alias: str, phys: str) -> Source:
    columns = [Col(c.name, X(f"{phys}.{c.phys}", c.t, native=c.t.kind in ("str", "dec"))) for c in table.columns]
    return Source(alias, phys, columns, table)


def _table(ctx: Context, ref: n.TableRef, scope: Scope) -> str:
    phys = ctx.name()
    cte = scope.find_cte(ref.name) if ref.database is None else None
    if cte is not None:
        _add(scope, Source(ref.alias, phys, _prefixed(phys, cte.columns)))
        return f"{cte.phys} AS {phys}"
    if ref.database is not None and ref.database.lower() == "information_schema":
        sql, columns = schema_tables.compile_table(ctx, ref.name)
        _add(scope, Source(ref.alias, phys, _prefixed(phys, columns)))
        return f"({sql}) AS {phys}"
    ctx.catalog.check_database(ref)
    table = ctx.catalog.tables.get(ref.name)
    if table is not None:
        _add(scope, table_source(table, ref.alias, phys))
        return f"{table.phys} AS {phys}"
    view = ctx.catalog.views.get(ref.name)
    if view is None:
        raise unknown_table(DATABASE, ref.name)
    plan = queries.compile_query(ctx, view.query, None)
    _add(scope, Source(ref.alias, phys, _prefixed(phys, derived_columns(plan.outs, view.columns))))
    return f"({plan.render()}) AS {phys}"


def _join(ctx: Context, join: n.Join, scope: Scope) -> str:
    start = len(scope.sources)
    left = _source(ctx, join.left, scope)
    middle = len(scope.sources)
    right = _source(ctx, join.right, scope)
    if isinstance(join.right, n.Join):
        right = f"({right})"
    word = {"INNER": "JOIN", "COMMA": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN"}[join.kind]
    condition = _join_condition(ctx, join, scope, (start, middle))
    return f"{left} {word} {right}" + (f" ON {condition}" if condition else "")


def _join_condition(ctx: Context, join: n.Join, scope: Scope, bounds: tuple[int, int]) -> str:
    lefts, rights = scope.sources[bounds[0] : bounds[1]], scope.sources[bounds[1] :]
    if join.on is not None:
        inner = Scope(scope.parent, lefts + rights, scope.ctes, clause="on clause")
        return truth(expressions.compile_expr(ctx, join.on, inner))
    names = join.using
    if join.natural:
        right_names = {column.name.lower() for source in rights for column in source.columns}
        names = list(dict.fromkeys(c.name for source in lefts for c in source.columns if c.name.lower() in right_names))
    parts = []
    for name in names:
        left_scope = Scope(
            None, lefts, merged={k: v for k, v in scope.merged.items() if len(lefts) > 1}, clause="from clause"
        )
        a, b = left_scope.resolve((name,)), Scope(None, rights, clause="from clause").resolve((name,))
        parts.append(compare("=", a, b).sql)
        scope.merged[name.lower()] = b if join.kind == "RIGHT" else a
    return " AND ".join(parts)

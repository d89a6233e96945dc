"""Compiles one SELECT: select list, WHERE, GROUP BY, HAVING, ORDER BY.

Invariant: names resolve clause by clause as in MySQL, and ONLY_FULL_GROUP_BY holds.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import expressions, rollups, sources
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE
from envhub.envs.db.sqlite.convert import sortable, truth
from envhub.envs.db.sqlite.errors import MySQLError, unknown_column
from envhub.envs.db.sqlite.orders import order_clause
from envhub.envs.db.sqlite.plans import Out, Plan, limit_clause
from envhub.envs.db.sqlite.scope import NO_CONST, Context, Scope, X


def compile_select(ctx: Context, query: n.Select, scope: Scope) -> Plan:
    if query.rollup:
        return rollups.compile_rollup(ctx, query, scope)
    return compile_simple(ctx, query, scope, level=-1)


def compile_simple(ctx: Context, query: n.Select, scope: Scope, *, level: int) -> Plan:
    """One SELECT. ``level`` >= 0: the ROLLUP branch that keeps that many grouping keys."""
    origin = sources.compile_source(ctx, query.source, scope)
    scope.windows = {name.lower(): window for name, window in query.windows.items()}
    where = _where(ctx, query.where, scope)
    groups = compile_groups(ctx, query, scope)
    if level >= 0:
        scope.rolled = {group.sql for group in groups[level:]}
    scope.clause = "field list"
    scope.group_keys = {group.sql for group in groups} | _fixed_columns(query.where, ctx, scope)
    outs = _items(ctx, query, scope)
    _alias_outs(query, outs, scope)
    scope.bare = [] if not groups and not scope.aggregated else scope.bare
    having = _having(ctx, query, scope, bool(groups))
    order = "" if level >= 0 else order_clause(ctx, query.order, scope, outs)
    if "ONLY_FULL_GROUP_BY" in ctx.system["sql_mode"].upper():
        _full_group_by(scope, groups)
    kept = groups if level < 0 else groups[:level]
    tail = origin + where
    if kept:
        tail += " GROUP BY " + ", ".join("NULL" if group.const is not NO_CONST else sortable(group) for group in kept)
    elif level == 0 and not scope.aggregated:
        tail += " GROUP BY NULL"
    if having and not groups and not scope.aggregated:
        tail = origin + (f"{where} AND {having}" if where else f" WHERE {having}")
    elif having:
        tail += f" HAVING {having}"
    head = "SELECT DISTINCT " if query.distinct else "SELECT "
    if level >= 0:
        return Plan(outs, head=head, tail=tail, branches=[])
    return Plan(outs, head=head, tail=tail + order + limit_clause(query))


def _where(ctx: Context, where: n.Expr | None, scope: Scope) -> str:
    if where is None:
        return ""
    scope.clause = "where clause"
    sql = f" WHERE {truth(expressions.compile_expr(ctx, where, scope))}"
    scope.bare.clear()
    return sql


def _fixed_columns(where: n.Expr | None, ctx: Context, scope: Scope) -> set[str]:
    """Columns that WHERE ties to a constant: functionally dependent on nothing."""
    fixed = set()
    parts = where.operands if isinstance(where, n.Logic) and where.op == "AND" else [where]
    for part in parts:
        if isinstance(part, n.Binary) and part.op == "=":
            for side, other in ((part.left, part.right), (part.right, part.left)):
                if isinstance(side, n.Name) and isinstance(other, n.Literal):
                    fixed.add(scope.resolve(side.parts).sql)
    scope.bare.clear()
    return fixed


def compile_groups(ctx: Context, query: n.Select, scope: Scope) -> list[X]:
    scope.clause = "group statement"
    groups = []
    for node in query.group:
        if isinstance(node, n.Literal) and type(node.value) is int:
            item = _position(query, node.value, scope)
            groups.append(expressions.compile_expr(ctx, item, scope))
            continue
        try:
            groups.append(expressions.compile_expr(ctx, node, scope))
        except MySQLError as error:
            aliased = _aliased(query, node)
            if error.code != 1054 or aliased is None:
                raise
            groups.append(expressions.compile_expr(ctx, aliased, scope))
    scope.bare.clear()
    return groups


def _position(query: n.Select, place: int, scope: Scope) -> n.Expr:
    items: list[n.Expr] = []
    for item in query.items:
        if isinstance(item.expr, n.Star):
            for source in scope.sources:
                if item.expr.table is None or item.expr.table == source.alias:
                    items += [n.Name((source.alias, column.name)) for column in source.columns]
        else:
            items.append(item.expr)
    if not 1 <= place <= len(items):
        raise unknown_column(str(place), scope.clause)
    return items[place - 1]


def _aliased(query: n.Select, node: n.Expr) -> n.Expr | None:
    if not isinstance(node, n.Name) or len(node.parts) > 1:
        return None
    name = node.parts[0].lower()
    return next((item.expr for item in query.items if item.alias and item.alias.lower() == name), None)


def _items(ctx: Context, query: n.Select, scope: Scope) -> list[Out]:
    outs: list[Out] = []
    for item in query.items:
        if isinstance(item.expr, n.Star):
            outs += _expand(item.expr, scope)
        else:
            mark = len(scope.bare)
            x = expressions.compile_expr(ctx, item.expr, scope)
            place = len(outs) + 1
            scope.bare[mark:] = [(sql, f"{place}\0{name}") for sql, name in scope.bare[mark:]]
            name = (
                item.alias
                if item.alias is not None
                else item.expr.parts[-1]
                if isinstance(item.expr, n.Name)
                else item.text
            )
            outs.append(Out(name, x))
    return outs


def _expand(star: n.Star, scope: Scope) -> list[Out]:
    if not scope.sources:
        raise MySQLError(1096, "No tables used")
    outs = [Out(name, x) for name, x in scope.merged.items()] if star.table is None else []
    outs = [Out(_spelling(out.name, scope), out.x) for out in outs]
    merged = set(scope.merged) if star.table is None else set()
    found = False
    for source in scope.sources:
        if star.table is None or source.alias == star.table:
            found = True
            for column in source.columns:
                if column.name.lower() in merged:
                    continue
                outs.append(Out(column.name, column.x))
                scope.bare.append((column.x.sql, f"{len(outs)}\0{DATABASE}.{source.alias}.{column.name}"))
    if not found:
        raise MySQLError(1051, f"Unknown table '{star.table}'")
    if scope.group_keys:
        scope.bare = [(sql, name) for sql, name in scope.bare if sql not in scope.group_keys]
    return outs


def _spelling(name: str, scope: Scope) -> str:
    return next(c.name for source in scope.sources for c in source.columns if c.name.lower() == name)


def _alias_outs(query: n.Select, outs: list[Out], scope: Scope) -> None:
    for place, out in enumerate(outs):
        scope.aliases.setdefault(out.name.lower(), out.x)
        scope.positions.setdefault(out.name.lower(), place)
    explicit = [(item.alias.lower(), item) for item in query.items if item.alias]
    names = [out.name.lower() for out in outs]
    for alias, _ in explicit:
        place = names.index(alias)
        scope.aliases[alias] = outs[place].x
        scope.positions[alias] = place


def _having(ctx: Context, query: n.Select, scope: Scope, grouped: bool) -> str:
    if query.having is None:
        return ""
    scope.clause = "having clause"
    scope.alias_first = True
    mark = len(scope.bare)
    sql = truth(expressions.compile_expr(ctx, query.having, scope))
    if not grouped and not scope.aggregated:
        _only_selected(scope, mark)
    scope.alias_first = False
    return sql


def _only_selected(scope: Scope, mark: int) -> None:
    """HAVING without grouping sees the select list alone."""
    selected = {x.sql for x in scope.aliases.values()}
    for sql, name in scope.bare[mark:]:
        if sql not in selected:
            raise unknown_column(name.rpartition(".")[2], "having clause")


def _full_group_by(scope: Scope, groups: list[X]) -> None:
    """ONLY_FULL_GROUP_BY, functional dependence on a grouped key included."""
    if not groups and not scope.aggregated:
        return
    free = {group.sql for group in groups} | _dependent(scope, {group.sql for group in groups}) | scope.group_keys
    for sql, name in scope.bare:
        if sql in free:
            continue
        place, _, column = name.rpartition("\0")
        where = f"Expression #{place or 1} of SELECT list" if place else "Expression #1 of ORDER BY"
        if groups:
            raise MySQLError(
                1055,
                f"{where} is not in GROUP BY clause and contains nonaggregated column '{column}' which is not functionally "
                "dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by",
            )
        raise MySQLError(
            1140,
            f"In aggregated query without GROUP BY, {where[0].lower()}{where[1:]} contains nonaggregated column '{column}'; "
            "this is incompatible with sql_mode=only_full_group_by",
        )


def _dependent(scope: Scope, keys: set[str]) -> set[str]:
    found: set[str] = set()
    for source in scope.sources:
        if source.table is None:
            continue
        for key in source.table.unique_keys:
            columns = [next(c.x.sql for c in source.columns if c.name.lower() == name.lower()) for name in key.columns]
            if all(column in keys for column in columns):
                found |= {column.x.sql for column in source.columns}
    return found

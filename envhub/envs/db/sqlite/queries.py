"""Compiles SELECT, UNION and their relatives to SQLite.

Invariant: each output column has one static type that all of its rows share, and ONLY_FULL_GROUP_BY holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from envhub.envs.db.sqlite import expressions, schema_tables
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, TableDef
from envhub.envs.db.sqlite.convert import cast_to, compare, sortable, truth
from envhub.envs.db.sqlite.errors import MySQLError, column_list_mismatch, unknown_column, unknown_table
from envhub.envs.db.sqlite.kinds import NULL, STR, T, unify
from envhub.envs.db.sqlite.scope import NO_CONST, Col, Context, CTEDef, Scope, Source, X


class Out(NamedTuple):
    name: str
    x: X


@dataclass(slots=True)
class Plan:
    """A compiled query: its output columns, and the SQL before and after the select list.

    A compound has no select list of its own; ``branches`` are its members and ``tail`` follows them.
    """

    outs: list[Out]
    prefix: str = ""
    head: str = ""
    tail: str = ""
    branches: list[tuple[str, Plan]] = field(default_factory=list)

    def render(self, columns: list[str] | None = None) -> str:
        """The SQL; ``columns`` replaces the select list's expressions."""
        if self.branches:
            if columns is not None:
                return f"SELECT {', '.join(columns)} FROM ({self.render()})"
            return self.prefix + "".join(op + plan.render() for op, plan in self.branches) + self.tail
        columns = columns or [final(out.x) for out in self.outs]
        listed = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
        return f"{self.prefix}{self.head}{listed}{self.tail}"


def final(x: X) -> str:
    """An output column: a DECIMAL rounded to its scale, a text with its collation."""
    if x.loose:
        x = X(f"m_fix({x.sql}, {x.t.scale})", x.t)
    return sortable(x)


def compile_query(ctx: Context, query: n.Query, parent: Scope | None) -> Plan:
    scope = Scope(parent)
    prefix = compile_ctes(ctx, query, scope)
    if isinstance(query, n.Select):
        plan = _select(ctx, query, scope)
    elif isinstance(query, n.Values):
        plan = _values(ctx, query, scope)
    else:
        plan = _compound(ctx, query, scope)
    plan.prefix = prefix + plan.prefix
    return plan


def one_row(query: n.Query) -> bool:
    """Whether a scalar subquery cannot return two rows."""
    if isinstance(query.limit, n.Literal) and query.limit.value in (0, 1):
        return True
    if not isinstance(query, n.Select) or query.group:
        return False
    if query.source is None:
        return True
    return len(query.items) == 1 and isinstance(query.items[0].expr, n.Call) and query.items[0].expr.over is None and (
        query.items[0].expr.name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "GROUP_CONCAT")
    )  # fmt: skip


# ---- WITH


def compile_ctes(ctx: Context, query: n.Query, scope: Scope) -> str:
    parts = []
    for cte in query.ctes:
        if cte.name in scope.ctes:
            raise MySQLError(1066, f"Not unique table/alias: '{cte.name}'")
        parts.append(_cte(ctx, cte, scope, query.recursive))
    return f"WITH RECURSIVE {', '.join(parts)} " if parts else ""


def _cte(ctx: Context, cte: n.CTE, scope: Scope, recursive: bool) -> str:
    phys = ctx.name()
    inner = cte.query
    if recursive and isinstance(inner, n.Compound) and _mentions(inner, cte.name):
        return _recursive(ctx, cte, inner, scope, phys)
    plan = compile_query(ctx, inner, scope)
    scope.ctes[cte.name] = CTEDef(phys, _columns(plan.outs, cte.columns))
    names = ", ".join(f"c{place}" for place in range(len(plan.outs)))
    return f"{phys}({names}) AS ({plan.render()})"


def _columns(outs: list[Out], names: list[str]) -> list[Col]:
    if names and len(names) != len(outs):
        raise column_list_mismatch()
    seen: set[str] = set()
    columns = []
    for place, out in enumerate(outs):
        name = names[place] if names else out.name
        if name.lower() in seen:
            raise MySQLError(1060, f"Duplicate column name '{name}'")
        seen.add(name.lower())
        columns.append(Col(name, X(f"c{place}", out.x.t)))
    return columns


def _recursive(ctx: Context, cte: n.CTE, query: n.Compound, scope: Scope, phys: str) -> str:
    members: list[tuple[str, n.Query]] = []
    left: n.Query = query
    while isinstance(left, n.Compound) and left.op == "UNION" and not left.ctes:
        members.append((" UNION ALL " if left.everything else " UNION ", left.right))
        left = left.left
    anchor = compile_query(ctx, left, scope)
    columns = _columns(anchor.outs, cte.columns)
    scope.ctes[cte.name] = CTEDef(phys, columns)
    sql = anchor.render([final(out.x) for out in anchor.outs])
    for op, member in reversed(members):
        plan = compile_query(ctx, member, scope)
        _same_width(len(columns), len(plan.outs))
        sql += op + plan.render(
            [cast_to(o.x, c.x.t if c.x.t != NULL else STR) for o, c in zip(plan.outs, columns, strict=True)]
        )
    names = ", ".join(f"c{place}" for place in range(len(columns)))
    return f"{phys}({names}) AS ({sql}{limit_clause(query)})"


def _mentions(node: object, name: str) -> bool:
    if isinstance(node, n.TableRef):
        return node.name == name
    if isinstance(node, list | tuple):
        return any(_mentions(item, name) for item in node)
    slots = getattr(type(node), "__dataclass_fields__", None)
    return slots is not None and any(_mentions(getattr(node, slot), name) for slot in slots)


def _same_width(left: int, right: int) -> None:
    if left != right:
        raise MySQLError(1222, "The used SELECT statements have a different number of columns")


# ---- UNION, INTERSECT, EXCEPT, VALUES


def _compound(ctx: Context, query: n.Compound, scope: Scope) -> Plan:
    flat = _flatten(query)
    plans = [compile_query(ctx, member, scope) for _, member in flat]
    width = len(plans[0].outs)
    for plan in plans[1:]:
        _same_width(width, len(plan.outs))
    types = [unify(plan.outs[place].x.t for plan in plans) for place in range(width)]
    branches = []
    for (op, _), plan in zip(flat, plans, strict=True):
        branches.append((op, _typed_branch(plan, types)))
    outs = [Out(out.name, X(f"c{place}", types[place])) for place, out in enumerate(plans[0].outs)]
    plan = Plan(outs, branches=_distinct_once(branches, types))
    if not query.order and query.limit is None:
        return plan
    return _ordered(ctx, query, plan, scope)


def _distinct_once(branches: list[tuple[str, Plan]], types: list[T]) -> list[tuple[str, Plan]]:
    """UNION as DISTINCT over UNION ALL: of equal rows MySQL keeps the first, SQLite's own UNION the last."""
    last = max((place for place, (op, _) in enumerate(branches) if op == " UNION "), default=0)
    if not last or not all("UNION" in op for op, _ in branches[1:]):
        return branches
    inner = " UNION ALL ".join(plan.render() for _, plan in branches[: last + 1])
    columns = ", ".join(f"{sortable(X(f'c{place}', t))} AS c{place}" for place, t in enumerate(types))
    return [("", _fixed(branches[0][1].outs, f"SELECT DISTINCT {columns} FROM ({inner})")), *branches[last + 1 :]]


def _typed_branch(plan: Plan, types: list[T]) -> Plan:
    """A member of a compound: a bare SELECT whose columns have the compound's types."""
    columns = [sortable(X(cast_to(out.x, t), t)) for out, t in zip(plan.outs, types, strict=True)]
    if plan.branches or plan.prefix or " LIMIT " in plan.tail or " ORDER BY " in plan.tail:
        inner = plan.render()
        listed = [
            sortable(X(cast_to(X(f"c{place}", out.x.t), t), t))
            for place, (out, t) in enumerate(zip(plan.outs, types, strict=True))
        ]
        body = ", ".join(f"{column} AS c{place}" for place, column in enumerate(listed))
        return _fixed(plan.outs, f"SELECT {body} FROM ({inner})")
    body = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
    return _fixed(plan.outs, f"{plan.head}{body}{plan.tail}")


@dataclass(slots=True)
class _Fixed(Plan):
    sql: str = ""

    def render(self, columns: list[str] | None = None) -> str:
        return self.sql


def _fixed(outs: list[Out], sql: str) -> Plan:
    return _Fixed(outs, sql=sql)


def _flatten(query: n.Compound) -> list[tuple[str, n.Query]]:
    """Left-nested members of one precedence level, as SQLite's own left-to-right chain."""
    members: list[tuple[str, n.Query]] = []
    node: n.Query = query
    while isinstance(node, n.Compound) and (node is query or not (node.order or node.limit is not None or node.ctes)):
        if node.everything and node.op != "UNION":
            raise MySQLError(1235, f"This version of MySQL doesn't yet support '{node.op} ALL'")
        members.append((f" {node.op}{' ALL' if node.everything else ''} ", node.right))
        node = node.left
    members.append(("", node))
    members.reverse()
    if len(members) > 400:
        raise MySQLError(1235, "This version of MySQL doesn't yet support 'so many UNION members'")
    return members


def _ordered(ctx: Context, query: n.Compound | n.Values, plan: Plan, parent: Scope) -> Plan:
    """The plan inside an outer SELECT that carries ORDER BY and LIMIT."""
    alias = ctx.name()
    columns = [Col(out.name, X(f"{alias}.c{place}", out.x.t)) for place, out in enumerate(plan.outs)]
    scope = Scope(parent.parent, [Source("", alias, columns)], clause="order clause")
    outs = [Out(column.name, column.x) for column in columns]
    for place, out in enumerate(outs):
        scope.positions.setdefault(out.name.lower(), place)
    order = _order(ctx, query.order, scope, outs)
    return Plan(outs, head="SELECT ", tail=f" FROM ({plan.render()}) AS {alias}{order}{limit_clause(query)}")


def _values(ctx: Context, query: n.Values, scope: Scope) -> Plan:
    rows = [[expressions.compile_expr(ctx, item, scope) for item in row] for row in query.rows]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise MySQLError(1136, "Column count doesn't match value count at row 1")
    types = [unify(row[place].t for row in rows) for place in range(width)]
    lines = [
        ", ".join(f"{cast_to(x, t)} AS c{at}" for at, (x, t) in enumerate(zip(row, types, strict=True))) for row in rows
    ]
    outs = [Out(f"column_{place}", X(f"c{place}", t)) for place, t in enumerate(types)]
    return _ordered(ctx, query, _fixed(outs, " UNION ALL ".join("SELECT " + line for line in lines)), scope)


# ---- SELECT


def _select(ctx: Context, query: n.Select, scope: Scope) -> Plan:
    if query.rollup:
        return _rollup(ctx, query, scope)
    return _simple(ctx, query, scope, level=-1)


def _simple(ctx: Context, query: n.Select, scope: Scope, *, level: int) -> Plan:
    """One SELECT. ``level`` >= 0: the ROLLUP branch that keeps that many grouping keys."""
    origin = compile_source(ctx, query.source, scope)
    scope.windows = {name.lower(): window for name, window in query.windows.items()}
    where = _where(ctx, query.where, scope)
    groups = _groups(ctx, query, scope)
    if level >= 0:
        scope.rolled = {group.sql for group in groups[level:]}
    scope.clause = "field list"
    scope.group_keys = {group.sql for group in groups} | _fixed_columns(query.where, ctx, scope)
    outs = _items(ctx, query, scope)
    _alias_outs(query, outs, scope)
    scope.bare = [] if not groups and not scope.aggregated else scope.bare
    having = _having(ctx, query, scope, bool(groups))
    order = "" if level >= 0 else _order(ctx, query.order, scope, outs)
    _full_group_by(query, scope, groups)
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


def _groups(ctx: Context, query: n.Select, scope: Scope) -> list[X]:
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


def _order(ctx: Context, orders: list[n.Order], scope: Scope, outs: list[Out]) -> str:
    if not orders:
        return ""
    scope.clause = "order clause"
    scope.alias_first = True
    terms = [_order_by(ctx, order, scope, outs) for order in orders]
    scope.alias_first = False
    return " ORDER BY " + ", ".join(terms)


def _order_by(ctx: Context, order: n.Order, scope: Scope, outs: list[Out]) -> str:
    node = order.expr
    down = " DESC" if order.descending else ""
    if isinstance(node, n.Literal) and type(node.value) is int and node.value >= 0:
        if not 1 <= node.value <= len(outs):
            raise unknown_column(str(node.value), "order clause")
        return f"{node.value}{down}"
    if isinstance(node, n.Name) and len(node.parts) == 1 and node.parts[0].lower() in scope.positions:
        return f"{scope.positions[node.parts[0].lower()] + 1}{down}"
    if isinstance(node, n.Literal):
        return f"NULL{down}"
    return order_term(ctx, order, scope)


def order_term(ctx: Context, order: n.Order, scope: Scope) -> str:
    x = expressions.compile_expr(ctx, order.expr, scope)
    sql = sortable(x)
    if x.const is not NO_CONST:
        sql = "NULL"
    return f"{sql}{' DESC' if order.descending else ''}"


def limit_clause(query: n.Query) -> str:
    if not isinstance(query.limit, n.Literal):
        return ""
    offset = f" OFFSET {query.offset.value!r}" if isinstance(query.offset, n.Literal) else ""
    return f" LIMIT {query.limit.value!r}{offset}"


def _full_group_by(query: n.Select, scope: Scope, groups: list[X]) -> None:
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


# ---- WITH ROLLUP


def _rollup(ctx: Context, query: n.Select, scope: Scope) -> Plan:
    """One branch for each number of grouping keys kept, sorted so that each total follows its group."""
    if query.order or query.distinct:
        inner = n.Select(**{slot: getattr(query, slot) for slot in query.__dataclass_fields__})
        inner.order, inner.limit, inner.offset, inner.distinct, inner.ctes = [], None, None, False, []
        plan = _rollup(ctx, inner, scope)
        outer = Plan(plan.outs, branches=[("", plan)])
        compound = n.Compound(inner, "UNION", True, inner, query.order, query.limit, query.offset)
        return _ordered(ctx, compound, outer, scope)
    width = len(query.group)
    branches: list[Plan] = []
    for level in range(width, -1, -1):
        inner_scope = Scope(scope.parent, ctes=scope.ctes)
        branches.append(_rollup_branch(ctx, query, inner_scope, level))
    outs = branches[0].outs
    visible = len(outs) - 2 * width
    types = [unify(branch.outs[place].x.t for branch in branches) for place in range(len(outs))]
    members = [("" if not at else " UNION ALL ", _typed_branch(branch, types)) for at, branch in enumerate(branches)]
    alias = ctx.name()
    body = "".join(op + branch.render() for op, branch in members)
    keys = ", ".join(sortable(X(f"{alias}.c{visible + at}", types[visible + at])) for at in range(2 * width))
    shown = [Out(out.name, X(f"{alias}.c{place}", types[place])) for place, out in enumerate(outs[:visible])]
    return Plan(shown, head="SELECT ", tail=f" FROM ({body}) AS {alias} ORDER BY {keys}{limit_clause(query)}")


def _rollup_branch(ctx: Context, query: n.Select, scope: Scope, level: int) -> Plan:
    plan = _simple(ctx, query, scope, level=level)
    groups = _groups_again(ctx, query, scope)
    for place, group in enumerate(groups):
        plan.outs.append(Out("", X("0" if place < level else "1", T("int"))))
        plan.outs.append(Out("", group if place < level else X("NULL", group.t)))
    return plan


def _groups_again(ctx: Context, query: n.Select, scope: Scope) -> list[X]:
    rolled, scope.rolled = scope.rolled, set()
    scope.aggregated, aggregated = False, scope.aggregated
    groups = _groups(ctx, query, scope)
    scope.rolled, scope.aggregated = rolled, aggregated
    return groups


# ---- FROM


def compile_source(ctx: Context, source: n.Source | None, scope: Scope) -> str:
    return "" if source is None else f" FROM {_source(ctx, source, scope)}"


def _source(ctx: Context, source: n.Source, scope: Scope) -> str:
    if isinstance(source, n.TableRef):
        return _table(ctx, source, scope)
    if isinstance(source, n.Derived):
        plan = compile_query(ctx, source.query, Scope(scope.parent, ctes=scope.ctes))
        phys = ctx.name()
        _add(scope, Source(source.alias, phys, _prefixed(phys, _columns(plan.outs, source.columns))))
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
    plan = compile_query(ctx, view.query, None)
    _add(scope, Source(ref.alias, phys, _prefixed(phys, _columns(plan.outs, view.columns))))
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

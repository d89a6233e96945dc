"""Compiles UNION, INTERSECT, EXCEPT and VALUES.

Invariant: all members of a compound have the same column types before SQLite sees them.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import expressions, queries
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import cast_to, sortable
from envhub.envs.db.sqlite.errors import MySQLError, unsupported
from envhub.envs.db.sqlite.kinds import T, unify
from envhub.envs.db.sqlite.orders import order_clause
from envhub.envs.db.sqlite.plans import Out, Plan, fixed, limit_clause, same_width
from envhub.envs.db.sqlite.scope import Col, Context, Scope, Source, X


def compile_compound(ctx: Context, query: n.Compound, scope: Scope) -> Plan:
    flat = _flatten(query)
    plans = [queries.compile_query(ctx, member, scope) for _, member in flat]
    width = len(plans[0].outs)
    for plan in plans[1:]:
        same_width(width, len(plan.outs))
    types = [unify(plan.outs[place].x.t for plan in plans) for place in range(width)]
    branches = []
    for (op, _), plan in zip(flat, plans, strict=True):
        branches.append((op, typed_branch(plan, types)))
    outs = [Out(out.name, X(f"c{place}", types[place])) for place, out in enumerate(plans[0].outs)]
    plan = Plan(outs, branches=_distinct_once(branches, types))
    if not query.order and query.limit is None:
        return plan
    return ordered(ctx, query, plan, scope)


def _distinct_once(branches: list[tuple[str, Plan]], types: list[T]) -> list[tuple[str, Plan]]:
    """UNION as DISTINCT over UNION ALL: of equal rows MySQL keeps the first, SQLite's own UNION the last."""
    last = max((place for place, (op, _) in enumerate(branches) if op == " UNION "), default=0)
    if not last or not all("UNION" in op for op, _ in branches[1:]):
        return branches
    inner = " UNION ALL ".join(plan.render() for _, plan in branches[: last + 1])
    columns = ", ".join(f"{sortable(X(f'c{place}', t))} AS c{place}" for place, t in enumerate(types))
    return [("", fixed(branches[0][1].outs, f"SELECT DISTINCT {columns} FROM ({inner})")), *branches[last + 1 :]]


def typed_branch(plan: Plan, types: list[T]) -> Plan:
    """A member of a compound: a bare SELECT whose columns have the compound's types."""
    columns = [sortable(X(cast_to(out.x, t), t)) for out, t in zip(plan.outs, types, strict=True)]
    if plan.branches or plan.prefix or " LIMIT " in plan.tail or " ORDER BY " in plan.tail:
        inner = plan.render()
        listed = [
            sortable(X(cast_to(X(f"c{place}", out.x.t), t), t))
            for place, (out, t) in enumerate(zip(plan.outs, types, strict=True))
        ]
        body = ", ".join(f"{column} AS c{place}" for place, column in enumerate(listed))
        return fixed(plan.outs, f"SELECT {body} FROM ({inner})")
    body = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
    return fixed(plan.outs, f"{plan.head}{body}{plan.tail}")


def _flatten(query: n.Compound) -> list[tuple[str, n.Query]]:
    """Left-nested members of one precedence level, as SQLite's own left-to-right chain."""
    members: list[tuple[str, n.Query]] = []
    node: n.Query = query
    while isinstance(node, n.Compound) and (node is query or not (node.order or node.limit is not None or node.ctes)):
        if node.everything and node.op != "UNION":
            raise unsupported(f"{node.op} ALL")
        members.append((f" {node.op}{' ALL' if node.everything else ''} ", node.right))
        node = node.left
    members.append(("", node))
    members.reverse()
    if len(members) > 400:
        raise unsupported("so many UNION members")
    return members


def ordered(ctx: Context, query: n.Compound | n.Values, plan: Plan, parent: Scope) -> Plan:
    """The plan inside an outer SELECT that carries ORDER BY and LIMIT."""
    alias = ctx.name()
    columns = [Col(out.name, X(f"{alias}.c{place}", out.x.t)) for place, out in enumerate(plan.outs)]
    scope = Scope(parent.parent, [Source("", alias, columns)], clause="order clause")
    outs = [Out(column.name, column.x) for column in columns]
    for place, out in enumerate(outs):
        scope.positions.setdefault(out.name.lower(), place)
    order = order_clause(ctx, query.order, scope, outs)
    return Plan(outs, head="SELECT ", tail=f" FROM ({plan.render()}) AS {alias}{order}{limit_clause(query)}")


def compile_values(ctx: Context, query: n.Values, scope: Scope) -> Plan:
    rows = [[expressions.compile_expr(ctx, item, scope) for item in row] for row in query.rows]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise MySQLError(1136, "Column count doesn't match value count at row 1")
    types = [unify(row[place].t for row in rows) for place in range(width)]
    lines = [
        ", ".join(f"{cast_to(x, t)} AS c{at}" for at, (x, t) in enumerate(zip(row, types, strict=True))) for row in rows
    ]
    outs = [Out(f"column_{place}", X(f"c{place}", t)) for place, t in enumerate(types)]
    return ordered(ctx, query, fixed(outs, " UNION ALL ".join("SELECT " + line for line in lines)), scope)

"""Compiles a query of any form, its WITH clause first.

Invariant: each output column has one static type that all of its rows share.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import compounds, selects
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import cast_to
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.kinds import NULL, STR
from envhub.envs.db.sqlite.plans import Plan, derived_columns, final, limit_clause, same_width
from envhub.envs.db.sqlite.scope import Context, CTEDef, Scope


def compile_query(ctx: Context, query: n.Query, parent: Scope | None) -> Plan:
    scope = Scope(parent)
    prefix = compile_ctes(ctx, query, scope)
    if isinstance(query, n.Select):
        plan = selects.compile_select(ctx, query, scope)
    elif isinstance(query, n.Values):
        plan = compounds.compile_values(ctx, query, scope)
    else:
        plan = compounds.compile_compound(ctx, query, scope)
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
    scope.ctes[cte.name] = CTEDef(phys, derived_columns(plan.outs, cte.columns))
    names = ", ".join(f"c{place}" for place in range(len(plan.outs)))
    return f"{phys}({names}) AS ({plan.render()})"


def _recursive(ctx: Context, cte: n.CTE, query: n.Compound, scope: Scope, phys: str) -> str:
    members: list[tuple[str, n.Query]] = []
    left: n.Query = query
    while isinstance(left, n.Compound) and left.op == "UNION" and not left.ctes:
        members.append((" UNION ALL " if left.everything else " UNION ", left.right))
        left = left.left
    anchor = compile_query(ctx, left, scope)
    columns = derived_columns(anchor.outs, cte.columns)
    scope.ctes[cte.name] = CTEDef(phys, columns)
    sql = anchor.render([final(out.x) for out in anchor.outs])
    for op, member in reversed(members):
        plan = compile_query(ctx, member, scope)
        same_width(len(columns), len(plan.outs))
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

"""Compiles GROUP BY ... WITH ROLLUP.

Invariant: each total follows the groups it sums up.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import compounds, selects
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import sortable
from envhub.envs.db.sqlite.kinds import T, unify
from envhub.envs.db.sqlite.plans import Out, Plan, limit_clause
from envhub.envs.db.sqlite.scope import Context, Scope, X


def compile_rollup(ctx: Context, query: n.Select, scope: Scope) -> Plan:
    """One branch for each number of grouping keys kept, sorted so that each total follows its group."""
    if query.order or query.distinct:
        inner = n.Select(**{slot: getattr(query, slot) for slot in query.__dataclass_fields__})
        inner.order, inner.limit, inner.offset, inner.distinct, inner.ctes = [], None, None, False, []
        plan = compile_rollup(ctx, inner, scope)
        outer = Plan(plan.outs, branches=[("", plan)])
        compound = n.Compound(inner, "UNION", True, inner, query.order, query.limit, query.offset)
        return compounds.ordered(ctx, compound, outer, scope)
    width = len(query.group)
    branches: list[Plan] = []
    for level in range(width, -1, -1):
        inner_scope = Scope(scope.parent, ctes=scope.ctes)
        branches.append(_rollup_branch(ctx, query, inner_scope, level))
    outs = branches[0].outs
    visible = len(outs) - 2 * width
    types = [unify(branch.outs[place].x.t for branch in branches) for place in range(len(outs))]
    members = [
        ("" if not at else " UNION ALL ", compounds.typed_branch(branch, types)) for at, branch in enumerate(branches)
    ]
    alias = ctx.name()
    body = "".join(op + branch.render() for op, branch in members)
    keys = ", ".join(sortable(X(f"{alias}.c{visible + at}", types[visible + at])) for at in range(2 * width))
    shown = [Out(out.name, X(f"{alias}.c{place}", types[place])) for place, out in enumerate(outs[:visible])]
    return Plan(shown, head="SELECT ", tail=f" FROM ({body}) AS {alias} ORDER BY {keys}{limit_clause(query)}")


def _rollup_branch(ctx: Context, query: n.Select, scope: Scope, level: int) -> Plan:
    plan = selects.compile_simple(ctx, query, scope, level=level)
    groups = _groups_again(ctx, query, scope)
    for place, group in enumerate(groups):
        plan.outs.append(Out("", X("0" if place < level else "1", T("int"))))
        plan.outs.append(Out("", group if place < level else X("NULL", group.t)))
    return plan


def _groups_again(ctx: Context, query: n.Select, scope: Scope) -> list[X]:
    rolled, scope.rolled = scope.rolled, set()
    scope.aggregated, aggregated = False, scope.aggregated
    groups = selects.compile_groups(ctx, query, scope)
    scope.rolled, scope.aggregated = rolled, aggregated
    return groups

"""Compiles ORDER BY.

Invariant: an alias or a position orders by the select list's own column, so that it is computed once.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import expressions
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import sortable
from envhub.envs.db.sqlite.errors import unknown_column
from envhub.envs.db.sqlite.plans import Out
from envhub.envs.db.sqlite.scope import NO_CONST, Context, Scope


def order_clause(ctx: Context, orders: list[n.Order], scope: Scope, outs: list[Out]) -> str:
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

"""Compiles aggregate and window functions.

Invariant: SUM and AVG of exact numbers stay exact; an aggregate where MySQL allows none is error 1111.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import expressions, orders
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import cast_to, division_digits, integer, literal, number, real, sortable, text
from envhub.envs.db.sqlite.errors import MySQLError, bad_parameter_count, unsupported
from envhub.envs.db.sqlite.grammar import WINDOW_ONLY
from envhub.envs.db.sqlite.kinds import INT, JSON, REAL, STR, dec, unify
from envhub.envs.db.sqlite.scope import Context, Scope, X

AGGREGATES = frozenset(
    [
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "GROUP_CONCAT",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "JSON_ARRAYAGG",
        "JSON_OBJECTAGG",
        "GROUPING",
    ]
)
_MOMENTS = {
    "STD": "m_stdpop", "STDDEV": "m_stdpop", "STDDEV_POP": "m_stdpop", "STDDEV_SAMP": "m_stdsamp",
    "VARIANCE": "m_varpop", "VAR_POP": "m_varpop", "VAR_SAMP": "m_varsamp",
}  # fmt: skip


def compile_aggregate(ctx: Context, node: n.Call, scope: Scope) -> X:
    if scope.in_aggregate or scope.clause in ("where clause", "on clause", "group statement"):
        raise MySQLError(1111, "Invalid use of group function")
    if node.name == "GROUPING":
        args = [expressions.compile_expr(ctx, arg, scope).sql for arg in node.args]
        return X("1" if any(arg == "NULL" for arg in args) else "0", INT)
    scope.aggregated = True
    scope.in_aggregate = True
    rolled, scope.rolled = scope.rolled, set()
    try:
        return _aggregate_sql(ctx, node, scope)
    finally:
        scope.in_aggregate = False
        scope.rolled = rolled


def _aggregate_sql(ctx: Context, node: n.Call, scope: Scope) -> X:
    name = node.name
    distinct = "DISTINCT " if node.distinct else ""
    if node.args and isinstance(node.args[0], n.Star):
        return X("COUNT(*)", INT)
    args = [expressions.compile_expr(ctx, arg, scope) for arg in node.args]
    wanted = 2 if name == "JSON_OBJECTAGG" else 1
    if len(args) < wanted or (len(args) > wanted and name not in ("COUNT", "GROUP_CONCAT")):
        raise MySQLError(1064, f"Incorrect arguments to {name}")
    x = args[0]
    if name == "COUNT":
        if len(args) > 1:
            return X(f"COUNT({distinct}m_key({', '.join(text(arg) for arg in args)}))", INT)
        return X(f"COUNT({distinct}{sortable(x)})", INT)
    if name in ("MIN", "MAX"):
        return X(f"{name}({sortable(x)})", x.t, loose=x.loose)
    if name in ("SUM", "AVG"):
        return _total(name, distinct, number(x))
    if name in _MOMENTS:
        return X(f"{_MOMENTS[name]}({real(x)})", REAL)
    if name == "GROUP_CONCAT":
        return _group_concat(ctx, node, args, scope)
    if name == "JSON_ARRAYAGG":
        return X(f"m_jarrayagg('{x.t.kind}', {x.sql})", JSON)
    if name == "JSON_OBJECTAGG":
        return X(f"m_jobjectagg({text(x)}, '{args[1].t.kind}', {args[1].sql})", JSON)
    op = {"BIT_AND": "&", "BIT_OR": "|", "BIT_XOR": "^"}[name]
    return X(f"m_bits('{op}', {integer(x)})", dec(0, whole=True))


def _total(name: str, distinct: str, x: X) -> X:
    if x.t.kind in ("real", "null"):
        return X(f"{name}({distinct}{x.sql})", REAL)
    if name == "SUM":
        return X(
            f"SUM({distinct}{x.sql})" if x.t.kind == "int" else f"m_sum({distinct}{x.sql})",
            dec(x.t.scale),
            loose=x.loose,
        )
    if distinct:
        quotient = f"m_div(m_sum(DISTINCT {x.sql}), COUNT(DISTINCT {x.sql}), {division_digits(x.t.scale, 0)})"
        return X(quotient, dec(x.t.scale + 4), loose=True)
    return X(f"m_avg({x.sql}, {division_digits(x.t.scale, 0)})", dec(x.t.scale + 4), loose=True)


def _group_concat(ctx: Context, node: n.Call, args: list[X], scope: Scope) -> X:
    value = text(args[0]) if len(args) == 1 else "(" + " || ".join(text(arg) for arg in args) + ")"
    keys = []
    for order in node.order:
        key = expressions.compile_expr(ctx, order.expr, scope)
        if isinstance(order.expr, n.Literal) and type(order.expr.value) is int and 1 <= order.expr.value <= len(args):
            key = args[order.expr.value - 1]
        keys.append(real(key) if key.t.kind == "dec" else key.sql)
    directions = "".join("d" if order.descending else "a" for order in node.order)
    separator = literal(ctx, node.separator or "").sql
    rest = "".join(f", {key}" for key in keys)
    return X(f"m_gconcat({int(node.distinct)}, {separator}, '{directions}', {value}{rest})", STR)


def compile_window(ctx: Context, node: n.Call, scope: Scope) -> X:
    if node.over is None:
        raise MySQLError(3593, f"You cannot use the window function '{node.name.lower()}' in this context.'")
    if scope.clause in ("where clause", "having clause", "group statement", "on clause"):
        raise MySQLError(3593, f"You cannot use the window function '{node.name.lower()}' in this context.'")
    if node.distinct:
        raise unsupported("<window function>(DISTINCT ..)")
    over = _over(ctx, node.over, scope)
    if node.name not in WINDOW_ONLY:
        if node.name not in AGGREGATES or node.name in ("GROUP_CONCAT", "GROUPING"):
            raise unsupported(f"{node.name.lower()} as window function")
        x = _aggregate_sql(ctx, node, scope)
        return x._replace(sql=f"{x.sql} OVER {over}")
    args = [expressions.compile_expr(ctx, arg, scope) for arg in node.args]
    counts = {
        "NTILE": (1, 1),
        "LAG": (1, 3),
        "LEAD": (1, 3),
        "FIRST_VALUE": (1, 1),
        "LAST_VALUE": (1, 1),
        "NTH_VALUE": (2, 2),
    }
    low, high = counts.get(node.name, (0, 0))
    if not low <= len(args) <= high:
        raise bad_parameter_count(node.name)
    if node.name in ("PERCENT_RANK", "CUME_DIST"):
        return X(f"{node.name}() OVER {over}", REAL)
    if low == 0 or node.name == "NTILE":
        return X(f"{node.name}({', '.join(arg.sql for arg in args)}) OVER {over}", INT)
    t = unify([args[0].t, args[2].t]) if len(args) == 3 else args[0].t
    values = [cast_to(arg, t) if place != 1 else arg.sql for place, arg in enumerate(args)]
    return X(f"{node.name}({', '.join(values)}) OVER {over}", t, loose=args[0].loose)


def _over(ctx: Context, over: n.Window | str, scope: Scope) -> str:
    window = _named(over, scope) if isinstance(over, str) else over
    partition, order, frame = list(window.partition), list(window.order), window.frame
    if window.base is not None:
        base = _named(window.base, scope)
        partition, order, frame = base.partition or partition, base.order or order, frame or base.frame
    parts = []
    if partition:
        keys = [sortable(expressions.compile_expr(ctx, item, scope)) for item in partition]
        parts.append("PARTITION BY " + ", ".join(keys))
    if order:
        parts.append("ORDER BY " + ", ".join(orders.order_term(ctx, item, scope) for item in order))
    if frame:
        parts.append(frame)
    return "(" + " ".join(parts) + ")"


def _named(name: str, scope: Scope) -> n.Window:
    window = scope.windows.get(name.lower())
    if window is None:
        raise MySQLError(3579, f"Window name '{name}' is not defined.")
    return window

"""Parses the calls that have a syntax of their own, such as CAST(x AS t) and GROUP_CONCAT(x ORDER BY y).

Invariant: each function here reads what stands between the parentheses, and nothing else.
"""

from __future__ import annotations

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.grammar import UNITS, Grammar, SpecialCall


def _cast_call(g: Grammar, name: str) -> n.Expr:
    value = g.expr()
    if name == "CONVERT" and g.accept("USING"):
        g.step()
        return n.Cast(value, "CHAR")
    g.expect("AS") if name == "CAST" else g.expect(",")
    return n.Cast(value, g.cast_type())


def _extract_call(g: Grammar, name: str) -> n.Expr:
    if g.tok.up not in UNITS:
        raise g.error()
    unit = g.step().up
    g.expect("FROM")
    return n.Call(name, [n.Literal(unit), g.expr()])


def _unit_call(g: Grammar, name: str) -> n.Expr:
    unit = g.tok.up.removeprefix("SQL_TSI_")
    if unit not in UNITS:
        raise g.error()
    g.step()
    g.expect(",")
    return n.Call(name, [n.Literal(unit), *g.expr_list()])


def _date_add_call(g: Grammar, name: str) -> n.Expr:
    value = g.expr()
    g.expect(",")
    if g.accept("INTERVAL"):
        return n.Call({"ADDDATE": "DATE_ADD", "SUBDATE": "DATE_SUB"}.get(name, name), [value, g.interval()])
    if name in ("DATE_ADD", "DATE_SUB"):
        raise g.error()
    days: n.Expr = n.Row([g.expr(), n.Literal("DAY")])
    return n.Call("DATE_ADD" if name == "ADDDATE" else "DATE_SUB", [value, days])


def _trim_call(g: Grammar, name: str) -> n.Expr:
    side = g.one_of("BOTH", "LEADING", "TRAILING") or "BOTH"
    if g.accept("FROM"):
        return n.Call("TRIM", [n.Literal(side), n.Literal(" "), g.expr()])
    first = g.expr()
    if g.accept("FROM"):
        return n.Call("TRIM", [n.Literal(side), first, g.expr()])
    return n.Call("TRIM", [n.Literal(side), n.Literal(" "), first])


def _substring_call(g: Grammar, name: str) -> n.Expr:
    args = [g.expr()]
    if g.accept("FROM"):
        args.append(g.expr())
        if g.accept("FOR"):
            args.append(g.expr())
        return n.Call("SUBSTRING", args)
    while g.accept(","):
        args.append(g.expr())
    return n.Call("SUBSTRING", args)


def _position_call(g: Grammar, name: str) -> n.Expr:
    needle = g.operand()
    g.expect("IN")
    return n.Call("LOCATE", [needle, g.expr()])


def _group_concat_call(g: Grammar, name: str) -> n.Expr:
    call = n.Call(name, [], g.accept("DISTINCT"))
    call.args = g.expr_list()
    if g.accept("ORDER", "BY"):
        call.order = g.order_list()
    call.separator = ","
    if g.accept("SEPARATOR"):
        call.separator = g.string()
    return call


def _char_call(g: Grammar, name: str) -> n.Expr:
    args = g.expr_list()
    if g.accept("USING"):
        g.step()
    return n.Call(name, args)


def _format_call(g: Grammar, name: str) -> n.Expr:
    kind = g.one_of("DATE", "TIME", "DATETIME", "TIMESTAMP")
    if kind is None:
        raise g.error()
    g.expect(",")
    return n.Call(name, [n.Literal(kind), g.expr()])


SPECIAL_CALLS: dict[str, SpecialCall] = {
    "CAST": _cast_call,
    "CONVERT": _cast_call,
    "EXTRACT": _extract_call,
    "TIMESTAMPDIFF": _unit_call,
    "TIMESTAMPADD": _unit_call,
    "DATE_ADD": _date_add_call,
    "DATE_SUB": _date_add_call,
    "ADDDATE": _date_add_call,
    "SUBDATE": _date_add_call,
    "TRIM": _trim_call,
    "SUBSTRING": _substring_call,
    "SUBSTR": _substring_call,
    "MID": _substring_call,
    "POSITION": _position_call,
    "GROUP_CONCAT": _group_concat_call,
    "CHAR": _char_call,
    "GET_FORMAT": _format_call,
}

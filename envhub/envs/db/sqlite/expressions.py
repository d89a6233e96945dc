"""Compiles MySQL expressions to SQLite text with static types.

Invariant: every node either compiles to SQL with MySQL's meaning or raises a MySQLError; no user text is ever pasted unquoted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envhub.envs.db.sqlite import calls, queries
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import (
    arithmetic,
    cast_to,
    compare,
    compared,
    integer,
    literal,
    number,
    real,
    text,
    truth,
)
from envhub.envs.db.sqlite.errors import MySQLError, syntax_error, unsupported
from envhub.envs.db.sqlite.functions import dates
from envhub.envs.db.sqlite.kinds import (
    BIN,
    DATE,
    DATETIME,
    INT,
    JSON,
    NUMERIC,
    REAL,
    STR,
    TEMPORAL,
    TEXTUAL,
    TIME,
    dec,
    unify,
)
from envhub.envs.db.sqlite.scope import Context, Scope, X, flag


def compile_expr(ctx: Context, node: n.Expr, scope: Scope) -> X:
    mark = len(scope.bare)
    x = _COMPILERS[type(node)](ctx, node, scope)
    if scope.group_keys and x.sql in scope.group_keys:
        del scope.bare[mark:]
        if x.sql in scope.rolled:
            return X("NULL", x.t)
    return x


def _literal(ctx: Context, node: n.Literal, scope: Scope) -> X:
    if not node.kind:
        return literal(ctx, node.value)
    value = str(node.value)
    if node.kind == "time":
        found = dates.to_time(value)
        t = TIME
    else:
        found = dates.to_date(value) if node.kind == "date" else dates.to_moment(value)
        t = DATE if node.kind == "date" else DATETIME
    if found is None:
        raise MySQLError(1525, f"Incorrect {node.kind.upper()} value: '{value}'")
    return X(f"'{found}'", t)


def _name(ctx: Context, node: n.Name, scope: Scope) -> X:
    return scope.resolve(node.parts)


def _star(ctx: Context, node: n.Star, scope: Scope) -> X:
    raise syntax_error("*", 1)


def _variable(ctx: Context, node: n.Variable, scope: Scope) -> X:
    if node.system:
        if node.name not in ctx.system:
            raise MySQLError(1193, f"Unknown system variable '{node.name}'")
        return literal(ctx, ctx.system[node.name])._replace(const=ctx.system)
    ctx.impure = True
    if node.name in ctx.assigned:
        return X(f"m_getvar({literal(ctx, node.name).sql})", ctx.assigned[node.name])
    return literal(ctx, ctx.variables.get(node.name))


def _assign(ctx: Context, node: n.Assign, scope: Scope) -> X:
    ctx.impure = True
    before = literal(ctx, ctx.variables.get(node.name)).t
    ctx.assigned.setdefault(node.name, before)
    x = compile_expr(ctx, node.value, scope)
    ctx.assigned[node.name] = x.t
    return X(f"m_setvar({literal(ctx, node.name).sql}, {x.sql})", x.t)


def _unary(ctx: Context, node: n.Unary, scope: Scope) -> X:
    x = compile_expr(ctx, node.operand, scope)
    if node.op in ("NOT", "!"):
        return flag(f"(NOT {truth(x)})")
    if node.op == "BINARY":
        return X(text(x), STR._replace(binary=True))
    if node.op == "~":
        return X(f"m_bitnot({integer(x)})", dec(0, whole=True))
    value = number(x)
    return X(f"m_neg({value.sql})" if value.t.kind == "dec" else f"(- {value.sql})", value.t, loose=value.loose)


def _binary(ctx: Context, node: n.Binary, scope: Scope) -> X:
    op = node.op
    if isinstance(node.left, n.Row) or isinstance(node.right, n.Row):
        return _compare_rows(ctx, op, node.left, node.right, scope)
    a = compile_expr(ctx, node.left, scope)
    b = compile_expr(ctx, node.right, scope)
    if op in ("=", "<", ">", "<=", ">=", "<>", "<=>"):
        return compare(op, a, b)
    if op == "XOR":
        return flag(f"((NOT {truth(a)}) <> (NOT {truth(b)}))")
    if op in ("|", "&", "^", "<<", ">>"):
        return X(f"m_bit('{op}', {integer(a)}, {integer(b)})", dec(0, whole=True))
    return arithmetic(op, a, b)


def _row_items(node: n.Expr) -> list[n.Expr]:
    return node.items if isinstance(node, n.Row) else [node]


def _compare_rows(ctx: Context, op: str, left: n.Expr, right: n.Expr, scope: Scope) -> X:
    if isinstance(right, n.Subquery):
        return _row_in_query(ctx, _row_items(left), right.query, False, scope)
    lefts, rights = _row_items(left), _row_items(right)
    if len(lefts) != len(rights):
        raise MySQLError(1241, f"Operand should contain {len(lefts)} column(s)")
    pairs = [(compile_expr(ctx, a, scope), compile_expr(ctx, b, scope)) for a, b in zip(lefts, rights, strict=True)]
    if op in ("=", "<=>"):
        return flag("(" + " AND ".join(compare(op, a, b).sql for a, b in pairs) + ")")
    if op == "<>":
        return flag("(" + " OR ".join(compare(op, a, b).sql for a, b in pairs) + ")")
    result = compare(op, *pairs[-1]).sql
    for a, b in reversed(pairs[:-1]):
        result = f"({compare(op[0], a, b).sql} OR ({compare('=', a, b).sql} AND {result}))"
    return flag(result)


def _logic(ctx: Context, node: n.Logic, scope: Scope) -> X:
    parts = [truth(compile_expr(ctx, operand, scope)) for operand in node.operands]
    return flag(_balanced(parts, f" {node.op} "))


def _balanced(parts: list[str], glue: str) -> str:
    """Long chains as a balanced tree, so that they stay within SQLite's expression depth."""
    while len(parts) > 50:
        parts = ["(" + glue.join(parts[at : at + 50]) + ")" for at in range(0, len(parts), 50)]
    return "(" + glue.join(parts) + ")"


def _is(ctx: Context, node: n.Is, scope: Scope) -> X:
    x = compile_expr(ctx, node.operand, scope)
    no = "NOT " if node.negated else ""
    if node.what == "NULL":
        return flag(f"({x.sql} IS {no}NULL)")
    return flag(f"({truth(x)} IS {no}{node.what})")


def _between(ctx: Context, node: n.Between, scope: Scope) -> X:
    x = compile_expr(ctx, node.operand, scope)
    low, high = compile_expr(ctx, node.low, scope), compile_expr(ctx, node.high, scope)
    kinds = {x.t.kind, low.t.kind, high.t.kind}
    if kinds & NUMERIC and kinds & TEXTUAL and not kinds & TEMPORAL:
        x, low, high = number(x), number(low), number(high)
    sql = f"({compare('>=', x, low).sql} AND {compare('<=', x, high).sql})"
    return flag(f"(NOT {sql})" if node.negated else sql)


def _in(ctx: Context, node: n.In, scope: Scope) -> X:
    no = "NOT " if node.negated else ""
    if node.query is not None:
        return _row_in_query(ctx, _row_items(node.operand), node.query, node.negated, scope)
    if isinstance(node.operand, n.Row) or any(isinstance(item, n.Row) for item in node.items):
        options = [_compare_rows(ctx, "=", node.operand, item, scope).sql for item in node.items]
        return flag(f"({no}{_balanced(options, ' OR ')})")
    x = compile_expr(ctx, node.operand, scope)
    items = [compile_expr(ctx, item, scope) for item in node.items]
    pairs = [compared(x, item) for item in items]
    left = pairs[0][0]
    if all(pair[0] == left for pair in pairs):
        return flag(f"({left} {no}IN ({', '.join(pair[1] for pair in pairs)}))")
    return flag(f"({no}{_balanced([compare('=', x, item).sql for item in items], ' OR ')})")


def _row_in_query(ctx: Context, operands: list[n.Expr], query: n.Query, negated: bool, scope: Scope) -> X:
    plan = queries.compile_query(ctx, query, scope)
    if len(plan.outs) != len(operands):
        raise MySQLError(1241, f"Operand should contain {len(operands)} column(s)")
    if query.limit is not None:
        raise unsupported("LIMIT & IN/ALL/ANY/SOME subquery")
    lefts, rights = [], []
    for operand, out in zip(operands, plan.outs, strict=True):
        a, b = compared(compile_expr(ctx, operand, scope), out.x)
        lefts.append(a)
        rights.append(b)
    left = lefts[0] if len(lefts) == 1 else f"({', '.join(lefts)})"
    return flag(f"({left} {'NOT ' if negated else ''}IN ({plan.render(rights)}))")


def _quantified(ctx: Context, node: n.Quantified, scope: Scope) -> X:
    plan = queries.compile_query(ctx, node.query, scope)
    if len(plan.outs) != 1:
        raise MySQLError(1241, "Operand should contain 1 column(s)")
    x = compile_expr(ctx, node.left, scope)
    alias = ctx.name()
    condition = compare("<>" if node.op == "!=" else node.op, x, X(f"{alias}.c0", plan.outs[0].x.t)).sql
    decisive, otherwise = ("0", "1") if node.quantifier == "ALL" else ("1", "0")
    return flag(
        f"(SELECT CASE WHEN SUM(v = {decisive}) > 0 THEN {decisive} WHEN COUNT(v) < COUNT(*) THEN NULL ELSE {otherwise} END "
        f"FROM (SELECT {condition} AS v FROM ({plan.render()}) AS {alias}))"
    )


def _like(ctx: Context, node: n.Like, scope: Scope) -> X:
    x, pattern = compile_expr(ctx, node.operand, scope), compile_expr(ctx, node.pattern, scope)
    args = f"{text(x)}, {text(pattern)}"
    if node.escape is not None:
        args += f", {text(compile_expr(ctx, node.escape, scope))}"
    binary = x.t.binary or pattern.t.binary
    sql = f"{'m_likeb' if binary else 'm_like'}({args})"
    return flag(f"(NOT {sql})" if node.negated else sql)


def _case(ctx: Context, node: n.Case, scope: Scope) -> X:
    operand = compile_expr(ctx, node.operand, scope) if node.operand is not None else None
    conditions, results = [], []
    for condition, result in node.whens:
        tested = compile_expr(ctx, condition, scope)
        conditions.append(truth(tested) if operand is None else compare("=", operand, tested).sql)
        results.append(compile_expr(ctx, result, scope))
    if node.default is not None:
        results.append(compile_expr(ctx, node.default, scope))
    t = unify(result.t for result in results)
    parts = [f"WHEN {c} THEN {cast_to(r, t)}" for c, r in zip(conditions, results, strict=False)]
    if node.default is not None:
        parts.append(f"ELSE {cast_to(results[-1], t)}")
    return X(f"(CASE {' '.join(parts)} END)", t)


def _cast(ctx: Context, node: n.Cast, scope: Scope) -> X:
    x = compile_expr(ctx, node.operand, scope)
    name, _, rest = node.target.partition("(")
    sizes = [int(size) for size in rest.rstrip(")").split(",") if size]
    if name in ("SIGNED", "INT", "INTEGER", "BIGINT"):
        return X(integer(x), INT)
    if name == "UNSIGNED":
        value = number(x)
        return X(f"m_uns({value.sql})" if x.t.kind in NUMERIC else f"m_uns({integer(x)})", dec(0, whole=True))
    if name in ("CHAR", "NCHAR", "VARCHAR"):
        return X(f"m_left({text(x)}, {sizes[0]})" if sizes else text(x), STR)
    if name in ("DECIMAL", "DEC", "NUMERIC"):
        return _cast_decimal(x, sizes)
    if name in ("DOUBLE", "FLOAT", "REAL"):
        return X(real(x), REAL)
    if name == "BINARY":
        return X(f"m_blob({text(x) if x.t.kind != 'bin' else x.sql})", BIN)
    if name == "JSON":
        return X(f"m_json({text(x)})", JSON)
    functions = {"DATE": ("m_date", DATE), "DATETIME": ("m_moment", DATETIME), "TIMESTAMP": ("m_moment", DATETIME)}
    functions["TIME"] = ("m_time", TIME)
    if name == "YEAR":
        return X(integer(x), INT)
    if name not in functions:
        raise syntax_error(node.target, 1)
    function, t = functions[name]
    argument = x.sql if x.t.kind in ("int", "dec") else text(x)
    return X(x.sql if x.t.kind == t.kind else f"{function}({argument})", t)


def _cast_decimal(x: X, sizes: list[int]) -> X:
    precision, scale = ([*sizes, 10, 0])[:2] if len(sizes) != 1 else (sizes[0], 0)
    if scale > precision:
        raise MySQLError(1427, "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '').")
    value = x.sql if x.t.kind in NUMERIC else text(x) if x.t.kind in TEXTUAL else number(x).sql
    return X(f"m_todec({value}, {precision}, {scale})", dec(scale))


def _collate(ctx: Context, node: n.Collate, scope: Scope) -> X:
    x = compile_expr(ctx, node.operand, scope)
    if not (node.collation == "binary" or node.collation.startswith(("utf8", "latin1", "ascii"))):
        raise MySQLError(1273, f"Unknown collation: '{node.collation}'")
    binary = node.collation == "binary" or node.collation.endswith(("_bin", "_cs"))
    return X(text(x), STR._replace(binary=binary))


def _exists(ctx: Context, node: n.Exists, scope: Scope) -> X:
    return flag(f"EXISTS ({queries.compile_query(ctx, node.query, scope).render()})")


def _subquery(ctx: Context, node: n.Subquery, scope: Scope) -> X:
    plan = queries.compile_query(ctx, node.query, scope)
    if len(plan.outs) != 1:
        raise MySQLError(1241, "Operand should contain 1 column(s)")
    x = plan.outs[0].x
    if queries.one_row(node.query):
        return X(f"({plan.render()})", x.t)
    alias = ctx.name()
    # A scalar subquery of two or more rows is an error in MySQL and silent in SQLite: m_one raises it.
    counted = f"SELECT m_one({alias}.c0, COUNT(*) OVER ()) FROM ({plan.render()} ) AS {alias} LIMIT 1"
    return X(f"({counted})", x.t)


def _row(ctx: Context, node: n.Row, scope: Scope) -> X:
    raise MySQLError(1241, "Operand should contain 1 column(s)")


def _default(ctx: Context, node: n.Default, scope: Scope) -> X:
    raise syntax_error("DEFAULT", 1)


def _call(ctx: Context, node: n.Call, scope: Scope) -> X:
    return calls.compile_call(ctx, node, scope)


_COMPILERS: dict[type, Callable[[Context, Any, Scope], X]] = {
    n.Literal: _literal,
    n.Name: _name,
    n.Star: _star,
    n.Variable: _variable,
    n.Assign: _assign,
    n.Unary: _unary,
    n.Binary: _binary,
    n.Logic: _logic,
    n.Is: _is,
    n.Between: _between,
    n.In: _in,
    n.Like: _like,
    n.Case: _case,
    n.Cast: _cast,
    n.Collate: _collate,
    n.Exists: _exists,
    n.Subquery: _subquery,
    n.Quantified: _quantified,
    n.Row: _row,
    n.Default: _default,
    n.Call: _call,
}

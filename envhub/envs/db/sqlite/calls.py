"""Compiles function calls: argument coercion, result types, aggregates and windows.

Invariant: a name is either in one of the tables here or is error 1305; a wrong number of arguments is error 1582.
"""

from __future__ import annotations

from collections.abc import Callable

from envhub.envs.db.sqlite import expressions, queries
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE
from envhub.envs.db.sqlite.convert import (
    arithmetic,
    cast_to,
    compare,
    division_digits,
    integer,
    literal,
    number,
    real,
    sortable,
    text,
    truth,
)
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.functions import Spec, dates, documents, numbers, regex
from envhub.envs.db.sqlite.functions import text as texts
from envhub.envs.db.sqlite.kinds import DATE, DATETIME, INT, JSON, NULL, REAL, STR, TEMPORAL, TIME, T, dec, unify
from envhub.envs.db.sqlite.scope import Context, Scope, X, flag

FUNCTIONS: dict[str, Spec] = {
    **numbers.FUNCTIONS,
    **texts.FUNCTIONS,
    **regex.FUNCTIONS,
    **dates.FUNCTIONS,
    **documents.FUNCTIONS,
}
_KINDS: dict[str, T] = {
    "int": INT,
    "real": REAL,
    "str": STR,
    "date": DATE,
    "time": TIME,
    "datetime": DATETIME,
    "json": JSON,
}
_KINDS["bin"] = T("bin", binary=True)


def compile_call(ctx: Context, node: n.Call, scope: Scope) -> X:
    name = node.name
    if node.over is not None or name in _WINDOW_ONLY:
        return _windowed(ctx, node, scope)
    if name in _AGGREGATES:
        return _aggregate(ctx, node, scope)
    special = _SPECIAL.get(name)
    if special is None and name not in FUNCTIONS:
        raise MySQLError(1305, f"FUNCTION {DATABASE}.{name} does not exist")
    args = [_argument(ctx, arg, scope) for arg in node.args]
    if special is not None:
        low, high, build = special
        if not low <= len(node.args) <= high:
            raise _bad_count(name)
        return build(ctx, node, args)
    return _plain(name, FUNCTIONS[name], args)


def _argument(ctx: Context, arg: n.Expr, scope: Scope) -> X:
    """A Row is an interval here: its amount is the argument."""
    return expressions.compile_expr(ctx, arg.items[0] if isinstance(arg, n.Row) else arg, scope)


def _bad_count(name: str) -> MySQLError:
    return MySQLError(1582, f"Incorrect parameter count in the call to native function '{name}'")


def _plain(name: str, spec: Spec, args: list[X]) -> X:
    required, _, optional = spec.args.partition("?")
    repeats = required.endswith("*")
    letters = (required.rstrip("*") + optional) if not repeats else required[:-1]
    least = len(required.rstrip("*"))
    if len(args) < least or (len(args) > len(letters) and not repeats):
        raise _bad_count(name)
    letters = letters.ljust(len(args), letters[-1] if letters else "a")
    sql = ", ".join(_ARGUMENTS[letter](arg) for letter, arg in zip(letters, args, strict=False))
    t = _KINDS[spec.returns]
    if name in ("CEIL", "CEILING", "FLOOR") and number(args[0]).t.kind == "real":
        t = REAL
    if name in _KEEPS_BINARY and any(arg.t.binary for arg in args):
        t = t._replace(binary=True)
    return X(f"f_{name}({sql})", t)


_KEEPS_BINARY = frozenset(["REGEXP_SUBSTR", "SUBSTRING", "LEFT", "RIGHT", "TRIM"])


def _either(x: X) -> str:
    return x.sql if x.t.kind == "bin" else text(x)


def _hexable(x: X) -> str:
    return x.sql if x.t.kind in ("int", "bin", "real") else integer(x) if x.t.kind == "dec" else text(x)


def _moment_argument(x: X) -> str:
    return x.sql if x.t.kind in ("int", "dec", "real") else text(x)


_ARGUMENTS: dict[str, Callable[[X], str]] = {
    "s": text,
    "b": _either,
    "x": _hexable,
    "i": integer,
    "r": real,
    "n": lambda x: number(x).sql,
    "d": _moment_argument,
    "a": lambda x: x.sql,
}


# ---- functions whose type or SQL depends on their arguments


def _concat(ctx: Context, node: n.Call, args: list[X]) -> X:
    if not args:
        raise _bad_count(node.name)
    return X(
        "(" + " || ".join(text(arg) for arg in args) + ")", STR._replace(binary=any(a.t.kind == "bin" for a in args))
    )


def _if(ctx: Context, node: n.Call, args: list[X]) -> X:
    t = unify([args[1].t, args[2].t])
    return X(f"(CASE WHEN {truth(args[0])} THEN {cast_to(args[1], t)} ELSE {cast_to(args[2], t)} END)", t)


def _coalesce(ctx: Context, node: n.Call, args: list[X]) -> X:
    t = unify(arg.t for arg in args)
    if len(args) == 1:
        return args[0]
    return X(f"COALESCE({', '.join(cast_to(arg, t) for arg in args)})", t)


def _nullif(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(
        f"(CASE WHEN {compare('=', args[0], args[1]).sql} THEN NULL ELSE {args[0].sql} END)",
        args[0].t,
        loose=args[0].loose,
    )


def _extreme(ctx: Context, node: n.Call, args: list[X]) -> X:
    if len(args) < 2:
        raise _bad_count(node.name)
    largest = node.name == "GREATEST"
    t = unify(arg.t for arg in args)
    values = ", ".join(cast_to(arg, t) for arg in args)
    if t.kind == "str":
        return X(f"m_extreme({int(largest)}, {values})", t)
    if t.kind == "dec":
        return X(f"m_extremed({int(largest)}, {values})", t)
    return X(f"{'max' if largest else 'min'}({values})", t)


def _round(ctx: Context, node: n.Call, args: list[X]) -> X:
    x = number(args[0])
    digits = args[1] if len(args) > 1 else X("0", INT, 0)
    if x.t.kind == "real":
        places = max(0, min(digits.const, 30)) if isinstance(digits.const, int) else 0
        return X(f"m_roundr({x.sql}, {integer(digits)})", REAL._replace(scale=places))
    if x.t.kind == "int":
        return X(f"m_roundi({x.sql}, {integer(digits)})", INT)
    if x.t.kind == "null":
        return X("NULL", INT)
    scale = max(0, min(digits.const, 30)) if isinstance(digits.const, int) else x.t.scale
    value = f"m_fix({x.sql}, {x.t.scale})" if x.loose and scale == x.t.scale else x.sql
    return X(f"m_roundd({value}, {integer(digits)})", dec(scale), loose=not isinstance(digits.const, int))


def _truncate(ctx: Context, node: n.Call, args: list[X]) -> X:
    x = number(args[0])
    digits = args[1].const
    t = dec(max(0, min(digits, 30))) if x.t.kind == "dec" and isinstance(digits, int) else x.t
    return X(f"m_trunc({x.sql}, {integer(args[1])})", t)


def _abs(ctx: Context, node: n.Call, args: list[X]) -> X:
    x = number(args[0])
    return X(f"m_abs({x.sql})" if x.t.kind == "dec" else f"abs({x.sql})", x.t, loose=x.loose)


def _mod(ctx: Context, node: n.Call, args: list[X]) -> X:
    return arithmetic("%", args[0], args[1])


def _now(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"'{ctx.now}'", DATETIME)


def _today(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"'{ctx.now[:10]}'", DATE)


def _clock(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"'{ctx.now[11:]}'", TIME)


def _date_add(ctx: Context, node: n.Call, args: list[X]) -> X:
    interval = node.args[1]
    if not isinstance(interval, n.Row):
        raise _bad_count(node.name)
    unit = str(interval.items[1].value) if isinstance(interval.items[1], n.Literal) else ""
    return _shifted(args[0], args[1], unit, 1 if node.name == "DATE_ADD" else -1)


def _shifted(x: X, amount: X, unit: str, direction: int) -> X:
    t = x.t if x.t.kind in TEMPORAL else STR
    fine = unit not in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "YEAR_MONTH")
    if t.kind == "date" and fine:
        t = DATETIME
    if t.kind == "time" and not fine:
        t = DATETIME
    value = amount.sql if amount.t.kind in ("int", "dec", "real") else text(amount)
    return X(f"m_dateadd({_moment_argument(x)}, {value}, '{unit}', {direction}, '{t.kind}')", t._replace(scale=0))


def _timestamp_add(ctx: Context, node: n.Call, args: list[X]) -> X:
    return _shifted(args[2], args[1], str(args[0].const), 1)


def _str_to_date(ctx: Context, node: n.Call, args: list[X]) -> X:
    template = args[1].const if isinstance(args[1].const, str) else "%Y-%m-%d %H"
    clock = any(f"%{code}" in template for code in "HkhIlisSfprT")
    day = any(f"%{code}" in template for code in "YymcMbdeDjWa")
    t = DATETIME if clock and day else TIME if clock else DATE
    return X(f"m_strtodate({text(args[0])}, {text(args[1])}, '{t.kind}')", t)


def _timestamp(ctx: Context, node: n.Call, args: list[X]) -> X:
    if len(args) == 1:
        return X(f"m_moment({_moment_argument(args[0])})", DATETIME)
    return X(f"f_ADDTIME(m_moment({_moment_argument(args[0])}), {text(args[1])})", DATETIME)


def _from_unixtime(ctx: Context, node: n.Call, args: list[X]) -> X:
    rest = f", {text(args[1])}" if len(args) > 1 else ""
    return X(f"m_fromunix({number(args[0]).sql}{rest})", STR if rest else DATETIME)


def _unix_timestamp(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"m_unixts({_moment_argument(args[0]) if args else repr(ctx.now)})", INT)


def _json_pairs(function: str, t: T) -> Callable[[Context, n.Call, list[X]], X]:
    def build(ctx: Context, node: n.Call, args: list[X]) -> X:
        parts = []
        for arg in args:
            parts += [f"'{arg.t.kind}'", arg.sql]
        return X(f"{function}({', '.join(parts)})", t)

    return build


def _json_change(mode: str) -> Callable[[Context, n.Call, list[X]], X]:
    def build(ctx: Context, node: n.Call, args: list[X]) -> X:
        if len(args) % 2 == 0:
            raise _bad_count(node.name)
        parts = [f"'{mode}'", text(args[0])]
        for path, value in zip(args[1::2], args[2::2], strict=True):
            parts += [text(path), f"'{value.t.kind}'", value.sql]
        return X(f"m_jchange({', '.join(parts)})", JSON)

    return build


def _json_append(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"m_jappend({text(args[0])}, {text(args[1])}, '{args[2].t.kind}', {args[2].sql})", JSON)


def _constant(value: Callable[[Context], object]) -> Callable[[Context, n.Call, list[X]], X]:
    return lambda ctx, node, args: literal(ctx, value(ctx))


def _random(ctx: Context, node: n.Call, args: list[X]) -> X:
    ctx.impure = True
    return X(f"m_rand({integer(args[0])})" if args else "m_rand()", REAL)


def _sleep(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"m_sleep({real(args[0])})", INT)


def _values(ctx: Context, node: n.Call, args: list[X]) -> X:
    column = node.args[0]
    if isinstance(column, n.Name):
        for col in ctx.values:
            if col.name.lower() == column.parts[-1].lower():
                return col.x
    return X("NULL", NULL)


def _is_null(ctx: Context, node: n.Call, args: list[X]) -> X:
    return flag(f"({args[0].sql} IS NULL)")


def _trim(ctx: Context, node: n.Call, args: list[X]) -> X:
    return X(f"f_TRIM({text(args[0])}, {text(args[1])}, {text(args[2])})", STR)


def _any_value(ctx: Context, node: n.Call, args: list[X]) -> X:
    return args[0]


def _uuid(ctx: Context, node: n.Call, args: list[X]) -> X:
    ctx.impure = True
    return X("m_uuid()", STR)


_Builder = Callable[[Context, n.Call, list[X]], X]
_SPECIAL: dict[str, tuple[int, int, _Builder]] = {
    "CONCAT": (1, 99, _concat),
    "IF": (3, 3, _if),
    "IFNULL": (2, 2, _coalesce),
    "NVL": (2, 2, _coalesce),
    "COALESCE": (1, 99, _coalesce),
    "NULLIF": (2, 2, _nullif),
    "ISNULL": (1, 1, _is_null),
    "GREATEST": (2, 99, _extreme),
    "LEAST": (2, 99, _extreme),
    "ROUND": (1, 2, _round),
    "TRUNCATE": (2, 2, _truncate),
    "ABS": (1, 1, _abs),
    "MOD": (2, 2, _mod),
    "TRIM": (3, 3, _trim),
    "NOW": (0, 1, _now),
    "SYSDATE": (0, 1, _now),
    "CURRENT_TIMESTAMP": (0, 1, _now),
    "LOCALTIME": (0, 1, _now),
    "LOCALTIMESTAMP": (0, 1, _now),
    "UTC_TIMESTAMP": (0, 1, _now),
    "CURDATE": (0, 0, _today),
    "CURRENT_DATE": (0, 0, _today),
    "UTC_DATE": (0, 0, _today),
    "CURTIME": (0, 1, _clock),
    "CURRENT_TIME": (0, 1, _clock),
    "UTC_TIME": (0, 1, _clock),
    "DATE_ADD": (2, 2, _date_add),
    "DATE_SUB": (2, 2, _date_add),
    "TIMESTAMPADD": (3, 3, _timestamp_add),
    "STR_TO_DATE": (2, 2, _str_to_date),
    "TIMESTAMP": (1, 2, _timestamp),
    "FROM_UNIXTIME": (1, 2, _from_unixtime),
    "UNIX_TIMESTAMP": (0, 1, _unix_timestamp),
    "JSON_ARRAY": (0, 99, _json_pairs("m_jarray", JSON)),
    "JSON_OBJECT": (0, 98, _json_pairs("m_jobject", JSON)),
    "JSON_SET": (3, 99, _json_change("set")),
    "JSON_INSERT": (3, 99, _json_change("insert")),
    "JSON_REPLACE": (3, 99, _json_change("replace")),
    "JSON_ARRAY_APPEND": (3, 3, _json_append),
    "RAND": (0, 1, _random),
    "UUID": (0, 0, _uuid),
    "SLEEP": (1, 1, _sleep),
    "VALUES": (1, 1, _values),
    "ANY_VALUE": (1, 1, _any_value),
    "DATABASE": (0, 0, _constant(lambda ctx: DATABASE)),
    "SCHEMA": (0, 0, _constant(lambda ctx: DATABASE)),
    "VERSION": (0, 0, _constant(lambda ctx: ctx.system["version"])),
    "USER": (0, 0, _constant(lambda ctx: "agent@localhost")),
    "SESSION_USER": (0, 0, _constant(lambda ctx: "agent@localhost")),
    "SYSTEM_USER": (0, 0, _constant(lambda ctx: "agent@localhost")),
    "CURRENT_USER": (0, 0, _constant(lambda ctx: "agent@localhost")),
    "CONNECTION_ID": (0, 0, _constant(lambda ctx: 1)),
    "LAST_INSERT_ID": (0, 0, _constant(lambda ctx: ctx.system["last_insert_id"])),
    "ROW_COUNT": (0, 0, _constant(lambda ctx: ctx.system["row_count"])),
    "FOUND_ROWS": (0, 0, _constant(lambda ctx: ctx.system["found_rows"])),
}


# ---- aggregates and windows

_AGGREGATES = frozenset(
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
_WINDOW_ONLY = frozenset(
    [
        "ROW_NUMBER",
        "RANK",
        "DENSE_RANK",
        "PERCENT_RANK",
        "CUME_DIST",
        "NTILE",
        "LAG",
        "LEAD",
        "FIRST_VALUE",
        "LAST_VALUE",
        "NTH_VALUE",
    ]
)


def _aggregate(ctx: Context, node: n.Call, scope: Scope) -> X:
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


def _windowed(ctx: Context, node: n.Call, scope: Scope) -> X:
    if node.over is None:
        raise MySQLError(3593, f"You cannot use the window function '{node.name.lower()}' in this context.'")
    if scope.clause in ("where clause", "having clause", "group statement", "on clause"):
        raise MySQLError(3593, f"You cannot use the window function '{node.name.lower()}' in this context.'")
    if node.distinct:
        raise MySQLError(1235, "This version of MySQL doesn't yet support '<window function>(DISTINCT ..)'")
    over = _over(ctx, node.over, scope)
    if node.name not in _WINDOW_ONLY:
        if node.name not in _AGGREGATES or node.name in ("GROUP_CONCAT", "GROUPING"):
            raise MySQLError(
                1235, f"This version of MySQL doesn't yet support '{node.name.lower()} as window function'"
            )
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
        raise _bad_count(node.name)
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
        parts.append("ORDER BY " + ", ".join(queries.order_term(ctx, item, scope) for item in order))
    if frame:
        parts.append(frame)
    return "(" + " ".join(parts) + ")"


def _named(name: str, scope: Scope) -> n.Window:
    window = scope.windows.get(name.lower())
    if window is None:
        raise MySQLError(3579, f"Window name '{name}' is not defined.")
    return window

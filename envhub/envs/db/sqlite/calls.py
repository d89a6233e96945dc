"""Compiles function calls: argument coercion and result types.

Invariant: a name is either in one of the tables here or is error 1305; a wrong number of arguments is error 1582.
"""

from __future__ import annotations

from collections.abc import Callable

from envhub.envs.db.sqlite import aggregate_calls, expressions
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE
from envhub.envs.db.sqlite.convert import (
    arithmetic,
    cast_to,
    compare,
    integer,
    literal,
    number,
    real,
    text,
    truth,
)
from envhub.envs.db.sqlite.errors import MySQLError, bad_parameter_count
from envhub.envs.db.sqlite.functions import Spec, dates, documents, numbers, regex
from envhub.envs.db.sqlite.functions import text as texts
from envhub.envs.db.sqlite.grammar import WINDOW_ONLY
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
    if node.over is not None or name in WINDOW_ONLY:
        return aggregate_calls.compile_window(ctx, node, scope)
    if name in aggregate_calls.AGGREGATES:
        return aggregate_calls.compile_aggregate(ctx, node, scope)
    special = _SPECIAL.get(name)
    if special is None and name not in FUNCTIONS:
        raise MySQLError(1305, f"FUNCTION {DATABASE}.{name} does not exist")
    args = [_argument(ctx, arg, scope) for arg in node.args]
    if special is not None:
        low, high, build = special
        if not low <= len(node.args) <= high:
            raise bad_parameter_count(name)
        return build(ctx, node, args)
    return _plain(name, FUNCTIONS[name], args)


def _argument(ctx: Context, arg: n.Expr, scope: Scope) -> X:
    """A Row is an interval here: its amount is the argument."""
    return expressions.compile_expr(ctx, arg.items[0] if isinstance(arg, n.Row) else arg, scope)


def _plain(name: str, spec: Spec, args: list[X]) -> X:
    required, _, optional = spec.args.partition("?")
    repeats = required.endswith("*")
    letters = (required.rstrip("*") + optional) if not repeats else required[:-1]
    least = len(required.rstrip("*"))
    if len(args) < least or (len(args) > len(letters) and not repeats):
        raise bad_parameter_count(name)
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
        raise bad_parameter_count(node.name)
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
        raise bad_parameter_count(node.name)
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
        raise bad_parameter_count(node.name)
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
            raise bad_parameter_count(node.name)
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

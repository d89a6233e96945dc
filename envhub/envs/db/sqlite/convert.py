"""Turns compiled expressions of one type into another, the way MySQL coerces operands.

Invariant: the SQL returned yields exactly the storage form of the type asked for (see ``kinds``).
"""

from __future__ import annotations

from decimal import Decimal

from envhub.envs.db.sqlite.functions import dates, numbers
from envhub.envs.db.sqlite.kinds import DATE, DATETIME, INT, NUMERIC, REAL, STR, TEMPORAL, TEXTUAL, T, dec
from envhub.envs.db.sqlite.scope import Context, X, flag


def literal(ctx: Context, value: object) -> X:
    if value is None:
        return X("NULL", T("null"), None)
    if isinstance(value, bool | int):
        number = int(value)
        if -(1 << 63) <= number < 1 << 63:
            return X(str(number) if number >= 0 else f"({number})", INT, number)
        return X(f"'{number}'", dec(0, whole=-(1 << 63) <= number < 1 << 64), number)
    if isinstance(value, Decimal):
        return X(f"'{numbers.plain(value)}'", dec(max(0, -int(value.as_tuple().exponent))), value)
    if isinstance(value, float):
        return X(f"({value!r})" if abs(value) < 1e308 else ctx.param(value), REAL, value)
    if isinstance(value, bytes):
        return X(f"X'{value.hex()}'", T("bin", binary=True), value)
    text = str(value)
    return X(ctx.param(text) if "\0" in text or len(text) > 10_000 else "'" + text.replace("'", "''") + "'", STR, text)


def text(x: X) -> str:
    kind = x.t.kind
    if kind in ("str", "json", "null") or kind in TEMPORAL:
        return x.sql
    if kind == "int":
        return f"'{x.const}'" if type(x.const) is int else f"CAST({x.sql} AS TEXT)"
    if kind == "dec":
        return f"m_fix({x.sql}, {x.t.scale})" if x.loose else f"CAST({x.sql} AS TEXT)"
    if kind == "real":
        return f"m_fix({x.sql}, {x.t.scale})" if x.t.scale else f"m_rs({x.sql})"
    return f"m_text({x.sql})"


def real(x: X) -> str:
    kind = x.t.kind
    if kind in ("real", "null"):
        return x.sql
    if kind in TEMPORAL:
        return f"CAST(m_tnum({x.sql}) AS REAL)"
    if kind == "bin":
        return f"CAST(m_int({x.sql}) AS REAL)" if isinstance(x.const, bytes) else f"CAST(m_text({x.sql}) AS REAL)"
    if kind == "json":
        return f"CAST(m_junq({x.sql}) AS REAL)"
    if isinstance(x.const, int):
        return repr(float(x.const)) if x.const >= 0 else f"({float(x.const)!r})"
    return f"CAST({x.sql} AS REAL)"


def number(x: X) -> X:
    """As an operand of arithmetic: int and dec stay exact."""
    if x.t.kind in NUMERIC or x.t.kind == "null":
        return x
    if x.t.kind in TEMPORAL:
        return X(f"m_tnum({x.sql})", REAL if x.t.scale else INT)
    if isinstance(x.const, bytes) or (x.t.kind == "bin" and x.t.whole):
        return X(f"m_int({x.sql})", INT)
    return X(real(x), REAL)


def comparable_number(x: X) -> str:
    """As an operand of a numeric comparison: INTEGER or REAL."""
    return x.sql if x.t.kind in ("int", "null") else real(x)


def integer(x: X) -> str:
    kind = x.t.kind
    if kind in ("int", "null"):
        return x.sql
    if kind in ("dec", "real"):
        return f"m_int({x.sql})"
    if kind in TEMPORAL:
        return f"m_int(m_tnum({x.sql}))"
    if kind == "bin":
        return f"m_int({x.sql})"
    return f"CAST({x.sql} AS INTEGER)"


def truth(x: X) -> str:
    return x.sql if x.t.kind in ("int", "real", "null") else real(x)


def cast_to(x: X, t: T) -> str:
    """As a value of a column of type ``t`` (UNION, CASE, COALESCE)."""
    if x.t.kind == "null" or (x.t.kind == t.kind and not x.loose and x.t.scale == t.scale):
        return x.sql
    if t.kind in ("str", "json"):
        return text(x)
    if t.kind == "real":
        return real(x)
    if t.kind == "int":
        return integer(x)
    if t.kind == "dec":
        return f"m_fix({number(x).sql}, {t.scale})" if x.t.kind in NUMERIC else f"m_fix({real(x)}, {t.scale})"
    if t.kind == "bin":
        return f"m_blob({text(x) if x.t.kind != 'bin' else x.sql})"
    if t.kind == "datetime":
        return f"m_moment({x.sql})"
    if t.kind == "date":
        return f"m_date({x.sql})"
    return f"m_time({x.sql})"


def sortable(x: X) -> str:
    """With the collation that sorting, grouping and DISTINCT need."""
    if x.native:
        return x.sql
    if x.t.kind == "dec":
        return f"{x.sql} COLLATE DEC"
    if x.t.kind == "str" and not x.t.binary:
        return f"{x.sql} COLLATE U"
    return x.sql


def compared(a: X, b: X) -> tuple[str, str]:
    """Both operands of a comparison in a form SQLite compares as MySQL would."""
    ka, kb = a.t.kind, b.t.kind
    if "null" in (ka, kb):
        return a.sql, b.sql
    if ka in TEXTUAL and kb in TEXTUAL:
        return _texts(a, b)
    if ka in TEMPORAL or kb in TEMPORAL:
        if ka in NUMERIC or kb in NUMERIC:
            return _temporal_number(a), _temporal_number(b)
        return _moments(a, b)
    return comparable_number(a), comparable_number(b)


def _texts(a: X, b: X) -> tuple[str, str]:
    if a.t.kind != b.t.kind and "json" in (a.t.kind, b.t.kind):
        return (f"m_junq({a.sql})" if a.t.kind == "json" else a.sql) + " COLLATE BINARY", (
            f"m_junq({b.sql})" if b.t.kind == "json" else b.sql
        )
    if "bin" in (a.t.kind, b.t.kind):
        return f"m_blob({a.sql})", f"m_blob({b.sql})"
    if a.t.binary or b.t.binary:
        return f"{a.sql} COLLATE BINARY", b.sql
    return (a.sql if a.native else f"{a.sql} COLLATE U"), b.sql


def _temporal_number(x: X) -> str:
    return f"m_tnum({x.sql})" if x.t.kind in TEMPORAL else comparable_number(x)


def _moments(a: X, b: X) -> tuple[str, str]:
    if a.t.kind == b.t.kind:
        return a.sql, b.sql
    if "time" in (a.t.kind, b.t.kind) and not {"date", "datetime"} & {a.t.kind, b.t.kind}:
        return f"m_time({text(a)})", f"m_time({text(b)})"
    for x, other, flip in ((a, b, False), (b, a, True)):
        if x.t.kind in ("date", "datetime") and isinstance(other.const, str):
            found = dates.read(other.const)
            if found is not None and (x.t.kind == "datetime" or dates.moment_text(found[0]).endswith(" 00:00:00")):
                value = dates.date_text(found[0]) if x.t.kind == "date" else dates.moment_text(found[0])
                return (f"'{value}'", x.sql) if flip else (x.sql, f"'{value}'")
    return _padded(a), _padded(b)


def _padded(x: X) -> str:
    if x.t == DATETIME:
        return x.sql
    return f"({x.sql} || ' 00:00:00')" if x.t == DATE else f"m_cmp({text(x)})"


def compare(op: str, a: X, b: X) -> X:
    left, right = compared(a, b)
    return flag(f"({left} {'IS' if op == '<=>' else op} {right})")


def arithmetic(op: str, left: X, right: X) -> X:
    a, b = number(left), number(right)
    if "null" in (a.t.kind, b.t.kind):
        return X("NULL", REAL if op == "/" else INT)
    if op == "/":
        return _divide(a, b)
    if op == "DIV":
        return X(f"({a.sql} / {b.sql})" if a.t.kind == b.t.kind == "int" else f"m_idiv({a.sql}, {b.sql})", INT)
    if a.t.kind == b.t.kind == "int":
        return _chained(op, a.sql, b.sql, a.chain, INT)
    if "real" in (a.t.kind, b.t.kind):
        if op == "%":
            return X(f"m_mod({real(a)}, {real(b)})", REAL)
        return _chained(op, real(a), real(b), a.chain if a.t.kind == "real" else "", REAL)
    scale = a.t.scale + b.t.scale if op == "*" else max(a.t.scale, b.t.scale)
    function = {"+": "m_add", "-": "m_sub", "*": "m_mul", "%": "m_mod"}[op]
    whole = (a.t.whole or a.t.kind == "int") and (b.t.whole or b.t.kind == "int")
    return X(f"{function}({a.sql}, {b.sql})", dec(scale, whole=whole and scale == 0), loose=a.loose or b.loose)


def _chained(op: str, left: str, right: str, chain: str, t: T) -> X:
    """``left op right``; a left operand of the same precedence loses its parentheses."""
    level = "+" if op == "-" else op
    bare = f"{chain if chain.startswith(level) else level + left} {op} {right}"
    return X(f"({bare[1:]})", t, chain=bare)


def _divide(a: X, b: X) -> X:
    if "real" in (a.t.kind, b.t.kind):
        return X(f"({real(a)} / {real(b)})", REAL)
    return X(f"m_div({a.sql}, {b.sql}, {division_digits(a.t.scale, b.t.scale)})", dec(a.t.scale + 4), loose=True)


def division_digits(a: int, b: int) -> int:
    """Digits MySQL keeps in an intermediate quotient: whole groups of nine."""
    groups_a, groups_b = -(-a // 9) * 9, -(-b // 9) * 9
    extra = max(0, 4 - (groups_a - a) - (groups_b - b))
    return -(-(groups_a + groups_b + extra) // 9) * 9

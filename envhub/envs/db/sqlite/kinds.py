"""Static types of expressions, and how types combine.

Invariant: a type says how its value is stored in SQLite: ``int`` INTEGER, ``real`` REAL, ``dec`` INTEGER or text in plain notation,
``str``/``json`` text, ``bin`` BLOB, ``date``/``datetime``/``time`` canonical MySQL text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["null", "int", "dec", "real", "str", "bin", "json", "date", "datetime", "time"]


class T(NamedTuple):
    """``scale``: digits after the point, of dec, of a rounded real and of fractional seconds. ``whole``: a dec or bin that
    MySQL calls an integer (BIGINT UNSIGNED, BIT)."""

    kind: Kind
    scale: int = 0
    whole: bool = False
    binary: bool = False
    """Text that compares byte by byte."""


NULL = T("null")
INT = T("int")
REAL = T("real")
STR = T("str")
BIN = T("bin", binary=True)
JSON = T("json", binary=True)
DATE = T("date")
DATETIME = T("datetime")
TIME = T("time")

NUMERIC = frozenset(["int", "dec", "real"])
TEMPORAL = frozenset(["date", "datetime", "time"])
TEXTUAL = frozenset(["str", "json", "bin"])


def dec(scale: int, *, whole: bool = False) -> T:
    return T("dec", min(scale, 30), whole)


def unify(types: Iterable[T]) -> T:
    """The type of a column that holds values of all the given types (CASE, COALESCE, UNION)."""
    result = NULL
    for t in types:
        result = _pair(result, t)
    return result


def _pair(a: T, b: T) -> T:
    if a == b or b.kind == "null":
        return a
    if a.kind == "null":
        return b
    if a.kind in NUMERIC and b.kind in NUMERIC:
        if "real" in (a.kind, b.kind):
            return REAL
        if a.kind == b.kind == "int":
            return INT
        return dec(max(a.scale, b.scale), whole=_is_integer(a) and _is_integer(b))
    if a.kind in TEMPORAL and b.kind in TEMPORAL:
        return a._replace(scale=max(a.scale, b.scale)) if a.kind == b.kind else DATETIME
    if a.kind == "bin" or b.kind == "bin":
        return BIN
    return STR


def _is_integer(t: T) -> bool:
    """An INT or BIGINT UNSIGNED; SUM of integers is a DECIMAL without digits, which is not one."""
    return t.kind == "int" or t.whole

"""Column values as the server sends them, to Python values and back to literals.

Invariant: one SQL type always gives one Python type, except that a date or time Python cannot hold stays text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

from pymysql.constants import FIELD_TYPE
from pymysql.converters import escape_string

from envhub.envs.db.database import Cell

BINARY_CHARSET = 63

_INTEGERS = {
    FIELD_TYPE.TINY,
    FIELD_TYPE.SHORT,
    FIELD_TYPE.LONG,
    FIELD_TYPE.LONGLONG,
    FIELD_TYPE.INT24,
    FIELD_TYPE.YEAR,
}
_FLOATS = {FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE}
_DECIMALS = {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}
_DATES = {FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE}
_TIMESTAMPS = {FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP}
_RAW = {FIELD_TYPE.BIT, FIELD_TYPE.GEOMETRY}


class Field(Protocol):
    """What a result set says of one column."""

    name: str
    type_code: int
    charsetnr: int


def decoder(field: Field) -> Callable[[bytes], object]:
    """The function for one column's values, NULL excepted."""
    kind = field.type_code
    if kind in _INTEGERS:
        return int
    if kind in _FLOATS:
        return float
    if kind in _DECIMALS:
        return _decimal
    if kind in _DATES:
        return _date
    if kind in _TIMESTAMPS:
        return _datetime
    if kind == FIELD_TYPE.TIME:
        return _time
    if kind in _RAW or (field.charsetnr == BINARY_CHARSET and kind != FIELD_TYPE.JSON):
        return bytes
    return _text


def literal(cell: Cell) -> str:
    """A cell as an SQL literal. Raises ValueError for a float MySQL has no literal for."""
    if cell is None:
        return "NULL"
    if isinstance(cell, str):
        return f"'{escape_string(cell)}'"
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    if cell != cell or cell in (float("inf"), float("-inf")):
        raise ValueError(f"{cell!r} has no MySQL literal")
    return repr(cell)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _decimal(raw: bytes) -> Decimal:
    return Decimal(raw.decode("ascii"))


def _date(raw: bytes) -> dt.date | str:
    text = raw.decode("ascii")
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return text


def _datetime(raw: bytes) -> dt.datetime | str:
    text = raw.decode("ascii")
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return text


def _time(raw: bytes) -> dt.timedelta:
    """``[-]HHH:MM:SS[.ffffff]``."""
    text = raw.decode("ascii")
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    microseconds = int(fraction.ljust(6, "0")) if fraction else 0
    span = dt.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(whole), microseconds=microseconds)
    return -span if text.startswith("-") else span

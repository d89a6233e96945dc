"""Column types: what a declared type stores, how a value is converted to it, and how a stored value reaches the client.

Invariant: conversion never fails (non-strict SQL mode): a value that does not fit becomes the nearest one that does.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from envhub.envs.db.sqlite.collation import key
from envhub.envs.db.sqlite.errors import MySQLError, syntax_error
from envhub.envs.db.sqlite.functions import dates, documents, numbers
from envhub.envs.db.sqlite.kinds import BIN, DATE, DATETIME, INT, JSON, REAL, STR, TIME, T, dec

Convert = Callable[[Any], Any]

_TYPE = re.compile(r"\s*([a-z]\w*)\s*(?:\((.*)\))?\s*(unsigned)?\s*$", re.I | re.S)
_INTS = {
    "tinyint": 7,
    "smallint": 15,
    "mediumint": 23,
    "int": 31,
    "integer": 31,
    "bigint": 63,
    "int1": 7,
    "int2": 15,
    "int3": 23,
    "int4": 31,
    "int8": 63,
}
_TEXTS = {"text": 65535, "tinytext": 255, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1, "long": (1 << 24) - 1}
_BLOBS = {"blob": 65535, "tinyblob": 255, "mediumblob": (1 << 24) - 1, "longblob": (1 << 32) - 1}
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
ALIASES = {
    "integer": "int",
    "bool": "tinyint(1)",
    "boolean": "tinyint(1)",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "real": "double",
}


class ColumnType:
    """A declared type taken apart. ``spelling`` is how SHOW prints it."""

    __slots__ = ("args", "name", "spelling", "unsigned")

    def __init__(self, declared: str) -> None:
        match = _TYPE.match(declared)
        if match is None:
            raise syntax_error(declared, 1)
        name = match.group(1).lower()
        args = [part.strip() for part in _split(match.group(2) or "")]
        replaced = ALIASES.get(name, name)
        if replaced == "tinyint(1)":
            replaced, args = "tinyint", ["1"]
        self.name = replaced
        self.args = args
        self.unsigned = match.group(3) is not None
        if replaced == "decimal":
            self.args = ([*args, "0"])[:2] if args else ["10", "0"]
        elif replaced in ("char", "binary", "bit") and not args:
            self.args = ["1"]
        shown = f"({','.join(self.args)})" if self.args else ""
        self.spelling = replaced + shown + (" unsigned" if self.unsigned else "")

    def size(self, default: int = 0) -> int:
        return int(self.args[0]) if self.args and self.args[0].isdigit() else default


def _split(args: str) -> list[str]:
    return re.findall(r"'(?:[^']|'')*'|[^,\s]+", args)


@lru_cache(maxsize=256)
def parse_type(declared: str) -> ColumnType:
    return ColumnType(declared)


@lru_cache(maxsize=256)
def static_type(declared: str) -> T:
    """Raises MySQLError for a type that does not exist."""
    column = parse_type(declared)
    name = column.name
    if name in _INTS:
        return dec(0, whole=True) if column.unsigned and _INTS[name] == 63 else INT
    if name in ("year", "bit", "serial"):
        return INT if name != "bit" else BIN._replace(whole=True)
    if name == "decimal":
        precision, scale = int(column.args[0]), int(column.args[1])
        if scale > 30 or precision > 65:
            raise MySQLError(1426, f"Too-big precision {precision} specified for ''. Maximum is 65.")
        if scale > precision:
            raise MySQLError(1427, "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '').")
        return dec(scale)
    if name in ("double", "float", "float4", "float8"):
        return REAL
    if name in _TEXTS or name in ("char", "varchar", "nchar", "nvarchar", "varcharacter", "enum", "set"):
        if name in ("varchar", "enum", "set") and not column.args:
            raise syntax_error("", 1)
        return STR
    if name in _BLOBS or name in ("binary", "varbinary"):
        return BIN
    simple = {"date": DATE, "datetime": DATETIME, "timestamp": DATETIME, "time": TIME, "json": JSON}
    if name not in simple:
        raise syntax_error(declared, 1)
    t = simple[name]
    return t._replace(scale=min(column.size(), 6)) if name in ("datetime", "timestamp", "time") else t


def numeric(value: Any) -> Decimal:
    """The number a value starts with, 0 when there is none."""
    if type(value) is int:
        return Decimal(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        match = _NUMBER.match(value)
        return numbers.exact(match.group().strip()) if match else Decimal(0)
    return numbers.exact(value)


def text_of(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return numbers.float_text(value) if isinstance(value, float) else str(value)


@lru_cache(maxsize=256)
def converter(declared: str) -> Convert:
    """The function that makes a value (never None) storable in a column of that type."""
    column = parse_type(declared)
    name = column.name
    if name in _INTS or name in ("year", "serial"):
        return _integer(column)
    if name == "decimal":
        return _decimal(column)
    if name in ("double", "float8"):
        return lambda value: value if type(value) is float else _finite(numeric(value))
    if name in ("float", "float4"):
        return lambda value: _single(_finite(numeric(value)))
    if name in _TEXTS:
        return _byte_cut(_TEXTS[name])
    if name in ("enum", "set"):
        return _enumeration(column)
    if name in _BLOBS or name in ("binary", "varbinary", "bit"):
        return _bytes(column)
    if name in ("date", "datetime", "timestamp", "time"):
        return _temporal(column)
    if name == "json":
        return lambda value: documents.dump(documents.load(text_of(value)))
    size = column.size(1)
    trim = name in ("char", "nchar")
    return lambda value: _characters(text_of(value), size, trim=trim)


def _characters(value: str, size: int, *, trim: bool) -> str:
    return value[:size].rstrip(" ") if trim else value[:size]


def _byte_cut(limit: int) -> Convert:
    def convert(value: Any) -> str:
        text = text_of(value)
        if len(text) * 4 > limit and len(text.encode()) > limit:
            return text.encode()[:limit].decode("utf-8", "ignore")
        return text

    return convert


def _integer(column: ColumnType) -> Convert:
    bits = _INTS.get(column.name, 63)
    low, high = (0, (1 << (bits + 1)) - 1) if column.unsigned else (-(1 << bits), (1 << bits) - 1)
    if column.name == "year":
        low, high = 0, 2155

    def convert(value: Any) -> int | str:
        if type(value) is not int:
            rounding = "ROUND_HALF_EVEN" if type(value) is float else "ROUND_HALF_UP"
            value = int(numeric(value).to_integral_value(rounding))
        if column.name == "year" and 0 < value < 100:
            value += 2000 if value < 70 else 1900
        value = max(low, min(high, value))
        return value if value < numbers.BIGINT else str(value)

    return convert


def _decimal(column: ColumnType) -> Convert:
    precision, scale = int(column.args[0]), int(column.args[1])
    limit = Decimal(10) ** (precision - scale) - Decimal(1).scaleb(-scale)

    def convert(value: Any) -> str:
        number = max(-limit, min(limit, numeric(value)))
        if column.unsigned and number < 0:
            number = Decimal(0)
        return numbers.plain(number.quantize(Decimal(1).scaleb(-scale), context=numbers.CTX))

    return convert


def to_decimal(value: Any, precision: int, scale: int) -> str:
    """CAST(x AS DECIMAL(p, s))."""
    limit = Decimal(10) ** (precision - scale) - Decimal(1).scaleb(-scale)
    number = max(-limit, min(limit, numeric(value)))
    return numbers.plain(number.quantize(Decimal(1).scaleb(-scale), context=numbers.CTX))


def _finite(value: Decimal) -> float:
    return max(-1.7976931348623157e308, min(1.7976931348623157e308, float(value)))


def _single(value: float) -> float:
    value = max(-3.4028234663852886e38, min(3.4028234663852886e38, value))
    return float(format(struct.unpack("f", struct.pack("f", value))[0], ".6g"))


def _enumeration(column: ColumnType) -> Convert:
    members = [arg[1:-1].replace("''", "'") for arg in column.args]
    by_key = {key(member): member for member in members}

    def convert(value: Any) -> str:
        if column.name == "set":
            chosen = {by_key.get(key(part)) for part in text_of(value).split(",")}
            return ",".join(member for member in members if member in chosen)
        if type(value) is int:
            return members[value - 1] if 1 <= value <= len(members) else ""
        found = by_key.get(key(text_of(value)))
        if found is None and text_of(value).isdigit() and 1 <= int(text_of(value)) <= len(members):
            return members[int(text_of(value)) - 1]
        return found or ""

    return convert


def _bytes(column: ColumnType) -> Convert:
    limit = _BLOBS.get(column.name) or column.size(1)

    def convert(value: Any) -> bytes:
        if column.name == "bit":
            number = (
                value
                if type(value) is int
                else int.from_bytes(value, "big")
                if isinstance(value, bytes)
                else int(numeric(value))
            )
            return (number % (1 << limit)).to_bytes((limit + 7) // 8, "big")
        data = value if isinstance(value, bytes) else text_of(value).encode()
        return data[:limit].ljust(limit if column.name == "binary" else 0, b"\0")

    return convert


def _temporal(column: ColumnType) -> Convert:
    places = min(column.size(), 6)
    if column.name == "date":
        return lambda value: dates.to_date(value) or dates.ZERO_DATE
    if column.name == "time":
        return lambda value: _fraction(dates.to_time(value) or "00:00:00", places)
    return lambda value: _moment(value, places)


def _moment(value: Any, places: int) -> str:
    found = dates.moment(value)
    if found is None:
        return dates.ZERO_DATE + " 00:00:00"
    step = 10 ** (6 - places)
    micros = (found.microsecond + step // 2) // step * step
    found = found.replace(microsecond=0) + dt.timedelta(microseconds=micros)
    return _fraction(dates.moment_text(found), places)


def _fraction(text: str, places: int) -> str:
    whole, _, digits = text.partition(".")
    return f"{whole}.{digits.ljust(6, '0')[:places]}" if places else whole


def implicit_default(t: T) -> Any:
    """What NOT NULL without a default gets in non-strict mode."""
    return {
        "int": 0, "dec": numbers.scaled(0, t.scale), "real": 0.0, "str": "", "json": "null", "bin": b"", "date": dates.ZERO_DATE,
        "datetime": dates.ZERO_DATE + " 00:00:00", "time": "00:00:00",
    }[t.kind]  # fmt: skip


# ---- to the client


def client_value(t: T) -> Convert | None:
    """The function that turns a stored value (never None) into what a MySQL client returns; None when it is the same."""
    if t.kind == "dec":
        return (lambda value: int(Decimal(value))) if t.whole else _decimal_out(t.scale)
    return _CLIENT_VALUES.get(t.kind)


def _int_out(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is float:
        raise numbers.overflow("BIGINT", numbers.float_text(value))
    return int(Decimal(value)) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _decimal_out(scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)
    return lambda value: numbers.exact(value).quantize(unit, context=numbers.CTX)


def _date_out(value: Any) -> dt.date | None:
    found = dates.moment(value)
    return None if found is None else found.date()


def _datetime_out(value: Any) -> dt.datetime | None:
    return dates.moment(value)


_CLIENT_VALUES: dict[str, Convert] = {
    "int": _int_out,
    "real": float,
    "date": _date_out,
    "datetime": _datetime_out,
    "time": dates.span,
}

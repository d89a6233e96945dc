"""Aggregate functions that SQLite lacks or computes differently; all of them also work as window functions.

Invariant: NULLs are skipped, an empty group gives NULL, and what one group may hold is bounded.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from envhub.envs.db.sqlite.collation import key
from envhub.envs.db.sqlite.functions.documents import dump, tagged
from envhub.envs.db.sqlite.functions.numbers import CTX, divide, exact, plain

MAX_GROUP_CONCAT = 1 << 20
_MAX_HELD = 8 << 20


class Sum:
    """Exact SUM of DECIMAL."""

    def __init__(self) -> None:
        self.total = Decimal(0)
        self.count = 0

    def step(self, value: int | str | None) -> None:
        if value is not None:
            self.total = CTX.add(self.total, exact(value))
            self.count += 1

    def inverse(self, value: int | str | None) -> None:
        if value is not None:
            self.total = CTX.subtract(self.total, exact(value))
            self.count -= 1

    def value(self) -> str | None:
        return plain(self.total) if self.count else None

    finalize = value


class Average(Sum):
    """Exact AVG of INT and DECIMAL; the second argument is the number of digits kept."""

    digits = 9

    def step(self, value: int | str | None, digits: int = 9) -> None:
        self.digits = digits
        super().step(value)

    def inverse(self, value: int | str | None, digits: int = 9) -> None:
        super().inverse(value)

    def value(self) -> str | None:
        return divide(plain(self.total), self.count, self.digits) if self.count else None

    finalize = value


class Moments:
    """Variance by Welford's method, as MySQL computes it."""

    sample = False
    root = False

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def step(self, value: float | None) -> None:
        if value is None:
            return
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def inverse(self, value: float | None) -> None:
        if value is None:
            return
        self.count -= 1
        if not self.count:
            self.mean = self.squares = 0.0
            return
        delta = value - self.mean
        self.mean -= delta / self.count
        self.squares -= delta * (value - self.mean)

    def value(self) -> float | None:
        divisor = self.count - self.sample
        if divisor <= 0:
            return None
        variance = max(self.squares / divisor, 0.0)
        return math.sqrt(variance) if self.root else variance

    finalize = value


class SampleVariance(Moments):
    sample = True


class Deviation(Moments):
    root = True


class SampleDeviation(Moments):
    sample = True
    root = True


class Bits:
    """BIT_AND, BIT_OR, BIT_XOR; the first argument says which."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.op = "|"

    def step(self, op: str, value: int | None) -> None:
        self.op = op
        if value is not None:
            self.values.append(value % (1 << 64))

    def inverse(self, op: str, value: int | None) -> None:
        if value is not None:
            self.values.remove(value % (1 << 64))

    def value(self) -> int | str:
        result = (1 << 64) - 1 if self.op == "&" else 0
        for value in self.values:
            result = result & value if self.op == "&" else result | value if self.op == "|" else result ^ value
        return result if result < 1 << 63 else str(result)

    finalize = value


class Concat:
    """GROUP_CONCAT. Arguments: distinct, separator, directions (one ``a`` or ``d`` an ordering key), value, keys."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, tuple[Any, ...]]] = []
        self.held = 0
        self.distinct = 0
        self.separator = ","
        self.directions = ""

    def step(self, distinct: int, separator: str, directions: str, value: str | None, *keys: Any) -> None:
        self.distinct, self.separator, self.directions = distinct, separator, directions
        if value is None or self.held > (_MAX_HELD if directions else MAX_GROUP_CONCAT):
            return
        self.held += len(value) + len(separator) + 1
        self.rows.append((value, keys))

    def inverse(self, distinct: int, separator: str, directions: str, value: str | None, *keys: Any) -> None:
        if value is not None:
            self.rows.remove((value, keys))

    def value(self) -> str | None:
        if not self.rows:
            return None
        rows = self.rows
        if self.distinct:
            seen: dict[str, tuple[str, tuple[Any, ...]]] = {}
            for row in rows:
                seen.setdefault(key(row[0]), row)
            rows = list(seen.values())
        for place in reversed(range(len(self.directions))):
            rows = sorted(rows, key=lambda row: _rank(row[1][place]), reverse=self.directions[place] == "d")
        return self.separator.join(row[0] for row in rows)[:MAX_GROUP_CONCAT]

    finalize = value


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    return (1, key(value)) if isinstance(value, str) else (1, value)


class JsonArray:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.held = 0

    def step(self, kind: str, value: Any) -> None:
        self.held += 8 + (len(value) if isinstance(value, str | bytes) else 0)
        if self.held < _MAX_HELD:
            self.items.append(tagged(kind, value))

    def inverse(self, kind: str, value: Any) -> None:
        self.items.remove(tagged(kind, value))

    def value(self) -> str | None:
        return dump(self.items) if self.items else None

    finalize = value


class JsonObject:
    def __init__(self) -> None:
        self.items: list[tuple[str, Any]] = []
        self.held = 0

    def step(self, name: str, kind: str, value: Any) -> None:
        self.held += 8 + len(name) + (len(value) if isinstance(value, str | bytes) else 0)
        if self.held < _MAX_HELD:
            self.items.append((name, tagged(kind, value)))

    def inverse(self, name: str, kind: str, value: Any) -> None:
        self.items.remove((name, tagged(kind, value)))

    def value(self) -> str | None:
        return dump(dict(self.items)) if self.items else None

    finalize = value


AGGREGATES: dict[str, tuple[int, type[Any]]] = {
    "m_sum": (1, Sum),
    "m_avg": (2, Average),
    "m_varpop": (1, Moments),
    "m_varsamp": (1, SampleVariance),
    "m_stdpop": (1, Deviation),
    "m_stdsamp": (1, SampleDeviation),
    "m_bits": (2, Bits),
    "m_gconcat": (-1, Concat),
    "m_jarrayagg": (2, JsonArray),
    "m_jobjectagg": (3, JsonObject),
}
"""SQL name to number of arguments and class."""

"""One in-memory SQLite connection with MySQL's functions, collations and hard limits.

Invariant: whatever SQL runs on it, it reads and writes nothing outside its own memory, stops at its deadline and stays within its page
limit.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

from envhub.envs.db.sqlite import collation, columns
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.functions import MAX_TEXT, Spec, dates, documents, numbers, regex
from envhub.envs.db.sqlite.functions import text as texts
from envhub.envs.db.sqlite.functions.aggregates import AGGREGATES

_SPECS: dict[str, Spec] = {
    **numbers.FUNCTIONS,
    **texts.FUNCTIONS,
    **regex.FUNCTIONS,
    **dates.FUNCTIONS,
    **documents.FUNCTIONS,
}
_STEPS = 4000
_DENIED = frozenset(
    [
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_PRAGMA,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_DROP_VTABLE,
    ]
)


class Timeout(Exception):
    """The statement reached its deadline."""


class Connection:
    """The connection, the deadline of the statement it runs, and the error a function raised inside it."""

    def __init__(self, max_pages: int) -> None:
        self.deadline = float("inf")
        self.error: MySQLError | None = None
        self.variables: dict[str, Any] = {}
        self.random = Random(0)
        self.raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=16)
        self.raw.execute(f"PRAGMA max_page_count={max_pages}")
        self.raw.execute("PRAGMA temp_store=MEMORY")
        self.raw.execute("PRAGMA foreign_keys=ON")
        self.raw.execute("PRAGMA trusted_schema=OFF")
        self.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT * 4)
        self.raw.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._register()
        self.raw.set_authorizer(_authorize)
        self.raw.set_progress_handler(self._progress, _STEPS)

    def _progress(self) -> int:
        return time.monotonic() > self.deadline or self.error is not None

    def _register(self) -> None:
        connection = self.raw
        connection.create_collation("U", collation.compare)
        connection.create_collation("DEC", collation.compare_numbers)
        for name, function, deterministic in _FUNCTIONS:
            connection.create_function(name, -1, _Guarded(function, self), deterministic=deterministic)
        for name, function in (
            ("m_getvar", self.variables.get), ("m_setvar", self._set_variable), ("m_rand", self._rand), ("m_uuid", self._uuid),
            ("m_sleep", self._sleep), ("m_one", self._one),
        ):  # fmt: skip
            connection.create_function(name, -1, _Guarded(function, self))
        for name, (count, aggregate) in AGGREGATES.items():
            # The stubs type this method's class argument too narrowly for a plain class.
            connection.create_window_function(name, count, aggregate)

    def _set_variable(self, name: str, value: Any) -> Any:
        self.variables[name] = value
        return value

    def _rand(self, seed: int | None = None) -> float:
        return self.random.random() if seed is None else Random(seed).random()

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def _sleep(self, seconds: float | None) -> int:
        if seconds is None or seconds < 0:
            raise MySQLError(1210, "Incorrect arguments to sleep.")
        remaining = self.deadline - time.monotonic()
        time.sleep(max(0.0, min(seconds, remaining)))
        if seconds > remaining:
            raise MySQLError(1317, "Query execution was interrupted")
        return 0

    def _one(self, value: Any, count: int) -> Any:
        if count > 1:
            raise MySQLError(1242, "Subquery returns more than 1 row")
        return value

    def execute(self, sql: str, params: list[Any] | tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run SQL of our own making. Raises MySQLError, Timeout, sqlite3.IntegrityError (a broken key) or MemoryError."""
        if time.monotonic() > self.deadline:
            raise Timeout
        try:
            return self.raw.execute(sql, params)
        except sqlite3.Error as error:
            raise self.translate(error) from error

    def translate(self, error: sqlite3.Error) -> Exception:
        if self.error is not None:
            found, self.error = self.error, None
            return Timeout() if found.code == 1317 else found
        if isinstance(error, sqlite3.IntegrityError):
            return error
        text = str(error)
        if text == "interrupted":
            return Timeout()
        if "full" in text:
            return MySQLError(1114, "The table is full")
        if "too big" in text:
            return MySQLError(1301, "Result of a string function was larger than max_allowed_packet")
        if "overflow" in text and "stack" not in text:
            return numbers.overflow("BIGINT", "the expression")
        if "64 tables" in text:
            return MySQLError(1116, "Too many tables; MySQL can only use 61 tables in a join")
        if "too large" in text or "stack overflow" in text or "too many" in text:
            return MySQLError(1436, "Thread stack overrun: the statement is too large")
        if "out of memory" in text:
            return MemoryError()
        return MySQLError(1235, "This version of MySQL doesn't yet support this form of statement")

    def close(self) -> None:
        self.raw.close()


class _Guarded:
    """A function whose MySQLError survives SQLite's error reporting."""

    __slots__ = ("connection", "function")

    def __init__(self, function: Callable[..., Any], connection: Connection) -> None:
        self.function = function
        self.connection = connection

    def __call__(self, *args: Any) -> Any:
        try:
            return self.function(*args)
        except MySQLError as error:
            self.connection.error = error
            raise
        except (ValueError, ArithmeticError, TypeError, RecursionError):
            return None


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL in, NULL out."""

    def call(*args: Any) -> Any:
        for arg in args:
            if arg is None:
                return None
        return function(*args)

    return call


def _key_of(*values: str | None) -> str | None:
    """One text for several values, NULL when any is: what COUNT(DISTINCT a, b) counts."""
    if None in values:
        return None
    return "\0".join(collation.key(value or "") for value in values)


def _extreme_decimal(largest: int, *values: Any) -> Any:
    return max(values, key=numbers.exact) if largest else min(values, key=numbers.exact)


def _all_functions() -> list[tuple[str, Callable[..., Any], bool]]:
    found: list[tuple[str, Callable[..., Any], bool]] = []
    for name, spec in _SPECS.items():
        found.append((f"f_{name}", spec.call if spec.nulls else _strict(spec.call), True))
    strict: dict[str, Callable[..., Any]] = {}
    for module in (numbers, texts, dates):
        strict |= module.INTERNAL
    strict |= {"m_todec": columns.to_decimal, "m_junq": documents.unquote, "m_extremed": _extreme_decimal}
    strict["m_conv"] = lambda declared, value: columns.converter(declared)(value)
    strict["m_json"] = lambda value: documents.dump(documents.load(value))
    found += [(name, _strict(function), True) for name, function in strict.items()]
    found += [(name, function, True) for name, function in documents.INTERNAL.items()]
    found.append(("m_key", _key_of, True))
    return found


_FUNCTIONS = _all_functions()


def _authorize(action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None) -> int:
    if action in _DENIED or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK

"""What a database engine must do for the DB environment; drivers ``sqlite`` and ``mysql`` implement it.

Invariant: a Database belongs to one episode, and nothing its user sends can reach another one, stay after ``close`` or
outlive its limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Cell = None | int | float | str | bytes
"""A value as stored. DECIMAL, DATE, TIME and JSON values are text in their canonical MySQL spelling."""


@dataclass(frozen=True, slots=True)
class Column:
    """``type`` is MySQL's column type, e.g. ``TEXT``, ``INT``, ``DECIMAL(10,2)``, ``DATE``; ``primary_key`` marks key columns."""

    name: str
    type: str = "TEXT"
    primary_key: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Per statement. A statement over ``timeout_s`` is killed in the engine and reported as status ``timeout``."""

    timeout_s: float = 60.0
    max_rows: int = 10_000
    max_bytes: int = 1_000_000


Status = Literal["rows", "done", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The outcome of one statement.

    ``rows``: a result set, at most the limits' rows and bytes (``truncated`` says whether more existed).
    ``done``: no result set; ``affected`` rows. ``error``: the engine refused; ``error_code`` is MySQL's number and
    ``message`` its text (``1146 (42S02): Table 'x' doesn't exist``). ``timeout``: killed; the database stays usable.
    Row values are Python values as a MySQL client returns them: int, float, str, bytes, None, decimal.Decimal,
    datetime.date/datetime/timedelta.
    """

    status: Status
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    affected: int = 0
    truncated: bool = False
    error_code: int = 0
    message: str = ""


class Database(Protocol):
    """One episode's private database."""

    async def execute(self, sql: str) -> QueryResult:
        """Run one statement in autocommit. Never raises for anything the SQL does; EpisodeError when the engine is gone."""

    async def dump(self) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Every base table's rows by table name, unordered, untruncated: what grading compares. Raises EpisodeError."""

    async def close(self) -> None:
        """Drop everything. Idempotent, bounded in time."""


class DatabaseDriver(Protocol):
    """Opens databases. One per worker."""

    name: str

    async def open(self, tables: Sequence[Table], *, limits: QueryLimits = QueryLimits()) -> Database:
        """A new database holding exactly ``tables``. Raises TaskUnusableError when a table cannot be created
        (for example a column without a name), UnavailableError or EpisodeError when the engine fails."""

    async def fork(self, database: Database) -> Database | None:
        """A copy of one of its databases, with all that statements set in its session; None when the engine cannot make one.

        Raises UnavailableError or EpisodeError when the engine fails.
        """

    async def close(self) -> None: ...

"""The ``sqlite`` driver: opens databases in host processes and speaks their results as a MySQL client would.

Invariant: nothing a session sends runs in this process; a database's statements run one at a time, and only successful writes enter
the log that a rebuild replays.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from datetime import UTC, datetime

from msgspec.structs import replace as replaced

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EpisodeFailedError, TaskUnusableError, UnavailableError
from envhub.envs.db.database import Cell, Database, QueryLimits, QueryResult, Table
from envhub.envs.db.sqlite.frames import Reply, Request, TableFrame, client_rows
from envhub.envs.db.sqlite.process import HostLost, HostProcess, Overrun, Restorable

GRACE_S = 2.0
_CLOSE_S = 5.0
_LOAD_S = 30.0
_MAX_LOG_BYTES = 64 << 20
"""Writes beyond this are refused: every write must be replayed when the host is lost."""
_HOST_TROUBLE = frozenset({1037, 1105})
"""Out of memory, or a fault of ours: nothing that the table is to blame for."""


class SqliteDatabase:
    """One episode's database in one host process."""

    def __init__(self, host: HostProcess, opening: Request, limits: QueryLimits, clock: Clock) -> None:
        self._host = host
        self.id = opening.database
        self._state = Restorable(opening)
        self.limits = limits
        self._clock = clock
        self._turn = asyncio.Lock()
        self._statements = itertools.count(1)
        self._running: asyncio.Task[QueryResult] | None = None
        self._closed = False
        self._logged_bytes = 0

    async def execute(self, sql: str) -> QueryResult:
        """One statement in autocommit. Raises EpisodeFailedError when the database is closed or could not be rebuilt."""
        try:
            sql.encode()
        except UnicodeEncodeError:
            return _error(1300, "1300 (HY000): Invalid utf8mb4 character string")
        if self._logged_bytes + len(sql) > _MAX_LOG_BYTES:
            return _error(1041, "1041 (HY000): Out of memory; this session has written too much")
        async with self._turn:
            self._check()
            await self._settle()
            self._running = asyncio.create_task(self._execute(sql))
            try:
                return await asyncio.shield(self._running)
            except asyncio.CancelledError:
                # The statement stops early and its outcome still reaches the log: the next call finds a known state.
                self._host.notify(Request(0, self.id, "cancel"))
                raise

    async def _execute(self, sql: str) -> QueryResult:
        limits = self.limits
        now = datetime.fromtimestamp(self._clock.wall(), UTC).strftime("%Y-%m-%d %H:%M:%S")
        request = Request(
            0, self.id, "execute", sql=sql, now=now, seed=next(self._statements), timeout_s=limits.timeout_s,
            max_rows=limits.max_rows, max_bytes=limits.max_bytes,
        )  # fmt: skip
        try:
            reply = await self._host.call(request, limits.timeout_s + GRACE_S)
        except Overrun:
            return QueryResult("timeout", message=f"Query execution was interrupted after {limits.timeout_s:g} s")
        except UnavailableError as error:
            raise EpisodeFailedError(error.message) from error
        except HostLost:
            return _error(2013, "2013 (HY000): Lost connection to MySQL server during query")
        if reply.logged and reply.status in ("done", "rows"):
            self._remember(request)
        return self._result(reply)

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[Restorable]:
        """Its tables and its writes, no statement running. Raises EpisodeFailedError."""
        async with self._turn:
            self._check()
            await self._settle()
            if self._state.broken:
                raise EpisodeFailedError("the database was lost with its host process")
            yield self._state

    async def repeat(self, request: Request) -> None:
        """Run a statement of another database's log. Raises UnavailableError."""
        try:
            reply = await self._host.call(request, _LOAD_S + 2 * request.timeout_s)
        except (HostLost, Overrun) as error:
            raise UnavailableError("the database host died while a database was copied") from error
        if reply.status not in ("done", "rows"):
            raise UnavailableError(f"the database could not be copied: {reply.message}")

    def resume(self, log: Sequence[Request], of: SqliteDatabase) -> None:
        """Go on where ``of`` is, after the statements of its log were run here."""
        self._state.log.extend(log)
        self._logged_bytes = of._logged_bytes
        self._statements = copy(of._statements)

    def _remember(self, request: Request) -> None:
        self._logged_bytes += len(request.sql)
        self._state.log.append(request)

    def _result(self, reply: Reply) -> QueryResult:
        if reply.status == "rows":
            block = reply.blocks[0]
            return QueryResult("rows", tuple(block.columns), client_rows(block), truncated=reply.truncated)
        if reply.status == "done":
            return QueryResult("done", affected=reply.affected)
        if reply.status == "timeout":
            return QueryResult("timeout", message=reply.message)
        if reply.status == "lost":
            raise EpisodeFailedError("the database was lost with its host process")
        return _error(reply.error_code, reply.message)

    async def dump(self) -> Mapping[str, Sequence[tuple[object, ...]]]:
        async with self._turn:
            self._check()
            await self._settle()
            try:
                reply = await self._host.call(Request(0, self.id, "dump"), _LOAD_S)
            except (HostLost, Overrun) as error:
                raise EpisodeFailedError("the database host died while its tables were read") from error
            if reply.status != "ok":
                raise EpisodeFailedError(reply.message or "the database was lost with its host process")
            return {block.name: client_rows(block) for block in reply.blocks}

    async def _settle(self) -> None:
        """Wait out a statement whose caller was cancelled."""
        if self._running is not None:
            await asyncio.wait([self._running])

    def _check(self) -> None:
        if self._closed:
            raise EpisodeFailedError("the database is closed")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._host.databases.pop(self.id, None)
        self._host.sessions -= 1
        self._host.notify(Request(0, self.id, "close"))
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running], timeout=_CLOSE_S)


class SqliteDriver:
    """``processes`` host processes share the databases; each may use ``memory_limit_bytes`` of address space (0: no limit)
    and each database ``max_database_bytes``."""

    name = "sqlite"

    def __init__(
        self,
        *,
        processes: int = 2,
        memory_limit_bytes: int = 3 << 30,
        max_database_bytes: int = 64 << 20,
        clock: Clock | None = None,
    ) -> None:
        if processes < 1:
            raise ValueError("processes must be at least 1")
        self._hosts = [HostProcess(max_database_bytes // 4096, memory_limit_bytes) for _ in range(processes)]
        self._clock = clock or SystemClock()
        self._ids = itertools.count(1)

    @property
    def host_pids(self) -> tuple[int, ...]:
        """Process ids of the hosts started so far."""
        return tuple(host.pid for host in self._hosts if host.pid)

    async def open(self, tables: Sequence[Table], *, limits: QueryLimits = QueryLimits()) -> SqliteDatabase:  # noqa: B008
        async with self._new([_frame(table) for table in tables], limits) as database:
            return database

    async def fork(self, database: Database) -> SqliteDatabase:
        """See DatabaseDriver: the same tables, and the same writes at the same recorded times."""
        assert isinstance(database, SqliteDatabase), "a driver forks its own databases"
        async with database.at_rest() as state, self._new(state.opening.tables, database.limits) as twin:
            log = [replaced(request, database=twin.id) for request in state.log]
            for request in log:
                await twin.repeat(request)
            twin.resume(log, database)
            return twin

    @asynccontextmanager
    async def _new(self, tables: list[TableFrame], limits: QueryLimits) -> AsyncIterator[SqliteDatabase]:
        """Removed again if the body raises; rebuilt with its host only afterwards."""
        host = min(self._hosts, key=lambda host: host.sessions)
        number = next(self._ids)
        request = Request(0, number, "open", tables=tables)
        database = SqliteDatabase(host, request, limits, self._clock)
        host.sessions += 1
        try:
            await _load(host, request)
            yield database
        except BaseException:
            host.sessions -= 1
            host.notify(Request(0, number, "close"))
            raise
        host.databases[number] = database._state

    async def close(self) -> None:
        """End every host process, and with them every database. Idempotent."""
        await asyncio.gather(*(host.close() for host in self._hosts))


async def _load(host: HostProcess, request: Request) -> None:
    try:
        reply = await host.call(request, _LOAD_S)
    except UnicodeEncodeError as error:
        raise TaskUnusableError(f"a table holds text that is not Unicode: {error.reason}") from error
    except (HostLost, Overrun) as error:
        raise UnavailableError("the database host died while the tables were loaded") from error
    if reply.error_code in _HOST_TROUBLE:
        raise UnavailableError(f"the database host cannot load the tables: {reply.message}")
    if reply.status != "ok":
        raise TaskUnusableError(f"a table cannot be created: {reply.message}")


def _frame(table: Table) -> TableFrame:
    columns = [(column.name, column.type, column.primary_key) for column in table.columns]
    return TableFrame(table.name, columns, [[_cell(value) for value in row] for row in table.rows])


def _cell(value: Cell) -> Cell:
    return str(value) if type(value) is int and not -(1 << 63) <= value < 1 << 63 else value


def _error(code: int, message: str) -> QueryResult:
    return QueryResult("error", error_code=code, message=message)

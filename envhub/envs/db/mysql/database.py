"""One episode's database on a MySQL-type server.

Invariant: whatever a statement does (runs over its limits, loses its connection, leaves the database), the next one finds a
working connection to the same database; if that cannot be, the episode fails without a reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError
from envhub.envs.db.database import QueryLimits, QueryResult
from envhub.envs.db.mysql.accounts import Account
from envhub.envs.db.mysql.alias import Alias
from envhub.envs.db.mysql.connection import QUERY_INTERRUPTED, Answer, Cap, Connection, ConnectionLostError, ServerError
from envhub.envs.db.mysql.services import Services
from envhub.envs.db.mysql.values import literal, quoted

NO_DATABASE_SELECTED = 1046
UNKNOWN_DATABASE = 1049
PACKET_TOO_LARGE = 1153
SERVER_LOST = 2013

KILL_GRACE_S = 5.0
DUMP_S = 60.0
DUMP_MAX_BYTES = 64 << 20
"""A dump over this is cut there; it is far beyond every task's tables, so it equals no right state."""
UNREADABLE = ((),)
"""The rows of a table whose content cannot be had, or was not asked for: equal to no right state."""
ENGINE_TROUBLE = frozenset({1021, 1037, 1038, 1040, 1041, 1045, 1053, 1077, 1079, 1152, 1203, 1226, 1317})
"""Errors of a server in trouble (disk, memory, connections, shutdown). Any other, on reading a table, comes from what the
agent made of it: a discarded tablespace, a lost part of a MERGE table, a lock left behind by XA."""


class MysqlDatabase:
    """Made by MysqlDriver.open. ``boot`` is the marker of the server's run that the episode began in."""

    def __init__(
        self,
        account: Account,
        connection: Connection,
        *,
        boot: str,
        limits: QueryLimits,
        services: Services,
        clock: Clock,
        free: Callable[[MysqlDatabase], Awaitable[None]],
    ) -> None:
        self.account = account
        self._connection: Connection | None = connection
        self._boot = boot
        self._limits = limits
        self._services = services
        self._clock = clock
        self._free = free
        self._alias = Alias(account.name, account.host)
        self._turn = asyncio.Lock()
        self._closed = False

    async def execute(self, sql: str) -> QueryResult:
        """See Database. An open transaction stays open between statements; ``dump`` commits it."""
        async with self._turn:
            text = self._alias.to_server(sql)
            result = await self._execute(text)
            if result.error_code == NO_DATABASE_SELECTED and await self._return_home():
                result = await self._execute(text)
            return self._alias.to_agent(result)

    async def dump(self) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """See Database. Read by the administrator, so nothing the agent set in its session can colour it."""
        async with self._turn:
            try:
                async with asyncio.timeout(DUMP_S):
                    await self._execute("COMMIT")
                    return await self._read_tables()
            except (ServerError, ConnectionLostError, TimeoutError) as error:
                raise EpisodeFailedError(f"the database cannot be read: {error}") from error

    async def close(self) -> None:
        self._closed = True
        await self._free(self)

    def disconnect(self) -> None:
        """Drop the connection; part of being closed."""
        self._closed = True
        self._drop_connection()

    async def _execute(self, sql: str) -> QueryResult:
        if len(sql) * 4 > self._services.dialect.max_packet_bytes and (
            len(sql.encode("utf-8", "replace")) >= self._services.dialect.max_packet_bytes
        ):
            return _error(
                PACKET_TOO_LARGE, f"{PACKET_TOO_LARGE} (08S01): Got a packet bigger than 'max_allowed_packet' bytes"
            )
        connection = await self._connected()
        try:
            answer = await self._within_limits(connection, sql)
        except ServerError as error:
            if error.code == QUERY_INTERRUPTED:
                await self._after_interruption(connection)
            return _error(error.code, str(error))
        except ConnectionLostError:
            await self._connected()
            return _error(SERVER_LOST, f"{SERVER_LOST} (HY000): Lost connection to server during query")
        if answer is None:
            return QueryResult("timeout", message=f"the statement ran over {self._limits.timeout_s:g} s and was killed")
        if answer.columns is None:
            return QueryResult("done", affected=answer.affected)
        return QueryResult("rows", columns=answer.columns, rows=answer.rows, truncated=answer.truncated)

    async def _after_interruption(self, connection: Connection) -> None:
        """The agent killed its own statement, or its own connection with it."""
        try:
            await self._settle(connection)
        except ConnectionLostError:
            await self._connected()

    async def _within_limits(self, connection: Connection, sql: str) -> Answer | None:
        """The statement's answer; None when it had to be killed. The hub's clock decides: a killed statement may
        well report success."""
        cap = Cap(self._limits.max_rows, self._limits.max_bytes, lambda: self._services.admin.kill_query(connection.id))
        statement = asyncio.create_task(connection.query(sql, cap))
        timer = asyncio.create_task(self._clock.sleep(self._limits.timeout_s))
        try:
            await asyncio.wait((statement, timer), return_when=asyncio.FIRST_COMPLETED)
            if statement.done():
                return await self._settled(connection, statement.result())
            await self._kill(connection, statement)
            return None
        finally:
            timer.cancel()
            if not statement.done():
                connection.drop()
                statement.cancel()
                self._services.later(self._services.admin.kill_connection(connection.id))
            await asyncio.wait((statement, timer))

    async def _kill(self, connection: Connection, statement: asyncio.Task[Answer]) -> None:
        await self._services.admin.kill_query(connection.id)
        await asyncio.wait((statement,), timeout=KILL_GRACE_S)
        if not statement.done():
            return
        if not isinstance(statement.exception(), ConnectionLostError):
            await self._settle(connection)

    async def _settled(self, connection: Connection, answer: Answer) -> Answer:
        if answer.truncated:
            await self._settle(connection)
        return answer

    async def _settle(self, connection: Connection) -> None:
        """A kill that came just too late must not hit the next statement: let it hit this one."""
        if not connection.usable:
            await self._services.admin.kill_connection(connection.id)
            return
        try:
            await connection.command("DO 0")
        except ServerError:
            await connection.command("DO 0")

    async def _connected(self) -> Connection:
        """Raises EpisodeFailedError when the episode's database is lost."""
        if self._closed:
            raise EpisodeFailedError("the database is closed")
        if self._connection is None or not self._connection.usable:
            self._drop_connection()
            try:
                self._connection = await self._reconnect()
            except (ServerError, ConnectionLostError) as error:
                raise EpisodeFailedError(f"the database server is gone: {error}") from error
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    async def _reconnect(self) -> Connection:
        if await self._services.owners.boot_marker() != self._boot:
            raise EpisodeFailedError("the database server restarted during the episode")
        connection = await self._services.reconnect(self.account)
        try:
            await connection.command(self._services.dialect.episode_settings)
            await self._use(connection)
        except BaseException:
            connection.drop()
            raise
        return connection

    async def _return_home(self) -> bool:
        """After the agent dropped and made its database anew, it is in none; whether it is back in its own."""
        return await self._use(await self._connected())

    async def _use(self, connection: Connection) -> bool:
        try:
            await connection.command(f"USE {quoted(self.account.name)}")
        except ServerError as error:
            if error.code == UNKNOWN_DATABASE:
                return False
            raise
        return True

    async def _read_tables(self) -> dict[str, Sequence[tuple[object, ...]]]:
        admin, name = self._services.admin, self.account.name
        found = await admin.run(
            f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(name)} "
            "AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME"
        )
        tables: dict[str, Sequence[tuple[object, ...]]] = {str(table): UNREADABLE for (table,) in found.rows}
        try:
            await self._fill(tables)
        except ServerError as error:  # the verdict is settled, and the next table may cost as long a wait
            if error.code in ENGINE_TROUBLE:
                raise
        return tables

    async def _fill(self, tables: dict[str, Sequence[tuple[object, ...]]]) -> None:
        left = DUMP_MAX_BYTES
        for table in await self._plain(tables):
            sql = f"SELECT * FROM {quoted(self.account.name)}.{quoted(table)}"
            answer = await self._services.admin.read(sql, max_bytes=left)
            tables[table] = self._alias.rows_to_agent(answer.rows)
            left -= sum(_size(row) for row in answer.rows)
            if answer.truncated or left <= 0:
                return

    async def _plain(self, tables: Collection[str]) -> list[str]:
        """Those without generated columns, which no task has and whose reading may take any time."""
        found = await self._services.admin.run(
            "SELECT DISTINCT TABLE_NAME FROM information_schema.COLUMNS WHERE GENERATION_EXPRESSION <> '' "
            f"AND TABLE_SCHEMA = {literal(self.account.name)}"
        )
        generated = {str(table) for (table,) in found.rows}
        return [table for table in tables if table not in generated]


def _size(row: tuple[object, ...]) -> int:
    """About the bytes of a row, as a result set's limit counts them."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def _error(code: int, message: str) -> QueryResult:
    return QueryResult("error", error_code=code, message=message)

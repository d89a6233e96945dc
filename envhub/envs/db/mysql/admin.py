"""The administrator's connections: a few for work, one kept for kills.

Invariant: a kill never waits behind other work, and every statement run here may be repeated, so that a connection
lost while idle costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from envhub.envs.db.mysql.connection import Answer, Cap, Connection, ConnectionLostError, ServerError, connect
from envhub.envs.db.mysql.settings import ADMIN_SETTINGS
from envhub.envs.db.mysql.url import Server

NO_SUCH_THREAD = 1094


class Admin:
    """``n_connections`` bounds the parallel work on the server's catalogue."""

    def __init__(self, server: Server, *, n_connections: int = 4, max_packet_bytes: int = 64 << 20) -> None:
        self._server = server
        self._max_packet_bytes = max_packet_bytes
        self._slots = asyncio.Semaphore(n_connections)
        self._idle: list[Connection] = []
        self._killer: Connection | None = None
        self._kill_turn = asyncio.Lock()

    async def run(self, *statements: str) -> Answer:
        """Run statements in order on one connection; the last one's answer.

        Raises ServerError, ConnectionLostError.
        """
        async with self._slots:
            if self._idle:
                try:
                    return await self._run(self._idle.pop(), statements)
                except ConnectionLostError:
                    self._drop_idle()
            return await self._run(await self._connect(), statements)

    async def read(self, sql: str, *, max_bytes: int) -> Answer:
        """One large result set, cut at ``max_bytes``, on a connection of its own."""
        async with self._slots:
            connection = await self._connect()
            try:
                cap = Cap(max_rows=2**62, max_bytes=max_bytes, interrupt=lambda: self.kill_query(connection.id))
                return await connection.query(sql, cap)
            finally:
                connection.drop()

    async def kill_query(self, connection_id: int) -> None:
        """End a connection's running statement; nothing happens when it has none or is gone."""
        await self._kill(f"KILL QUERY {connection_id:d}")

    async def kill_connection(self, connection_id: int) -> None:
        await self._kill(f"KILL CONNECTION {connection_id:d}")

    async def warm_up(self) -> None:
        """Open the kill connection ahead of need: a full server refuses new ones."""
        async with self._kill_turn:
            await self._killing_connection()

    async def close(self) -> None:
        idle = [*self._idle, *([self._killer] if self._killer else [])]
        self._idle, self._killer = [], None
        for connection in idle:
            await connection.quit()

    async def _run(self, connection: Connection, statements: Sequence[str]) -> Answer:
        answer = Answer()
        try:
            for statement in statements:
                answer = await connection.command(statement)
        finally:
            if connection.usable:
                self._idle.append(connection)
            else:
                connection.drop()
        return answer

    async def _kill(self, statement: str) -> None:
        async with self._kill_turn:
            try:
                await self._ask_killer(statement)
            except ConnectionLostError:
                await self._ask_killer(statement)
            except ServerError as error:
                if error.code != NO_SUCH_THREAD:
                    raise

    async def _ask_killer(self, statement: str) -> None:
        killer = await self._killing_connection()
        await killer.command(statement)

    async def _killing_connection(self) -> Connection:
        if self._killer is None or not self._killer.usable:
            if self._killer is not None:
                self._killer.drop()
            self._killer = await self._connect()
        return self._killer

    async def _connect(self) -> Connection:
        connection = await connect(self._server, max_packet_bytes=self._max_packet_bytes)
        try:
            await connection.command(ADMIN_SETTINGS)
        except BaseException:
            connection.drop()
            raise
        return connection

    def _drop_idle(self) -> None:
        """One idle connection was dead, so the others most likely are: the server went away."""
        for connection in self._idle:
            connection.drop()
        self._idle.clear()

"""One client connection, wrapped around aiomysql.

Invariant: it never sends two statements at once, never holds more of a result than its cap in memory, never offers a local
file to the server, and is marked unusable the moment its place in the protocol is unsure.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiomysql
from pymysql.constants import CLIENT
from pymysql.err import MySQLError

from envhub.envs.db.mysql.url import Server
from envhub.envs.db.mysql.values import decoder

CONNECT_S = 10.0
COMMAND_S = 10.0
DRAIN_S = 2.0

QUERY_INTERRUPTED = 1317
_LOST = {0, 1053, 1077, 1078, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031} | set(range(2000, 2100))
"""Error numbers after which the connection is gone: the client's own, and the server's words for closing it."""


class ServerError(Exception):
    """The server refused; the connection is as good as before."""

    def __init__(self, code: int, state: str, text: str) -> None:
        super().__init__(f"{code} ({state}): {text}")
        self.code = code


class ConnectionLostError(Exception):
    """No answer will come from this connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``columns`` is None for a statement without a result set."""

    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[object, ...], ...] = ()
    affected: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Cap:
    """How much of a result set is kept; ``interrupt`` makes the server stop sending the rest."""

    max_rows: int
    max_bytes: int
    interrupt: Callable[[], Awaitable[None]]


class _PacketTooLargeError(Exception):
    pass


class _RawConnection(aiomysql.Connection):  # type: ignore[misc]  # aiomysql has no types
    """aiomysql's connection, one statement per call, refusing packets that would fill the memory."""

    max_packet_bytes: int

    def __init__(self, *, max_packet_bytes: int, **options: Any) -> None:
        super().__init__(use_unicode=False, conv={}, charset="utf8mb4", local_infile=False, **options)
        self.client_flag &= ~CLIENT.MULTI_STATEMENTS
        self.max_packet_bytes = max_packet_bytes

    async def _read_bytes(self, num_bytes: int) -> bytes:
        if num_bytes > self.max_packet_bytes:
            self.close()
            raise _PacketTooLargeError
        data: bytes = await super()._read_bytes(num_bytes)
        return data


class Connection:
    """An open connection; made by ``connect``, ended by ``quit`` or ``drop``."""

    def __init__(self, raw: _RawConnection) -> None:
        self._raw = raw
        self.id: int = raw.thread_id()

    @property
    def usable(self) -> bool:
        """False as soon as either side has ended it."""
        return not self._raw.closed and not self._raw._reader.eof_received

    async def query(self, sql: str, cap: Cap | None = None) -> Answer:
        """Run one statement. Raises ServerError, or ConnectionLostError and is then unusable.

        When cancelled it is unusable too, and the statement may still run in the server.
        """
        try:
            await self._raw.query(sql.encode("utf-8", "replace"), unbuffered=True)
            return await self._collect(cap)
        except _PacketTooLargeError:
            return Answer(columns=(), truncated=True)
        except MySQLError as error:
            raise self._translated(error) from error
        except asyncio.CancelledError:
            self.drop()
            raise
        except Exception as error:  # boundary: whatever the client trips over, its place in the protocol is unsure now
            self.drop()
            raise ConnectionLostError(f"{type(error).__name__}: {error}") from error

    async def command(self, sql: str) -> Answer:
        """A short statement of our own: a server that does not answer it in time counts as lost."""
        try:
            async with asyncio.timeout(COMMAND_S):
                return await self.query(sql)
        except TimeoutError as error:
            raise ConnectionLostError(f"the database server did not answer within {COMMAND_S:g} s") from error

    def drop(self) -> None:
        """Close the socket without a word, and without waiting for what is still to be sent."""
        if not self._raw.closed:
            self._raw._writer.transport.abort()
            self._raw.close()

    async def quit(self) -> None:
        """Say goodbye; the server then forgets the connection at once."""
        try:
            await self._raw.ensure_closed()
        except (MySQLError, OSError):
            self.drop()

    async def _collect(self, cap: Cap | None) -> Answer:
        first = await self._read_result(cap)
        while self.usable and self._raw._result is not None and self._raw._result.has_next:
            await self._raw._read_query_result(unbuffered=True)
            await self._read_result(cap)
        return first

    async def _read_result(self, cap: Cap | None) -> Answer:
        result = self._raw._result
        if not result.field_count:
            return Answer(affected=result.affected_rows or 0)
        columns = tuple(field.name for field in result.fields)
        decoders = [decoder(field) for field in result.fields]
        rows: list[tuple[object, ...]] = []
        n_bytes = 0
        try:
            while (raw := await result._read_rowdata_packet_unbuffered()) is not None:
                n_bytes += sum(len(value) for value in raw if value is not None)
                if cap is not None and (len(rows) == cap.max_rows or n_bytes > cap.max_bytes):
                    await self._stop(result, cap)
                    return Answer(columns, tuple(rows), truncated=True)
                rows.append(
                    tuple(None if value is None else decode(value) for decode, value in zip(decoders, raw, strict=True))
                )
        except _PacketTooLargeError:
            return Answer(columns, tuple(rows), truncated=True)
        return Answer(columns, tuple(rows))

    async def _stop(self, result: Any, cap: Cap) -> None:
        """End a result set early; what the network still holds is read away, so the connection keeps its state."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await cap.interrupt()
                while result.unbuffered_active:
                    await result._read_rowdata_packet_unbuffered()
        except MySQLError as error:
            if error.args[0] != QUERY_INTERRUPTED:
                self.drop()
        except (TimeoutError, _PacketTooLargeError, OSError):
            self.drop()

    def _translated(self, error: MySQLError) -> ServerError | ConnectionLostError:
        code = error.args[0] if error.args else 0
        if not isinstance(code, int) or code in _LOST:
            self.drop()
            return ConnectionLostError(str(error))
        return _server_error(error)


async def connect(
    server: Server, *, user: str | None = None, password: str | None = None, max_packet_bytes: int
) -> Connection:
    """A new connection as the server's administrator or as ``user``; no database is selected.

    Raises ServerError when the server refuses, ConnectionLostError when it cannot be reached.
    """
    raw = _RawConnection(
        max_packet_bytes=max_packet_bytes,
        host=server.host,
        port=server.port,
        unix_socket=server.socket,
        user=server.user if user is None else user,
        password=server.password if password is None else password,
        ssl=ssl.create_default_context(cafile=server.ssl_ca) if server.ssl_ca else None,
        autocommit=None,
        program_name="envhub",
    )
    opened = False
    try:
        async with asyncio.timeout(CONNECT_S):
            await raw._connect()
        opened = True
    except MySQLError as error:
        code = error.args[0] if error.args else 0
        if isinstance(code, int) and code not in _LOST:
            raise _server_error(error) from error
        raise ConnectionLostError(f"cannot reach the database server at {server.address}") from error
    except (OSError, RuntimeError, _PacketTooLargeError) as error:
        raise ConnectionLostError(f"cannot reach the database server at {server.address}") from error
    finally:
        if not opened:
            raw.close()
    return Connection(raw)


def _server_error(error: MySQLError) -> ServerError:
    code, text = error.args[0] & 0xFFFF, str(error.args[1]) if len(error.args) > 1 else ""
    return ServerError(code, error.sqlstate or "HY000", text)

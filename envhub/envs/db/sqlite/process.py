"""The driver's end of one host process: requests, the kill of a statement that overruns, and the rebuild after a loss.

Invariant: a host that dies comes back with every database as it was, and a statement that killed it twice alone is refused; no other
session notices more than a delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

from envhub.core.errors import UnavailableError
from envhub.envs.db.sqlite.frames import HEADER, Reply, Request, pack, read_reply

log = logging.getLogger(__name__)

_START_S = 30.0
_ROOT = str(Path(__file__).resolve().parents[4])


class HostLost(Exception):
    """The process died with the request unanswered. ``blamed``: by our own kill, for another statement."""

    def __init__(self, *, blamed: bool) -> None:
        super().__init__("database host lost")
        self.blamed = blamed


class Overrun(Exception):
    """The request did not answer in its time; its host was killed."""


class Restorable:
    """What a host needs of a database to build it again: its open request and the writes since, in order."""

    def __init__(self, opening: Request) -> None:
        self.opening = opening
        self.log: list[Request] = []
        self.broken = False


class HostProcess:
    """Starts on first use, restarts after a loss. ``databases`` are rebuilt in the new process."""

    def __init__(self, max_pages: int, memory_limit_bytes: int) -> None:
        self.databases: dict[int, Restorable] = {}
        self.sessions = 0
        self.pid = 0
        self._arguments = [str(max_pages), str(memory_limit_bytes)]
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._alone = asyncio.Lock()
        self._suspects = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._killed = False
        self._closed = False

    async def call(self, request: Request, timeout_s: float) -> Reply:
        """Raises Overrun, HostLost (it killed the host twice), UnavailableError."""
        await self._calm.wait()
        await self._ready()
        try:
            return await self._send(request, timeout_s)
        except HostLost as loss:
            if loss.blamed:
                await self._ready()
                return await self._send(request, timeout_s)
        return await self._call_alone(request, timeout_s)

    async def _call_alone(self, request: Request, timeout_s: float) -> Reply:
        """After an unexplained death, one request at a time, so that the one to blame shows."""
        self._suspects += 1
        self._calm.clear()
        try:
            async with self._alone:
                await self._ready()
                return await self._send(request, timeout_s)
        finally:
            self._suspects -= 1
            if not self._suspects:
                self._calm.set()

    async def _send(self, request: Request, timeout_s: float) -> Reply:
        number = next(self._numbers)
        waiter: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self._writer is None:
            raise HostLost(blamed=self._killed)
        self._waiting[number] = waiter
        data = pack(_numbered(request, number))
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(data)
                return await waiter
        except TimeoutError:
            self._waiting.pop(number, None)
            log.warning(
                "database host killed: statement overran", extra={"host_pid": self.pid, "database": request.database}
            )
            self.kill()
            raise Overrun from None
        finally:
            self._waiting.pop(number, None)

    def notify(self, request: Request) -> None:
        """Send without waiting for an answer."""
        if self._writer is not None:
            self._writer.write(pack(request))

    def kill(self) -> None:
        """End the process now; whoever waits on it sees a loss that is not its own."""
        self._killed = True
        if self._process is not None:
            self._process.kill()
        self._drop()

    def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(HostLost(blamed=self._killed))

    # ---- start and rebuild

    async def _ready(self) -> None:
        async with self._starting:
            if self._closed:
                raise UnavailableError("the database driver is closed")
            if self._writer is None:
                await self._start()
                await self._rebuild()

    async def _start(self) -> None:
        await self._reap()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "envhub.envs.db.sqlite.host", str(theirs.fileno()), *self._arguments]
        environment = {"PYTHONPATH": _ROOT, "MALLOC_ARENA_MAX": "2", "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        try:
            self._process = await asyncio.get_running_loop().run_in_executor(
                None, _spawn, command, theirs.fileno(), environment
            )
        except OSError as error:
            ours.close()
            raise UnavailableError(f"a database host cannot start: {error}") from error
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._killed = False
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        self._reading = asyncio.create_task(self._read(reader))
        log.info("database host started", extra={"host_pid": self.pid})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                reply = read_reply(await reader.readexactly(size))
                waiter = self._waiting.get(reply.number)
                if waiter is not None and not waiter.done():
                    waiter.set_result(reply)
        except (OSError, asyncio.IncompleteReadError):
            self._drop()

    async def _reap(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
            self._reading = None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await asyncio.get_running_loop().run_in_executor(None, process.wait)

    async def _rebuild(self) -> None:
        """Every database again from its tables and its writes; one that kills the new process too is given up."""
        while (culprit := await self._restore_all()) is not None:
            culprit.broken = True
            await self._start()

    async def _restore_all(self) -> Restorable | None:
        for database in list(self.databases.values()):
            if database.broken:
                continue
            try:
                await self._restore(database)
            except (Overrun, HostLost):
                return database
        return None

    async def _restore(self, database: Restorable) -> None:
        for request in (database.opening, *database.log):
            reply = await self._send(request, _START_S + 2 * request.timeout_s)
            if reply.status not in ("ok", "done", "rows"):
                database.broken = True
                log.warning("database not restored", extra={"database": request.database, "reason": reply.message})
                return

    async def close(self) -> None:
        self._closed = True
        self.kill()
        await self._reap()


def _numbered(request: Request, number: int) -> Request:
    return Request(
        number, request.database, request.op, request.tables, request.sql, request.now, request.seed, request.timeout_s,
        request.max_rows, request.max_bytes,
    )  # fmt: skip


def _spawn(command: list[str], channel: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, pass_fds=[channel], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )

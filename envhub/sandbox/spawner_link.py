"""The hub's end of a spawner: requests with descriptors go out, each answer comes back on a pipe of its own.

Invariant: a descriptor handed to ``request`` is closed when the call returns or raises; a spawner that dies fails every open
request with SandboxLostError.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import envhub
from envhub.core.errors import EpisodeFailedError, SandboxFileError, SandboxLostError, UnavailableError
from envhub.sandbox.spawner import PACKET_BYTES

_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from envhub.sandbox.spawner import main; main()"
READ_BYTES = 64 << 10
_QUIET_S = 0.02
"""How long no start may have been asked for when the next is prepared."""


class SpawnerLink:
    """One spawner process. Of one event loop."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._sending = asyncio.Lock()
        self._prepared: socket.socket | None = None
        self._preparing: asyncio.TimerHandle | None = None

    @classmethod
    def spawn(cls) -> SpawnerLink:
        ours, theirs = _packet_sockets()
        with theirs:
            process = subprocess.Popen(
                python_argv(_CODE, str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
            )
        return cls(process, ours)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def request(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> tuple[dict[str, Any], bytes]:
        """The answer's fields and the bytes after them.

        Raises SandboxLostError, SandboxFileError, UnavailableError, EpisodeFailedError.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            try:
                os.set_blocking(writing, True)
                await self._send(message, [writing, *fds])
            finally:
                for fd in (writing, *fds):
                    os.close(fd)
            return _parsed(await read_to_end(reading))
        finally:
            os.close(reading)

    async def start(self, message: Mapping[str, Any], fds: Sequence[int]) -> tuple[dict[str, Any], bytes]:
        """The request of a start, which goes to a process that was made ahead when there is one."""
        if self._preparing is not None:
            self._preparing.cancel()
        identity = message["stage"]["identity"]
        self._preparing = asyncio.get_running_loop().call_later(_QUIET_S, self._prepare, identity)
        return await self.request(message, fds)

    def _prepare(self, identity: bool) -> None:
        self._preparing = None
        if self._prepared is None and not self._sending.locked():
            ours, theirs = _packet_sockets()
            with theirs:
                try:
                    socket.send_fds(
                        self._control, [json.dumps({"op": "prepare", "identity": identity}).encode()], [theirs.fileno()]
                    )
                except OSError:
                    ours.close()
                else:
                    self._prepared = ours

    async def _send(self, message: Mapping[str, Any], fds: list[int]) -> None:
        data = json.dumps(message).encode()
        if len(data) > PACKET_BYTES:
            raise EpisodeFailedError(
                f"a request of {len(data)} bytes is too large for the sandbox; at most {PACKET_BYTES}"
            )
        if message["op"] == "start" and self._sent_ahead(data, fds):
            return
        async with self._sending:
            while True:
                try:
                    socket.send_fds(self._control, [data], fds)
                    return
                except BlockingIOError:
                    await _writable(self._control.fileno())
                except OSError as error:
                    raise SandboxLostError(f"the spawner of sandboxes is gone: {error}") from error

    def _sent_ahead(self, data: bytes, fds: list[int]) -> bool:
        """Whether a process that was made ahead took the start."""
        channel, self._prepared = self._prepared, None
        if channel is None:
            return False
        with channel:
            try:
                socket.send_fds(channel, [data], fds)
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Ends the process, and with it every sandbox it started."""
        if self._preparing is not None:
            self._preparing.cancel()
        if self._prepared is not None:
            self._prepared.close()
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _packet_sockets() -> tuple[socket.socket, socket.socket]:
    """Ours, which does not block, and theirs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * PACKET_BYTES)
    ours.setblocking(False)
    return ours, theirs


def python_argv(code: str, *arguments: str) -> list[str]:
    """Python without site packages, whose ``sys.argv`` is then where the package lies and ``arguments``."""
    root = str(Path(envhub.__file__).resolve().parent.parent)
    return [sys.executable, "-S", "-E", "-c", code, root, *arguments]


async def read_to_end(fd: int) -> bytes:
    """All of a nonblocking pipe."""
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            await readable(fd)
            continue
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, _set_once, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def _writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(fd, _set_once, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


async def write_all(fd: int, data: bytes) -> None:
    """Into a nonblocking pipe. Raises BrokenPipeError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await _writable(fd)


def _set_once(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _parsed(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A start is answered twice, by the spawner's child and by bwrap; a file's bytes follow the line that tells their number."""
    line, _, rest = data.partition(b"\n")
    try:
        fields: dict[str, Any] = json.loads(line)
        if "n_bytes" in fields:
            return fields, rest
        text = rest.decode().strip()
        while text:
            found, end = json.JSONDecoder().raw_decode(text)
            fields.update(found)
            text = text[end:].strip()
    except ValueError as error:
        raise SandboxLostError("the spawner of sandboxes died") from error
    _raise_error(fields)
    return fields, b""


def _raise_error(fields: Mapping[str, Any]) -> None:
    message = str(fields.get("message", ""))
    match fields.get("error"):
        case None:
            return
        case "lost":
            raise SandboxLostError(message)
        case "file":
            raise SandboxFileError(message)
        case "room":
            raise UnavailableError(f"the machine has no room for a sandbox: {message}")
        case _:
            raise EpisodeFailedError(f"sandbox: {message}")

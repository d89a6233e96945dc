"""Processes beside the shell of a Docker sandbox: run, capped, timed, and answered as soon as they end.

Invariant: what a process leaves running in the background never holds its answer; the connection of a call ends with the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envhub.core.clock import Clock
from envhub.core.errors import SandboxLostError
from envhub.core.sandbox import ProcessResult
from envhub.sandbox.docker_api import STDERR, STDOUT, Attached, Engine, EngineError

OUTPUT_BYTES = 1 << 20
_WRAPPER = (
    'exec 3>&2 2>/dev/null; cd /root || cd /; printf "\\0%s:P%s\\0" "$0" $$ >&3; "$@" 2>&3 3>&-; s=$?; '
    'printf "\\0%s:E%s\\0" "$0" $s; printf "\\0%s:E%s\\0" "$0" $s >&3'
)
"""Tells its pid on stderr, then the exit status on both streams; keeps the remarks of sh out of them."""
_MARKER_BYTES = 64
_SETTLE_S = 2.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Command:
    """``prefix`` comes before the shell that wraps ``argv``, such as chroot and its folder."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    prefix: tuple[str, ...] = ()
    max_bytes: int = OUTPUT_BYTES


class Process:
    """One process of a container. ``pid``: as the container sees it, once the process has said so."""

    def __init__(self, engine: Engine, container: str, command: Command, *, clock: Clock) -> None:
        self._engine = engine
        self._container = container
        self._command = command
        self._clock = clock
        self._nonce = secrets.token_hex(12)
        self.pid: int | None = None

    async def run(self, *, timeout_s: float) -> ProcessResult:
        """``exit_code`` is None when the time was up; it still runs then. Raises SandboxLostError, UnavailableError."""
        exec_id, stream = await self._start()
        streams = {kind: _Capture(self._nonce, self._command.max_bytes) for kind in (STDOUT, STDERR)}
        feeding = asyncio.create_task(_feed(stream, self._command.stdin))
        reading = asyncio.create_task(self._read(stream, streams))
        timer = asyncio.create_task(self._clock.sleep(timeout_s))
        try:
            await asyncio.wait((reading, timer), return_when=asyncio.FIRST_COMPLETED)
            exit_code = await self._exit_code(exec_id, streams) if reading.done() else None
        finally:
            for task in (feeding, reading, timer):
                task.cancel()
            stream.close()
            await asyncio.gather(feeding, reading, timer, return_exceptions=True)
        return ProcessResult(exit_code, streams[STDOUT].finish(), streams[STDERR].finish())

    async def _start(self) -> tuple[str, Attached]:
        environment = [f"{name}={value}" for name, value in self._command.environment.items()]
        cmd = [*self._command.prefix, "/bin/sh", "-c", _WRAPPER, self._nonce, *self._command.argv]
        body = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Cmd": cmd, "Env": environment}
        body |= {"User": "0:0", "WorkingDir": "/"}
        try:
            answer = await self._engine.call("POST", f"/containers/{self._container}/exec", body)
            exec_id = str(answer["Id"])
            return exec_id, await self._engine.attach(f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
        except EngineError as error:
            raise SandboxLostError(f"the container is gone: {error.message}") from error

    async def _read(self, stream: Attached, streams: Mapping[int, _Capture]) -> None:
        while not all(each.exit_code is not None for each in streams.values()):
            kind, data = await stream.receive()
            if not data:
                return
            capture = streams[kind]
            capture.feed(data)
            self.pid = self.pid or capture.pid

    async def _exit_code(self, exec_id: str, streams: Mapping[int, _Capture]) -> int:
        """As the process told; as the engine says when the process could not tell."""
        told = [each.exit_code for each in streams.values() if each.exit_code is not None]
        waited_s = 0.0
        while not told and waited_s < _SETTLE_S:
            try:
                state = await self._engine.call("GET", f"/exec/{exec_id}/json")
            except EngineError as error:
                raise SandboxLostError(f"the container is gone: {error.message}") from error
            if state["ExitCode"] is not None and not state["Running"]:
                told.append(int(state["ExitCode"]))
                break
            await self._clock.sleep(_POLL_S)
            waited_s += _POLL_S
        if not told:
            raise SandboxLostError("the container does not say how a process ended")
        return told[0]


class _Capture:
    """The beginning of a stream, without the markers in it."""

    def __init__(self, nonce: str, max_bytes: int) -> None:
        self._marker = re.compile(rb"\x00%s:([PE])(\d+)\x00" % nonce.encode())
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._held = b""
        self.pid: int | None = None
        self.exit_code: int | None = None

    def feed(self, chunk: bytes) -> None:
        window = self._held + chunk
        while found := self._marker.search(window):
            self._keep(window[: found.start()])
            if found[1] == b"P":
                self.pid = int(found[2])
            else:
                self.exit_code = int(found[2])
            window = window[found.end() :]
        keep = window.rfind(b"\0", max(0, len(window) - _MARKER_BYTES))
        self._held = window[keep:] if keep >= 0 else b""
        self._keep(window[: len(window) - len(self._held)])

    def finish(self) -> bytes:
        self._keep(self._held)
        self._held = b""
        return bytes(self._data)

    def _keep(self, data: bytes) -> None:
        if self.exit_code is None:
            self._data += data[: self._max_bytes - len(self._data)]


async def _feed(stream: Attached, data: bytes) -> None:
    with contextlib.suppress(OSError):
        if data:
            await stream.send(data)
        stream.send_eof()

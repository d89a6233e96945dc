"""One sandbox of the ``bubblewrap`` driver, seen from the hub: its shell, processes beside it, files, copies, its end.

Invariant: the hub holds two pipes of it and nothing else; everything done to it goes through the spawner, by name and process id.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, SandboxLostError
from envhub.core.sandbox import CommandResult, ProcessResult, Sandbox, SandboxSpec, View
from envhub.sandbox.cgroups import Controllers
from envhub.sandbox.loss import telling_whose_doing
from envhub.sandbox.reaping import process
from envhub.sandbox.shell import Shell
from envhub.sandbox.spawner_link import READ_BYTES, SpawnerLink, readable, write_all
from envhub.sandbox.stage import Stage, file_with

KEPT_BYTES = 1 << 20
"""Of each output of ``exec``."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELL_ENVIRONMENT = {"PATH": _PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash"}
_ENVIRONMENT = {**_SHELL_ENVIRONMENT, "LANG": "C.UTF-8"}
_JUDGE_ENVIRONMENT = {**_ENVIRONMENT, "PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_HOSTNAME = "sandbox"
_SPARE_S = 30.0
"""What the spawner may take beyond a process's own limit."""
LAUNCH_S = 60.0
"""What it may take for a start; a copy has many files to bring."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a sandbox is started with. ``seccomp``: the filter, in hex."""

    spec: SandboxSpec
    stage: Stage
    controllers: Controllers
    seccomp: str | None


class Owning(Protocol):
    """What a sandbox needs of its driver."""

    def spawner(self) -> SpawnerLink: ...

    async def copy(self, source: BubblewrapSandbox, state: bytes) -> Sandbox: ...

    def forget(self, sandbox: BubblewrapSandbox) -> None: ...


class BubblewrapSandbox:
    """Implements ForkableSandbox."""

    def __init__(self, driver: Owning, setting: Setting, name: str, clock: Clock) -> None:
        self.setting = setting
        self._driver = driver
        self._link = driver.spawner()
        self._name = name
        self._monitor: int | None = None
        self._init: int | None = None
        self._launching: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._channel = _PipeChannel(self)
        self._clock = clock
        self._shell = Shell(self._channel, clock=clock)

    @classmethod
    def prepared(cls, driver: Owning, setting: Setting, *, label: str, clock: Clock) -> BubblewrapSandbox:
        return cls(driver, setting, f"{label}.{secrets.token_hex(6)}", clock)

    @property
    def identity(self) -> Mapping[str, Any]:
        """How the spawner knows it."""
        return {
            "name": self._name, "controllers": self.setting.controllers.to_json(), "monitor": self._monitor, "init": self._init
        }  # fmt: skip

    @property
    def alive(self) -> bool:
        return self._closing is None and self._link.alive and self._init is not None and process(self._init) is not None

    async def start(self, source: BubblewrapSandbox | None, restore: bytes | None) -> None:
        """Raises EpisodeFailedError, UnavailableError."""
        spec = self.setting.spec
        cwd = spec.cwd if source is None else "/"  # a session may have removed its first folder
        request = {
            "op": "start", **self.identity, **self._common(), "argv": Shell.program(), "cwd": cwd,
            "environment": {**_SHELL_ENVIRONMENT, **spec.environment},
        }  # fmt: skip
        if source is not None:
            request |= {"op": "copy", "source": source.identity}
        try:
            self._launching = asyncio.create_task(self._launch(request))
            await asyncio.shield(self._launching)
            await self._shell.start(restore)
            self._channel.is_up()
            self._check_bounds()
        except SandboxLostError as error:
            said = await self._channel.last_words()
            raise EpisodeFailedError(f"the sandbox did not start: {said or error.message}") from error

    async def _launch(self, request: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(LAUNCH_S):
                answer, _ = await self._link.start(request, self._channel.open())
        except TimeoutError as error:
            raise SandboxLostError(f"nothing was started within {LAUNCH_S:g} s") from error
        self._monitor, self._init = answer["monitor"], answer.get("child-pid")
        if self._init is None:
            raise SandboxLostError("bwrap ended at once")

    def _check_bounds(self) -> None:
        if self._init is None or not self.setting.controllers.group(self._name).holds(self._init):
            raise SandboxLostError("its first process is not in its control groups")

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        self.check()
        async with telling_whose_doing(self._has_ended_itself):
            return await self._shell.run(script, timeout_s=timeout_s, max_bytes=max_bytes)

    async def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", view: View = "session"
    ) -> ProcessResult:
        self.check()
        async with telling_whose_doing(self._has_ended_itself):
            return await self._exec(argv, timeout_s, stdin, view)

    async def _exec(self, argv: Sequence[str], timeout_s: float, stdin: bytes, view: View) -> ProcessResult:
        environment = _JUDGE_ENVIRONMENT if view == "judge" else {**_ENVIRONMENT, **self.setting.spec.environment}
        request = {
            "op": "exec", "session": self.identity, **self._common(), "argv": list(argv), "view": view, "timeout_s": timeout_s,
            "environment": environment, "cwd": "/root",
        }  # fmt: skip
        stdin_fd, feeding = _pipe(ours="writing")
        stdout, stdout_fd = _pipe(ours="reading")
        stderr, stderr_fd = _pipe(ours="reading")
        kept = [_Kept(stdout), _Kept(stderr)]
        tasks = [
            asyncio.create_task(_feed(feeding, stdin)),
            *(asyncio.create_task(output.collect()) for output in kept),
        ]
        listening, listener = _pipe(ours="writing")
        asking = asyncio.create_task(self._link.request(request, (stdin_fd, stdout_fd, stderr_fd, listening)))
        try:
            async with asyncio.timeout(timeout_s + _SPARE_S):
                answer, _ = await asyncio.shield(asking)
        except TimeoutError as error:
            raise SandboxLostError("the spawner of sandboxes does not answer") from error
        finally:
            # A closed listener ends the process; what it takes down is down before anything else can run.
            os.close(listener)
            await asyncio.wait([asking], timeout=_SPARE_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for output in kept:
                output.drain()
            for fd in (stdout, stderr):
                os.close(fd)
        said, complained = (bytes(output.data) for output in kept)
        return _result(ProcessResult(answer["exit_code"], said, complained), view)

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.check()
        request = {"op": "put", "session": self.identity, "path": path, "mode": mode}
        async with telling_whose_doing(self._has_ended_itself):
            await self._link.request(request, (file_with(data),))

    async def get(self, path: str, *, max_bytes: int) -> bytes:
        self.check()
        request = {"op": "get", "session": self.identity, "path": path, "max_bytes": max_bytes}
        async with telling_whose_doing(self._has_ended_itself):
            _, data = await self._link.request(request)
        return data

    async def fork(self) -> Sandbox:
        self.check()
        return await self._driver.copy(self, await self._shell.checkpoint())

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def check(self) -> None:
        """Raises SandboxLostError."""
        if self._closing is not None:
            raise SandboxLostError("the sandbox is closed")

    async def _has_ended_itself(self) -> bool:
        """While the spawner lives and nobody closes the sandbox, nobody else can have done it. A process that dies closes its pipes a
        moment before it is gone."""
        for _ in range(100):
            if self._closing is not None or self._init is None or not self._link.alive:
                return False
            if process(self._init) is None:
                return True
            await self._clock.sleep(0.01)
        return False

    async def reap(self, runner: int | None) -> None:
        self.check()
        await self._link.request({"op": "reap", "session": self.identity, "runner": runner})

    async def _close(self) -> None:
        """A launch that its caller gave up is waited for: only then is it known what there is to remove."""
        if self._launching is not None:
            await asyncio.wait([self._launching])
        try:
            await self._driver.spawner().request({"op": "close", **self.identity, "folder": self.setting.stage.folder})
        finally:
            await self._shell.close()  # it may be waiting for a pipe, which must not be closed under it
            self._channel.close()
            self._driver.forget(self)

    def _common(self) -> dict[str, Any]:
        return {
            "stage": asdict(self.setting.stage), "limits": asdict(self.setting.spec.limits), "seccomp": self.setting.seccomp,
            "hostname": _HOSTNAME,
        }  # fmt: skip


class _PipeChannel:
    """The two pipes of the shell's program; implements Channel."""

    def __init__(self, sandbox: BubblewrapSandbox) -> None:
        self._sandbox = sandbox
        self._fds: tuple[int, int] | None = None
        self._first_words: bytearray | None = bytearray()

    def open(self) -> tuple[int, int]:
        """The program's ends: its stdin, its output."""
        stdin, ours_out = _pipe(ours="writing")
        ours_in, output = _pipe(ours="reading")
        self._fds = ours_in, ours_out
        return stdin, output

    async def send(self, data: bytes) -> None:
        self._sandbox.check()
        assert self._fds is not None
        try:
            await write_all(self._fds[1], data)
        except BrokenPipeError as error:
            raise SandboxLostError("the first process of the sandbox is gone") from error

    async def receive(self) -> bytes:
        while self._fds is not None:
            try:
                data = os.read(self._fds[0], READ_BYTES)
            except BlockingIOError:
                await readable(self._fds[0])
                continue
            if self._first_words is not None:
                self._first_words += data
            return data
        return b""

    def is_up(self) -> None:
        """What comes from now on is the shell's alone."""
        self._first_words = None

    async def reap(self, runner: int | None) -> None:
        await self._sandbox.reap(runner)

    async def last_words(self) -> str:
        """What a program that did not come up wrote."""
        said = self._first_words if self._first_words is not None else bytearray()
        try:
            async with asyncio.timeout(1.0):
                while len(said) < READ_BYTES and await self.receive():
                    pass
        except TimeoutError:
            pass
        return said.decode("utf-8", "replace").strip()[-2000:]

    def close(self) -> None:
        fds, self._fds = self._fds, None
        for fd in fds or ():
            os.close(fd)


class _Kept:
    """The first KEPT_BYTES of an output; the rest is read and dropped, so that its writer never waits."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at_end = False
        self.data = bytearray()

    async def collect(self) -> None:
        while not self._at_end:
            if not self._take():
                await readable(self._fd)

    def drain(self) -> None:
        """What is in the pipe now; who still holds it open and writes on is not waited for."""
        taken = 0
        while not self._at_end and taken < KEPT_BYTES and self._take():
            taken += READ_BYTES

    def _take(self) -> bool:
        """False when there is nothing to read now."""
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        self._at_end = not chunk
        self.data += chunk[: KEPT_BYTES - len(self.data)]
        return True


async def _feed(fd: int, data: bytes) -> None:
    """Write all and close."""
    try:
        await write_all(fd, data)
    except BrokenPipeError:
        pass
    finally:
        os.close(fd)


def _pipe(*, ours: Literal["reading", "writing"]) -> tuple[int, int]:
    """Reading end, writing end; our own does not block."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reading if ours == "reading" else writing, False)
    return reading, writing


def _result(ended: ProcessResult, view: View) -> ProcessResult:
    """bwrap's own failures are told apart from its program's."""
    if view == "session" or ended.exit_code != 1 or not ended.stderr.startswith(b"bwrap: "):
        return ended
    text = ended.stderr.decode("utf-8", "replace").strip()
    if not text.startswith("bwrap: execvp "):
        raise EpisodeFailedError(f"the judge's view: {text[:500]}")
    return ProcessResult(127, ended.stdout, ended.stderr.removeprefix(b"bwrap: execvp "))

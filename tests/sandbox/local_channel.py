"""A plain bash in a pid namespace of its own, with nothing else shut off: enough of a sandbox for the tests of the shell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxLostError
from envhub.sandbox.docker_reach import REAPER
from envhub.sandbox.shell import Shell


class LocalChannel:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.n_reaps = 0
        self.listening = asyncio.Event()
        self.listening.set()

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data)
            await self.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise SandboxLostError("the first process is gone") from error

    async def receive(self) -> bytes:
        assert self.process.stdout is not None
        await self.listening.wait()
        return await self.process.stdout.read(65536)

    async def reap(self, runner: int | None) -> None:
        """As the Docker driver does it: again where the processes took longer to go than the script looked."""
        self.n_reaps += 1
        argv = ["nsenter", "-t", str(self.first()), "-p", "-m", "bash", "--norc", "--noprofile", "-c", REAPER, "bash"]
        for _ in range(20):
            reaper = await asyncio.create_subprocess_exec(*argv, str(runner or 0))
            # without a runner everything goes, and with the last reader the first process ends who is left, the script too
            if await reaper.wait() in ((0,) if runner is not None else (0, -9, 137)):
                return
        raise SandboxLostError("the reaper failed")

    def first(self) -> int:
        """The namespace's first process, as the host sees it."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            return int(children.read().split()[0])


@asynccontextmanager
async def local_channel(cwd: str) -> AsyncIterator[LocalChannel]:
    environment = {"PATH": os.environ["PATH"], "HOME": cwd, "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "setsid", *Shell.program(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        cwd=cwd, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield LocalChannel(process)
    finally:
        if process.returncode is None:
            process.kill()
        while process.stdout is not None and await process.stdout.read(65536):
            pass
        await process.wait()


@asynccontextmanager
async def local_shell(cwd: str, restore: bytes | None = None) -> AsyncIterator[Shell]:
    async with local_channel(cwd) as channel:
        shell = Shell(channel, clock=SystemClock())
        await shell.start(restore)
        try:
            yield shell
        finally:
            await shell.close()

"""Controllers and workers as real processes on free ports; every process started here is dead when ``Processes`` is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import aiohttp

from envhub.client.hub import Hub
from envhub.core.errors import EnvhubError

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Process:
    """One running program; ``log`` is its standard error."""

    popen: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    async def exited(self, limit_s: float) -> int:
        """Exit code. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while (code := self.popen.poll()) is None:  # noqa: ASYNC110  # a process has no event
                await asyncio.sleep(0.02)
        return code

    def text(self) -> str:
        return self.log.read_text()


class Processes:
    """``async with Processes(tmp_path) as processes``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []
        self._logs: list[IO[bytes]] = []

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            if process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.kill()
        for log in self._logs:
            log.close()
        if kind is not None:
            for process in self._started:
                print(f"--- {process.log.name}\n{process.text()[-3000:]}")

    async def controller(
        self, port: int, *, liveness: Mapping[str, float] | None = None, debug: bool = False, **settings: Any
    ) -> Process:
        """Returns when it answers. The store is one file per port, so that a controller started again has its past."""
        settings = {"port": port, "store_url": f"sqlite:///{self._folder}/{port}.db", **settings}
        process = self._program("controller", {"settings": settings, "liveness": dict(liveness or {}), "debug": debug})
        await until_answers(f"http://127.0.0.1:{port}/healthz", process)
        return process

    def worker(self, *ports: int, capacity: int = 256, debug: bool = False, **settings: Any) -> Process:
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        settings = {"controllers": urls, "capacity": capacity, **settings}
        return self._program("worker", {"settings": settings, "debug": debug})

    def command(self, *arguments: str, environ: Mapping[str, str] | None = None) -> Process:
        """``envhub ARGUMENTS`` itself."""
        return self._start(arguments[0], [sys.executable, "-m", "envhub.cli", *arguments], environ or {})

    def store_url(self, port: int) -> str:
        return f"sqlite:///{self._folder}/{port}.db"

    def _program(self, kind: str, settings: Mapping[str, Any]) -> Process:
        return self._start(kind, [sys.executable, "-m", "tests.hub.programs", kind, json.dumps(settings)], {})

    def _start(self, name: str, command: list[str], environ: Mapping[str, str]) -> Process:
        path = self._folder / f"{len(self._started)}-{name}.log"
        log = path.open("wb")
        self._logs.append(log)
        others = {name: value for name, value in os.environ.items() if not name.startswith("ENVHUB_")}
        own = {**others, **environ}  # settings of whoever runs the tests are not theirs
        popen = subprocess.Popen(command, cwd=ROOT, env=own, stdout=log, stderr=log)
        process = Process(popen, path)
        self._started.append(process)
        return process


_held: list[socket.socket] = []


def free_port() -> int:
    """No other process gets it while this one lives: it stays bound, and a server may listen on it all the same."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server's own socket has
    held.bind(("127.0.0.1", 0))
    _held.append(held)
    port: int = held.getsockname()[1]
    return port


async def until(condition: Callable[[], Awaitable[bool]], limit_s: float = 30.0) -> None:
    async with asyncio.timeout(limit_s):
        while not await condition():  # noqa: ASYNC110  # what is waited for is in another process
            await asyncio.sleep(0.05)


async def until_answers(url: str, process: Process, limit_s: float = 60.0) -> None:
    async def answers() -> bool:
        if process.popen.poll() is not None:
            raise RuntimeError(f"the program ended: {process.text()[-2000:]}")
        return await _status(url) == 200

    await until(answers, limit_s)


async def until_logged(process: Process, text: str, times: int = 1) -> None:
    async def logged() -> bool:
        return process.text().count(text) >= times

    await until(logged)


async def until_waiting(hub: Hub, environment: str, n_starts: int) -> None:
    """That many starts wait for a slot."""
    line = f'envhub_starts_waiting{{environment="{environment}"}} {n_starts}.0\n'.encode()

    async def waiting() -> bool:
        return line in await hub.request("GET", "/metrics")

    await until(waiting)


async def workers(hub: Hub) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(await hub.request("GET", "/v1/workers"))["workers"]
    return listed


async def until_ready(hub: Hub, n_workers: int, limit_s: float = 60.0) -> None:
    async def ready() -> bool:
        try:
            return [each["state"] for each in await workers(hub)].count("ready") == n_workers
        except EnvhubError:
            return False

    await until(ready, limit_s)


async def slots_taken(hub: Hub) -> int:
    return sum(int(each["sessions"]) + int(each["starting"]) for each in await workers(hub))


async def until_idle(hub: Hub, limit_s: float = 30.0) -> None:
    """All slots are back."""

    async def idle() -> bool:
        return (await slots_taken(hub)) == 0

    await until(idle, limit_s)


async def _status(url: str) -> int:
    try:
        async with aiohttp.ClientSession() as session, session.get(url, timeout=aiohttp.ClientTimeout(2)) as answer:
            return answer.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return 0

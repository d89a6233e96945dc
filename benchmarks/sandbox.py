"""A sandbox for one session: the bubblewrap driver beside ``docker run`` and ``docker exec``, in interleaved rounds; then hostile inputs.

The Docker side is as lean as it gets: no network, no pseudo-terminal, the same image and limits, one ``docker exec`` per command.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import Claim, Latency, arguments, finish

from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.sandbox import CommandStatus, SandboxDriver, SandboxSpec
from envhub.sandbox.choose import choose
from envhub.sandbox.docker_api import STDOUT, Engine
from envhub.sandbox.pool import WarmPool
from envhub.testing.hostile import HOSTILE, HostileInput, survive

COMMAND = "ls / | wc -l"
SPEC = SandboxSpec()
IMAGES = ("envhub/os-default", "debian:bookworm-slim")
LABEL = "envhub.benchmark"
N_HOSTILE_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Size:
    n_rounds: int
    n_commands: int
    n_warm: int
    n_idle: int
    n_at_once: int


FULL = Size(n_rounds=30, n_commands=10, n_warm=100, n_idle=8, n_at_once=64)
QUICK = Size(n_rounds=8, n_commands=4, n_warm=25, n_idle=3, n_at_once=16)


@dataclass(slots=True)
class Times:
    """Seconds."""

    start: list[float] = field(default_factory=list)
    command: list[float] = field(default_factory=list)
    close: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"start": _ms(self.start), "command": _ms(self.command), "close": _ms(self.close)}


class DockerCommands:
    """Containers by the ``docker`` program, as a harness without a sandbox layer drives them."""

    def __init__(self, image: str) -> None:
        self._image = image

    async def start(self) -> str:
        limits = SPEC.limits
        flags = [
            "--network", "none", "--memory", str(limits.memory_bytes), "--pids-limit", str(limits.n_processes),
            "--cpus", str(limits.n_cpus), "--label", f"{LABEL}={os.getpid()}",
        ]  # fmt: skip
        return (await _docker("run", "--detach", *flags, self._image, "sleep", "infinity")).strip()

    async def run(self, container: str, script: str) -> str:
        return await _docker("exec", container, "bash", "-c", script)

    async def close(self, container: str) -> None:
        await _docker("rm", "--force", container)

    async def pids(self, container: str) -> list[int]:
        """The shim's and the container's processes."""
        top = int(await _docker("inspect", "--format", "{{.State.Pid}}", container))
        shim = int(_stat(top)[1])
        return [shim, *_descendants(shim)]

    async def remove_all(self) -> None:
        """What a run that was cut off left."""
        listed = await _docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={os.getpid()}")
        if listed.split():
            await _docker("rm", "--force", *listed.split())


class DockerEngine:
    """The same containers over the engine's socket, without a process per call."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._engine = Engine()

    async def start(self) -> str:
        limits = SPEC.limits
        host = {
            "NetworkMode": "none", "Memory": limits.memory_bytes, "PidsLimit": limits.n_processes,
            "NanoCpus": int(limits.n_cpus * 1e9),
        }  # fmt: skip
        body = {
            "Image": self._image, "Cmd": ["sleep", "infinity"], "Labels": {LABEL: str(os.getpid())}, "HostConfig": host,
        }  # fmt: skip
        container: str = (await self._engine.call("POST", "/containers/create", body))["Id"]
        await self._engine.call("POST", f"/containers/{container}/start")
        return container

    async def run(self, container: str, script: str) -> str:
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["bash", "-c", script]}
        made = await self._engine.call("POST", f"/containers/{container}/exec", body)
        stream = await self._engine.attach(f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        said = b""
        try:
            while (frame := await stream.receive()) is not None:
                said += frame[1] if frame[0] == STDOUT else b""
        finally:
            await stream.close()
        return said.decode()

    async def close(self, container: str) -> None:
        await self._engine.call("DELETE", f"/containers/{container}", params={"force": "1"})

    async def aclose(self) -> None:
        await self._engine.close()

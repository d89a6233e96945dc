"""A sandbox for one session: the bubblewrap driver beside ``docker run`` and ``docker exec``, in one run; then hostile inputs.

The Docker side is as lean as it gets: no network, no pseudo-terminal, the same limits, one ``docker exec`` per command.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness import Claim, Latency, arguments, finish

from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.sandbox import Sandbox, SandboxDriver, SandboxSpec
from envhub.sandbox.bubblewrap_sandbox import BubblewrapSandbox
from envhub.sandbox.choose import choose
from envhub.sandbox.docker_api import Engine
from envhub.sandbox.pool import WarmPool
from envhub.testing.hostile import HOSTILE, HostileInput, survive

COMMAND = "ls / | wc -l"
SPEC = SandboxSpec()
IMAGES = ("envhub/os-default", "debian:bookworm-slim")
LABEL = "envhub.benchmark"
SETTLE_S = 0.1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    n_rounds: int
    n_commands: int
    n_warm: int
    n_idle: int
    n_at_once: int
    n_hostile_at_once: int


FULL = Size(n_rounds=30, n_commands=10, n_warm=100, n_idle=16, n_at_once=64, n_hostile_at_once=1)
QUICK = Size(n_rounds=6, n_commands=4, n_warm=20, n_idle=16, n_at_once=16, n_hostile_at_once=6)


class Side(Protocol):
    """One way to have a Linux per session; ``Any`` is its handle of one."""

    async def start(self) -> Any: ...

    async def run(self, box: Any, script: str) -> str: ...

    async def close(self, box: Any) -> None: ...


class Envhub:
    def __init__(self, driver: SandboxDriver) -> None:
        self._driver = driver

    async def start(self) -> Sandbox:
        return await self._driver.start(SPEC)

    async def run(self, box: Sandbox, script: str) -> str:
        return (await box.run(script, timeout_s=30.0, max_bytes=4096)).output

    async def close(self, box: Sandbox) -> None:
        await box.close()


class DockerProgram:
    """Containers by the ``docker`` program."""

    def __init__(self, image: str) -> None:
        self._image = image

    async def start(self) -> str:
        limits = SPEC.limits
        flags = [
            "--network", "none", "--memory", str(limits.memory_bytes), "--pids-limit", str(limits.n_processes),
            "--cpus", str(limits.n_cpus), "--label", f"{LABEL}={os.getpid()}",
        ]  # fmt: skip
        return (await docker("run", "--detach", *flags, self._image, "sleep", "infinity")).strip()

    async def run(self, box: str, script: str) -> str:
        return await docker("exec", box, "bash", "-c", script)

    async def close(self, box: str) -> None:
        await docker("rm", "--force", box)


class DockerEngine:
    """The same containers over the engine's socket, without a process of the caller's per call."""

    def __init__(self, image: str, engine: Engine) -> None:
        self._image = image
        self._engine = engine

    async def start(self) -> str:
        limits = SPEC.limits
        host = {
            "NetworkMode": "none", "Memory": limits.memory_bytes, "PidsLimit": limits.n_processes,
            "NanoCpus": int(limits.n_cpus * 1e9),
        }  # fmt: skip
        labels = {LABEL: str(os.getpid())}
        body = {"Image": self._image, "Cmd": ["sleep", "infinity"], "Labels": labels, "HostConfig": host}
        box: str = (await self._engine.call("POST", "/containers/create", body))["Id"]
        await self._engine.call("POST", f"/containers/{box}/start")
        return box

    async def run(self, box: str, script: str) -> str:
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["bash", "-c", script]}
        made = await self._engine.call("POST", f"/containers/{box}/exec", body)
        stream = await self._engine.attach(f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        said = b""
        while data := (await stream.receive())[1]:
            said += data
        stream.close()
        return said.decode()

    async def close(self, box: str) -> None:
        await self._engine.call("DELETE", f"/containers/{box}", params={"force": "1"})


@dataclass(slots=True)
class Times:
    """Seconds."""

    start: list[float] = field(default_factory=list)
    command: list[float] = field(default_factory=list)
    close: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {name: shown(getattr(self, name)) for name in ("start", "command", "close")}


def main() -> int:
    parser = arguments(__doc__ or "")
    args = parser.parse_args()
    return asyncio.run(_main(args))


async def _main(args: Any) -> int:
    size = QUICK if args.quick else FULL
    image = await docker_image()
    if image is None:
        print(
            f"this benchmark compares with Docker: it needs an engine that has one of {', '.join(IMAGES)}",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        driver = choose("bubblewrap", clock=SystemClock(), runtime=runtime)
        engine = Engine()
        try:
            sides: dict[str, Side] = {
                "envhub": Envhub(driver), "docker": DockerProgram(image), "docker_engine": DockerEngine(image, engine)
            }  # fmt: skip
            return finish("sandbox", args, *await measured(driver, sides, image, size))
        finally:
            await engine.close()
            await driver.close()
            await remove_containers()


async def measured(
    driver: SandboxDriver, sides: Mapping[str, Side], image: str, size: Size
) -> tuple[dict[str, Claim], dict[str, Any]]:
    """Claims and details."""
    times = await in_rounds(sides, size)
    unused = {name: await idle_kib(sides[name], size.n_idle, used=False) for name in ("envhub", "docker")}
    used = {name: await idle_kib(sides[name], size.n_idle, used=True) for name in ("envhub", "docker")}
    warm = await warm_first_commands(driver, size.n_warm)
    per_second = {name: await sessions_per_second(sides[name], size.n_at_once) for name in ("envhub", "docker")}
    survived, failures = await hostile(driver, size.n_hostile_at_once)
    ours, theirs = times["envhub"], times["docker"]
    claims = {
        "start_ratio": Claim(ratio(theirs.start, ours.start), 10, at_least=True),
        "command_ratio": Claim(ratio(theirs.command, ours.command), 5, at_least=True),
        "idle_memory_ratio": Claim(unused["docker"] / unused["envhub"], 4, at_least=True),
        "warm_first_command_ms": Claim(1000 * statistics.median(warm), 5),
        "hostile_survived": Claim(survived, 38, at_least=True),
    }
    details = {
        "sizes": {name: getattr(size, name) for name in size.__slots__},
        "docker_image": image,
        "userland": driver.image_digest(SPEC.image),
        "command": COMMAND,
        "times_ms": {name: each.to_json() for name, each in times.items()},
        "idle_pss_kib": unused,
        "idle_pss_kib_after_a_command": used,
        "warm_first_command": shown(warm),
        "sessions_per_s": per_second,
        "hostile_failures": failures,
    }
    print(json.dumps(details["times_ms"] | {"warm_first_command": details["warm_first_command"]}))
    return claims, details


async def in_rounds(sides: Mapping[str, Side], size: Size) -> dict[str, Times]:
    """Each round every side starts one, runs commands in it and closes it. The first round counts for nothing."""
    times = {name: Times() for name in sides}
    for number in range(size.n_rounds + 1):
        for name, side in sides.items():
            into = times[name] if number else Times()
            box = await timed(into.start, side.start())
            for _ in range(size.n_commands):
                said = await timed(into.command, side.run(box, COMMAND))
                assert int(said) > 5, f"{name} said {said!r}"
            await timed(into.close, side.close(box))
    return times


async def idle_kib(side: Side, n_boxes: int, *, used: bool) -> float:
    """Proportional memory of a session's processes (of Docker: its shim too), as many side by side: ready, or after one command."""
    boxes = [await side.start() for _ in range(n_boxes)]
    for box in boxes if used else ():
        await side.run(box, COMMAND)
    await asyncio.sleep(SETTLE_S)
    found = 0
    for box in boxes:
        top = box.identity["monitor"] if isinstance(box, BubblewrapSandbox) else await shim_of(box)
        found += sum(pss_kib(pid) for pid in (top, *descendants(top)))
    for box in boxes:
        await side.close(box)
    return found / n_boxes


async def warm_first_commands(driver: SandboxDriver, n: int) -> list[float]:
    pool = WarmPool(driver, clock=SystemClock(), size=2)
    taken: list[float] = []
    try:
        pool.warm(SPEC)
        for _ in range(n):
            while pool.n_ready(SPEC) < 2:  # noqa: ASYNC110 - the pool has no event for it
                await asyncio.sleep(0.01)
            await asyncio.sleep(SETTLE_S)
            box = await timed(taken, acquire_and_run(pool))
            await box.close()
    finally:
        await pool.close()
    return taken


async def acquire_and_run(pool: WarmPool) -> Sandbox:
    box = await pool.acquire(SPEC)
    result = await box.run("echo ready", timeout_s=30.0, max_bytes=4096)
    assert result.output == "ready\n", result
    return box


async def sessions_per_second(side: Side, n: int) -> float:
    """All at once: start, one command, close."""

    async def one() -> None:
        box = await side.start()
        await side.run(box, COMMAND)
        await side.close(box)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(n)))
    return n / (time.perf_counter() - began)


async def hostile(driver: SandboxDriver, n_at_once: int) -> tuple[int, list[str]]:
    """How many inputs a session survived, and what did not hold after the others."""
    gate = asyncio.Semaphore(n_at_once)

    async def one(each: HostileInput) -> str | None:
        async with gate:
            box = await driver.start(SPEC)
            try:
                await survive(box, each)
            except (AssertionError, EnvhubError) as error:
                return f"{each.name}: {error}"[:300]
            finally:
                await box.close()
        return None

    results = await asyncio.gather(*map(one, HOSTILE))
    failures = [result for result in results if result is not None]
    return len(results) - len(failures), failures


async def timed(into: list[float], work: Awaitable[T]) -> T:
    began = time.perf_counter()
    result = await work
    into.append(time.perf_counter() - began)
    return result


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return statistics.median(theirs) / statistics.median(ours)


def shown(seconds: Sequence[float]) -> dict[str, float]:
    latency = Latency.of(seconds)
    return {
        "p50_ms": round(latency.p50_ms, 2),
        "p99_ms": round(latency.p99_ms, 2),
        "min_ms": round(1000 * min(seconds), 2),
    }


async def docker_image() -> str | None:
    for image in IMAGES:
        try:
            await docker("image", "inspect", image)
        except (OSError, RuntimeError):
            continue
        return image
    return None


async def docker(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "docker", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complained = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"docker {' '.join(arguments)}: {complained.decode().strip()}")
    return said.decode()


async def remove_containers() -> None:
    """What a run that was cut off would leave."""
    listed = (await docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={os.getpid()}")).split()
    if listed:
        await docker("rm", "--force", *listed)


async def shim_of(container: str) -> int:
    return parent_of(int(await docker("inspect", "--format", "{{.State.Pid}}", container)))


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def pss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())

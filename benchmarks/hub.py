"""How much a hub costs: sessions of the calculator at 64, 512 and 2,000 at a time; client, controller and worker are processes.

Prints, for each load, sessions and steps per second, p50 and p99 of a step and of a start, and the CPU time that the two
server processes spend per step; then the controller's memory per idle session. Claims: ``sessions_lost``,
``server_cpu_ms_per_step`` (median over rounds at 64 concurrent), ``controller_kib_per_idle_session``.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop
from harness import Claim, Latency, Process, arguments, finish, process, wait_for

from envhub.client import Hub
from envhub.core.types import Message, ToolCall

STEPS = 10
ADD = Message.assistant(None, ToolCall("1", "add", '{"a": 1, "b": 2}'))


@dataclass(frozen=True, slots=True)
class Load:
    """One measured round."""

    concurrency: int
    sessions: int
    lost: int
    sessions_per_s: float
    steps_per_s: float
    step: Latency
    start: Latency
    cpu_ms_per_step: float
    cpu_ms_by_process: dict[str, float]


async def play(hub: Hub, task: int, n_steps: int, steps: list[float], starts: list[float]) -> None:
    session = hub.session("calculator", "train", task % 1000)
    began = time.perf_counter()
    await session.start()
    starts.append(time.perf_counter() - began)
    for _ in range(n_steps):
        began = time.perf_counter()
        result = await session.interact(ADD)
        steps.append(time.perf_counter() - began)
        assert result.messages[0].content == "3"
    await session.cancel()


async def measure(
    url: str, servers: Sequence[Process], concurrency: int, n_sessions: int, n_steps: int = STEPS
) -> Load:
    steps: list[float] = []
    starts: list[float] = []
    lost = 0
    queue = iter(range(n_sessions))

    async def client(hub: Hub) -> None:
        nonlocal lost
        for task in queue:
            try:
                await play(hub, task, n_steps, steps, starts)
            except Exception as error:
                lost += 1
                print(f"lost: {error!r}", file=sys.stderr)

    async with Hub(url) as hub:
        before = [server.cpu_s() for server in servers]
        began = time.perf_counter()
        await asyncio.gather(*(client(hub) for _ in range(concurrency)))
        wall_s = time.perf_counter() - began
        used = {server.name: server.cpu_s() - first for server, first in zip(servers, before, strict=True)}
    per_step = {name: 1000 * seconds / max(1, len(steps)) for name, seconds in used.items()}
    return Load(
        concurrency,
        n_sessions,
        lost,
        n_sessions / wall_s,
        len(steps) / wall_s,
        Latency.of(steps),
        Latency.of(starts),
        sum(per_step.values()),
        per_step,
    )


async def idle_kib(url: str, controller: Process, n_sessions: int) -> float:
    """Growth of the controller's resident memory per live session that does nothing."""
    async with Hub(url, max_connections=64) as hub:
        sessions = [hub.session("calculator", "train", task % 1000) for task in range(n_sessions)]
        warm, measured = sessions[:100], sessions[100:]
        await asyncio.gather(*(session.start() for session in warm))
        before = controller.rss_kib()
        await asyncio.gather(*(session.start() for session in measured))
        grown = controller.rss_kib() - before
        await asyncio.gather(*(session.cancel() for session in sessions))
    return grown / len(measured)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def show(load: Load) -> None:
    parts = ", ".join(f"{name} {ms:.3f}" for name, ms in load.cpu_ms_by_process.items())
    print(
        f"{load.concurrency:5d} at a time: {load.sessions_per_s:6.1f} sessions/s {load.steps_per_s:7.1f} steps/s   "
        f"step p50 {load.step.p50_ms:6.1f} p99 {load.step.p99_ms:6.1f} ms   "
        f"start p50 {load.start.p50_ms:6.1f} p99 {load.start.p99_ms:6.1f} ms   "
        f"server CPU {load.cpu_ms_per_step:.3f} ms/step ({parts})   lost {load.lost}"
    )


def main() -> int:
    args = arguments(__doc__ or "").parse_args()
    rounds = 3 if args.quick else 5
    bigger = [(512, 512, 5), (2000, 2000, 2)] if args.quick else [(512, 1024, STEPS), (2000, 4000, STEPS)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        store = f"sqlite:///{folder}/episodes.db"
        controller_command = ["-m", "envhub.cli", "controller", "--port", str(port), "--store", store]
        worker_command = ["-m", "envhub.cli", "worker", "-c", url, "-e", "calculator", "--capacity", "4000"]
        controller = stack.enter_context(process("controller", controller_command, log=folder / "controller.log"))
        worker = stack.enter_context(process("worker", worker_command, log=folder / "worker.log"))
        wait_for(f"{url}/readyz")
        servers = (controller, worker)
        uvloop.run(measure(url, servers, 16, 50))
        idle = uvloop.run(idle_kib(url, controller, 1100 if args.quick else 3100))
        loads = [uvloop.run(measure(url, servers, 64, 200)) for _ in range(rounds)]
        loads += [uvloop.run(measure(url, servers, *each)) for each in bigger]
        for load in loads:
            show(load)
        print(f"idle session: {idle:.2f} KiB of the controller, RSS {controller.rss_kib() / 1024:.0f} MiB")
    claims = {
        "sessions_lost": Claim(sum(load.lost for load in loads), 0),
        "server_cpu_ms_per_step": Claim(statistics.median(load.cpu_ms_per_step for load in loads[:rounds]), 0.6),
        "controller_kib_per_idle_session": Claim(idle, 16),
    }
    return finish("hub", args, claims, {"loads": [asdict(load) for load in loads]})


if __name__ == "__main__":
    sys.exit(main())

"""``envhub up`` with worker processes: a dead worker is replaced, and none outlives the hub."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envhub.client.hub import Hub
from envhub.core.errors import SessionLostError
from envhub.core.types import Message
from tests.hub.processes import Process, Processes, free_port, until, until_answers, until_ready, workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Processes(tmp_path) as started:
        yield started


async def up(processes: Processes, tmp_path: Path, port: int) -> Process:
    store = f"sqlite:///{tmp_path}/up.db"
    program = processes.command("up", "--workers", "1", "--port", str(port), "-e", "calculator", "--store", store)
    await until_answers(f"http://127.0.0.1:{port}/readyz", program)
    return program


def children(process: Process) -> list[int]:
    listed = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}/children").read_text()
    return [int(each) for each in listed.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until_dead(pids: list[int]) -> None:
    async def dead() -> bool:
        return not any(alive(pid) for pid in pids)

    await until(dead, 40)


async def test_a_killed_worker_process_is_replaced_and_all_end_with_the_hub(
    processes: Processes, tmp_path: Path
) -> None:
    port = free_port()
    program = await up(processes, tmp_path, port)
    (worker,) = children(program)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        (before,) = await workers(hub)
        session = hub.session("calculator")
        await session.start()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(SessionLostError):
            await session.interact(Message.assistant("hello"))
        await until_ready(hub, 1)
        assert (await workers(hub))[0]["id"] != before["id"]
        async with hub.session("calculator") as again:
            await again.interact(Message.assistant("hello"))
    pids = children(program)
    assert len(pids) == 1 and pids != [worker]
    program.signal(signal.SIGTERM)
    assert await program.exited(50) == 0, program.text()
    await until_dead(pids)


async def test_worker_processes_do_not_outlive_a_killed_hub(processes: Processes, tmp_path: Path) -> None:
    program = await up(processes, tmp_path, free_port())
    pids = children(program)
    program.kill()
    await until_dead(pids)

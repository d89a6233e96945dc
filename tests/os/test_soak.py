"""Many episodes, many at once, and a hub that is killed: what is held afterwards is what was held before."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envhub.client.hub import Hub
from envhub.core.clock import SystemClock
from envhub.core.sandbox import SandboxSpec
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.datasets import TaskSet
from envhub.envs.os.env import OPTIONS, OSEnvironment, WarmSandboxes
from envhub.envs.os.tasks import Answer, Check, OSTask, Script
from envhub.sandbox.choose import default_runtime
from envhub.sandbox.owner import start_time
from envhub.sandbox.pool import WarmPool
from tests.hub.processes import Processes, free_port, until, until_ready
from tests.sandbox.test_bubblewrap import children_of, prepared_by

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TASKS = (
    OSTask("count", "How many?", Answer("integer", ("3",)), init=(Script("mkdir /opt/d; touch /opt/d/{a,b,c}"),)),
    OSTask("make", "Make /opt/x.", checks=(Check(Script("[ -e /opt/x ] || exit 1")),)),
)
N_EPISODES, N_AT_ONCE, POOL_SIZE = 500, 8, 4


def call(name: str, **arguments: str) -> Message:
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


async def played(environment: OSEnvironment, index: int, *messages: Message) -> float:
    episode = await environment.open(TaskRef("os", "test", index), seed=index, options=OPTIONS)
    try:
        return [await episode.step(message) for message in messages][-1].reward
    finally:
        await episode.close()


async def one(environment: OSEnvironment, number: int) -> None:
    """Right, wrong, timed out, flooding and left behind, in turn."""
    script = ("ls /opt", "sleep 600 & setsid sleep 600 & touch /opt/x", "yes | head -c 2000000", "exit 3")[number % 4]
    act = call("bash_action", script=script)
    if number % 2:
        assert await played(environment, 1, act, call("finish_action", thought="")) == (number % 4 == 1)
    else:
        assert await played(environment, 0, act, call("answer_action", answer="3")) == 1.0


class Held:
    """What this process and the spawner of its driver hold of the machine."""

    def __init__(self, spawner: int, label: str, groups: list[Path]) -> None:
        gc.collect()
        self.fds = len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{spawner}/fd"))
        self.mounts = [len(Path(f"/proc/{pid}/mounts").read_text().splitlines()) for pid in ("self", spawner)]
        self.processes = sum(1 for _ in descendants(spawner))
        self.groups = sum(name.startswith(label) for folder in groups for name in os.listdir(folder))
        self.tasks = len(asyncio.all_tasks())
        self.rss_kib = rss_kib("self"), rss_kib(spawner)

    def countable(self) -> tuple[object, ...]:
        return self.fds, self.mounts, self.processes, self.groups, self.tasks


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            try:
                yield from descendants(int(child))
            except OSError:
                continue


def rss_kib(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.fixture
async def warm(driver):
    pool = WarmPool(driver, clock=SystemClock(), size=POOL_SIZE)
    tasks = TaskSet("test", len(TASKS), TASKS.__getitem__, dataset_hash="1")
    environment = OSEnvironment(WarmSandboxes(driver, pool), {"test": tasks}, driver="bubblewrap")
    yield environment, pool
    await environment.close()


async def test_five_hundred_episodes_leave_nothing(warm, driver, machine):
    environment, pool = warm
    groups = machine.controllers.roots()

    async def held() -> Held:
        async def quiet() -> bool:
            return pool.n_ready(SandboxSpec()) == POOL_SIZE and not driver._open - {
                ready.sandbox for shelf in pool._shelves.values() for ready in shelf.ready
            }

        async def collected() -> bool:
            """The last closes answer before the spawner has collected their processes."""
            spawner = driver.spawner().pid
            monitors = [box.identity["monitor"] for box in driver._open]
            return len(prepared_by(spawner, monitors)) == 1 and len(children_of(spawner)) == len(monitors) + 1

        await until(quiet, 60)
        await until(collected, 30)
        return Held(driver.spawner().pid, driver._owner.label, groups)

    async def some(numbers: Iterator[int]) -> None:
        for number in numbers:
            await one(environment, number)

    await asyncio.gather(*(some(iter(range(number, number + 8))) for number in range(N_AT_ONCE)))
    before = await held()
    numbers = iter(range(N_EPISODES))
    await asyncio.gather(*(some(numbers) for _ in range(N_AT_ONCE)))
    after = await held()
    for _ in range(20):  # a busy machine takes its time to collect what has ended
        if after.countable() == before.countable():
            break
        await asyncio.sleep(0.5)
        after = await held()
    assert after.countable() == before.countable()
    growth = [now - then for now, then in zip(after.rss_kib, before.rss_kib, strict=True)]
    assert max(growth) < 4096, f"grew by {growth} KiB"
    if groups:
        assert after.groups == POOL_SIZE * len(groups)


async def test_sixty_four_sessions_at_once(warm, driver):
    environment, _ = warm
    await asyncio.gather(*(one(environment, number) for number in range(64)))
    episodes = await asyncio.gather(
        *(environment.open(TaskRef("os", "test", 0), seed=1, options=OPTIONS) for _ in range(64))
    )
    said = await asyncio.gather(
        *(each.step(call("bash_action", script=f"echo {n}")) for n, each in enumerate(episodes))
    )
    assert [result.messages[0].content.split()[-1] for result in said] == [str(n) for n in range(64)]
    await asyncio.gather(*(each.close() for each in episodes))


async def test_a_worker_that_is_killed_leaves_nothing_after_the_next_start(machine, tmp_path):
    def left(pid: int) -> list[str]:
        mark = f"eh-{pid}-"
        names = [name for folder in (*machine.controllers.roots(), default_runtime()) for name in os.listdir(folder)]
        return [name for name in names if name.startswith(mark)]

    async with Processes(tmp_path) as processes:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        await processes.controller(port)
        environ = {"ENVHUB_OS_DRIVER": "bubblewrap"}
        async with Hub(url) as hub:
            worker = processes.command("worker", "-c", url, "-e", "os", environ=environ)
            await until_ready(hub, 1)
            for index in range(4):
                session = hub.session("os", "test", index)
                await session.start()
                await session.interact(
                    Message.assistant(None, ToolCall("c", "bash_action", '{"script": "sleep 9999 &"}'))
                )
            pids = list(descendants(worker.popen.pid))
            assert len(pids) > 12 and left(worker.popen.pid)
            worker.kill()

            async def dead() -> bool:
                return not any(start_time(pid) for pid in pids)

            await until(dead, 20)
            processes.command("worker", "-c", url, "-e", "os", environ=environ)
            await until_ready(hub, 1, 60)
            session = hub.session("os", "test", 0)
            await session.start()
            assert left(worker.popen.pid) == []
            await session.cancel()

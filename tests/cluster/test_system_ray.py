"""``envhub up --ray`` on a Ray cluster of several nodes: sessions, lost nodes, growth and shrinkage, and a clean end."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from envhub.client.hub import Hub, HubSession
from envhub.core.errors import SessionLostError
from envhub.core.types import JSON, Message, ToolCall
from tests.cluster.raylets import Raylets, need_ray
from tests.hub.processes import Process, Processes, free_port, until, until_answers, until_ready, workers

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(400)]

_CLIENT_KEY = "a-client-key-for-the-cluster"
_WORKER_KEY = "a-worker-key-for-the-cluster"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Raylets]:
    need_ray()
    with Raylets() as started:
        started.add("left", num_cpus=2)
        started.add("right", num_cpus=2)
        yield started


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Processes(tmp_path) as started:
        yield started


class UpOnRay:
    """The command, with a settings file of its own."""

    def __init__(self, processes: Processes, cluster: Raylets, folder: Path, ray: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "hub.toml"
        config.write_text(
            f'host = "0.0.0.0"\nport = {self.port}\nstore_url = "sqlite:///{folder}/up.db"\ndrain_s = 1\n{ray}'
        )
        environ = {"ENVHUB_CLIENT_KEY": _CLIENT_KEY, "ENVHUB_WORKER_KEY": _WORKER_KEY, "RAY_BACKEND_LOG_LEVEL": "error"}
        self.process: Process = processes.command(
            "--config", str(config), "up", "--ray", cluster.address, environ=environ
        )

    def hub(self) -> Hub:
        return Hub(self.url, key=_CLIENT_KEY)


async def nodes_of(hub: Hub) -> dict[str, str]:
    """Worker id to Ray node, of the workers that are ready."""
    return {each["id"]: each["labels"]["ray_node"] for each in await workers(hub) if each["state"] == "ready"}


def call(name: str, **arguments: JSON) -> ToolCall:
    return ToolCall("call-1", name, json.dumps(arguments))


def worker_of(session: HubSession) -> str:
    return session.id.partition(".")[0]


async def until_workers(hub: Hub, n_workers: int, limit_s: float = 100.0) -> None:
    async def there() -> bool:
        return len(await nodes_of(hub)) == n_workers

    await until(there, limit_s)


def table(**values: float) -> str:
    lines = "\n".join(f"{name} = {value}" for name, value in values.items())
    return f"[ray]\ngrow_after_s = 0.5\nshrink_after_s = 3\n[ray.environments.calculator]\nnum_cpus = 1\n{lines}\n"


async def test_sessions_play_on_several_nodes_with_keys_nowhere_to_be_seen_and_nothing_stays(
    cluster: Raylets, processes: Processes, tmp_path: Path
) -> None:
    up = UpOnRay(processes, cluster, tmp_path, table(min=2, max=2, capacity=4))
    await until_answers(up.url + "/readyz", up.process, 100)
    async with up.hub() as hub:
        await until_ready(hub, 2, 100)
        nodes = await nodes_of(hub)
        assert len(set(nodes.values())) == 2
        sessions = [hub.session("calculator", "test", index) for index in range(4)]
        for session in sessions:
            await session.start()
        assert {worker_of(session) for session in sessions} == set(nodes)
        for session in sessions:
            question = str(session.messages[-1].content)
            a, b, c = (int(each) for each in re.findall(r"\d+", question))
            step = await session.interact(Message.assistant(None, call("submit", answer=a * b + c)))
            assert step.terminated and step.reward == 1.0
    assert len(cluster.worker_pids()) == 2
    assert not cluster.mentions(_WORKER_KEY, _CLIENT_KEY)
    up.process.signal(signal.SIGTERM)
    assert await up.process.exited(100) == 0, up.process.text()
    await until_none(cluster)
    assert _WORKER_KEY not in up.process.text() and _CLIENT_KEY not in up.process.text()


async def test_a_lost_node_costs_its_sessions_one_typed_answer_and_its_workers_come_back_elsewhere(
    cluster: Raylets, processes: Processes, tmp_path: Path
) -> None:
    cluster.add("doomed", num_cpus=1)
    up = UpOnRay(processes, cluster, tmp_path, table(min=3, max=3, capacity=2))
    await until_answers(up.url + "/readyz", up.process, 100)
    async with up.hub() as hub:
        await until_ready(hub, 3, 100)
        before = await nodes_of(hub)
        assert len(set(before.values())) == 3
        sessions = [hub.session("calculator") for _ in range(3)]
        for session in sessions:
            await session.start()
        doomed = cluster.node_of("doomed")
        (worker,) = (each for each, node in before.items() if node == doomed)
        (lost,) = (session for session in sessions if worker_of(session) == worker)
        cluster.kill("doomed")
        for _ in range(2):
            with pytest.raises(SessionLostError):
                await lost.interact(Message.assistant("hello"))
        await until_ready(hub, 3, 100)
        after = await nodes_of(hub)
        assert doomed not in after.values() and set(before) - set(after) == {worker}
        for session in sessions:
            if session is not lost:
                await session.interact(Message.assistant("hello"))
                await session.cancel()
    up.process.signal(signal.SIGTERM)
    assert await up.process.exited(100) == 0, up.process.text()
    await until_none(cluster)


async def test_workers_grow_under_a_queue_and_shrink_when_idle(
    cluster: Raylets, processes: Processes, tmp_path: Path
) -> None:
    up = UpOnRay(processes, cluster, tmp_path, table(min=1, max=3, capacity=1))
    await until_answers(up.url + "/readyz", up.process, 100)
    async with up.hub() as hub:
        await until_workers(hub, 1)
        sessions = [hub.session("calculator") for _ in range(4)]
        starts = [asyncio.create_task(session.start()) for session in sessions]
        await until_workers(hub, 3)
        await until_done(starts, 3)
        playing = [session for session, start in zip(sessions, starts, strict=True) if start.done()]
        await playing[0].cancel()
        await asyncio.gather(*starts)
        assert len(await nodes_of(hub)) == 3
        for session in sessions:
            assert (await hub.request("GET", f"/v1/sessions/{session.id}")) is not None
            await session.cancel()
        await until_workers(hub, 1)
        await until_pids(cluster, 1)
    up.process.kill()
    await until_none(cluster)


async def test_what_the_cluster_can_never_give_is_named(cluster: Raylets, processes: Processes, tmp_path: Path) -> None:
    ray = table().replace("[ray]", "[ray]\nplace_within_s = 3") + "resources = { sandbox = 1 }\n"
    up = UpOnRay(processes, cluster, tmp_path, ray)
    assert await up.process.exited(100) == 2
    assert "it needs 1 sandbox, and no node has more than 0 sandbox" in up.process.text()


async def test_a_worker_that_cannot_serve_is_told_in_its_own_words(
    cluster: Raylets, processes: Processes, tmp_path: Path
) -> None:
    ray = table().replace("calculator", "db") + '[environment_settings.db]\ndriver = "oracle"\n'
    up = UpOnRay(processes, cluster, tmp_path, ray)
    assert await up.process.exited(100) == 2
    assert "no worker of db came up in 3 tries" in up.process.text() and "oracle" in up.process.text()


async def test_a_cluster_that_is_not_there_is_told(processes: Processes, tmp_path: Path) -> None:
    need_ray()
    store = f"sqlite:///{tmp_path}/up.db"
    address = f"127.0.0.1:{free_port()}"
    process = processes.command(
        "up", "--ray", address, "-e", "calculator", "--port", str(free_port()), "--store", store
    )
    assert await process.exited(100) == 2
    assert f"envhub: cannot join the Ray cluster '{address}'" in process.text()
    assert "ray start --head" in process.text() and "envhub up --ray HOST:PORT" in process.text()


async def until_done(tasks: list[asyncio.Task[Any]], number: int) -> None:
    async def done() -> bool:
        return sum(task.done() for task in tasks) >= number

    await until(done, 30)


async def until_pids(cluster: Raylets, number: int) -> None:
    async def reached() -> bool:
        return len(cluster.worker_pids()) == number

    await until(reached, 60)


async def until_none(cluster: Raylets) -> None:
    await until_pids(cluster, 0)

"""The line for a free slot: every start gets in, clients take turns, deadlines hold, refusals are tried elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp
import pytest

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.local import LocalLink
from envhub.controller.main import build, running
from envhub.core.clock import SystemClock
from envhub.core.errors import UnavailableError
from envhub.core.types import Message
from envhub.testing.hub import local_hub, served_hub
from envhub.transport import AsgiTransport
from envhub.worker import main as worker_main
from tests.hub.environments import ProbeEnvironment, records


async def test_four_times_too_many_starts_all_get_in_without_polling() -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}, capacity=10) as served:
        starts = 0

        async def play() -> None:
            nonlocal starts
            async with served.hub.session("probe") as session:
                starts += 1
                assert served.worker.table.n_slots_taken <= 10
                await session.interact(Message.assistant("sleep 0.02"))
                await session.interact(Message.assistant("done"))

        await asyncio.gather(*(play() for _ in range(40)))
        assert starts == environment.counts.opens == environment.counts.closes == 40
        assert len(records(served)) == 40
        page = served.app.metrics.render().decode()
        assert 'envhub_call_seconds_count{call="start"} 40.0' in page
        assert "envhub_errors_total" not in page.replace("# HELP envhub_errors_total", "").replace(
            "# TYPE envhub_errors_total", ""
        )


async def test_two_runs_are_served_in_turn_whoever_asked_more() -> None:
    async with local_hub({"probe": ProbeEnvironment()}, capacity=1) as local:
        blocker = local.hub.session("probe")
        await blocker.start()
        served: list[str] = []

        async def play(run: str) -> None:
            async with local.hub.session("probe", tags={"run": run}) as session:
                served.append(run)
                await session.interact(Message.assistant("done"))

        greedy = [asyncio.create_task(play("greedy")) for _ in range(30)]
        await until_waiting(local.controller.workers.n_waiting, 30)
        modest = [asyncio.create_task(play("modest")) for _ in range(5)]
        await until_waiting(local.controller.workers.n_waiting, 35)
        await blocker.cancel()
        await asyncio.gather(*greedy, *modest)
        assert served[:10].count("modest") == 5, served


async def test_a_start_that_finds_no_slot_until_its_deadline_gets_503_with_retry_after() -> None:
    async with (
        served_hub({"probe": ProbeEnvironment()}, capacity=1) as served,
        served.hub.session("probe"),
        aiohttp.ClientSession(served.url) as http,
    ):
        for wait_s in (0, 0.5):
            started = time.monotonic()
            async with http.post("/v1/sessions", json={"environment": "probe", "wait_s": wait_s}) as answer:
                assert answer.status == 503
                assert int(answer.headers["retry-after"]) >= 1
                assert (await answer.json())["error"]["code"] == "no_capacity"
            assert wait_s <= time.monotonic() - started < wait_s + 10.0
        assert served.controller.workers.n_waiting("probe") == 0


async def test_a_client_that_leaves_the_line_does_not_take_a_slot() -> None:
    async with served_hub({"probe": ProbeEnvironment()}, capacity=1) as served:
        blocker = served.hub.session("probe")
        await blocker.start()
        async with aiohttp.ClientSession(served.url) as http:
            waiting = [
                asyncio.create_task(http.post("/v1/sessions", json={"environment": "probe", "wait_s": 60}))
                for _ in range(20)
            ]
            await until_waiting(served.controller.workers.n_waiting, 20)
            for task in waiting:
                task.cancel()
            await until_waiting(served.controller.workers.n_waiting, 0)
        await blocker.cancel()
        async with served.hub.session("probe", wait_s=20) as session:
            await session.interact(Message.assistant("done"))
        (worker,) = served.controller.workers.all()
        assert (worker.reserved, worker.sessions) == (0, {})


async def test_a_start_that_one_worker_refuses_is_tried_on_another() -> None:
    clock = SystemClock()
    app, service = build(Settings(), clock=clock, archive=MemoryArchive())
    good, full = ProbeEnvironment(), ProbeEnvironment()
    workers = [worker_main.build({"probe": each}, Settings(capacity=20), clock=clock) for each in (good, full)]
    workers[1].table._unstored_bytes = 2**40  # it takes nothing new until its results are stored
    async with running(service), worker_main.running(workers[0]), worker_main.running(workers[1]):
        links = [LocalLink(service.workers, worker, clock=clock) for worker in workers]
        for link in links:
            await link.open()
        async with Hub(transport=AsgiTransport(app), clock=clock) as hub:
            sessions = [hub.session("probe", wait_s=60) for _ in range(20)]
            async with asyncio.timeout(30):
                await asyncio.gather(*(session.start() for session in sessions))
            assert (good.counts.opens, full.counts.opens) == (20, 0)
            with pytest.raises(UnavailableError) as refused:  # the one that is full, then the one that takes nothing
                await hub.request("POST", "/v1/sessions", b'{"environment": "probe", "wait_s": 0}', retry_for_s=0)
            assert refused.value.status == 503
            for session in sessions:
                await session.cancel()
        for link in links:
            await link.close()


async def until_waiting(n_waiting: Callable[[str], int], wanted: int) -> None:
    async with asyncio.timeout(20):
        while n_waiting("probe") != wanted:  # noqa: ASYNC110  # a line has no event
            await asyncio.sleep(0.01)

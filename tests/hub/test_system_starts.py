"""Starts that are repeated: one session remains, whatever was lost or restarted in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.local import LocalLink
from envhub.controller.main import build, running
from envhub.controller.service import ControllerService
from envhub.core.clock import SystemClock
from envhub.core.errors import InvalidRequestError, SessionLostError, UnavailableError
from envhub.link.frames import Bye
from envhub.testing.clock import FakeClock, settle
from envhub.testing.hub import local_hub
from envhub.worker import main as worker_main
from envhub.worker.service import WorkerService
from tests.hub.environments import ProbeEnvironment


def start(key: str | None = "k", **options: object) -> bytes:
    return msgspec.json.encode({"environment": "probe", "request_key": key, "options": options, "wait_s": 60})


def session_id(body: bytes) -> str:
    return str(json.loads(body)["session_id"])


@asynccontextmanager
async def controller() -> AsyncIterator[ControllerService]:
    _, service = build(Settings(), clock=SystemClock(), archive=MemoryArchive())
    async with running(service):
        yield service


@asynccontextmanager
async def linked(service: ControllerService, worker: WorkerService) -> AsyncIterator[LocalLink]:
    link = LocalLink(service.workers, worker, clock=SystemClock())
    await link.open()
    try:
        yield link
    finally:
        await link.close()


def new_worker(environment: ProbeEnvironment) -> WorkerService:
    return worker_main.build({"probe": environment}, Settings(capacity=4), clock=SystemClock())


async def settled(worker: WorkerService, n_live: int) -> None:
    async with asyncio.timeout(20):
        while worker.table.n_slots_taken != n_live:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_waiting(service: ControllerService, n_starts: int) -> None:
    async with asyncio.timeout(20):
        while service.workers.n_waiting("probe") != n_starts:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_hundred_copies_of_a_start_make_one_session_b026() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        answers = await asyncio.gather(*(hub.controller.start(start(open_s=0.05)) for _ in range(100)))
        again = await hub.controller.start(start(open_s=0.05))
        assert {each.body for each in [*answers, again]} == {again.body}
        assert environment.counts.opens == 1
        with pytest.raises(InvalidRequestError, match="different start"):
            await hub.controller.start(start(open_s=0.06))


async def test_a_start_repeated_at_a_new_controller_while_the_first_still_opens_leaves_one_session_b026() -> None:
    """A client leaves a controller with a start under way; the next one places it again and hears of both sessions."""
    environment = ProbeEnvironment()
    worker = new_worker(environment)
    async with controller() as old, controller() as new, worker_main.running(worker), linked(old, worker):
        environment.gate.clear()
        first = asyncio.create_task(old.start(start()))
        await settled(worker, 1)
        async with linked(new, worker):
            first.cancel()  # the client lost its connection, and asks the other one
            again = asyncio.create_task(new.start(start()))
            await settle()
            environment.gate.set()
            kept = session_id((await again).body)
            await settled(worker, 1)
            assert [note.session_id for note in worker.table.notes()] == [kept]
            assert session_id((await new.start(start())).body) == kept
            assert environment.counts.opens == 1 and environment.counts.closes == 0


async def test_a_start_repeated_before_its_worker_is_back_leaves_one_session_b026() -> None:
    environment = ProbeEnvironment()
    slow, quick = new_worker(environment), new_worker(environment)
    async with controller() as old, linked(old, slow):
        assert (await old.start(start())).status == 200
    async with controller() as new, worker_main.running(slow), worker_main.running(quick), linked(new, quick):
        kept = session_id((await new.start(start())).body)
        assert kept.startswith(quick.worker_id)
        async with linked(new, slow):
            await settled(slow, 0)
            assert session_id((await new.start(start())).body) == kept


async def test_a_new_controller_knows_the_start_of_the_old_one_b026() -> None:
    environment = ProbeEnvironment()
    worker = new_worker(environment)
    async with controller() as old, linked(old, worker):
        kept = (await old.start(start())).body
    async with controller() as new, worker_main.running(worker), linked(new, worker):
        assert (await new.start(start())).body == kept
        assert environment.counts.opens == 1


async def test_a_repeated_start_whose_session_was_lost_gets_another_one() -> None:
    environment = ProbeEnvironment()
    first, second = new_worker(environment), new_worker(environment)
    async with controller() as service, worker_main.running(first), worker_main.running(second):
        async with linked(service, first) as link:
            lost = session_id((await service.start(start())).body)
            link._up(Bye("it fell over"))
        with pytest.raises(SessionLostError):
            await service.call(lost, "renew", b"")
        async with linked(service, second):
            both = await asyncio.gather(service.start(start()), service.start(start()))
            assert {session_id(each.body) for each in both} != {lost}
            assert len({each.body for each in both}) == 1
            await settled(second, 1)


async def test_a_worker_that_leaves_during_a_start_costs_no_start() -> None:
    environment = ProbeEnvironment()
    leaving, staying = new_worker(environment), new_worker(environment)
    async with controller() as service, worker_main.running(leaving), worker_main.running(staying):
        async with linked(service, leaving) as link:
            environment.gate.clear()
            starts = [asyncio.create_task(service.start(start(f"k{n}"))) for n in range(4)]
            await settled(leaving, 4)
            waiting = [asyncio.create_task(service.start(start(None))) for _ in range(3)]
            await until_waiting(service, 3)
            link._up(Bye("it is stopped"))
        environment.gate.set()
        async with linked(service, staying):
            for playing in asyncio.as_completed([*starts, *waiting], timeout=20):  # seven, on four slots
                made = session_id((await playing).body)
                assert made.startswith(staying.worker_id)
                await service.call(made, "cancel", b"")
            (worker,) = service.workers.all()
            assert (worker.reserved, worker.free) == (0, 4)


async def test_a_start_that_nobody_waits_for_is_ended_and_asking_again_begins_anew() -> None:
    clock = FakeClock()
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}, clock=clock, capacity=1) as hub:
        blocker = (await hub.controller.start(start("blocker"))).body
        asking = asyncio.create_task(hub.controller.start(start()))
        await clock.advance(0.1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await clock.advance(10.0)
        assert hub.controller.workers.n_waiting("probe") == 1  # whoever asks again soon keeps the place
        await clock.advance(6.0)
        assert hub.controller.workers.n_waiting("probe") == 0  # long before its deadline
        await hub.controller.call(session_id(blocker), "cancel", b"")
        assert (await hub.controller.start(start())).status == 200


async def test_whoever_asks_in_the_moment_a_start_is_given_up_is_told_to_ask_again() -> None:
    async with local_hub({"probe": ProbeEnvironment()}, capacity=1) as hub:
        await hub.controller.start(start("blocker"))
        asking = asyncio.create_task(hub.controller.start(start()))
        await until_waiting(hub.controller, 1)
        task = hub.controller._keyed["k"].task
        assert task is not None
        task.cancel()
        with pytest.raises(UnavailableError):
            await asking

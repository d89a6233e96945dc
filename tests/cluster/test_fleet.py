"""A fleet keeps its workers: replaces, grows, shrinks, explains."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from envhub.cluster.fleet import Fleet, PlacementError
from envhub.controller.service import Answered
from envhub.core.errors import SessionLostError
from envhub.testing.clock import settle
from tests.cluster.yard import Yard


@asynccontextmanager
async def running(fleet: Fleet) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(fleet.run())
    await settle()
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, PlacementError):
            await task
        await fleet.close()


async def start(yard: Yard, *, wait_s: float = 0.0) -> str:
    body = {"environment": "calculator", "split": "test", "task": 0, "wait_s": wait_s}
    answer = await yard.controller.start(json.dumps(body).encode())
    assert answer.status == 200, answer.body
    session_id: str = json.loads(answer.body)["session_id"]
    return session_id


async def end(yard: Yard, session_id: str) -> None:
    await yard.controller.call(session_id, "cancel", b"{}")
    await settle()


async def test_a_lost_node_costs_its_workers_sessions_a_typed_answer_and_brings_another_worker() -> None:
    yard = Yard()
    async with running(yard.fleet()):
        await yard.arrive()
        session_id = await start(yard)
        await yard.placed[0].lose("its node has died")
        await yard.clock.advance(2.0)
        assert len(yard.placed) == 2
        await yard.arrive()
        await yard.clock.advance(10.0)
        with pytest.raises(SessionLostError, match="its node has died"):
            await yard.controller.call(session_id, "describe", b"")
        await start(yard)
        assert yard.controller.workers.get(yard.placed[0].id) is None


async def test_a_worker_that_the_controller_has_lost_is_stopped_and_replaced() -> None:
    yard = Yard()
    async with running(yard.fleet()):
        await yard.arrive()
        await yard.clock.advance(1.0)
        yard.controller.workers.lose(yard.placed[0].id, "silent for too long")
        await yard.clock.advance(3.0)
        assert yard.placed[0].stopped
        assert len(yard.placed) == 2


async def test_a_queue_brings_a_worker_that_serves_it_and_idleness_takes_it_away() -> None:
    yard = Yard()
    async with running(yard.fleet()):
        await yard.arrive()
        await yard.clock.advance(1.0)
        sessions = [await start(yard), await start(yard)]
        waiting = [asyncio.create_task(start(yard, wait_s=60.0)) for _ in range(2)]
        await yard.clock.advance(1.5)
        assert len(yard.placed) == 1
        await yard.clock.advance(2.0)
        assert len(yard.placed) == 2
        await yard.arrive()
        sessions += await asyncio.gather(*waiting)
        await yard.clock.advance(120.0)
        assert not any(worker.stopped for worker in yard.placed)
        for session_id in sessions:
            await end(yard, session_id)
        await yard.clock.advance(40.0)
        assert [worker.stopped for worker in yard.placed].count(True) == 1
        await yard.clock.advance(300.0)
        assert [worker.stopped for worker in yard.placed].count(True) == 1
        assert len(yard.placed) == 2


async def test_a_drained_worker_is_stopped_only_after_its_last_session() -> None:
    yard = Yard()
    async with running(yard.fleet(low=1, capacity=10)) as task:
        await yard.arrive()
        await yard.clock.advance(1.0)
        sessions = [await start(yard) for _ in range(10)]
        waiting = asyncio.create_task(start(yard, wait_s=60.0))
        await yard.clock.advance(4.0)
        await yard.arrive()
        late = await waiting
        for session_id in sessions[3:]:
            await end(yard, session_id)
        await yard.clock.advance(60.0)
        old, new = yard.placed
        assert new.service is not None and new.service.table.draining
        assert not new.stopped
        sessions.append(await start(yard))
        assert sessions[-1].startswith(old.id)
        await end(yard, late)
        await yard.clock.advance(1.0)
        assert new.stopped and not old.stopped
        assert not task.done()


async def test_a_worker_that_has_not_yet_heard_that_it_drains_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    yard, heard = Yard(), asyncio.Event()
    drain = yard.controller.drain

    async def late(worker_id: str) -> Answered:
        await heard.wait()
        return await drain(worker_id)

    monkeypatch.setattr(yard.controller, "drain", late)
    async with running(yard.fleet()):
        await yard.arrive()
        await yard.clock.advance(1.0)
        sessions = [await start(yard), await start(yard)]
        waiting = asyncio.create_task(start(yard, wait_s=60.0))
        await yard.clock.advance(4.0)
        await yard.arrive()
        for session_id in (*sessions, await waiting):
            await end(yard, session_id)
        await yard.clock.advance(60.0)
        assert not any(worker.stopped for worker in yard.placed)  # it may be given a session at any moment
        heard.set()
        await yard.clock.advance(1.0)
        assert [worker.stopped for worker in yard.placed].count(True) == 1


async def test_closing_stops_every_worker() -> None:
    yard = Yard()
    async with running(yard.fleet(low=3)):
        await yard.arrive()
    assert len(yard.placed) == 3
    assert all(worker.stopped for worker in yard.placed)


async def test_without_room_for_the_first_worker_the_fleet_fails_and_says_what_is_missing() -> None:
    yard = Yard()
    async with running(yard.fleet(place_within_s=30.0)) as task:
        await yard.clock.advance(29.0)
        assert not task.done()
        await yard.clock.advance(2.0)
        with pytest.raises(PlacementError, match=r"calculator could be placed .* no node has more than 0 sandbox"):
            await task


async def test_workers_that_cannot_serve_fail_the_fleet_with_their_own_words() -> None:
    yard = Yard()
    async with running(yard.fleet()) as task:
        for _ in range(3):
            await yard.placed[-1].run_on("10.0.0.1")
            await yard.placed[-1].end("MissingExtraError: pip install 'envhub[db]'")
            await yard.clock.advance(10.0)
        with pytest.raises(PlacementError, match=r"3 tries: MissingExtraError: pip install 'envhub\[db\]'"):
            await task


async def test_later_shortages_are_said_and_do_not_end_the_hub(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    yard = Yard()
    async with running(yard.fleet()) as task:
        await yard.arrive()
        await yard.clock.advance(1.0)
        await yard.placed[0].lose("its node has died")
        await yard.clock.advance(130.0)
        assert not task.done()
    said = [record.getMessage() for record in caplog.records if "waits for a node" in record.getMessage()]
    assert len(said) == 2
    assert yard.why in said[0]


async def test_a_worker_that_runs_but_does_not_link_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    yard = Yard()
    async with running(yard.fleet()) as task:
        await yard.placed[0].run_on("10.0.0.7")
        await yard.clock.advance(70.0)
        assert not task.done()
    assert "runs on node 10.0.0.7 but has not linked to http://127.0.0.1:8800" in caplog.text

"""What the controller does for its clients: starts that are placed and repeated, routing, and what it remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from envhub import wire
from envhub.controller import service as service_module
from envhub.controller.archive import MemoryArchive
from envhub.controller.service import Answered, ControllerService
from envhub.core.errors import (
    EnvironmentNotFoundError,
    GraderError,
    InvalidRequestError,
    NoCapacityError,
    SessionEndedError,
    SessionLostError,
    SessionNotFoundError,
    UnavailableError,
)
from envhub.link.frames import Bye, Stored
from envhub.testing.clock import FakeClock, settle
from tests.controller.peer import Peer, record

SESSION = "wone1." + "a" * 16
OTHER = "wone1." + "b" * 16


class SlowArchive(MemoryArchive):
    """Stores only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []

    def submit(self, record: wire.EpisodeRecord, on_stored: Callable[[], None]) -> None:
        super().submit(record, lambda: self.waiting.append(on_stored))


class Desk:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.archive = SlowArchive()
        self.service = ControllerService(clock=self.clock, archive=self.archive)

    def peer(self, name: str = "wone1", capacity: int = 4) -> Peer:
        peer = Peer(self.service.workers, name, capacity)
        peer.link()
        return peer

    def start(self, **fields: Any) -> asyncio.Task[Answered]:
        body = msgspec.json.encode({"environment": "game", "task": 0} | fields)
        return asyncio.create_task(self.service.start(body))

    async def pass_time(self, seconds: float, *alive: str) -> None:
        for _ in range(round(seconds)):
            await self.clock.advance(1.0)
            for name in alive:
                self.service.workers.heartbeat(name)
            self.service.workers.tick()
            self.service._trim()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def session_of(answer: Answered) -> str:
    assert answer.status == 200, answer
    return str(msgspec.json.decode(answer.body)["session_id"])


def refuse(peer: Peer, number: int, code: str = "no_capacity", status: int = 503) -> None:
    peer.answer(peer.calls[number], {"error": {"code": code, "message": f"{peer.name} says no", "details": {}}}, status)


# --- start ----------------------------------------------------------------------------------------------------------


async def test_a_start_goes_to_a_worker_under_an_id_that_names_it(desk: Desk) -> None:
    peer = desk.peer()
    start = desk.start()
    await settle()
    (call,) = peer.calls
    assert call.op == "start" and call.session.startswith("wone1.") and len(call.session) == 22
    assert peer.worker is not None and peer.worker.reserved == 1
    peer.starts(call)
    assert session_of(await start) == call.session and peer.worker.reserved == 0


async def test_a_worker_that_refuses_is_tried_again_elsewhere(desk: Desk) -> None:
    one, two = desk.peer("wone1"), desk.peer("wtwo2")
    start = desk.start()
    await settle()
    first, second = (one, two) if one.calls else (two, one)
    refuse(first, 0)
    await settle()
    assert len(second.calls) == 1 and second.calls[0].session.startswith(second.name)
    second.starts(second.calls[0])
    assert session_of(await start) == second.calls[0].session


async def test_a_start_refused_everywhere_is_tried_again_until_its_deadline(desk: Desk) -> None:
    peer = desk.peer()
    start = desk.start(wait_s=3)
    await settle()
    refused = 0
    while not start.done():
        assert refused < 30
        while refused < len(peer.calls):
            refuse(peer, refused)
            refused += 1
        await desk.pass_time(1, "wone1")
    assert 3 <= refused <= 9
    if start.exception() is None:
        assert start.result().status == 503
    else:
        assert isinstance(start.exception(), UnavailableError)


async def test_an_error_of_the_caller_is_passed_on_at_once(desk: Desk) -> None:
    peer = desk.peer()
    start = desk.start()
    await settle()
    refuse(peer, 0, "task_not_found", 404)
    assert (await start).status == 404 and len(peer.calls) == 1


async def test_a_start_whose_worker_is_lost_is_placed_elsewhere(desk: Desk) -> None:
    one = desk.peer("wone1")
    start = desk.start()
    await settle()
    two = desk.peer("wtwo2")
    one.say(Bye("stopped"))
    await settle()
    two.starts(two.calls[0])
    assert session_of(await start).startswith("wtwo2.")


async def test_a_start_without_a_free_slot_gets_no_capacity_at_its_deadline(desk: Desk) -> None:
    desk.peer(capacity=1).opens(SESSION)
    start = desk.start(wait_s=2)
    await desk.pass_time(3, "wone1")
    with pytest.raises(NoCapacityError):
        await start


async def test_a_start_whose_caller_leaves_is_cancelled_on_the_worker(desk: Desk) -> None:
    peer = desk.peer()
    start = desk.start()
    await settle()
    start.cancel()
    await settle()
    assert [(call.op, call.session) for call in peer.calls] == [
        ("start", peer.calls[0].session),
        ("give_up", peer.calls[0].session),
    ]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"environment": "game", "more": 1}'])
async def test_a_malformed_start_reaches_no_worker(desk: Desk, body: bytes) -> None:
    peer = desk.peer()
    with pytest.raises(InvalidRequestError):
        await desk.service.start(body)
    assert not peer.calls


# --- request keys ---------------------------------------------------------------------------------------------------


async def test_a_repeated_start_under_way_joins_it_b026(desk: Desk) -> None:
    peer = desk.peer()
    first, second = desk.start(request_key="k"), desk.start(request_key="k")
    await settle()
    assert len(peer.calls) == 1
    peer.starts(peer.calls[0], key="k")
    assert await first == await second


async def test_a_repeated_start_asks_the_worker_for_the_same_answer_b026(desk: Desk) -> None:
    peer = desk.peer()
    first = desk.start(request_key="k")
    await settle()
    peer.starts(peer.calls[0], key="k")
    session_id = session_of(await first)
    again = desk.start(request_key="k")
    await settle()
    assert [(call.op, call.session) for call in peer.calls] == [("start", session_id)] * 2
    peer.answer(peer.calls[1], {"session_id": session_id})
    assert session_of(await again) == session_id


async def test_a_key_is_good_for_one_start_only(desk: Desk) -> None:
    peer = desk.peer()
    first = desk.start(request_key="k")
    await settle()
    with pytest.raises(InvalidRequestError, match="different start"):
        await desk.start(request_key="k", seed=5)
    peer.starts(peer.calls[0], key="k")
    await first


async def test_a_start_that_failed_may_be_sent_again_under_its_key(desk: Desk) -> None:
    peer = desk.peer()
    first = desk.start(request_key="k")
    await settle()
    refuse(peer, 0, "episode_failed", 502)
    assert (await first).status == 502
    again = desk.start(request_key="k")
    await settle()
    assert len(peer.calls) == 2 and peer.calls[1].session != peer.calls[0].session
    peer.starts(peer.calls[1], key="k")
    await again


async def test_keys_are_learnt_from_workers_after_a_restart_of_the_controller_b034(desk: Desk) -> None:
    peer = Peer(desk.service.workers)
    peer.sessions = {}
    peer.link()
    peer.opens(SESSION, key="k")
    again = desk.start(request_key="k")
    await settle()
    assert [(call.op, call.session) for call in peer.calls] == [("start", SESSION)]
    peer.answer(peer.calls[0], {"session_id": SESSION})
    assert session_of(await again) == SESSION


async def test_twins_of_one_key_are_ended(desk: Desk) -> None:
    peer = desk.peer()
    start = desk.start(request_key="k")
    await settle()
    peer.opens(OTHER, key="k")  # as a worker that was thought lost would, coming back
    peer.starts(peer.calls[0], key="k")
    session_id = session_of(await start)
    await settle()
    assert [(call.op, call.session) for call in peer.calls[1:]] == [("cancel", OTHER)]
    late = "wone1." + "c" * 16
    peer.opens(late, key="k")
    await settle()
    assert (peer.calls[-1].op, peer.calls[-1].session) == ("cancel", late) and session_id != late


async def test_a_keyed_start_survives_its_callers_absence_for_a_while_b026(desk: Desk) -> None:
    peer = desk.peer()
    first = desk.start(request_key="k")
    await settle()
    first.cancel()
    await desk.pass_time(5, "wone1")
    again = desk.start(request_key="k")
    await settle()
    assert len(peer.calls) == 1
    peer.starts(peer.calls[0], key="k")
    assert session_of(await again) == peer.calls[0].session
    await desk.pass_time(30, "wone1")
    assert [call.op for call in peer.calls] == ["start"]


@pytest.mark.parametrize("opens", [True, False])
async def test_a_keyed_start_that_nobody_asks_for_again_is_ended(desk: Desk, opens: bool) -> None:
    peer = desk.peer()
    first = desk.start(request_key="k")
    await settle()
    first.cancel()
    await settle()
    if opens:
        peer.starts(peer.calls[0], key="k")
    await desk.pass_time(16, "wone1")
    assert [(call.op, call.session) for call in peer.calls] == [
        ("start", peer.calls[0].session),
        ("give_up", peer.calls[0].session),
    ]


# --- calls ----------------------------------------------------------------------------------------------------------


async def test_a_call_goes_to_the_worker_that_the_id_names(desk: Desk) -> None:
    one, two = desk.peer("wone1"), desk.peer("wtwo2")
    call = asyncio.create_task(desk.service.call("wtwo2." + "x" * 16, "renew", b"{}"))
    await settle()
    assert not one.calls and two.calls[0].body == b"{}"
    two.answer(two.calls[0], {"lease_s": 1})
    assert await call == Answered(200, b'{"lease_s":1}')


@pytest.mark.parametrize(
    "session_id", ["", "x", "w1", "wone1.short", "wone1." + "a" * 17, "../" + SESSION, SESSION + "\n"]
)
async def test_what_cannot_be_an_id_is_not_found_and_reaches_no_worker(desk: Desk, session_id: str) -> None:
    peer = desk.peer()
    for asked in (
        desk.service.call(session_id, "renew", b""),
        desk.service.describe(session_id),
        desk.service.trace(session_id),
    ):
        with pytest.raises(SessionNotFoundError):
            await asked
    assert not peer.calls


async def test_a_session_of_a_worker_that_never_comes_is_lost_once_the_controller_is_grown_up(desk: Desk) -> None:
    call = asyncio.create_task(desk.service.call(SESSION, "renew", b""))
    await desk.pass_time(9)
    assert not call.done()
    await desk.pass_time(2)
    with pytest.raises(SessionLostError):
        await call


async def test_a_finished_session_of_a_worker_that_is_gone_tells_its_end(desk: Desk) -> None:
    await desk.pass_time(11)
    desk.archive.submit(record(SESSION), lambda: None)
    with pytest.raises(SessionEndedError) as caught:
        await desk.service.call(SESSION, "interact", b"")
    assert caught.value.details["stop_reason"] == "completed"
    error = {"code": "grader_failed", "message": "x", "details": {}}
    desk.archive.submit(record(OTHER, error=error, episode_return=None), lambda: None)
    with pytest.raises(GraderError):
        await desk.service.call(OTHER, "interact", b"")


async def test_a_session_the_worker_has_forgotten_tells_its_end_from_the_archive(desk: Desk) -> None:
    peer = desk.peer()
    desk.archive.submit(record(SESSION), lambda: None)
    call = asyncio.create_task(desk.service.call(SESSION, "renew", b""))
    await settle()
    refuse(peer, 0, "session_not_found", 404)
    with pytest.raises(SessionEndedError):
        await call


async def test_a_record_is_acknowledged_only_when_it_is_stored(desk: Desk) -> None:
    peer = desk.peer()
    peer.finishes(SESSION)
    await settle()
    assert not peer.sent
    desk.archive.waiting.pop()()
    await settle()
    assert peer.sent == [Stored(SESSION)]


# --- lost sessions --------------------------------------------------------------------------------------------------


async def test_sessions_of_a_lost_worker_get_one_typed_answer_for_an_hour(desk: Desk) -> None:
    desk.peer().opens(SESSION)
    desk.service.workers.all()[0].sessions[OTHER] = desk.service.workers.all()[0].sessions[SESSION]
    desk.service.workers.receive(desk.service.workers.all()[0], [Bye("stopped")])
    with pytest.raises(SessionLostError, match="stopped"):
        await desk.service.call(SESSION, "interact", b"")
    state = msgspec.json.decode((await desk.service.describe(SESSION)).body)
    assert (state["state"], state["worker"]) == ("lost", "wone1") and "stopped" in state["reason"]
    await desk.clock.advance(3590)
    desk.service._trim()
    with pytest.raises(SessionLostError, match="stopped"):
        await desk.service.call(SESSION, "interact", b"")
    await desk.clock.advance(20)
    desk.service._trim()
    assert not desk.service._lost
    with pytest.raises(SessionLostError, match="not linked"):
        await desk.service.call(SESSION, "interact", b"")


async def test_a_worker_that_comes_back_with_lost_sessions_is_told_to_end_them(desk: Desk) -> None:
    peer = desk.peer()
    peer.opens(SESSION)
    peer.unlink()
    await desk.pass_time(10)
    assert peer.link() == [SESSION]
    with pytest.raises(SessionLostError):
        await desk.service.call(SESSION, "interact", b"")


async def test_what_is_remembered_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_REMEMBER_MOST", 10)
    peer = desk.peer(capacity=100)
    for number in range(25):
        peer.opens(f"wone1.{number:016d}", key=f"k{number}")
    peer.say(Bye("stopped"))
    desk.service._trim()
    assert list(desk.service._lost) == [f"wone1.{number:016d}" for number in range(15, 25)]
    assert list(desk.service._keyed) == [f"k{number}" for number in range(15, 25)]


# --- looking --------------------------------------------------------------------------------------------------------


async def test_live_sessions_are_listed_oldest_first_by_environment_and_tag(desk: Desk) -> None:
    peer = desk.peer(capacity=9)
    for number, environment in enumerate(["game", "chess", "game"]):
        peer.opens(f"wone1.{number:016d}", environment=environment, run=str(number))
    listed = [state.session_id[-1] for state in desk.service.sessions(None, None, 10)]
    assert listed == ["0", "1", "2"]
    assert [state.session_id[-1] for state in desk.service.sessions("game", None, 1)] == ["0"]
    assert [state.session_id[-1] for state in desk.service.sessions(None, ("run", "1"), 10)] == ["1"]
    assert not desk.service.sessions("game", ("run", "1"), 10)


async def test_a_finished_session_is_described_and_traced_from_the_archive(desk: Desk) -> None:
    await desk.pass_time(11)
    desk.archive.submit(record(SESSION), lambda: None)
    state = msgspec.json.decode((await desk.service.describe(SESSION)).body)
    assert (state["state"], state["episode_return"], state["turn"]) == ("ended", 1.0, 1)
    assert (await desk.service.trace(SESSION)).body == record(SESSION).trace
    with pytest.raises(SessionLostError):
        await desk.service.trace(OTHER)


async def test_an_unknown_environment_is_refused_with_the_valid_names(desk: Desk) -> None:
    desk.peer()
    assert desk.service.environment("game").name == "game"
    with pytest.raises(EnvironmentNotFoundError, match="valid: game"):
        desk.service.environment("chess")


async def test_drain_is_passed_on_and_an_unknown_worker_is_not_found(desk: Desk) -> None:
    peer = desk.peer()
    drain = asyncio.create_task(desk.service.drain("wone1"))
    await settle()
    peer.answer(peer.calls[0], {"draining": True})
    assert (await drain).status == 200
    with pytest.raises(SessionNotFoundError):
        await desk.service.drain("wnobody")


async def test_the_watch_survives_a_fault_and_shows_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception] = [RuntimeError("once")]
    tick, ticks = desk.service.workers.tick, []

    def faulty() -> None:
        if faults:
            raise faults.pop()
        ticks.append(1)
        tick()

    monkeypatch.setattr(desk.service.workers, "tick", faulty)
    watch = asyncio.create_task(desk.service.watch())
    for _ in range(3):
        await desk.clock.advance(1)
    assert desk.service.failures == ["watch: RuntimeError: once"] and len(ticks) == 2
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


async def test_close_answers_who_waits_and_ends_what_runs_in_the_background(desk: Desk) -> None:
    peer = desk.peer()
    call = asyncio.create_task(desk.service.call(SESSION, "interact", b""))
    await settle()
    desk.service.detach(SESSION)
    await settle()
    assert [each.op for each in peer.calls] == ["interact", "detach"]
    await desk.service.close()
    with pytest.raises(UnavailableError):
        await call
    assert not desk.service._background and not desk.service.failures

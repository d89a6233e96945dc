"""Workers a controller knows: slots, the fair queue, links, and when a worker is given up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from envhub.controller.workers import Worker
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    NoCapacityError,
    SessionLostError,
    ShuttingDownError,
    WorkerUnreachableError,
)
from envhub.link.frames import Bye, Draining, Failed, Reply, Stored
from envhub.testing.clock import settle
from tests.controller.peer import Peer, Room, note


@pytest.fixture
def room() -> Room:
    return Room()


class Slot:
    """One reservation, held until ``free``."""

    def __init__(self, room: Room, *, client: str = "", wait_s: float = 60, excluded: tuple[str, ...] = ()) -> None:
        self._release = asyncio.Event()
        self.worker: Worker | None = None
        self.task = asyncio.create_task(self._hold(room, client, wait_s, excluded))

    async def _hold(self, room: Room, client: str, wait_s: float, excluded: tuple[str, ...]) -> None:
        async with room.workers.reserve("game", wait_s=wait_s, client=client, excluded=excluded) as worker:
            self.worker = worker
            await self._release.wait()

    def granted(self) -> bool:
        return self.worker is not None

    async def free(self) -> None:
        self._release.set()
        await self.task
        await settle()

    async def error(self) -> EnvhubError:
        with pytest.raises(EnvhubError) as caught:
            await self.task
        return caught.value


# --- slots ----------------------------------------------------------------------------------------------------------


async def test_promises_never_exceed_the_capacity_and_are_given_back_once(room: Room) -> None:
    peer = room.peer(capacity=2)
    slots = [Slot(room) for _ in range(5)]
    await settle()
    assert peer.worker is not None and peer.worker.free == 0
    assert [slot.granted() for slot in slots] == [True, True, False, False, False]
    for number, slot in enumerate(slots):
        await slot.free()
        assert sum(each.granted() for each in slots) == min(5, number + 3)
    assert (peer.worker.free, peer.worker.reserved) == (2, 0)


async def test_a_session_that_opens_takes_over_the_promise(room: Room) -> None:
    peer = room.peer(capacity=1)
    async with room.workers.reserve("game", wait_s=0, client="") as worker:
        peer.opens("s1")
        assert worker.free == -1  # counted on both sides for a moment, never on neither
    assert worker.free == 0
    with pytest.raises(NoCapacityError):
        async with room.workers.reserve("game", wait_s=0, client=""):
            pass
    peer.closes("s1")
    assert worker.free == 1


async def test_a_body_that_raises_gives_its_slot_back(room: Room) -> None:
    peer = room.peer(capacity=1)
    with pytest.raises(ZeroDivisionError):
        async with room.workers.reserve("game", wait_s=0, client=""):
            raise ZeroDivisionError
    assert peer.worker is not None and peer.worker.reserved == 0


async def test_slots_are_spread_over_the_workers(room: Room) -> None:
    room.peer("wone1", capacity=2)
    room.peer("wtwo2", capacity=4)
    slots = [Slot(room) for _ in range(6)]
    await settle()
    names = [slot.worker.id for slot in slots if slot.worker]
    assert sorted(names) == ["wone1"] * 2 + ["wtwo2"] * 4 and names[0] == "wtwo2"
    for slot in slots:
        await slot.free()


# --- the queue ------------------------------------------------------------------------------------------------------


async def waiting(room: Room, *clients: str, capacity: int = 1) -> tuple[Slot, list[Slot]]:
    """A full worker, and one waiting start for each client named."""
    room.peer(capacity=capacity)
    first = Slot(room)
    await settle()
    queue = [Slot(room, client=client) for client in clients]
    await settle()
    assert not any(slot.granted() for slot in queue)
    return first, queue


async def order(first: Slot, queue: list[Slot]) -> list[int]:
    """Free one slot after the other; the positions in the queue, in the order they were served."""
    served: list[int] = []
    now = first
    for _ in queue:
        await now.free()
        fresh = [number for number, slot in enumerate(queue) if slot.granted() and number not in served]
        assert len(fresh) == 1
        served += fresh
        now = queue[fresh[0]]
    await now.free()
    return served


async def test_one_client_is_served_in_the_order_it_asked(room: Room) -> None:
    assert await order(*await waiting(room, "a", "a", "a")) == [0, 1, 2]


async def test_clients_are_served_in_turn(room: Room) -> None:
    assert await order(*await waiting(room, "a", "a", "a", "b", "c", "b")) == [0, 3, 4, 1, 5, 2]


async def test_a_late_start_does_not_overtake_the_queue(room: Room) -> None:
    first, (second,) = await waiting(room, "a")
    await first.free()
    assert second.granted()
    late = Slot(room, client="b")
    await settle()
    assert not late.granted()
    await second.free()
    assert late.granted()
    await late.free()


async def test_the_deadline_answers_with_no_capacity(room: Room) -> None:
    room.peer(capacity=1)
    first, slot = Slot(room), Slot(room, wait_s=5)
    await room.pass_time(4)
    assert not slot.task.done() and room.workers.n_waiting("game") == 1
    await room.pass_time(2)
    error = await slot.error()
    assert isinstance(error, NoCapacityError) and error.details["retry_after_s"] > 0
    assert room.workers.n_waiting("game") == 0 and error.details["n_workers"] == 1
    await first.free()


async def test_a_start_that_nobody_will_serve_is_told_so(room: Room) -> None:
    peer = room.peer(capacity=1)
    first = Slot(room)
    await settle()
    peer.say(Draining(True))
    slot = Slot(room, wait_s=5)
    await room.pass_time(6)
    error = await slot.error()
    assert isinstance(error, NoCapacityError) and error.details["n_workers"] == 0
    await first.free()


async def test_no_patience_means_an_answer_at_once(room: Room) -> None:
    first, _ = await waiting(room)
    assert isinstance(await Slot(room, wait_s=0).error(), NoCapacityError)
    await first.free()


async def test_a_waiting_start_that_is_cancelled_leaves_the_queue(room: Room) -> None:
    first, (second, third) = await waiting(room, "a", "a")
    second.task.cancel()
    await settle()
    assert room.workers.n_waiting("game") == 1
    await first.free()
    assert third.granted()
    await third.free()


async def test_a_start_cancelled_in_the_moment_it_is_granted_gives_its_slot_on_b024(room: Room) -> None:
    peer = room.peer(capacity=1)
    first = Slot(room)
    await settle()
    second, third = Slot(room), Slot(room)
    await settle()
    first._release.set()
    await asyncio.sleep(0)  # the slot is granted to the second, which has not run yet
    assert first.task.done() and not second.granted()
    second.task.cancel()
    await settle()
    assert not second.granted() and third.granted()
    await third.free()
    assert peer.worker is not None and peer.worker.reserved == 0


async def test_a_worker_that_refused_is_passed_over(room: Room) -> None:
    one = room.peer("wone1", capacity=4)
    slot = Slot(room, excluded=("wone1",))
    await settle()
    assert not slot.granted()
    other = Slot(room)
    await settle()
    assert other.granted()  # the queue holds up only those whom its free worker may serve
    room.peer("wtwo2")
    await settle()
    assert slot.worker is not None and slot.worker.id == "wtwo2"
    await slot.free()
    await other.free()
    assert one.worker is not None and one.worker.reserved == 0


async def test_a_new_worker_serves_those_who_wait(room: Room) -> None:
    first, (second, third) = await waiting(room, "a", "b")
    room.peer("wtwo2", capacity=2)
    await settle()
    assert second.granted() and third.granted()
    for slot in (first, second, third):
        await slot.free()


async def test_a_draining_worker_gets_nothing_and_serves_again_when_it_stops(room: Room) -> None:
    peer = room.peer()
    peer.say(Draining(True))
    slot = Slot(room)
    await settle()
    assert not slot.granted() and peer.worker is not None and peer.worker.state == "draining"
    peer.say(Draining(False))
    await settle()
    assert slot.granted()
    await slot.free()


async def test_environments_of_one_worker_are_served_in_turn(room: Room) -> None:
    peer = room.peer(capacity=1, environments=("game", "chess"))
    stack = AsyncExitStack()
    await stack.enter_async_context(room.workers.reserve("game", wait_s=0, client=""))
    served: list[str] = []

    async def one(environment: str) -> None:
        async with room.workers.reserve(environment, wait_s=60, client=""):
            served.append(environment)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one(name)) for name in ("game", "game", "game", "chess", "chess")]
    await settle()
    await stack.aclose()
    await asyncio.gather(*tasks)
    assert served == ["game", "chess", "game", "chess", "game"]
    assert peer.worker is not None and peer.worker.reserved == 0


# --- environments nobody serves -------------------------------------------------------------------------------------


async def test_an_unknown_environment_is_refused_once_the_controller_has_collected_its_workers(room: Room) -> None:
    room.peer()
    slot = asyncio.create_task(room.workers._slot("chess", room.clock.now() + 60, "", ()))
    await room.pass_time(5, alive=["wone1"])
    assert not slot.done()
    await room.pass_time(7, alive=["wone1"])
    with pytest.raises(EnvironmentNotFoundError, match="valid: game"):
        await slot


async def test_a_young_controller_waits_for_its_first_worker(room: Room) -> None:
    slot = Slot(room)
    await room.pass_time(3)
    assert not slot.task.done()
    room.peer()
    await settle()
    assert slot.granted()
    await slot.free()


async def test_an_environment_that_was_there_before_is_waited_for_until_the_deadline(room: Room) -> None:
    peer = room.peer()
    await room.pass_time(20, alive=["wone1"])
    peer.say(Bye("stopped"))
    room.peer("wtwo2", environments=("chess",))
    slot = Slot(room, wait_s=5)
    await room.pass_time(4, alive=["wtwo2"])
    assert not slot.task.done()
    await room.pass_time(2, alive=["wtwo2"])
    assert isinstance(await slot.error(), NoCapacityError)


# --- calls ----------------------------------------------------------------------------------------------------------


async def test_a_call_is_answered_by_its_own_reply(room: Room) -> None:
    peer = room.peer()
    assert peer.worker is not None
    calls = [asyncio.create_task(room.workers.call(peer.worker, "renew", f"s{n}", b"")) for n in range(3)]
    await settle()
    assert [call.session for call in peer.calls] == ["s0", "s1", "s2"]
    for call in reversed(peer.calls):
        peer.answer(call, {"for": call.session})
    assert [(await each).body for each in calls] == [b'{"for":"s0"}', b'{"for":"s1"}', b'{"for":"s2"}']
    assert not peer.worker.pending


async def test_unanswered_calls_are_sent_again_after_a_new_link_and_answered_once(room: Room) -> None:
    peer = room.peer()
    assert peer.worker is not None
    call = asyncio.create_task(room.workers.call(peer.worker, "interact", "s1", b"turn"))
    await settle()
    (first,) = peer.calls
    peer.unlink()
    await room.pass_time(3)
    later = asyncio.create_task(room.workers.call(peer.worker, "renew", "s1", b""))
    peer.link()
    await settle()
    assert [each.op for each in peer.calls] == ["interact", "interact", "renew"] and peer.calls[1] == first
    for each in peer.calls[1:]:
        peer.answer(each)
        peer.answer(each)
    assert (await call).status == (await later).status == 200


async def test_an_abandoned_call_is_forgotten(room: Room) -> None:
    peer = room.peer()
    assert peer.worker is not None
    call = asyncio.create_task(room.workers.call(peer.worker, "interact", "s1", b""))
    await settle()
    call.cancel()
    await settle()
    assert not peer.worker.pending
    peer.answer(peer.calls[0])  # too late, and harmless


async def test_a_reply_to_nothing_is_harmless(room: Room) -> None:
    peer = room.peer()
    assert peer.worker is not None
    call = asyncio.create_task(room.workers.call(peer.worker, "renew", "s1", b""))
    await settle()
    peer.say(Reply(peer.calls[0].id + 1, 200, b"wrong"))
    peer.answer(peer.calls[0], "right")
    assert (await call).body == b'"right"'


# --- links ----------------------------------------------------------------------------------------------------------


async def test_a_worker_that_links_again_keeps_its_sessions_and_its_capacity(room: Room) -> None:
    peer = room.peer(capacity=3)
    peer.opens("s1")
    peer.opens("s2")
    first = peer.worker
    peer.unlink()
    assert first is not None and first.state == "unlinked" and not room.lost
    del peer.sessions["s2"]  # ended while there was no link
    peer.link()
    assert peer.worker is first and set(first.sessions) == {"s1"} and first.free == 2
    assert len(room.workers.all()) == 1


async def test_a_newer_link_replaces_the_older_whose_end_changes_nothing_b028(room: Room) -> None:
    peer = room.peer()
    older = peer.outbox
    peer.link()
    assert peer.worker is not None
    room.workers.detach(peer.worker, older)
    assert peer.worker.state == "ready" and peer.worker.outbox is peer.outbox


async def test_sessions_that_were_declared_lost_are_cancelled_and_not_counted(room: Room) -> None:
    room.forbidden = {"s1"}
    peer = Peer(room.workers)
    peer.sessions = {"s1": note("s1"), "s2": note("s2")}
    assert peer.link() == ["s1"]
    assert peer.worker is not None and set(peer.worker.sessions) == {"s2"}


async def test_a_session_that_must_not_be_is_ended_when_it_opens(room: Room) -> None:
    room.forbidden = {"s1"}
    peer = room.peer()
    peer.opens("s1")
    await settle()
    assert [(call.op, call.session) for call in peer.calls] == [("cancel", "s1")]


async def test_a_finished_episode_is_acknowledged_on_the_link_of_that_moment(room: Room) -> None:
    peer = room.peer()
    peer.finishes("wone1.x")
    (finished,) = room.finished
    peer.unlink()
    peer.link()
    finished[1]()
    await settle()
    assert peer.sent == [Stored("wone1.x")]


async def test_failures_of_a_worker_are_shown(room: Room) -> None:
    peer = room.peer()
    peer.say(Failed(["reaper: KeyError"]))
    assert room.workers.all()[0].to_json(room.clock.now())["failures"] == ["reaper: KeyError"]


# --- liveness -------------------------------------------------------------------------------------------------------


async def pending_call(room: Room, peer: Peer, op: str) -> asyncio.Task[object]:
    assert peer.worker is not None
    call = asyncio.create_task(room.workers.call(peer.worker, op, "s1", b""))
    await settle()
    return call


@pytest.mark.parametrize(("op", "error"), [("interact", SessionLostError), ("start", WorkerUnreachableError)])
async def test_a_worker_that_is_gone_is_given_up_and_its_calls_are_answered(
    room: Room, op: str, error: type[EnvhubError]
) -> None:
    peer = room.peer()
    peer.opens("s1")
    call = await pending_call(room, peer, op)
    peer.unlink()
    await room.pass_time(6)
    assert not room.lost
    await room.pass_time(1)
    assert [(worker, sessions) for worker, sessions, _ in room.lost] == [("wone1", ["s1"])]
    with pytest.raises(error):
        await call
    assert not room.workers.all() and peer.worker is not None
    with pytest.raises(error):
        await room.workers.call(peer.worker, op, "s1", b"")


async def test_a_worker_that_still_beats_is_waited_for_longer_b028(room: Room) -> None:
    peer = room.peer()
    peer.unlink()
    await room.pass_time(119, alive=["wone1"])
    assert not room.lost
    await room.pass_time(3, alive=["wone1"])
    assert len(room.lost) == 1


async def test_a_linked_worker_that_is_silent_gets_no_starts_and_is_given_up_late(room: Room) -> None:
    peer = room.peer()
    await room.pass_time(31)
    assert peer.worker is not None and peer.worker.state == "silent"
    slot = Slot(room)
    await settle()
    assert not slot.granted()
    assert room.workers.heartbeat("wone1") is True
    await settle()
    assert slot.granted()
    await slot.free()
    await room.pass_time(121)
    assert [worker for worker, _, _ in room.lost] == ["wone1"]


async def test_any_frame_is_a_sign_of_life(room: Room) -> None:
    peer = room.peer()
    for _ in range(10):
        await room.pass_time(20)
        peer.say(Draining(False))
    assert peer.worker is not None and not peer.worker.silent and not room.lost


async def test_after_a_stall_of_its_own_the_controller_judges_nobody_b028(room: Room) -> None:
    linked, unlinked = room.peer("wone1"), room.peer("wtwo2")
    unlinked.unlink()
    room.workers.tick()
    await room.clock.advance(600)
    room.workers.tick()
    assert not room.lost
    await room.pass_time(6, alive=["wone1"])
    assert not room.lost
    await room.pass_time(1, alive=["wone1"])
    assert [worker for worker, _, _ in room.lost] == ["wtwo2"]
    assert linked.worker is not None and linked.worker.state == "ready"


async def test_a_stall_does_not_keep_deadlines_from_being_answered(room: Room) -> None:
    first, (second,) = await waiting(room, "a")
    await room.clock.advance(600)
    room.workers.tick()
    assert isinstance(await second.error(), NoCapacityError)
    await first.free()


async def test_a_heartbeat_tells_whether_there_is_a_link(room: Room) -> None:
    assert room.workers.heartbeat("wnobody") is False
    peer = room.peer()
    assert room.workers.heartbeat("wone1") is True
    peer.unlink()
    assert room.workers.heartbeat("wone1") is False


async def test_a_worker_that_says_goodbye_is_gone_at_once(room: Room) -> None:
    peer = room.peer()
    peer.opens("s1")
    peer.say(Bye("it was stopped"))
    assert room.lost[0][1] == ["s1"] and "it was stopped" in room.lost[0][2]


async def test_a_worker_that_was_given_up_may_join_again_as_a_new_one(room: Room) -> None:
    peer = room.peer()
    before = peer.worker
    peer.unlink()
    await room.pass_time(9)
    peer.link()
    assert peer.worker is not before and room.workers.get("wone1") is peer.worker


async def test_shutting_down_answers_everyone_who_waits_b032(room: Room) -> None:
    peer = room.peer(capacity=1)
    call = await pending_call(room, peer, "interact")
    first = Slot(room)
    await settle()
    second = Slot(room)
    unknown = asyncio.create_task(room.workers._slot("chess", room.clock.now() + 60, "", ()))
    awaited = asyncio.create_task(room.workers.expect("wnobody"))
    await settle()
    room.workers.shut_down()
    for task in (call, second.task, unknown):
        with pytest.raises(ShuttingDownError):
            await task
    assert await awaited is None
    with pytest.raises(ShuttingDownError):
        await Slot(room).task
    assert peer.worker is not None
    with pytest.raises(ShuttingDownError):
        await room.workers.call(peer.worker, "renew", "s1", b"")
    await first.free()


async def test_a_worker_is_expected_only_while_the_controller_is_young(room: Room) -> None:
    expected = asyncio.create_task(room.workers.expect("wone1"))
    await room.pass_time(2)
    peer = room.peer()
    assert await expected is peer.worker
    await room.pass_time(10, alive=["wone1"])
    assert await room.workers.expect("wtwo2") is None

"""Doubles of live sessions: natively or by replay, and what may go wrong on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from envhub.testing.clock import settle
from envhub.worker.table import TableSettings
from tests.worker.desk import Desk, Reply


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def fork(desk: Desk, session: str = "f1", parent: str = "s1", **fields: Any) -> Reply:
    call = {"parent": parent, "turn": None, "lease_s": None, "tags": {}, "request_key": None}
    return await desk.call("fork", session, call | fields)


async def started_slowly(desk: Desk) -> None:
    """``s1``, whose task takes two seconds to open, also when it is opened again."""
    starting = asyncio.create_task(desk.start(options={"open_s": 2.0}))
    await settle()
    await desk.clock.advance(2)
    assert (await starting).status == 200


async def test_a_replayed_fork_stands_where_its_parent_does_and_goes_its_own_way(desk: Desk) -> None:
    await desk.start(tags={"run": "a"})
    await desk.say("pay 0.25")
    answer = await fork(desk, tags={"branch": "1"})
    assert answer.status == 200
    told = {name: answer.body[name] for name in ("session_id", "turn", "parent", "fork", "task", "seed")}
    assert told == {"session_id": "f1", "turn": 1, "parent": "s1", "fork": "replay", "task": 0, "seed": 1}
    assert (await desk.say("end 0.5", 1, "f1")).body["terminated"]
    assert desk.record("f1").episode_return == 0.75
    assert desk.record("f1").tags == {"run": "a", "branch": "1", "fork.parent": "s1", "fork.turn": "1"}
    assert (await desk.say("end 0", 1, "s1")).status == 200
    assert desk.record("s1").episode_return == 0.25
    traces = [msgspec.json.decode(desk.record(name).trace) for name in ("s1", "f1")]
    assert traces[0]["steps"][0] == traces[1]["steps"][0] and traces[0]["messages"] == traces[1]["messages"]
    desk.check_all_closed()


async def test_a_repeated_fork_is_answered_like_the_first(desk: Desk) -> None:
    await desk.start()
    first = await fork(desk)
    assert await fork(desk) == first
    keyed = await fork(desk, "f2", request_key="k")
    assert await fork(desk, "f3", request_key="k") == keyed
    assert desk.table.n_live == 3


async def test_a_fork_answers_the_last_turn_again(desk: Desk) -> None:
    await desk.start()
    before = await desk.say("pay 0.25")
    await fork(desk)
    assert await desk.say("pay 0.25", 0, "f1") == before


async def test_a_fork_needs_the_turn_it_names_and_a_session_that_rests(desk: Desk) -> None:
    await desk.start()
    wrong = await fork(desk, turn=3)
    assert (wrong.status, wrong.code, wrong.details) == (409, "turn_conflict", {"current_turn": 0})
    running = desk.saying("hold")
    await settle()
    assert (await fork(desk)).code == "turn_conflict"
    desk.episode.released.set()
    await running
    await desk.say("end", 1)
    assert (await fork(desk)).code == "session_ended"
    assert (await fork(desk, parent="s9")).code == "session_not_found"
    desk.check_all_closed()


async def test_a_fork_takes_a_slot() -> None:
    desk = Desk(TableSettings(capacity=1))
    await desk.start()
    assert (await fork(desk)).code == "no_capacity"
    assert desk.table.n_slots_taken == 1


async def test_a_turn_waits_for_a_fork_under_way(desk: Desk) -> None:
    await started_slowly(desk)
    forking = asyncio.create_task(fork(desk))
    await settle()
    turn = desk.saying("pay 0.25")
    await settle()
    assert not turn.done() and not forking.done()
    await desk.clock.advance(2)
    assert (await forking).body["turn"] == 0
    assert (await turn).body["reward"] == 0.25


async def test_a_parent_that_ends_meanwhile_leaves_no_fork(desk: Desk) -> None:
    await started_slowly(desk)
    forking = asyncio.create_task(fork(desk))
    await settle()
    await desk.cancel()
    await desk.clock.advance(2)
    assert (await forking).code == "session_ended"
    desk.check_all_closed()


async def test_a_cancelled_fork_leaves_nothing_and_its_parent_plays_on(desk: Desk) -> None:
    await started_slowly(desk)
    forking = asyncio.create_task(fork(desk))
    await settle()
    await desk.call("cancel", "f1", {"reason": "no more"})
    assert (await forking).code == "shutting_down"
    assert (await desk.say("end")).body["terminated"]
    desk.check_all_closed()


async def test_a_replay_that_goes_another_way_is_our_failure_and_costs_the_parent_nothing(desk: Desk) -> None:
    await desk.start()
    await desk.say("luck")
    refused = await fork(desk)
    assert (refused.status, refused.code) == (502, "episode_failed") and "turn 1 went another way" in refused.message
    assert (await desk.say("end 1", 1)).body["reward"] == 1
    desk.check_all_closed()


async def test_a_fork_has_its_parent_s_time_limit(desk: Desk) -> None:
    await desk.start(options={"max_episode_s": 100}, lease_s=1000)
    await desk.pass_time(60)
    await fork(desk)
    await desk.pass_time(41)
    assert desk.record("f1").stop_reason == "time_limit"


async def test_two_controllers_with_one_key_make_one_session_b026(desk: Desk) -> None:
    await started_slowly(desk)
    forks = [asyncio.create_task(fork(desk, name, request_key="k")) for name in ("f1", "f2")]
    starts = [asyncio.create_task(desk.start(name, request_key="s", options={"open_s": 2.0})) for name in ("s2", "s3")]
    await settle()
    await desk.clock.advance(2)
    for pair in (forks, starts):
        first, second = [await each for each in pair]
        assert first.status == 200 and first == second
    assert desk.table.n_live == 3
    await desk.call("give_up", "s2", {"reason": "the client left this controller"})
    assert desk.table.n_live == 3  # the other controller's client plays it
    await desk.call("give_up", "s2", {"reason": "and the other one too"})
    assert desk.table.n_live == 2


async def test_a_fork_has_the_lease_its_parent_has_now(desk: Desk) -> None:
    await desk.start(lease_s=30)
    await desk.call("renew", "s1", {"lease_s": 5000})
    assert (await fork(desk)).body["lease_s"] == 5000


async def test_a_chain_of_forks_does_not_gather_tags(desk: Desk) -> None:
    await desk.start(tags={f"a{n}": "" for n in range(20)})
    refused = await fork(desk, tags={f"b{n}": "" for n in range(20)})
    assert (refused.status, refused.code) == (400, "invalid_request") and "32" in refused.message
    assert (await fork(desk, "f2", tags={f"a{n}": "x" for n in range(20)})).status == 200
    assert (await fork(desk, "f3", "f2")).status == 200

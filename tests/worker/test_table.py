"""All sessions of a worker: capacity, starts, the reaper, tombstones and unstored records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envhub.core.errors import NoCapacityError, SessionNotFoundError
from envhub.link.frames import Finished
from envhub.testing.clock import settle
from envhub.worker.session import Abort
from envhub.worker.table import TableSettings
from tests.worker.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def finished(desk: Desk) -> list[str]:
    return [frame.record.session_id for frame in desk.frames if isinstance(frame, Finished)]


# --- starts ---------------------------------------------------------------------------------------------------------


async def test_a_worker_at_its_capacity_refuses_and_has_room_again_after_an_end() -> None:
    desk = Desk(TableSettings(capacity=2))
    await desk.start("s1")
    await desk.start("s2")
    refused = await desk.start("s3")
    assert (refused.status, refused.code) == (503, NoCapacityError.code) and "capacity of 2" in refused.message
    await desk.say("end", session="s1")
    assert (await desk.start("s3")).status == 200


async def test_a_start_under_way_takes_a_slot() -> None:
    desk = Desk(TableSettings(capacity=1))
    opening = asyncio.create_task(desk.start("s1", options={"open_s": 5.0}))
    await settle()
    assert desk.table.n_slots_taken == 1 and desk.table.n_live == 0
    assert (await desk.start("s2")).code == "no_capacity"
    await desk.clock.advance(5)
    assert (await opening).status == 200 and desk.table.n_slots_taken == 1


async def test_the_same_id_again_joins_repeats_or_tells_of_the_end(desk: Desk) -> None:
    starts = [asyncio.create_task(desk.start("s1", options={"open_s": 1.0})) for _ in range(3)]
    await desk.clock.advance(1)
    answers = [await each for each in starts]
    assert answers[0].status == 200 and answers[0] == answers[1] == answers[2]
    assert await desk.start("s1") == answers[0]
    assert len(desk.log.opened) == 1
    await desk.say("end")
    assert (await desk.start("s1")).code == "session_ended"
    assert len(desk.log.opened) == 1


async def test_the_same_request_key_gives_the_same_session(desk: Desk) -> None:
    first = await desk.start("s1", request_key="k")
    assert await desk.start("s2", request_key="k") == first
    assert desk.table.n_live == 1
    await desk.say("end", session="s1")
    assert (await desk.start("s3", request_key="k")).body["session_id"] == "s3"


@pytest.mark.parametrize("fail", ["open", "reset", "unusable", "unavailable", "option"])
async def test_a_start_that_fails_takes_nothing_b030(fail: str) -> None:
    desk = Desk(TableSettings(capacity=1))
    codes = {"unusable": "task_unusable", "unavailable": "unavailable", "option": "invalid_request"}
    for number in range(20):
        answer = await desk.start(f"s{number}", options={"fail": fail}, request_key=f"k{number}")
        assert answer.code == codes.get(fail, "episode_failed")
    desk.check_all_closed()
    assert desk.kinds() == []
    assert (await desk.start("s1", request_key="k1")).status == 200


@pytest.mark.parametrize("option", ["open_s", "reset_s"])
async def test_a_start_that_takes_too_long_is_our_failure(option: str) -> None:
    desk = Desk(TableSettings(max_open_s=10))
    opening = asyncio.create_task(desk.start(options={option: 1e6}))
    await desk.pass_time(11)
    answer = await opening
    assert (answer.status, answer.code) == (504, "episode_timeout") and "10 s" in answer.message
    desk.check_all_closed()


@pytest.mark.parametrize("option", ["open_s", "reset_s"])
async def test_a_cancel_ends_a_start_under_way_b025(desk: Desk, option: str) -> None:
    opening = asyncio.create_task(desk.start(options={option: 100.0}))
    await settle()
    assert (await desk.cancel()).body == {"session_id": "s1", "state": "ended"}
    assert (await opening).code == "shutting_down"
    desk.check_all_closed()


async def test_a_caller_of_start_that_goes_away_does_not_stop_it(desk: Desk) -> None:
    opening = asyncio.create_task(desk.start(options={"open_s": 1.0}))
    await settle()
    opening.cancel()
    await desk.clock.advance(1)
    assert desk.table.n_live == 1


# --- what may be asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        ({"environment": "chess"}, "environment_not_found", "scripted"),
        ({"split": "dev"}, "task_not_found", "test, train, empty"),
        ({"task": 100}, "task_not_found", "0..99"),
        ({"split": "empty", "task": None}, "task_not_found", "empty"),
        ({"options": {"speed": 3}}, "invalid_request", "'speed'"),
        ({"options": {"n": "3"}}, "invalid_request", "type int"),
        ({"options": {"n": True}}, "invalid_request", "type int"),
        ({"options": {"flag": 1}}, "invalid_request", "type bool"),
        ({"options": {"grading": None}}, "invalid_request", "type str"),
        ({"options": {"max_turns": 0}}, "invalid_request", "max_turns"),
        ({"options": {"max_turns": 1.5}}, "invalid_request", "whole"),
        ({"options": {"max_turns": True}}, "invalid_request", "max_turns"),
        ({"options": {"max_turns": "5"}}, "invalid_request", "max_turns"),
        ({"options": {"max_episode_s": -1}}, "invalid_request", "max_episode_s"),
        ({"options": {"max_episode_s": 1e9}}, "invalid_request", "max_episode_s"),
        ({"options": {"any": 10**30}}, "invalid_request", "too large"),
    ],
)
async def test_a_wrong_start_says_what_is_valid(desk: Desk, fields: dict[str, Any], code: str, named: str) -> None:
    answer = await desk.start(**fields)
    assert answer.code == code and named in answer.message
    desk.check_all_closed()


async def test_options_reach_the_environment_with_defaults_filled_in(desk: Desk) -> None:
    started = await desk.start(options={"n": 2, "any": [1], "flag": False})
    assert desk.episode.options["n"] == 2 and desk.episode.options["any"] == [1]
    assert desk.episode.options["open_s"] == 0.0
    assert started.body["identity"]["options"] == {"n": 2, "any": [1]}


async def test_the_grading_mode_is_part_of_the_identity(desk: Desk) -> None:
    plain, other = await desk.start("s1"), await desk.start("s2", options={"grading": "agentbench"})
    assert (plain.body["identity"]["grading"], other.body["identity"]["grading"]) == ("strict", "agentbench")
    assert plain.body["identity"]["digest"] != other.body["identity"]["digest"]


async def test_other_limits_are_part_of_the_identity(desk: Desk) -> None:
    limits = [{}, {"max_turns": 3}, {"max_episode_s": 7.5}]
    identities = [(await desk.start(f"wtest1.{n}", options=each)).body["identity"] for n, each in enumerate(limits)]
    assert [each["options"] for each in identities] == limits
    assert len({each["digest"] for each in identities}) == 3


async def test_a_drawn_task_follows_the_seed(desk: Desk) -> None:
    drawn = [(await desk.start(f"s{number}", task=None, seed=number // 2)).body["task"] for number in range(40)]
    assert drawn[::2] == drawn[1::2] and len(set(drawn)) > 5 and all(0 <= each < 100 for each in drawn)


async def test_without_a_seed_task_and_seed_are_drawn(desk: Desk) -> None:
    bodies = [(await desk.start(f"s{number}", task=None, seed=None)).body for number in range(20)]
    assert len({body["seed"] for body in bodies}) == 20 and len({body["task"] for body in bodies}) > 5
    assert desk.episode.seed == bodies[-1]["seed"]


# --- the reaper -----------------------------------------------------------------------------------------------------


async def test_the_reaper_runs_every_second_and_survives_a_fault(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.start(lease_s=2)
    reaper = asyncio.create_task(desk.service.reap())
    tick, faults = desk.table.tick, [RuntimeError("once")]

    def faulty() -> None:
        if faults:
            raise faults.pop()
        tick()

    monkeypatch.setattr(desk.table, "tick", faulty)
    await desk.clock.advance(1)
    assert desk.service.hello().failures == ["reaper: RuntimeError: once"] and desk.kinds()[-1] == "Failed"
    for _ in range(3):
        await desk.clock.advance(1)
    assert desk.table.n_live == 0
    reaper.cancel()
    await asyncio.gather(reaper, return_exceptions=True)


async def test_an_abandoned_session_is_lost_and_a_live_neighbour_is_not(desk: Desk) -> None:
    await desk.start("s1")
    await desk.start("s2")
    desk.service.abandon(["s1", "never was"])
    await settle()
    assert (await desk.say("x", session="s1")).code == "session_lost"
    assert (await desk.say("x", session="s2")).status == 200


async def test_drain_refuses_starts_and_keeps_sessions(desk: Desk) -> None:
    await desk.start("s1")
    answer = await desk.call("drain", "")
    assert answer.body == {"worker": "wtest1", "draining": True, "sessions": 1}
    assert desk.service.hello().draining and desk.kinds()[-1] == "Draining"
    assert (await desk.start("s2")).code == "shutting_down"
    assert (await desk.say("x", session="s1")).status == 200
    assert (await desk.start("s1")).status == 200  # a repeat is no new session


async def test_shutdown_ends_everything_and_answers_everyone_b025(desk: Desk) -> None:
    await desk.start("idle")
    await desk.start("busy")
    opening = asyncio.create_task(desk.start("opening", options={"open_s": 100.0}))
    running = desk.saying("hold", session="busy")
    await settle()
    await desk.table.shutdown()
    assert (await opening).code == "shutting_down"
    assert (await running).code == "session_lost"
    assert (await desk.start("late")).code == "shutting_down"
    assert sorted(finished(desk)) == ["busy", "idle"]
    assert desk.log.environment_closed == 1
    desk.check_all_closed()


async def test_a_start_that_completes_during_shutdown_is_ended_too(desk: Desk) -> None:
    opening = asyncio.create_task(desk.start("s1"))
    await asyncio.sleep(0)
    await desk.table.shutdown()
    await opening
    desk.check_all_closed()


# --- tombstones -----------------------------------------------------------------------------------------------------


async def test_an_ended_session_is_remembered_for_an_hour(desk: Desk) -> None:
    await desk.start()
    last = await desk.say("end")
    await desk.pass_time(3599)
    assert await desk.say("end") == last
    assert (await desk.call("renew")).code == "session_ended"
    await desk.pass_time(2)
    for op in ("describe", "renew", "cancel"):
        assert (await desk.call(op)).code == "session_not_found"


async def test_tombstones_are_bounded_in_bytes_oldest_first() -> None:
    desk = Desk(TableSettings(max_tombstone_bytes=3 * 1200))
    for number in range(6):
        await desk.start(f"s{number}")
        await desk.say("end", session=f"s{number}")
    codes = [(await desk.call("renew", f"s{number}")).code for number in range(6)]
    assert codes == ["session_not_found"] * 3 + ["session_ended"] * 3


async def test_an_ended_session_keeps_only_what_a_late_call_needs(desk: Desk) -> None:
    await desk.start()
    await desk.say("end")
    session = desk.table.find("s1")
    assert desk.episode is not session._episode and not session._steps
    desk.table.stored("s1")
    with pytest.raises(SessionNotFoundError):
        desk.table.trace("s1")


# --- records --------------------------------------------------------------------------------------------------------


async def test_a_record_goes_out_before_the_slot_is_free(desk: Desk) -> None:
    await desk.start()
    await desk.say("end")
    assert desk.kinds() == ["Opened", "Finished", "Closed"]


async def test_an_unstored_record_is_offered_again_until_it_is_stored(desk: Desk) -> None:
    await desk.start()
    await desk.say("end")
    await desk.pass_time(20)
    assert finished(desk) == ["s1"]
    await desk.pass_time(11)
    await desk.pass_time(5)
    assert finished(desk) == ["s1", "s1"]
    desk.service.stored("s1")
    desk.service.stored("s1")
    await desk.pass_time(60)
    assert finished(desk) == ["s1", "s1"]


async def test_a_new_link_is_offered_what_is_not_stored_first(desk: Desk) -> None:
    for session in ("s1", "s2"):
        await desk.start(session)
        await desk.say("end", session=session)
    desk.service.stored("s1")
    seen: list[Any] = []
    unsubscribe = desk.service.subscribe(seen.append)
    assert [frame.record.session_id for frame in seen] == ["s2"]
    unsubscribe()
    await desk.start("s3")
    assert len(seen) == 1 and desk.kinds()[-1] == "Opened"


async def test_unstored_records_hold_back_new_starts_until_they_are_stored() -> None:
    desk = Desk(TableSettings(max_unstored_bytes=100))
    await desk.start("s1")
    await desk.say("end", session="s1")
    refused = await desk.start("s2")
    assert (refused.status, refused.code, refused.details["retry_after_s"]) == (503, "unavailable", 5.0)
    desk.service.stored("s1")
    assert (await desk.start("s2")).status == 200


async def test_the_trace_of_a_finished_episode_is_there_until_it_is_stored(desk: Desk) -> None:
    await desk.start()
    await desk.say("end")
    assert (await desk.call("trace")).body["steps"][0]["answer"]["terminated"]
    desk.service.stored("s1")
    assert (await desk.call("trace")).code == "session_not_found"


async def test_notes_name_what_is_alive(desk: Desk) -> None:
    await desk.start("s1", tags={"run": "r"}, request_key="k")
    await desk.start("s2")
    await desk.table.cancel("s2", Abort.CANCELLED, "x")
    (note,) = desk.service.hello().sessions
    assert (note.session_id, note.environment, note.task, note.request_key, note.tags) == (
        "s1",
        "scripted",
        0,
        "k",
        {"run": "r"},
    )


# --- the worker's own edge ------------------------------------------------------------------------------------------


async def test_an_unknown_operation_is_the_callers_mistake(desk: Desk) -> None:
    assert (await desk.call("explode")).code == "invalid_request"


async def test_a_bug_in_an_operation_is_an_answer_and_not_the_end_of_the_link(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(session_id: str) -> None:
        raise ZeroDivisionError("bug")

    monkeypatch.setattr(desk.table, "find", broken)
    answer = await desk.say("x")
    assert (answer.status, answer.code) == (500, "internal") and "ZeroDivisionError" in answer.message


async def test_what_a_worker_says_of_itself(desk: Desk) -> None:
    hello = desk.service.hello()
    assert (hello.worker_id, hello.capacity, hello.draining, hello.failures) == ("wtest1", 256, False, [])
    assert hello.environments[0]["name"] == "scripted" and hello.environments[0]["splits"]["test"] == 100


async def test_tombstones_count_what_was_said_last() -> None:
    desk = Desk(TableSettings(max_tombstone_bytes=50_000))
    for number in range(8):
        await desk.start(f"s{number}")
        await desk.say("end " + " " * 20_000, session=f"s{number}")
    assert len(desk.table._dead.sessions) <= 3

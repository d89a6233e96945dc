"""One live episode: turns, repeats, limits, lease, cancel, and its single end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from envhub.testing.clock import settle
from envhub.worker import closing
from envhub.worker import session as session_module
from envhub.worker.session import Abort, close_quietly
from envhub.worker.table import TableSettings
from tests.worker.desk import Desk, Reply


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- order and repeats ----------------------------------------------------------------------------------------------


async def test_an_episode_from_start_to_end(desk: Desk) -> None:
    started = await desk.start(tags={"run": "r"})
    assert started.status == 200
    body = started.body
    assert (body["session_id"], body["environment"], body["split"], body["task"], body["seed"]) == (
        "s1",
        "scripted",
        "test",
        0,
        1,
    )
    assert (body["turn"], body["max_turns"], body["lease_s"], body["info"]) == (0, 10, 300.0, {"k": 1})
    assert body["messages"] == [{"role": "user", "content": "task 0"}]
    assert body["tools"][0]["function"]["name"] == "f" and body["identity"]["version"] == "1"
    first = await desk.say("pay 0.25")
    assert first.body == {
        "turn": 1,
        "messages": [{"role": "user", "content": "heard pay"}],
        "reward": 0.25,
        "terminated": False,
        "truncated": False,
        "stop_reason": None,
        "info": {},
    }
    last = await desk.say("end 0.5", 1)
    assert (last.body["turn"], last.body["terminated"], last.body["stop_reason"]) == (2, True, "completed")
    record = desk.record()
    assert (record.turns, record.episode_return, record.terminated, record.truncated) == (2, 0.75, True, False)
    assert (record.stop_reason, record.error, record.tags) == ("completed", None, {"run": "r"})
    steps = msgspec.json.decode(record.trace)["steps"]
    assert [step["message"]["content"] for step in steps] == ["pay 0.25", "end 0.5"]
    desk.check_all_closed()


async def test_the_episode_is_closed_before_the_answer_that_ends_it(desk: Desk) -> None:
    await desk.start(options={"close_s": 3.0})
    ending = desk.saying("end")
    await settle()
    assert desk.episode.closed == 1 and not ending.done() and desk.table.n_live == 1
    await desk.clock.advance(3.0)
    assert (await ending).body["terminated"] and desk.table.n_live == 0


async def test_a_repeated_turn_gets_the_same_answer_and_runs_nothing_b026(desk: Desk) -> None:
    await desk.start()
    first = await desk.say("pay 0.5")
    assert await desk.say("pay 0.5") == first
    assert desk.episode.steps == ["pay 0.5"]
    last = await desk.say("end", 1)
    assert await desk.say("end", 1) == last
    assert desk.record().episode_return == 1.5


async def test_a_repeated_turn_with_another_message_conflicts_b026(desk: Desk) -> None:
    await desk.start()
    await desk.say("a")
    conflict = await desk.say("b")
    assert (conflict.status, conflict.code, conflict.details) == (409, "turn_conflict", {"current_turn": 1})
    assert desk.episode.steps == ["a"]


@pytest.mark.parametrize("turn", [0, 2, 7])
async def test_a_turn_out_of_order_conflicts_and_names_the_current_one(desk: Desk, turn: int) -> None:
    await desk.start()
    for number in range(3):
        await desk.say(f"turn {number}", number)
    conflict = await desk.say("x", turn)
    assert (conflict.code, conflict.details["current_turn"]) == ("turn_conflict", 3)
    assert (await desk.say("x", 3)).status == 200


async def test_a_repeat_of_a_running_turn_joins_it(desk: Desk) -> None:
    await desk.start()
    first, second = desk.saying("hold"), desk.saying("hold")
    await settle()
    assert desk.episode.steps == ["hold"]
    desk.episode.released.set()
    assert await first == await second and (await first).status == 200


@pytest.mark.parametrize(("text", "turn"), [("other", 0), ("hold", 1)])
async def test_another_call_during_a_turn_conflicts(desk: Desk, text: str, turn: int) -> None:
    await desk.start()
    running = desk.saying("hold")
    await settle()
    conflict = await desk.say(text, turn)
    assert (conflict.code, conflict.details["current_turn"]) == ("turn_conflict", 0)
    desk.episode.released.set()
    assert (await running).status == 200


async def test_a_caller_that_goes_away_does_not_stop_the_turn(desk: Desk) -> None:
    await desk.start()
    caller = desk.saying("hold")
    await settle()
    caller.cancel()
    await settle()
    assert not desk.episode.cancelled_steps
    desk.episode.released.set()
    assert (await desk.say("hold")).body["turn"] == 1
    assert desk.episode.steps == ["hold"]


@pytest.mark.parametrize(
    "body", [{"turn": 0}, {"turn": 0, "message": {"role": "user"}}, {"turn": "x", "message": {}}, {"message": {}}]
)
async def test_a_malformed_turn_costs_nothing(desk: Desk, body: Any) -> None:
    await desk.start()
    assert (await desk.call("interact", "s1", body)).code == "invalid_request"
    assert (await desk.say("x")).body["turn"] == 1


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_the_last_turn_is_truncated_and_keeps_its_reward() -> None:
    desk = Desk(max_turns=2)
    await desk.start()
    await desk.say("a")
    last = await desk.say("pay 0.5", 1)
    assert (last.body["truncated"], last.body["terminated"], last.body["stop_reason"]) == (True, False, "turn_limit")
    assert last.body["reward"] == 0.5
    assert (desk.record().truncated, desk.record().episode_return) == (True, 0.5)
    assert (await desk.say("b", 2)).code == "session_ended"
    desk.check_all_closed()


async def test_an_episode_that_ends_on_its_last_turn_is_not_truncated() -> None:
    desk = Desk(max_turns=1)
    await desk.start()
    body = (await desk.say("end 1")).body
    assert (body["terminated"], body["truncated"], body["stop_reason"]) == (True, False, "completed")


async def test_a_session_may_ask_for_other_limits(desk: Desk) -> None:
    started = await desk.start(options={"max_turns": 1, "max_episode_s": 5})
    assert started.body["max_turns"] == 1
    assert (await desk.say("a")).body["stop_reason"] == "turn_limit"
    assert started.body["identity"]["options"] == {"max_turns": 1, "max_episode_s": 5.0}


async def test_the_time_limit_ends_an_idle_session_as_an_outcome(desk: Desk) -> None:
    await desk.start()
    await desk.say("pay 0.5")
    await desk.pass_time(101)
    late = await desk.say("x", 1)
    assert (late.status, late.code, late.details["stop_reason"]) == (410, "session_ended", "time_limit")
    record = desk.record()
    assert (record.truncated, record.stop_reason, record.episode_return) == (True, "time_limit", 0.5)
    assert record.error is None
    desk.check_all_closed()


async def test_the_time_limit_ends_a_running_turn_and_answers_its_calls(desk: Desk) -> None:
    await desk.start()
    call = {"id": "c7", "function": {"name": "f", "arguments": "{}"}}
    message = {"content": "hold", "tool_calls": [call]}
    running = asyncio.create_task(desk.call("interact", "s1", {"turn": 0, "message": message}))
    await desk.pass_time(101)
    answer = await running
    assert answer.status == 200
    assert (answer.body["truncated"], answer.body["stop_reason"], answer.body["reward"]) == (True, "time_limit", 0.0)
    (reply,) = answer.body["messages"]
    assert (reply["role"], reply["tool_call_id"]) == ("tool", "c7")
    assert desk.episode.cancelled_steps == 1
    desk.check_all_closed()


async def test_a_turn_that_took_too_long_is_truncated_with_its_reward_although_nobody_looked(desk: Desk) -> None:
    await desk.start()
    running = desk.saying("wait 101")
    await desk.clock.advance(101)
    assert (await running).body["stop_reason"] == "time_limit"


async def test_one_step_that_takes_too_long_is_our_failure_without_a_reward() -> None:
    desk = Desk(TableSettings(max_step_s=30))
    await desk.start()
    await desk.say("pay 0.5")
    running = desk.saying("hold", 1)
    await desk.pass_time(31)
    answer = await running
    assert (answer.status, answer.code) == (504, "episode_timeout")
    assert await desk.say("hold", 1) == answer
    record = desk.record()
    assert record.episode_return is None and record.error["code"] == "episode_timeout"
    assert not record.truncated and not record.terminated
    desk.check_all_closed()


# --- what an environment must not do --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["pay nan", "pay inf", "pay 1.01", "pay -0.01", "end 2", "truncate", "raise x", "fail x"]
)
async def test_a_broken_environment_is_an_error_without_a_reward(desk: Desk, said: str) -> None:
    await desk.start()
    await desk.say("pay 1")
    answer = await desk.say(said, 1)
    assert (answer.status, answer.code) == (502, "episode_failed")
    assert await desk.say(said, 1) == answer
    record = desk.record()
    assert record.episode_return is None and record.error["code"] == "episode_failed" and record.turns == 1
    assert (await desk.call("describe")).body["state"] == "failed"
    desk.check_all_closed()


async def test_a_grader_that_breaks_keeps_its_class(desk: Desk) -> None:
    await desk.start()
    assert (await desk.say("grader x")).code == "grader_failed"


async def test_an_environment_may_declare_another_range_of_rewards() -> None:
    desk = Desk(reward_range=(-1.0, 5.0))
    await desk.start()
    assert (await desk.say("pay -1")).body["reward"] == -1.0
    assert (await desk.say("pay 5", 1)).body["reward"] == 5.0
    assert (await desk.say("pay 5.1", 2)).code == "episode_failed"


async def test_an_environment_may_name_its_own_stop_reason(desk: Desk) -> None:
    await desk.start()
    body = (await desk.say("lose 0")).body
    assert (body["terminated"], body["stop_reason"]) == (True, "invalid_action")


async def test_a_close_that_fails_changes_no_answer(desk: Desk) -> None:
    await desk.start(options={"fail": "close"})
    assert (await desk.say("end 0.5")).body["reward"] == 0.5
    desk.check_all_closed()


async def test_a_close_that_hangs_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "_CLOSE_LIMIT_S", 0.01)
    await desk.start(options={"close_s": 1e9})
    assert (await desk.say("end")).body["terminated"]
    desk.check_all_closed()


async def test_a_cancelled_clean_up_runs_to_its_end_first() -> None:
    free, freed = asyncio.Event(), []

    async def close() -> None:
        await free.wait()
        freed.append(True)

    closing = asyncio.create_task(close_quietly(close))
    await settle()
    closing.cancel()
    await settle()
    closing.cancel()
    await settle()
    assert not closing.done()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert freed == [True]


async def test_the_last_info_that_was_given_is_recorded(desk: Desk) -> None:
    await desk.start()
    await desk.say("info")
    await desk.say("end", 1)
    assert desk.record().info == {"command": "info"}


# --- lease ----------------------------------------------------------------------------------------------------------


async def test_a_lease_ends_an_idle_session_and_says_why(desk: Desk) -> None:
    await desk.start(lease_s=20)
    await desk.pass_time(20)
    assert desk.table.n_live == 1
    await desk.pass_time(0.1)
    late = await desk.say("x")
    assert (late.code, late.details) == (
        "session_ended",
        {"reason": "idle for more than 20 s", "stop_reason": "cancelled"},
    )
    record = desk.record()
    assert (record.stop_reason, record.reason, record.episode_return) == ("cancelled", "idle for more than 20 s", None)
    assert record.error is None
    desk.check_all_closed()


async def test_each_turn_restarts_the_lease(desk: Desk) -> None:
    await desk.start(lease_s=20)
    for turn in range(4):
        await desk.pass_time(15)
        assert (await desk.say("x", turn)).status == 200


async def test_a_repeated_turn_restarts_the_lease(desk: Desk) -> None:
    await desk.start(lease_s=20)
    await desk.say("x")
    await desk.pass_time(15)
    await desk.say("x")
    await desk.pass_time(15)
    assert desk.table.n_live == 1


async def test_a_running_turn_is_not_idle(desk: Desk) -> None:
    await desk.start(lease_s=5)
    running = desk.saying("hold")
    await desk.pass_time(50)
    desk.episode.released.set()
    assert (await running).status == 200
    await desk.pass_time(4)
    assert desk.table.n_live == 1


async def test_renew_restarts_the_lease_and_may_change_it(desk: Desk) -> None:
    await desk.start(lease_s=20)
    await desk.pass_time(15)
    assert (await desk.call("renew")).body == {"session_id": "s1", "lease_s": 20.0}
    await desk.pass_time(15)
    assert (await desk.call("renew", body={"lease_s": 50})).body["lease_s"] == 50.0
    await desk.pass_time(45)
    assert desk.table.n_live == 1
    await desk.pass_time(6)
    assert (await desk.call("renew")).code == "session_ended"


async def test_a_client_that_left_in_a_turn_has_its_grace_to_come_back() -> None:
    desk = Desk(TableSettings(detach_grace_s=10), max_episode_s=1000)
    await desk.start(lease_s=300)
    running = desk.saying("hold")
    await settle()
    assert (await desk.call("detach")).status == 200
    desk.episode.released.set()
    await running
    assert (await desk.call("describe")).body["detached"] is True
    await desk.pass_time(10.1)
    late = await desk.say("x", 1)
    assert "disconnected" in late.details["reason"]
    desk.check_all_closed()


@pytest.mark.parametrize("op", ["interact", "renew"])
async def test_a_client_that_came_back_keeps_its_lease(op: str) -> None:
    desk = Desk(TableSettings(detach_grace_s=10), max_episode_s=1000)
    await desk.start(lease_s=300)
    await desk.say("x")
    await desk.call("detach")
    assert (await (desk.say("x") if op == "interact" else desk.call("renew"))).status == 200
    await desk.pass_time(100)
    assert desk.table.n_live == 1


# --- cancel ---------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_an_idle_session_without_a_reward(desk: Desk) -> None:
    await desk.start()
    await desk.say("pay 1")
    state = (await desk.cancel()).body
    assert (state["state"], state["stop_reason"], state["reason"]) == ("ended", "cancelled", "no more")
    assert "episode_return" not in state
    assert desk.record().episode_return is None
    assert (await desk.cancel()).body["reason"] == "no more"
    desk.check_all_closed()


async def test_a_cancel_aborts_a_running_turn_and_both_are_answered(desk: Desk) -> None:
    await desk.start()
    running = desk.saying("hold")
    await settle()
    cancelled, answer = await asyncio.gather(desk.cancel(), running)
    assert cancelled.body["state"] == "ended"
    assert (answer.status, answer.code, answer.details["stop_reason"]) == (410, "session_ended", "cancelled")
    assert desk.episode.cancelled_steps == 1
    desk.check_all_closed()


async def test_a_step_that_swallows_the_cancel_is_ended_all_the_same_b024(desk: Desk) -> None:
    await desk.start()
    running = desk.saying("swallow")
    await settle()
    assert (await desk.cancel()).body["stop_reason"] == "cancelled"
    assert (await running).code == "session_ended"
    desk.check_all_closed()


async def test_an_end_that_a_step_reached_in_spite_of_the_cancel_counts_b024(desk: Desk) -> None:
    await desk.start()
    running = desk.saying("swallow-end")
    await settle()
    state = (await desk.cancel()).body
    answer = await running
    assert answer.body["terminated"] and answer.body["reward"] == 1.0
    assert (state["stop_reason"], state["episode_return"]) == ("completed", 1.0)
    desk.check_all_closed()


@pytest.mark.parametrize("ticks", range(8))
@pytest.mark.parametrize("said", ["x", "end", "hold"])
async def test_a_cancel_around_the_completion_of_a_turn_leaves_one_end_b024(desk: Desk, said: str, ticks: int) -> None:
    await desk.start()
    running = desk.saying(said)
    if said == "hold":
        await settle()
        desk.episode.released.set()  # the wake-up and the cancel land in one tick
    for _ in range(ticks):
        await asyncio.sleep(0)
    state = (await desk.cancel()).body
    answer = await running
    ended = answer.status == 200 and answer.body["terminated"]
    assert state["stop_reason"] == ("completed" if ended else "cancelled")
    assert desk.kinds().count("Finished") == 1
    desk.check_all_closed()


async def test_ten_cancels_and_the_reaper_end_a_session_once_b029(desk: Desk) -> None:
    await desk.start(lease_s=1, options={"close_s": 2.0})
    await desk.clock.advance(5)
    desk.table.tick()
    cancels = [asyncio.create_task(desk.cancel()) for _ in range(10)]
    await desk.clock.advance(3)
    states = [(await each).body for each in cancels]
    assert all(state == states[0] for state in states) and states[0]["reason"] == "idle for more than 1 s"
    desk.check_all_closed()


async def test_a_cancel_after_the_end_changes_nothing_b029(desk: Desk) -> None:
    await desk.start()
    await desk.say("end 0.5")
    state = (await desk.cancel()).body
    assert (state["stop_reason"], state["episode_return"]) == ("completed", 0.5)
    assert desk.record().stop_reason == "completed"


async def test_a_caller_of_cancel_that_goes_away_does_not_stop_the_end(desk: Desk) -> None:
    await desk.start(options={"close_s": 2.0})
    cancelling = asyncio.create_task(desk.cancel())
    await settle()
    cancelling.cancel()
    await desk.clock.advance(3)
    desk.check_all_closed()


@pytest.mark.parametrize("abort", [Abort.SHUTDOWN, Abort.ABANDONED])
async def test_an_end_that_is_our_doing_is_a_lost_session(desk: Desk, abort: Abort) -> None:
    await desk.start()
    await desk.say("pay 1")
    await desk.table.cancel("s1", abort, "we stop")
    late = await desk.say("x", 1)
    assert (late.status, late.code) == (410, "session_lost")
    record = desk.record()
    assert record.error["code"] == "session_lost" and record.episode_return is None
    desk.check_all_closed()


# --- what others read -----------------------------------------------------------------------------------------------


async def test_the_state_of_a_live_session(desk: Desk) -> None:
    await desk.start(tags={"run": "r"})
    await desk.say("x")
    await desk.clock.advance(3)
    state = (await desk.call("describe")).body
    assert (state["state"], state["turn"], state["idle_s"], state["lease_s"]) == ("live", 1, 3.0, 300.0)
    assert state["tags"] == {"run": "r"} and "episode_return" not in state and "ended_at" not in state


async def test_the_trace_of_a_live_session_shows_the_turns_so_far(desk: Desk) -> None:
    await desk.start()
    await desk.say("x")
    trace = (await desk.call("trace")).body
    assert trace["messages"][0]["content"] == "task 0"
    assert [step["message"]["content"] for step in trace["steps"]] == ["x"]
    assert trace["steps"][0]["answer"]["turn"] == 1


async def test_a_trace_stays_within_its_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_TRACE_BYTES", 1500)
    await desk.start()
    for turn in range(4):
        await desk.say("x" * 400, turn)
    await desk.say("end", 4)
    steps = msgspec.json.decode(desk.record().trace)["steps"]
    assert len(steps) == 5 and [("omitted_bytes" in step) for step in steps] == [False, True, True, True, False]


@pytest.mark.parametrize("op", ["interact", "renew", "cancel", "describe", "trace", "detach"])
async def test_a_session_that_never_was_is_not_found(desk: Desk, op: str) -> None:
    body = {"turn": 0, "message": {"content": "x"}} if op == "interact" else None
    answer: Reply = await desk.call(op, "nobody", body)
    assert (answer.status, answer.code) == (404, "session_not_found")

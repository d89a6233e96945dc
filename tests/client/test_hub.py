"""The client: what is repeated and what is not, and how a session is left."""

from __future__ import annotations

import asyncio

import pytest

from envhub.client.hub import Hub
from envhub.client.rollout import rollout
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    EpisodeFailedError,
    InternalError,
    InvalidRequestError,
    NoCapacityError,
    SessionEndedError,
    SessionLostError,
    ShuttingDownError,
    TurnConflictError,
    UnavailableError,
)
from envhub.core.types import Message, Observation, StopReason, TaskRef, ToolCall
from envhub.testing.clock import FakeClock, settle
from envhub.testing.hub import local_hub
from envhub.transport import HttpAnswer
from tests.client.scripted_transport import HANG, NO_ANSWER, STARTED, error, hub, ok, passing, stepped
from tests.worker.scripted import ScriptedEnvironment

SAY = Message.assistant("x")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


# --- repeating ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        NO_ANSWER,
        error(NoCapacityError("full")),
        error(ShuttingDownError("bye")),
        HttpAnswer(502, b"<html>Bad Gateway</html>"),
        HttpAnswer(429, b""),
    ],
    ids=["nobody", "full", "closing", "proxy", "throttled"],
)
async def test_a_call_is_repeated_while_the_hub_is_unavailable(clock: FakeClock, failure: object) -> None:
    client, transport = hub(clock, interact=[failure, failure, stepped(1)])
    session = client.session("calculator")
    await session.start()
    task = asyncio.create_task(session.interact(SAY))
    await passing(clock, task)
    assert (await task).reward == 0.0
    bodies = transport.bodies("interact")
    assert len(bodies) == 3 and bodies[0] == bodies[1] == bodies[2] and bodies[0]["turn"] == 0


async def test_a_repeated_start_carries_the_same_key_b026(clock: FakeClock) -> None:
    client, transport = hub(clock, sessions=[NO_ANSWER, ok(STARTED)])
    task = asyncio.create_task(client.session("calculator").start())
    await passing(clock, task)
    one, two = transport.bodies("sessions")
    assert one == two and len(one["request_key"]) >= 20


async def test_two_sessions_have_different_keys(clock: FakeClock) -> None:
    client, transport = hub(clock)
    for _ in range(2):
        await client.session("calculator").start()
    one, two = transport.bodies("sessions")
    assert one["request_key"] != two["request_key"]


@pytest.mark.parametrize(
    "raised",
    [
        InvalidRequestError("x"),
        TurnConflictError("x", current_turn=2),
        SessionEndedError("x"),
        SessionLostError("x"),
        EpisodeFailedError("x"),
        InternalError("x"),
    ],
    ids=lambda raised: raised.code,
)
async def test_what_cannot_get_better_is_raised_as_its_class_at_once(clock: FakeClock, raised: EnvhubError) -> None:
    client, transport = hub(clock, interact=error(raised))
    session = client.session("calculator")
    await session.start()
    with pytest.raises(type(raised)) as caught:
        await session.interact(SAY)
    assert caught.value.details == raised.details
    assert transport.verbs().count("interact") == 1


async def test_a_call_is_given_up_after_the_time_for_retries(clock: FakeClock) -> None:
    client, transport = hub(clock, retry_for_s=10, interact=NO_ANSWER)
    session = client.session("calculator")
    await session.start()
    task = asyncio.create_task(session.interact(SAY))
    assert 4 <= await passing(clock, task) <= 11
    with pytest.raises(UnavailableError):
        await task
    assert 4 <= transport.verbs().count("interact") <= 12
    assert not session.done


async def test_the_time_for_retries_counts_from_the_first_failure(clock: FakeClock) -> None:
    class Slow:
        calls = 0

        async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
            self.calls += 1
            if self.calls == 1:
                await clock.sleep(500)
                raise NO_ANSWER
            return ok({"done": True})

        async def close(self) -> None:
            pass

    transport = Slow()
    client = Hub(transport=transport, clock=clock, retry_for_s=5)
    task = asyncio.create_task(client.request("GET", "/x"))
    await passing(clock, task)
    assert await task == b'{"done":true}'


async def test_pauses_grow_and_follow_what_the_hub_wants(clock: FakeClock) -> None:
    client, _transport = hub(clock, interact=[error(NoCapacityError("full", retry_after_s=3.0)), stepped(1)])
    session = client.session("calculator")
    await session.start()
    task = asyncio.create_task(session.interact(SAY))
    assert 2.2 <= await passing(clock, task) <= 3.9


# --- a session ------------------------------------------------------------------------------------------------------


async def test_a_started_session_knows_what_it_plays(clock: FakeClock) -> None:
    client, transport = hub(clock)
    session = client.session("calculator", "train", 3, seed=7, lease_s=60, options={"a": 1}, tags={"run": "r"})
    with pytest.raises(RuntimeError, match="not been started"):
        _ = session.id
    observation = await session.start()
    assert isinstance(observation, Observation) and observation.messages == (Message.user("go"),)
    assert observation.tools[0].name == "f"
    assert await session.start() == observation and transport.verbs() == ["sessions"]
    (asked,) = transport.bodies("sessions")
    assert (asked["split"], asked["task"], asked["seed"], asked["lease_s"]) == ("train", 3, 7, 60)
    assert (asked["options"], asked["tags"]) == ({"a": 1}, {"run": "r"})
    assert (session.task, session.seed, session.max_turns) == (TaskRef("calculator", "test", 3), 7, 20)
    assert session.identity.environment == "calculator"


async def test_turns_are_numbered_by_the_hub(clock: FakeClock) -> None:
    client, transport = hub(clock, interact=[stepped(1), stepped(2, terminated=True, stop_reason=StopReason.COMPLETED)])
    async with client.session("calculator") as session:
        assert not (await session.interact(SAY)).done and session.turn == 1
        assert (await session.interact(SAY)).stop_reason is StopReason.COMPLETED
    assert [body["turn"] for body in transport.bodies("interact")] == [0, 1]
    assert "cancel" not in transport.verbs()


async def test_a_session_left_early_is_cancelled_once(clock: FakeClock) -> None:
    client, transport = hub(clock)
    async with client.session("calculator") as session:
        await session.interact(SAY)
        await session.cancel()
    await session.cancel()
    assert transport.verbs() == ["sessions", "interact", "cancel"]
    assert transport.requests[-1][1] == f"/v1/sessions/{STARTED.session_id}/cancel"


async def test_a_session_left_by_an_error_is_cancelled_and_the_error_raised(clock: FakeClock) -> None:
    client, transport = hub(clock)
    with pytest.raises(ZeroDivisionError):
        async with client.session("calculator"):
            raise ZeroDivisionError
    assert transport.verbs() == ["sessions", "cancel"]


async def test_a_cancelled_task_still_cancels_its_session_b025(clock: FakeClock) -> None:
    client, transport = hub(clock, interact=HANG)

    async def play() -> None:
        async with client.session("calculator") as session:
            await session.interact(SAY)

    task = asyncio.create_task(play())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.verbs() == ["sessions", "interact", "cancel"]


async def test_a_second_cancel_during_the_clean_up_does_not_stop_it_b025(clock: FakeClock) -> None:
    client, transport = hub(clock, cancel=[NO_ANSWER, ok({})])

    async def play() -> None:
        async with client.session("calculator"):
            await asyncio.Event().wait()

    task = asyncio.create_task(play())
    await settle()
    task.cancel()
    await settle()
    task.cancel()
    await passing(clock, task)
    assert task.cancelled() and transport.verbs().count("cancel") == 2


async def test_no_number_of_cancels_stops_the_clean_up_b001(clock: FakeClock) -> None:
    client, transport = hub(clock, cancel=[NO_ANSWER, NO_ANSWER, ok({})])

    async def play() -> None:
        async with client.session("calculator"):
            await asyncio.Event().wait()

    task = asyncio.create_task(play())
    await settle()
    for _ in range(8):
        task.cancel()
        await settle()
        assert not task.done()
    await passing(clock, task)
    assert task.cancelled() and transport.verbs().count("cancel") == 3


async def test_a_hub_that_is_away_does_not_keep_a_session_from_being_left(clock: FakeClock) -> None:
    client, _ = hub(clock, cancel=NO_ANSWER)

    async def leave() -> None:
        async with client.session("calculator"):
            pass

    task = asyncio.create_task(leave())
    assert await passing(clock, task) < 60
    await task


@pytest.mark.parametrize("raised", [EpisodeFailedError("broke"), SessionLostError("gone"), SessionEndedError("idle")])
async def test_a_session_that_is_over_on_the_hub_is_done_and_not_cancelled(
    clock: FakeClock, raised: EnvhubError
) -> None:
    client, transport = hub(clock, interact=error(raised))
    with pytest.raises(type(raised)):
        async with client.session("calculator") as session:
            await session.interact(SAY)
    assert session.done and "cancel" not in transport.verbs()


async def test_a_start_that_fails_leaves_nothing_to_cancel(clock: FakeClock) -> None:
    client, transport = hub(clock, sessions=error(EpisodeFailedError("broke")))
    with pytest.raises(EpisodeFailedError):
        async with client.session("calculator"):
            pass
    assert transport.verbs() == ["sessions"]


async def test_renew_sends_the_lease_only_when_it_changes(clock: FakeClock) -> None:
    client, transport = hub(clock, renew=ok({}))
    session = client.session("calculator")
    await session.start()
    await session.renew()
    await session.renew(50)
    assert transport.bodies("renew") == [{}, {"lease_s": 50}]


async def test_leaving_a_hub_closes_its_transport(clock: FakeClock) -> None:
    client, transport = hub(clock)
    async with client:
        pass
    assert transport.closed


async def test_an_unknown_environment_names_the_known_ones() -> None:
    async with local_hub() as local:
        assert (await local.hub.info("calculator")).splits["test"] == 100
        with pytest.raises(EnvironmentNotFoundError, match="valid: calculator"):
            await local.hub.info("chess")


# --- a time limit between two turns ---------------------------------------------------------------------------------

LATE = error(SessionEndedError("the session is over: too long", reason="too long", stop_reason="time_limit"))


async def test_a_time_limit_between_two_turns_truncates_without_reward(clock: FakeClock) -> None:
    client, transport = hub(clock, interact=LATE)
    async with client.session("calculator") as session:
        calls = ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")
        result = await session.interact(Message.assistant(None, *calls))
    assert (result.reward, result.terminated, result.truncated) == (0.0, False, True)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert [(message.role, message.tool_call_id) for message in result.messages] == [("tool", "c1"), ("tool", "c2")]
    assert result.messages[0].content == "Not executed: too long."
    assert session.done and "cancel" not in transport.verbs()


class Talker:
    """Says the same each time, after a pause."""

    def __init__(self, clock: FakeClock, pause_s: float) -> None:
        self._clock, self._pause_s = clock, pause_s

    async def act(self, messages: object, tools: object) -> Message:
        await self._clock.advance(self._pause_s)
        return Message.assistant("pay 0.5")


async def test_a_rollout_whose_policy_is_too_slow_ends_normally(clock: FakeClock) -> None:
    environment = ScriptedEnvironment(clock, max_episode_s=25)
    async with local_hub({"scripted": environment}, clock=clock) as local:
        trajectory = await rollout(local.hub.session("scripted"), Talker(clock, 12))
    assert trajectory.rewards == (0.5, 0.5, 0.0) and trajectory.episode_return == 1.0
    assert (trajectory.truncated, trajectory.terminated, trajectory.stop_reason) == (True, False, "time_limit")
    assert not environment.log.breaches and not environment.log.live


# --- against a hub --------------------------------------------------------------------------------------------------


async def test_a_cancelled_start_ends_what_it_started_b025(clock: FakeClock) -> None:
    environment = ScriptedEnvironment(clock)
    async with local_hub({"scripted": environment}, clock=clock) as local:
        start = asyncio.create_task(local.hub.session("scripted", options={"open_s": 5.0}).start())
        await settle()
        assert local.worker.table.n_slots_taken == 1
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        for _ in range(20):
            await clock.advance(1)
        assert local.worker.table.n_slots_taken == 0 and not environment.log.live


async def test_a_quiet_hub_in_one_process_keeps_its_worker() -> None:
    clock = FakeClock()
    async with local_hub(clock=clock) as local, local.hub.session("calculator", lease_s=86_400) as session:
        for _ in range(300):
            await clock.advance(1)
        (worker,) = local.controller.workers.all()
        assert worker.state == "ready"
        await session.interact(SAY)


async def test_rollout_records_the_whole_conversation() -> None:
    class Oracle:
        def __init__(self) -> None:
            known = local.worker.table.environments["calculator"].solution(TaskRef("calculator", "test", 0))
            self.script = iter(known or ())

        async def act(self, messages: object, tools: object) -> Message:
            return next(self.script)

    async with local_hub() as local:
        trajectory = await rollout(local.hub.session("calculator", task=0, seed=3), Oracle())
    assert (trajectory.episode_return, trajectory.turns, trajectory.terminated) == (1.0, 3, True)
    assert [message.role for message in trajectory.messages] == ["user", *("assistant", "tool") * 3]
    assert (trajectory.seed, trajectory.task) == (3, TaskRef("calculator", "test", 0))


async def test_rollout_of_a_failing_policy_cancels_the_session(clock: FakeClock) -> None:
    class Broken:
        async def act(self, messages: object, tools: object) -> Message:
            raise ValueError("no idea")

    client, transport = hub(clock)
    with pytest.raises(ValueError, match="no idea"):
        await rollout(client.session("calculator"), Broken())
    assert transport.verbs() == ["sessions", "cancel"]

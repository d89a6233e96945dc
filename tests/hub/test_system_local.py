"""The whole hub in one process, against environments that misbehave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec
import pytest

from envhub.core.errors import (
    EnvhubError,
    EpisodeError,
    EpisodeFailedError,
    InvalidRequestError,
    SessionEndedError,
)
from envhub.core.types import Message, StopReason
from envhub.embedded import EmbeddedHub
from envhub.testing.hub import local_hub
from tests.hub.environments import ProbeEnvironment, records


def say(text: str) -> Message:
    return Message.assistant(text)


async def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


async def settled(hub: EmbeddedHub, environment: ProbeEnvironment) -> None:
    """Wait until nothing lives, on either side, and check that everything was closed once."""
    controllers_view = hub.controller.workers.all()
    await until(lambda: hub.worker.table.n_slots_taken == 0)
    await until(lambda: all(not each.sessions and not each.reserved for each in controllers_view))
    counts = environment.counts
    assert counts.opens == counts.closes and not counts.live
    assert not counts.closed_twice and not counts.stepped_after_close


@pytest.mark.parametrize("fail", ["open", "reset", "observation"])
async def test_200_failing_starts_leave_the_counts_unchanged_b030(fail: str) -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}, capacity=8) as hub:

        async def start() -> None:
            with pytest.raises(EpisodeFailedError):
                await hub.hub.session("probe", options={"fail": fail}).start()

        async with asyncio.timeout(60):
            await asyncio.gather(*(start() for _ in range(200)))
        await settled(hub, environment)
        assert not records(hub)


async def test_a_start_that_is_refused_for_now_is_tried_again_until_its_deadline() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe", options={"fail": "unavailable"}, wait_s=1.0)
        started = asyncio.get_running_loop().time()
        with pytest.raises(EnvhubError) as caught:
            await hub.hub.request("POST", "/v1/sessions", msgspec.json.encode(session._request), retry_for_s=0.0)
        assert caught.value.code == "unavailable"
        assert 0.5 < asyncio.get_running_loop().time() - started < 20.0
        await settled(hub, environment)


@pytest.mark.parametrize(
    "message",
    [
        "reward nan",
        "reward inf",
        "reward 1.5",
        "reward -0.1",
        "truncate",
        "nothing",
        "raise x",
        "bigint",
        "object",
        "huge 9000000",
    ],
)
async def test_what_an_environment_must_not_give_is_an_error_without_a_reward_b023(message: str) -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe")
        await session.start()
        await session.interact(say("hello"))
        with pytest.raises(EpisodeError) as caught:
            await session.interact(say(message))
        assert caught.value.status == 502
        with pytest.raises(EpisodeError):
            await session.interact(say(message))
        await settled(hub, environment)
        (record,) = records(hub)
        assert record.episode_return is None and record.error is not None and record.turns == 1


@pytest.mark.parametrize("message", ["surrogate", "control", "nan", "huge 5000000"])
async def test_odd_values_are_sent_and_the_session_stays_usable_b023(message: str) -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub, hub.hub.session("probe") as session:
        first = await session.interact(say(message))
        assert not first.done
        assert (await session.interact(say("done"))).terminated
        await settled(hub, environment)
        (record,) = records(hub)
        assert record.episode_return == 1.0
        assert msgspec.json.decode(record.trace)["steps"][0]["answer"]["turn"] == 1


async def test_a_first_observation_with_a_lone_surrogate_is_repaired_b023() -> None:
    async with (
        local_hub({"probe": ProbeEnvironment()}) as hub,
        hub.hub.session("probe", options={"fail": "surrogate"}) as session,
    ):
        assert session.messages[0].content == "bad \ufffd text"


async def test_a_first_observation_that_is_too_large_is_refused() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        with pytest.raises(EpisodeFailedError):
            await hub.hub.session("probe", options={"observation_bytes": 10_000_000}).start()
        await settled(hub, environment)


async def test_an_option_too_large_for_the_link_is_refused_and_costs_nothing() -> None:
    async with local_hub({"probe": ProbeEnvironment()}) as hub:
        with pytest.raises(InvalidRequestError, match="too large"):
            await hub.hub.session("probe", options={"number": 10**30}).start()
        async with hub.hub.session("probe", options={"number": 7}) as session:
            assert session.identity.options == {"number": 7}


async def test_a_trace_of_huge_messages_stays_within_what_the_link_carries() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        async with hub.hub.session("probe") as session:
            for _ in range(12):
                await session.interact(say("hello " + "x" * 7_000_000))
            await session.interact(say("done"))
        (record,) = records(hub)
        assert len(record.trace) < 40_000_000
        steps = msgspec.json.decode(record.trace)["steps"]
        assert len(steps) == 13 and "omitted_bytes" in steps[11] and steps[12]["answer"]["terminated"]


async def test_a_failing_close_changes_no_result() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub, hub.hub.session("probe", options={"fail": "close"}) as session:
        assert (await session.interact(say("done 0.5"))).reward == 0.5
        await settled(hub, environment)
        assert records(hub)[0].episode_return == 0.5


# --- cancel ---------------------------------------------------------------------------------------------------------


async def test_cancels_at_any_moment_leave_one_end_and_no_session_b024() -> None:
    """2,000 sessions, each cancelled around the completion of its interact; the last turn may or may not win."""
    environment = ProbeEnvironment()
    rng = random.Random(24)
    async with local_hub({"probe": environment}, capacity=64) as hub:
        ends = {"completed": 0, "cancelled": 0}

        async def play() -> None:
            session = hub.hub.session("probe")
            await session.start()
            words = rng.choice(["done", "sleep 0.001", "sleep 0", "swallow 0.001"])
            turn = asyncio.create_task(hub.controller.call(session.id, "interact", _turn(words)))
            for _ in range(rng.randrange(0, 12)):
                await asyncio.sleep(0)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random() * 0.003)
            cancelled = await hub.controller.call(session.id, "cancel", b"{}")
            assert cancelled.status == 200, cancelled
            answer = await turn
            state = msgspec.json.decode(cancelled.body)
            assert state["state"] == "ended", state
            if answer.status == 200 and msgspec.json.decode(answer.body)["terminated"]:
                assert state["stop_reason"] == "completed"
            else:
                assert answer.status in (200, 410), answer
                assert state["stop_reason"] in ("cancelled",)
            ends[state["stop_reason"]] += 1

        async def many(n: int) -> None:
            for _ in range(n):
                await play()

        async with asyncio.timeout(60):
            await asyncio.gather(*(many(50) for _ in range(40)))
        await settled(hub, environment)
        assert min(ends.values()) > 100, ends
        assert len(records(hub)) == 2000


def _turn(text: str, turn: int = 0) -> bytes:
    return msgspec.json.encode({"turn": turn, "message": {"role": "assistant", "content": text}})


@pytest.mark.parametrize("after_ticks", range(0, 12))
async def test_a_cancel_during_a_start_frees_what_it_took_b025(after_ticks: int) -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}, capacity=1) as hub:
        for options in ({}, {"open_s": 0.02}, {"reset_s": 0.02}, {"close_s": 0.02}):
            body = msgspec.json.encode({"environment": "probe", "options": options})
            starting = asyncio.create_task(hub.controller.start(body))
            for _ in range(after_ticks):
                await asyncio.sleep(0)
            starting.cancel()
            starting.cancel()
            (answer,) = await asyncio.gather(starting, return_exceptions=True)
            if not isinstance(answer, BaseException):  # it was through before the cancel
                await hub.controller.call(msgspec.json.decode(answer.body)["session_id"], "cancel", b"")
            await settled(hub, environment)


async def test_the_workers_table_survives_a_cancel_in_the_tick_of_the_start_b025() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}, capacity=1) as hub:
        worker = hub.worker
        session_id = f"{worker.worker_id}.{'a' * 16}"
        body = msgspec.json.encode({"environment": "probe"})
        starting = asyncio.create_task(worker.handle("start", session_id, body))
        joining = asyncio.create_task(worker.handle("start", session_id, body))
        cancelling = asyncio.create_task(worker.handle("cancel", session_id, b""))
        answers = await asyncio.gather(starting, joining, cancelling)
        assert [status for status, _ in answers] == [503, 503, 200]
        await settled(hub, environment)


async def test_a_cancel_in_the_tick_of_an_interact_comes_before_the_step_b024() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe")
        await session.start()
        turn = asyncio.create_task(hub.worker.handle("interact", session.id, _turn("sleep 60")))
        cancel = asyncio.create_task(hub.worker.handle("cancel", session.id, b""))
        async with asyncio.timeout(20):
            assert [status for status, _ in await asyncio.gather(turn, cancel)] == [410, 200]
        assert environment.counts.steps == 0
        await settled(hub, environment)


async def test_a_cancel_during_a_step_aborts_it_and_both_calls_are_answered_b025() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe", options={"close_s": 0.05})
        await session.start()
        turn = asyncio.create_task(session.interact(say("sleep 60")))
        await until(lambda: environment.counts.steps == 1)
        cancels = [asyncio.create_task(hub.controller.call(session.id, "cancel", b"")) for _ in range(2)]
        assert [answer.status for answer in await asyncio.gather(*cancels)] == [200, 200]
        with pytest.raises(SessionEndedError):
            await turn
        assert environment.counts.aborted_steps == 1
        await settled(hub, environment)


async def test_a_step_that_swallows_a_cancel_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envhub.worker.session._CANCEL_AGAIN_S", 0.1)
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe")
        await session.start()
        turn = asyncio.create_task(session.interact(say("swallow 60")))
        await until(lambda: environment.counts.steps == 1)
        async with asyncio.timeout(20):
            await session.cancel()
        with pytest.raises(SessionEndedError):
            await turn
        await settled(hub, environment)


async def test_ten_cancels_and_the_expiry_at_once_end_a_session_once_b029() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        session = hub.hub.session("probe", lease_s=0.05, options={"close_s": 0.05})
        await session.start()
        await asyncio.sleep(0.06)
        hub.worker.table.tick()
        answers = await asyncio.gather(*(hub.controller.call(session.id, "cancel", b"") for _ in range(10)))
        hub.worker.table.tick()
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body for answer in answers}) == 1
        await settled(hub, environment)
        (record,) = records(hub)
        assert record.stop_reason is StopReason.CANCELLED and record.episode_return is None


async def test_a_cancel_after_the_end_changes_no_reward_b029() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub, hub.hub.session("probe") as session:
        await session.interact(say("done 0.75"))
        for _ in range(10):
            answer = await hub.controller.call(session.id, "cancel", b"")
            assert msgspec.json.decode(answer.body)["episode_return"] == 0.75
        assert len(records(hub)) == 1


async def test_a_worker_that_stops_ends_every_session_and_answers_every_call_b025() -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        sessions = [hub.hub.session("probe") for _ in range(30)]
        await asyncio.gather(*(session.start() for session in sessions))
        turns = [asyncio.create_task(session.interact(say("sleep 60"))) for session in sessions[:20]]
        slow = [
            asyncio.create_task(hub.controller.start(b'{"environment":"probe","options":{"open_s":60.0},"wait_s":0}'))
            for _ in range(5)
        ]
        await until(lambda: environment.counts.steps == 20 and hub.worker.table.n_slots_taken == 35)
        async with asyncio.timeout(20):
            await hub.worker.table.shutdown()
        outcomes = await asyncio.gather(*turns, return_exceptions=True)
        assert {getattr(each, "code", each) for each in outcomes} == {"session_lost"}
        for each in await asyncio.gather(*slow, return_exceptions=True):
            assert getattr(each, "status", None) == 503 or getattr(each, "code", None) == "shutting_down", each
        await settled(hub, environment)
        assert len(records(hub)) == 30

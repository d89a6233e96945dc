"""Forks end to end: over HTTP, in every environment, under lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp
import pytest

from envhub.client.hub import HubSession
from envhub.core.errors import SessionNotFoundError, TurnConflictError, UnavailableError
from envhub.core.types import Message, StepResult, TaskRef, ToolCall
from envhub.envs import registry
from envhub.testing.hub import local_hub, served_hub
from tests.hub.environments import ProbeEnvironment


def sql(text: str) -> Message:
    return Message.assistant(None, ToolCall("c", "execute_sql", f'{{"query": "{text}"}}'))


async def test_two_forks_of_a_database_see_each_its_own_writes() -> None:
    async with served_hub(["db"]) as served, served.hub.session("db", "test", 0, seed=1) as session:
        await session.interact(sql("CREATE TABLE fork_probe (n INT)"))
        await session.interact(sql("SET @seen = 7"))
        async with await session.fork() as left, await session.fork(tags={"branch": "right"}) as right:
            assert left.fork_kind == right.fork_kind == "native" and left.turn == 2
            await left.interact(sql("INSERT INTO fork_probe VALUES (1)"))
            await right.interact(sql("INSERT INTO fork_probe VALUES (2), (@seen)"))
            seen = [await each.interact(sql("SELECT n FROM fork_probe")) for each in (session, left, right)]
            rows = [result.messages[0].content for result in seen]
            assert len(set(rows)) == 3 and "7" in (rows[2] or "") and "1" not in (rows[0] or "")
        assert served.worker.table.n_live == 1


async def test_a_fork_is_repeated_by_its_key_and_ends_apart() -> None:
    async with served_hub() as served, aiohttp.ClientSession(served.url) as http:
        async with http.post("/v1/sessions", json={"environment": "calculator", "task": 0}) as answer:
            parent = (await answer.json())["session_id"]
        forks = []
        for _ in range(3):
            async with http.post(f"/v1/sessions/{parent}/fork", json={"request_key": "k", "turn": 0}) as answer:
                assert answer.status == 200
                forks.append(await answer.json())
        assert forks[0] == forks[1] == forks[2] and forks[0]["fork"] == "replay" and forks[0]["parent"] == parent
        async with http.post(f"/v1/sessions/{parent}/fork", json={"request_key": "k", "lease_s": 9}) as answer:
            assert answer.status == 400 and "request_key 'k'" in (await answer.json())["error"]["message"]
        start = {"environment": "calculator", "request_key": f"fork:{parent}:k"}
        async with http.post("/v1/sessions", json=start) as answer:
            assert answer.status == 400
        async with http.delete(f"/v1/sessions/{parent}") as answer:
            assert answer.status == 200
        async with http.get(f"/v1/sessions/{forks[0]['session_id']}") as answer:
            state = await answer.json()
            assert state["state"] == "live" and state["tags"] == {"fork.parent": parent, "fork.turn": "0"}
        async with http.post(f"/v1/sessions/{parent}/fork", json={}) as answer:
            assert answer.status == 410
        async with http.post(f"/v1/sessions/{parent}/fork", json={"depth": 2}) as answer:
            assert answer.status == 400 and "depth" in (await answer.json())["error"]["message"]


async def test_a_client_that_leaves_in_the_middle_of_a_fork_leaves_none() -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}) as served:
        async with served.hub.session("probe") as session:
            environment.gate.clear()
            forking = asyncio.create_task(session.fork())
            async with asyncio.timeout(20):
                while served.worker.table.n_slots_taken < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            forking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await forking
            async with asyncio.timeout(20):
                while served.worker.table.n_slots_taken > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        assert served.worker.table.n_live == 0


async def test_a_full_worker_says_to_come_again() -> None:
    async with local_hub(capacity=1) as hub, hub.hub.session("calculator") as session:
        hub.hub._retry_for_s = 0
        with pytest.raises(UnavailableError):
            await session.fork()


async def test_a_stale_turn_and_an_unknown_session_are_told_apart() -> None:
    async with local_hub() as hub, hub.hub.session("calculator") as session:
        session.turn = 4
        with pytest.raises(TurnConflictError):
            await session.fork()
        with pytest.raises(SessionNotFoundError):
            await hub.hub.request("POST", "/v1/sessions/nobody/fork")


async def rest_of(session: HubSession, steps: Sequence[Message]) -> StepResult:
    result = StepResult()
    for step in steps:
        result = await session.interact(step)
    return result


@pytest.mark.parametrize("environment", registry.names())
async def test_every_environment_forks_in_the_middle_of_a_solution(environment: str) -> None:
    made = registry.create(environment)
    async with local_hub({environment: made}) as hub:
        info = await hub.hub.info(environment)
        split = info.default_split
        index, steps = next(
            (index, steps)
            for index in range(100)
            if (steps := made.solution(TaskRef(environment, split, index))) is not None and len(steps) > 1
        )
        async with hub.hub.session(environment, split, index, seed=3) as session:
            await rest_of(session, steps[:1])
            twin = await session.fork()
            other = await twin.fork()
            ends = [await rest_of(each, steps[1:]) for each in (twin, session, other)]
            assert [end.reward for end in ends] == [info.reward_range[1]] * 3
            assert [end.messages for end in ends[1:]] == [ends[0].messages] * 2
        assert hub.worker.table.n_live == 0

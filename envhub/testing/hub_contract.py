"""What every hub must do for its clients, as checks over a connected ``Hub``: in one process, over a socket, or deployed.

::

    async with Hub(url, key=key) as hub:
        for check in HUB_CHECKS:
            await check(hub)

Each check plays the ``calculator`` environment, which the hub must serve, and leaves no session behind.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

from envhub import wire
from envhub.client.hub import Hub
from envhub.client.rollout import rollout
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    InvalidRequestError,
    SessionEndedError,
    SessionNotFoundError,
    TaskNotFoundError,
    TurnConflictError,
)
from envhub.core.types import JSON, Message, StopReason, TaskRef, ToolCall
from envhub.envs import registry
from envhub.testing.policies import ScriptedPolicy, solving

HubCheck = Callable[[Hub], Awaitable[None]]

ENVIRONMENT = "calculator"
ADD = Message.assistant(None, ToolCall("1", "add", '{"a": 1, "b": 2}'))


async def environments_are_listed(hub: Hub) -> None:
    info = await hub.info(ENVIRONMENT)
    assert info.splits[info.default_split] > 0
    body = await _call(hub, "GET", f"/v1/environments/{ENVIRONMENT}/tasks")
    assert body["splits"] == dict(info.splits)


async def an_episode_is_played_to_its_end(hub: Hub) -> None:
    task = TaskRef(ENVIRONMENT, "test", 5)
    policy = solving(registry.create(ENVIRONMENT), task)
    trajectory = await rollout(hub.session(ENVIRONMENT, task.split, task.index), policy)
    assert (trajectory.task, trajectory.episode_return, trajectory.terminated) == (task, 1.0, True)
    assert trajectory.stop_reason is StopReason.COMPLETED


async def the_turn_limit_is_an_outcome_without_reward(hub: Hub) -> None:
    session = hub.session(ENVIRONMENT, options={"max_turns": 2})
    trajectory = await rollout(session, ScriptedPolicy([ADD]))
    assert (trajectory.turns, trajectory.episode_return) == (2, 0.0)
    assert trajectory.truncated and trajectory.stop_reason is StopReason.TURN_LIMIT


async def a_repeated_turn_gets_the_stored_answer(hub: Hub) -> None:
    async with hub.session(ENVIRONMENT) as session:
        path = f"/v1/sessions/{session.id}/interact"
        turn = {"turn": 0, "message": wire.message_to_json(ADD)}
        first, again = await _call(hub, "POST", path, turn), await _call(hub, "POST", path, turn)
        assert first == again and first["turn"] == 1


async def turns_out_of_order_conflict_and_name_the_current_one(hub: Hub) -> None:
    async with hub.session(ENVIRONMENT) as session:
        await session.interact(ADD)
        path = f"/v1/sessions/{session.id}/interact"
        other = {"turn": 0, "message": {"role": "assistant", "content": "something else"}}
        for wrong in ({"turn": 7, "message": wire.message_to_json(ADD)}, other):
            error = await _refused(_call(hub, "POST", path, wrong), TurnConflictError)
            assert error.details["current_turn"] == 1
        assert not (await session.interact(ADD)).done


async def a_start_with_a_request_key_makes_one_session(hub: Hub) -> None:
    start = {"environment": ENVIRONMENT, "request_key": secrets.token_hex(8)}
    answers = await asyncio.gather(*(_call(hub, "POST", "/v1/sessions", start) for _ in range(5)))
    assert len({answer["session_id"] for answer in answers}) == 1
    error = _call(hub, "POST", "/v1/sessions", {**start, "split": "train"})
    await _refused(error, InvalidRequestError)
    await _call(hub, "POST", f"/v1/sessions/{answers[0]['session_id']}/cancel")


async def a_cancelled_session_is_over_for_good(hub: Hub) -> None:
    session = hub.session(ENVIRONMENT)
    await session.start()
    path = f"/v1/sessions/{session.id}"
    states = [await _call(hub, "POST", f"{path}/cancel") for _ in range(3)]
    assert {state["state"] for state in states} == {"ended"} and states[0] == states[-1]
    for call in (session.interact(ADD), session.renew()):
        await _refused(call, SessionEndedError)
    assert (await _call(hub, "GET", path))["stop_reason"] == "cancelled"


async def a_lease_can_be_renewed(hub: Hub) -> None:
    async with hub.session(ENVIRONMENT, lease_s=30) as session:
        await session.renew(60)
        assert (await _call(hub, "GET", f"/v1/sessions/{session.id}"))["lease_s"] == 60


async def a_trace_tells_the_whole_episode(hub: Hub) -> None:
    async with hub.session(ENVIRONMENT) as session:
        await session.interact(ADD)
        trace = await _call(hub, "GET", f"/v1/sessions/{session.id}/trace")
        assert trace["messages"] and trace["tools"] and len(trace["steps"]) == 1
        assert trace["steps"][0]["answer"]["messages"][0]["content"] == "3"


async def wrong_calls_get_typed_errors(hub: Hub) -> None:
    start = "/v1/sessions"
    await _refused(_call(hub, "POST", start, {"environment": ENVIRONMENT, "nope": 1}), InvalidRequestError)
    await _refused(_call(hub, "POST", start, {"environment": ENVIRONMENT, "task": 10**9}), TaskNotFoundError)
    await _refused(_call(hub, "POST", start, {"environment": ENVIRONMENT, "options": {"x": 1}}), InvalidRequestError)
    await _refused(_call(hub, "GET", "/v1/environments/no-such-one/tasks"), EnvironmentNotFoundError)
    await _refused(_call(hub, "GET", "/v1/sessions/no-such-one"), SessionNotFoundError)


async def sessions_are_listed_while_they_live(hub: Hub) -> None:
    mark = secrets.token_hex(8)
    async with hub.session(ENVIRONMENT, tags={"mark": mark}) as session:
        listed = await _call(hub, "GET", f"/v1/sessions?tag=mark={mark}")
        assert [each["session_id"] for each in listed["sessions"]] == [session.id]
    assert not (await _call(hub, "GET", f"/v1/sessions?tag=mark={mark}"))["sessions"]


HUB_CHECKS: tuple[HubCheck, ...] = (
    environments_are_listed,
    an_episode_is_played_to_its_end,
    the_turn_limit_is_an_outcome_without_reward,
    a_repeated_turn_gets_the_stored_answer,
    turns_out_of_order_conflict_and_name_the_current_one,
    a_start_with_a_request_key_makes_one_session,
    a_cancelled_session_is_over_for_good,
    a_lease_can_be_renewed,
    a_trace_tells_the_whole_episode,
    wrong_calls_get_typed_errors,
    sessions_are_listed_while_they_live,
)


async def _call(hub: Hub, method: str, path: str, body: Mapping[str, JSON] | None = None) -> JSON:
    return wire.loads_json(await hub.request(method, path, b"" if body is None else wire.dumps(body)))


async def _refused(call: Awaitable[object], kind: type[EnvhubError]) -> EnvhubError:
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"the call must raise {kind.__name__}")

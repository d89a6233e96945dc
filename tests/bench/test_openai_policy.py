"""The policy against a scripted endpoint on a real socket."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from chat_server import ChatServer, Reply, call, failed, said

from envhub.client.openai_policy import ContextLimitError, Endpoint, ModelError, OpenAIPolicy, Usage
from envhub.core.types import Message, ToolCall, ToolSpec

TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]})
ASKED = (Message.user("hello"),)


class Naps:
    """A clock whose sleeps take no time and are remembered."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def now(self) -> float:
        return sum(self.naps)

    def wall(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)


@asynccontextmanager
async def playing(script: Any, **settings: Any) -> AsyncIterator[tuple[OpenAIPolicy, ChatServer, Naps]]:
    naps = Naps()
    async with ChatServer(script) as server, aiohttp.ClientSession() as session:
        endpoint = Endpoint(server.url, "m", **settings)
        yield OpenAIPolicy(endpoint, session, clock=naps, rng=random.Random(1)), server, naps


async def test_a_turn_carries_history_tools_and_settings() -> None:
    script = [said(None, [call("add", '{"a": 1}')]), said("done")]
    settings = {"api_key": "k", "temperature": 0.5, "max_tokens": 7, "extra_body": {"top_k": 3, "temperature": 0.1}}
    async with playing(script, **settings) as (policy, server, _):
        first = await policy.act(ASKED, (TOOL,))
        last = await policy.act((*ASKED, first, Message.tool("c1", "1")), (TOOL,))
    assert first == Message.assistant(None, ToolCall("c1", "add", '{"a": 1}'))
    assert last == Message.assistant("done")
    assert policy.usage == Usage(20, 6)
    request = server.requests[1]
    assert server.headers[0]["Authorization"] == "Bearer k"
    assert (request["model"], request["temperature"], request["max_tokens"], request["top_k"]) == ("m", 0.1, 7, 3)
    assert request["tools"][0]["function"]["name"] == "add"
    assert request["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert request["messages"][2] == {"role": "tool", "content": "1", "tool_call_id": "c1"}


async def test_unset_settings_are_left_to_the_endpoint() -> None:
    async with playing([said("x")]) as (policy, server, _):
        await policy.act(ASKED, ())
    assert set(server.requests[0]) == {"model", "messages"}
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("calls", [None, []], ids=["absent", "empty list"])
async def test_b007_no_empty_tool_calls_and_no_null_content_are_sent(calls: Any) -> None:
    async with playing([said(None, calls), said("x")]) as (policy, server, _):
        first = await policy.act(ASKED, (TOOL,))
        await policy.act((*ASKED, first, Message.user("go on")), (TOOL,))
    assert first == Message.assistant(None)
    assert server.requests[1]["messages"][1] == {"role": "assistant", "content": ""}


async def test_b007_content_as_text_parts_is_joined() -> None:
    reply = said("x")
    reply.body["choices"][0]["message"]["content"] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    async with playing([reply]) as (policy, _, _):
        assert (await policy.act(ASKED, ())).content == "ab"


@pytest.mark.parametrize("keep", [False, True])
async def test_reasoning_stays_out_of_the_history_unless_asked(keep: bool) -> None:
    async with playing([said("a", reasoning_content="because"), said("b")], keep_reasoning=keep) as (policy, server, _):
        first = await policy.act(ASKED, ())
        await policy.act((*ASKED, first, Message.user("go on")), ())
    assert first == Message.assistant("a")
    assert server.requests[1]["messages"][1].get("reasoning_content") == ("because" if keep else None)


async def test_b006_every_call_gets_an_id_of_its_own() -> None:
    calls = [call("add", "{}", None), call("add", "{}", ""), call("add", "{}", "same"), call("add", "{}", "same")]
    del calls[0]["id"]
    async with playing([said(None, calls)]) as (policy, _, _):
        message = await policy.act(ASKED, (TOOL,))
    ids = [each.id for each in message.tool_calls]
    assert len(set(ids)) == 4
    assert ids[2] == "same"


async def test_b005_malformed_calls_are_passed_on_for_the_hub_to_answer() -> None:
    calls: list[Any] = [
        "text",
        {"id": "a"},
        call("add", '{"a": 1', "b"),
        call("add", {"a": 1}, "c"),
        call("", "{}", "d"),
    ]
    async with playing([said(None, calls, finish="length")]) as (policy, _, _):
        message = await policy.act(ASKED, (TOOL,))
    assert len(message.tool_calls) == 5
    assert [each.problem is not None for each in message.tool_calls] == [True, True, False, False, True]
    assert message.tool_calls[2].arguments == '{"a": 1'
    assert message.tool_calls[3].arguments == '{"a": 1}'


async def test_a_server_that_refuses_unreadable_arguments_gets_readable_ones() -> None:
    script = [failed(400, "Expecting value: arguments"), said("on")]
    history = (*ASKED, Message.assistant(None, ToolCall("c", "add", '{"a": 1')), Message.tool("c", "Error"))
    async with playing(script) as (policy, server, _):
        assert (await policy.act(history, (TOOL,))).content == "on"
    sent = [request["messages"][1]["tool_calls"][0]["function"]["arguments"] for request in server.requests]
    assert sent == ['{"a": 1', '{"unreadable_arguments": "{\\"a\\": 1"}']


async def test_busy_and_broken_endpoints_are_asked_again() -> None:
    script = [
        failed(429, "slow down", None, **{"retry-after": "7"}),
        failed(500, "oops"),
        Reply(200, "<html>"),
        said("ok"),
    ]
    async with playing(script) as (policy, _, clock):
        assert (await policy.act(ASKED, ())).content == "ok"
    assert clock.naps[0] == 7
    assert 0.7 < clock.naps[1] < 1.3 < clock.naps[2] < 2.6


async def test_an_endpoint_that_stays_broken_is_a_model_error() -> None:
    async with playing(lambda request: failed(503, "overloaded"), max_retries=2) as (policy, server, _):
        with pytest.raises(ModelError, match="overloaded") as raised:
            await policy.act(ASKED, ())
    assert len(server.requests) == 3
    assert (raised.value.status, raised.value.fatal) == (503, False)


@pytest.mark.parametrize(("status", "fatal"), [(400, False), (401, True), (404, True)])
async def test_a_refusal_is_not_repeated(status: int, fatal: bool) -> None:
    async with playing(lambda request: failed(status, "no")) as (policy, server, _):
        with pytest.raises(ModelError) as raised:
            await policy.act(ASKED, ())
    assert len(server.requests) == 1
    assert raised.value.fatal is fatal


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("too long", "context_length_exceeded"),
        ("This model's maximum context length is 4096 tokens", None),
        ("The decoder prompt (length 9) is longer than the maximum model length of 8", None),
    ],
)
async def test_a_conversation_that_no_longer_fits_is_the_agents_limit(message: str, code: str | None) -> None:
    async with playing([failed(400, message, code)]) as (policy, _, _):
        with pytest.raises(ContextLimitError):
            await policy.act(ASKED, ())


async def test_a_slow_or_absent_endpoint_is_a_model_error() -> None:
    async with aiohttp.ClientSession() as session:
        for url in ("http://127.0.0.1:9/v1", "nonsense"):
            policy = OpenAIPolicy(Endpoint(url, "m", max_retries=1), session, clock=Naps())
            with pytest.raises(ModelError):
                await policy.act(ASKED, ())


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(Endpoint("http://x", "m", "secret"))


async def test_hostile_text_goes_through_unharmed() -> None:
    text = "\ud800 \u0000 \U0001f600"
    async with playing([said("ok")]) as (policy, server, _):
        await policy.act((Message.user(text),), ())
    assert server.requests[0]["messages"][0]["content"] == "\ufffd \u0000 \U0001f600"

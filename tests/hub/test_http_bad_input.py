"""Bad input of every kind to every route: an error envelope, never a 500, and never a lost session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from envhub.controller.workers import LivenessSettings
from envhub.core.types import Message, ToolCall
from envhub.embedded import EmbeddedHub
from envhub.envs import registry
from envhub.testing.hub import local_hub, served_hub
from envhub.transport import AsgiTransport, Transport
from tests.hub.environments import ProbeEnvironment, records

UNKNOWN = f"w{'0' * 12}.{'a' * 16}"


@asynccontextmanager
async def hub_and_http() -> AsyncIterator[tuple[EmbeddedHub, Transport]]:
    """Calls go straight into the application; what only a socket can say is said by ``raw``."""
    environments = {"probe": ProbeEnvironment(), "calculator": registry.create("calculator")}
    async with local_hub(environments) as hub:
        hub.controller.workers.settings = LivenessSettings(recovery_s=0.0)
        yield hub, AsgiTransport(hub.app)


async def answer(http: Transport, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    found = await http.request(method, path, body, 10.0)
    return found.status, json.loads(found.body)


def code(body: Any) -> str:
    assert set(body) == {"error"} and set(body["error"]) == {"code", "message", "details"}, body
    return str(body["error"]["code"])


BAD_STARTS = [
    b"",
    b"null",
    b"[]",
    b'"probe"',
    b"{",
    b"\xff\xfe",
    b'{"environment": "\xff"}',
    b'{"environment": ""}',
    b'{"environment": 3}',
    b'{"environment": "probe", "unknown": 1}',
    b'{"environment": "probe", "task": -1}',
    b'{"environment": "probe", "task": 1.5}',
    b'{"environment": "probe", "task": 1e400}',
    b'{"environment": "probe", "task": true}',
    b'{"environment": "probe", "task": 100000000000000000000000000000000000000}',
    b'{"environment": "probe", "seed": -1}',
    b'{"environment": "probe", "seed": 9223372036854775808}',
    b'{"environment": "probe", "lease_s": 0}',
    b'{"environment": "probe", "lease_s": -5}',
    b'{"environment": "probe", "lease_s": 1e99}',
    b'{"environment": "probe", "lease_s": NaN}',
    b'{"environment": "probe", "wait_s": -1}',
    b'{"environment": "probe", "wait_s": 1e9}',
    b'{"environment": "probe", "options": []}',
    b'{"environment": "probe", "options": {"no_such": 1}}',
    b'{"environment": "probe", "options": {"open_s": "soon"}}',
    b'{"environment": "probe", "options": {"number": 100000000000000000000000000000000000000}}',
    b'{"environment": "probe", "options": {"number": [[[[]]]]}}',
    b'{"environment": "probe", "options": {"max_turns": 0}}',
    b'{"environment": "probe", "options": {"max_turns": 1.5}}',
    b'{"environment": "probe", "options": {"max_turns": true}}',
    b'{"environment": "probe", "tags": {"a": 1}}',
    b'{"environment": "probe", "tags": {"a": "' + b"x" * 1000 + b'"}}',
    b'{"environment": "probe", "request_key": ""}',
    b'{"environment": "probe", "request_key": "' + b"x" * 1000 + b'"}',
    b'{"environment": "probe", "options": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    b'{"environment": "probe", "options": ' + b"[" * 200_000,
]


@pytest.mark.parametrize("body", BAD_STARTS, ids=range(len(BAD_STARTS)))
async def test_a_malformed_start_is_an_invalid_request(body: bytes) -> None:
    async with hub_and_http() as (hub, http):
        status, found = await answer(http, "POST", "/v1/sessions", body)
        assert (status, code(found)) == (400, "invalid_request"), found
        assert hub.worker.table.n_slots_taken == 0


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b'{"environment": "nowhere"}', 404, "environment_not_found"),
        (b'{"environment": "probe", "split": "nowhere"}', 404, "task_not_found"),
        (b'{"environment": "probe", "task": 100}', 404, "task_not_found"),
        (b'{"environment": "probe", "task": 9007199254740992}', 404, "task_not_found"),
        (b'{"environment": "probe\\u0000"}', 404, "environment_not_found"),
    ],
)
async def test_a_start_of_what_does_not_exist_is_not_found(body: bytes, status: int, expected: str) -> None:
    async with hub_and_http() as (_, http):
        assert (await answer(http, "POST", "/v1/sessions", body))[0] == status
        assert code((await answer(http, "POST", "/v1/sessions", body))[1]) == expected


BAD_TURNS = [
    b"",
    b"null",
    b"[1]",
    b"{",
    b"\xff",
    b'{"turn": 0}',
    b'{"turn": -1, "message": {}}',
    b'{"turn": "0", "message": {}}',
    b'{"turn": 99999999999999999999, "message": {}}',
    b'{"turn": 0, "message": null}',
    b'{"turn": 0, "message": "hi"}',
    b'{"turn": 0, "message": {"role": "user", "content": "x"}}',
    b'{"turn": 0, "message": {"role": 5}}',
    b'{"turn": 0, "message": {"content": 5}}',
    b'{"turn": 0, "message": {"content": [{"type": "image_url"}]}}',
    b'{"turn": 0, "message": {"content": [null]}}',
    b'{"turn": 0, "message": {"tool_calls": "x"}}',
    b'{"turn": 0, "message": {"tool_calls": {"id": "a"}}}',
    b'{"turn": 0, "message": {"content": "\xed\xa0\x80"}}',
    b'{"turn": 0, "extra": 1, "message": {"content": "x"}}',
    b'{"turn": 0, "message": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
]


async def test_malformed_turns_are_refused_and_the_session_goes_on() -> None:
    async with hub_and_http() as (hub, http), hub.hub.session("probe") as session:
        path = f"/v1/sessions/{session.id}/interact"
        for body in BAD_TURNS:
            status, found = await answer(http, "POST", path, body)
            assert (status, code(found)) == (400, "invalid_request"), (body[:80], found)
        for body in (b"null", b"[]", b'{"lease_s": -1}', b'{"lease_s": "x"}', b'{"lease": 1}', b"\x00"):
            status, found = await answer(http, "POST", f"/v1/sessions/{session.id}/renew", body)
            assert (status, code(found)) == (400, "invalid_request"), (body, found)
        for body in (b"null", b"[]", b'{"reason": 1}', b'{"reason": "' + b"x" * 300 + b'"}', b'{"x": 1}'):
            status, found = await answer(http, "POST", f"/v1/sessions/{session.id}/cancel", body)
            assert (status, code(found)) == (400, "invalid_request"), (body, found)
        assert (await session.interact(Message.assistant("done"))).terminated


async def test_a_body_over_the_limit_is_refused_with_413() -> None:
    async with hub_and_http() as (hub, http), hub.hub.session("probe") as session:
        for path in ("/v1/sessions", f"/v1/sessions/{session.id}/interact"):
            status, found = await answer(http, "POST", path, b" " * (8 * 2**20 + 1))
            assert (status, code(found)) == (413, "body_too_large")
        assert (await session.interact(Message.assistant("x" * 8_000_000))).messages


PATHS = [
    "/v1/sessions/..%2f..%2fhealthz/interact",
    "/v1/sessions/%2e%2e/interact",
    "/v1/sessions/%00/interact",
    "/v1/sessions/%ff%fe/interact",
    "/v1/sessions/%ED%A0%80/interact",
    "/v1/sessions/a%0d%0ab/interact",
    "/v1/sessions/" + "a" * 20_000 + "/interact",
    "/v1/sessions/%F0%9F%92%A9/interact",
    "/v1/sessions//interact",
    f"/v1/sessions/{UNKNOWN}/interact",
    f"/v1/sessions/{UNKNOWN}%0a/interact",
    f"/v1/sessions/{UNKNOWN}/interact/",
    f"/v1/sessions/{UNKNOWN}/destroy",
    "/v1/sessionsX" + UNKNOWN + "/interact",
    "/v1/sessions/" + UNKNOWN,
    "/v1/workers/%00/drain",
    "/v1/workers/" + "x" * 10_000 + "/drain",
    "/v1/workers/../drain",
    "/v1/link",
    "/v2/sessions",
    "/",
    "//v1/sessions",
    "/v1/sessions?limit=1&limit=x&%00=%ff",
    "/%",
    "/v1/environments/%00/tasks",
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"]


async def test_odd_paths_and_methods_get_an_envelope_and_never_a_500() -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as hub:
        hub.controller.workers.settings = LivenessSettings(recovery_s=0.0)
        assert hub.url is not None
        port = int(hub.url.rpartition(":")[2])
        for path in PATHS:
            for method in METHODS:
                status, body = await raw(
                    port, f"{method} {path} HTTP/1.1\r\nHost: hub\r\nContent-Length: 2\r\n\r\n{{}}"
                )
                assert 400 <= status < 500, (method, path[:60], status, body[:200])
                if status not in (400, 404, 405, 410, 431) or (body and not body.startswith(b"Invalid HTTP")):
                    code(json.loads(body))
        assert not hub.controller.failures


async def test_other_sessions_cannot_be_guessed_or_reached() -> None:
    async with hub_and_http() as (hub, http), hub.hub.session("probe") as session:
        worker, _, secret = session.id.partition(".")
        assert len(secret) == 16
        for guess in (worker, f"{worker}.", f"{worker}.*", f"{worker}.{secret[:-1]}", f"{worker}.{secret}x", secret):
            for verb in ("interact", "renew", "cancel"):
                status, _ = await answer(http, "POST", f"/v1/sessions/{guess}/{verb}", b'{"turn":0,"message":{}}')
                assert status == 404
        flipped = f"{worker}.{'A' if secret[0] != 'A' else 'B'}{secret[1:]}"
        for path in (f"/v1/sessions/{flipped}", f"/v1/sessions/{flipped}/trace"):
            assert (await answer(http, "GET", path))[0] == 404
        status, found = await answer(http, "POST", f"/v1/sessions/{UNKNOWN}/renew", b"{}")
        assert (status, code(found)) == (410, "session_lost")


async def test_queries_of_listings_are_checked_and_answers_are_json_without_cookies_b068() -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as hub, aiohttp.ClientSession(hub.url) as http:
        for query in ("limit=0", "limit=-1", "limit=x", "limit=999999999999999999999", "tag=novalue", "tag=%3Dx"):
            async with http.get(URL(f"/v1/sessions?{query}", encoded=True)) as found:
                assert (found.status, code(await found.json())) == (400, "invalid_request"), query
                assert found.content_type == "application/json" and not found.cookies
        async with http.get(URL("/v1/sessions?tag=a%3D%00&environment=%ff", encoded=True)) as found:
            assert found.status == 200 and not found.cookies
        async with http.post("/v1/sessions", data=b"a=1", headers={"content-type": "text/html"}) as found:
            assert found.status == 400  # the body is what counts, not how it is called
        headers = {"content-type": "application/x-www-form-urlencoded", "content-encoding": "identity"}
        async with http.post("/v1/sessions", data=b'{"environment": "probe"}', headers=headers) as found:
            assert found.status == 200 and not found.cookies


async def raw(port: int, request: str) -> tuple[int, bytes]:
    """Status and body of one request written byte for byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request.encode())
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ")[1])
            length = next(
                (int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")), 0
            )
            return status, await reader.readexactly(length) if length else b""
    finally:
        writer.close()


# --- tool calls over the wire ---------------------------------------------------------------------------------------

BAD_ARGUMENTS = [
    "",
    "null",
    "[]",
    "3",
    '"ls"',
    "{}",
    "{'a':1}",
    '{"a":1,}',
    '{"a":1}{"a":1}',
    json.dumps('{"a": 1, "b": 2}'),
    {"a": 1, "b": 2},
    '{"a":1,"a":2,"b":1}',
    '{"answer": 5}',
    '{"answer": null}',
    '{"a": "cut in the mid',
    '{"a": NaN, "b": 1}',
    '{"a": 1, "b": "\\ud800"}',
    None,
    7,
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=range(len(BAD_ARGUMENTS)))
async def test_malformed_arguments_are_answered_and_cost_a_turn_b005(arguments: Any) -> None:
    async with hub_and_http() as (hub, http), hub.hub.session("calculator") as session:
        call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
        body = json.dumps({"turn": 0, "message": {"role": "assistant", "tool_calls": [call]}}).encode()
        status, found = await answer(http, "POST", f"/v1/sessions/{session.id}/interact", body)
        assert status == 200 and found["turn"] == 1 and not found["terminated"]
        (message,) = found["messages"]
        assert (message["role"], message["tool_call_id"]) == ("tool", "c1")
        assert message["content"] and message["content"] != "3"


CALL = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
SUBMIT = {"id": "s", "type": "function", "function": {"name": "submit", "arguments": '{"answer": 1}'}}
BROKEN = {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{"}}
CALL_LISTS: dict[str, list[Any]] = {
    "two": [CALL, {**CALL, "id": "b"}],
    "same id": [CALL, CALL],
    "no id": [{"function": CALL["function"]}, {**CALL, "id": ""}, {**CALL, "id": None}, {**CALL, "id": 5}],
    "end last": [CALL, SUBMIT],
    "end first": [SUBMIT, CALL],
    "broken first": [BROKEN, CALL],
    "forty": [{**CALL, "id": f"c{n}"} for n in range(40)],
    "not calls": [None, 5, "x", [], {}, {"function": None}, {"function": {"name": ""}}, {"function": {"name": 5}}],
    "unknown tool": [{"id": "u", "function": {"name": "no_such_tool", "arguments": "{}"}}],
}


@pytest.mark.parametrize("name", CALL_LISTS)
async def test_every_call_gets_one_answer_in_order_b006(name: str) -> None:
    calls = CALL_LISTS[name]
    async with hub_and_http() as (hub, http), hub.hub.session("calculator") as session:
        body = json.dumps({"turn": 0, "message": {"role": "assistant", "tool_calls": calls}}).encode()
        status, found = await answer(http, "POST", f"/v1/sessions/{session.id}/interact", body)
        assert status == 200 and found["turn"] == 1
        messages = [each for each in found["messages"] if each["role"] == "tool"]
        assert len(messages) == len(calls)
        for call, message in zip(calls, messages, strict=True):
            asked = call.get("id") if isinstance(call, dict) else None
            assert message["tool_call_id"] == (asked if asked and isinstance(asked, str) else message["tool_call_id"])
            assert message["tool_call_id"]
        assert found["terminated"] == (name in ("end last", "end first"))
        if name == "end first":
            assert messages[1]["content"] != "3"


@pytest.mark.parametrize("content", [..., None, "", [], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]])
@pytest.mark.parametrize("calls", [..., None, []])
async def test_every_way_to_write_content_and_calls_is_read_b007(content: Any, calls: Any) -> None:
    message: dict[str, Any] = {"role": "assistant", "refusal": None, "reasoning_content": "hm"}
    message |= {} if content is ... else {"content": content}
    message |= {} if calls is ... else {"tool_calls": calls}
    async with hub_and_http() as (hub, http), hub.hub.session("calculator") as session:
        body = json.dumps({"turn": 0, "message": message}).encode()
        status, found = await answer(http, "POST", f"/v1/sessions/{session.id}/interact", body)
        assert status == 200, found
        assert all("tool_calls" not in each for each in found["messages"])
        result = await hub.hub.request("GET", f"/v1/sessions/{session.id}/trace")
        assert "tool_calls" not in json.loads(result)["steps"][0]["message"]


async def test_the_identity_is_in_the_start_the_state_the_record_and_the_trajectory() -> None:
    async with hub_and_http() as (hub, http), hub.hub.session("calculator", seed=3) as session:
        identity = session.identity
        state = (await answer(http, "GET", f"/v1/sessions/{session.id}"))[1]
        assert state["identity"]["digest"] == identity.digest
        await session.interact(Message.assistant(None, ToolCall("1", "submit", '{"answer": 0}')))
        (record,) = records(hub)
        assert record.identity["digest"] == identity.digest
        assert record.identity["dataset_hash"] == identity.dataset_hash

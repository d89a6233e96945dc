"""The bytes of the public API."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub import wire
from envhub.core.errors import EnvhubError, InvalidRequestError
from envhub.core.types import Message, StepResult, StopReason, ToolCall, ToolSpec

GOOD_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "named"),
    [
        ({}, wire.StartRequest, "environment"),
        ({"environment": 5}, wire.StartRequest, "$.environment"),
        ({"environment": ""}, wire.StartRequest, "$.environment"),
        ({"environment": "x" * 129}, wire.StartRequest, "$.environment"),
        ({"environment": "x", "task": -1}, wire.StartRequest, "$.task"),
        ({"environment": "x", "task": 1.5}, wire.StartRequest, "$.task"),
        ({"environment": "x", "task": "1"}, wire.StartRequest, "$.task"),
        ({"environment": "x", "seed": True}, wire.StartRequest, "$.seed"),
        ({"environment": "x", "seed": 2**63}, wire.StartRequest, "$.seed"),
        ({"environment": "x", "lease_s": 0}, wire.StartRequest, "$.lease_s"),
        ({"environment": "x", "lease_s": 86_401}, wire.StartRequest, "$.lease_s"),
        ({"environment": "x", "wait_s": -1}, wire.StartRequest, "$.wait_s"),
        ({"environment": "x", "options": []}, wire.StartRequest, "$.options"),
        ({"environment": "x", "tags": {"a": 1}}, wire.StartRequest, "$.tags"),
        ({"environment": "x", "tags": {str(n): "" for n in range(33)}}, wire.StartRequest, "$.tags"),
        ({"environment": "x", "request_key": ""}, wire.StartRequest, "$.request_key"),
        ({"environment": "x", "enviroment": "y"}, wire.StartRequest, "enviroment"),
        ({"turn": 0}, wire.InteractRequest, "message"),
        ({"turn": -1, "message": {}}, wire.InteractRequest, "$.turn"),
        ({"turn": 0, "message": []}, wire.InteractRequest, "$.message"),
        ({"turn": 0, "message": {}, "x": 1}, wire.InteractRequest, "`x`"),
        ({"lease_s": "long"}, wire.RenewRequest, "$.lease_s"),
        ({"reason": "x" * 257}, wire.CancelRequest, "$.reason"),
        ([], wire.CancelRequest, "object"),
    ],
)
def test_a_wrong_body_is_refused_by_the_name_of_its_field(body: Any, kind: type[Any], named: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        wire.loads(json.dumps(body).encode(), kind)
    assert named in caught.value.message


@pytest.mark.parametrize("body", [b"{", b"nope", b"\xff\xfe", b'{"reason": NaN}', b"{} {}", b"[" * 100_000])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        wire.loads(body, wire.CancelRequest)
    with pytest.raises(InvalidRequestError):
        wire.loads_json(body)


def test_an_empty_body_counts_as_an_empty_object() -> None:
    assert wire.loads(b"", wire.CancelRequest).reason == "cancelled by the client"
    assert wire.loads(b"", wire.RenewRequest).lease_s is None


@given(st.binary(max_size=64))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    for kind in (wire.StartRequest, wire.InteractRequest, wire.RenewRequest, wire.CancelRequest):
        try:
            wire.loads(body, kind)
        except InvalidRequestError:
            pass


def test_defaults_of_a_start_are_not_sent() -> None:
    assert wire.dumps(wire.StartRequest("calculator")) == b'{"environment":"calculator"}'


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_content", "content"),
    [
        ({}, None),
        ({"content": None}, None),
        ({"content": ""}, ""),
        ({"content": "text"}, "text"),
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache": 1}]}, "ab"),
    ],
)
def test_content_may_take_every_form_that_openai_knows_b007(given_content: dict[str, Any], content: str | None) -> None:
    assert wire.assistant_from_json({"role": "assistant", **given_content}).content == content


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (5, "message.content"),
        ({"type": "text", "text": "a"}, "message.content"),
        (["a"], "message.content[0]"),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}], "message.content[1]"),
        ([{"type": "text"}], "message.content[0]"),
        ([{"type": "text", "text": None}], "message.content[0]"),
        ([None], "message.content[0]"),
    ],
)
def test_content_of_another_kind_is_refused_by_its_place(content: Any, named: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        wire.assistant_from_json({"role": "assistant", "content": content})
    assert caught.value.message.startswith(named + ":")


@pytest.mark.parametrize("tool_calls", [{}, {"tool_calls": None}, {"tool_calls": []}])
def test_no_calls_may_be_said_in_three_ways_b007(tool_calls: dict[str, Any]) -> None:
    message = wire.assistant_from_json({"role": "assistant", "content": "x", **tool_calls})
    assert message.tool_calls == () and "tool_calls" not in wire.message_to_json(message)


@pytest.mark.parametrize(
    ("bad", "call_id", "problem"),
    [
        (None, "call_0", "tool_calls[0]: must be an object"),
        ("f()", "call_0", "tool_calls[0]: must be an object"),
        ([], "call_0", "tool_calls[0]: must be an object"),
        ({}, "call_0", "tool_calls[0].function: must be an object"),
        ({"id": "c9", "function": None}, "c9", "tool_calls[0].function: must be an object"),
        ({"id": "c9", "function": {"arguments": "{}"}}, "c9", "tool_calls[0].function.name"),
        ({"id": "c9", "function": {"name": "", "arguments": "{}"}}, "c9", "tool_calls[0].function.name"),
        ({"id": "c9", "function": {"name": 7, "arguments": "{}"}}, "c9", "tool_calls[0].function.name"),
        ({"id": "c9", "function": {"name": "f"}}, "c9", "tool_calls[0].function.arguments"),
        ({"id": "c9", "function": {"name": "f", "arguments": None}}, "c9", "tool_calls[0].function.arguments"),
        ({"id": "c9", "function": {"name": "f", "arguments": {"a": 1}}}, "c9", "tool_calls[0].function.arguments"),
    ],
)
def test_a_malformed_call_is_kept_with_its_problem_b005(bad: Any, call_id: str, problem: str) -> None:
    message = wire.assistant_from_json({"role": "assistant", "tool_calls": [bad, GOOD_CALL]})
    assert len(message.tool_calls) == 2
    assert message.tool_calls[0].id == call_id
    assert (message.tool_calls[0].problem or "").startswith(problem)
    assert message.tool_calls[1] == ToolCall("c1", "f", "{}")


@pytest.mark.parametrize("call_id", [..., None, "", 5, ["x"]])
def test_a_missing_id_is_made_up_from_the_position_b006c(call_id: Any) -> None:
    bare = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    call = bare if call_id is ... else {**bare, "id": call_id}
    message = wire.assistant_from_json({"role": "assistant", "tool_calls": [GOOD_CALL, call]})
    assert [each.id for each in message.tool_calls] == ["c1", "call_1"]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ([], "message"),
        (None, "message"),
        ({"role": "user", "content": "x"}, "message.role"),
        ({"role": None, "content": "x"}, "message.role"),
        ({"role": "assistant", "tool_calls": {}}, "message.tool_calls"),
        ({"role": "assistant", "tool_calls": "f()"}, "message.tool_calls"),
    ],
)
def test_a_malformed_message_is_the_callers_mistake(message: Any, named: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        wire.assistant_from_json(message)
    assert caught.value.message.startswith(named + ":")


def test_the_role_of_an_agents_message_may_be_left_out() -> None:
    assert wire.assistant_from_json({"content": "x"}) == Message.assistant("x")


def test_keys_of_other_apis_are_ignored() -> None:
    plain = {"role": "assistant", "content": "x", "tool_calls": [GOOD_CALL]}
    more = {
        **plain,
        "reasoning_content": "hm",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": [{**GOOD_CALL, "index": 0, "function": {"name": "f", "arguments": "{}", "strict": True}}],
    }
    assert wire.assistant_from_json(more) == wire.assistant_from_json(plain)


texts = st.text(max_size=12)
calls = st.builds(ToolCall, st.text(min_size=1, max_size=6), st.text(min_size=1, max_size=6), texts)
messages = st.one_of(
    st.builds(Message.system, texts),
    st.builds(Message.user, texts),
    st.builds(Message.tool, st.text(min_size=1, max_size=6), texts),
    st.builds(lambda text, some: Message.assistant(text, *some), st.none() | texts, st.lists(calls, max_size=3)),
)


@given(messages)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_message_survives_the_wire(message: Message) -> None:
    there = wire.dumps(wire.message_to_json(message))
    assert wire.message_from_json(wire.loads_json(there)) == message


def test_a_tool_survives_the_wire() -> None:
    spec = ToolSpec("f", "does", MappingProxyType({"type": "object", "properties": {}}))
    there = wire.loads_json(wire.dumps(wire.tool_to_json(spec)))
    assert there["type"] == "function"
    assert wire.tool_from_json(there) == ToolSpec("f", "does", {"type": "object", "properties": {}})


@given(
    st.builds(
        StepResult,
        messages=st.lists(messages, max_size=3).map(tuple),
        reward=st.floats(0, 1),
        terminated=st.booleans(),
        truncated=st.booleans(),
        stop_reason=st.none() | st.sampled_from(StopReason),
        info=st.dictionaries(texts, st.integers() | texts, max_size=3),
    ),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_result_survives_the_wire(result: StepResult, turn: int) -> None:
    answer = wire.loads(wire.dumps(wire.step_to_wire(result, turn)), wire.Stepped)
    assert answer.turn == turn
    assert wire.step_from_wire(answer) == result


# --- encoding -------------------------------------------------------------------------------------------------------


def test_lone_surrogates_are_repaired_wherever_they_are_b023() -> None:
    body = wire.dumps({"a\ud800": ["\udfff", ("x\ud83d\ude00",)], "deep": MappingProxyType({"k": "\ud800"})})
    assert json.loads(body) == {"a\ufffd": ["\ufffd", ["x😀"]], "deep": {"k": "\ufffd"}}


@given(st.dictionaries(st.text(st.characters(), max_size=4), st.text(st.characters(), max_size=8), max_size=4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text_is_encoded_as_utf_8(value: dict[str, str]) -> None:
    json.loads(wire.dumps(value).decode())


def test_numbers_that_json_does_not_have_become_null_b023() -> None:
    assert wire.dumps([float("nan"), float("inf")]) == b"[null,null]"


def test_what_is_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="object"):
        wire.dumps({"x": object()})


def test_the_envelope_has_code_message_and_details() -> None:
    body = wire.error_body(InvalidRequestError("no \ud800", field="task"))
    assert json.loads(body) == {
        "error": {"code": "invalid_request", "message": "no \ufffd", "details": {"field": "task"}}
    }


@given(st.binary(max_size=80), st.integers(400, 599))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_answer_becomes_an_error_of_ours(body: bytes, status: int) -> None:
    assert isinstance(wire.error_from_body(status, body), EnvhubError)


def test_every_record_has_a_schema_with_descriptions_of_what_can_be_asked() -> None:
    schemas = wire.components([wire.StartRequest, wire.InteractRequest])
    for name in ("StartRequest", "InteractRequest"):
        assert schemas[name]["additionalProperties"] is False
        for field, schema in schemas[name]["properties"].items():
            assert schema.get("description"), f"{name}.{field} is not described"


def test_a_record_of_an_episode_survives_the_link() -> None:
    record = wire.EpisodeRecord(
        session_id="w1.x",
        environment="db",
        split="test",
        task=1,
        seed=2**63 - 1,
        worker="w1",
        identity={},
        tags={},
        started_at=0.5,
        ended_at=1.5,
        turns=1,
        episode_return=None,
        terminated=False,
        truncated=True,
        stop_reason=StopReason.TIME_LIMIT,
        error=None,
        reason=None,
        info={},
        trace=b"{}",
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=wire.EpisodeRecord) == record


def test_a_lone_surrogate_escape_in_a_body_is_read_as_a_replacement_character_b023() -> None:
    body = b'{"turn": 0, "message": {"content": "a\\ud800b \\ud83d\\ude00"}}'
    assert wire.loads(body, wire.InteractRequest).message == {"content": "a\ufffdb 😀"}
    for broken in (b'{"turn": 0, "message": {"content": "\\ud800"}', b'{"turn": 0, "other": "\\ud800"}'):
        with pytest.raises(InvalidRequestError):
            wire.loads(broken, wire.InteractRequest)

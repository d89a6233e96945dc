"""Tool functions: the schemas they give, and what every kind of call is answered with."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, GraderError
from envhub.core.text import clean
from envhub.core.types import Message, StepResult, StopReason, ToolCall, ToolSpec
from envhub.envs.toolkit import OVER, End, Outcome, ToolEpisode, TurnLimits, tool, toolset_of
from envhub.testing.clock import FakeClock
from tests.core.tool_classes import Box, Kinds, Point

SPECS = {spec.name: spec for spec in toolset_of(Kinds).specs}


def say(*calls: ToolCall) -> Message:
    return Message.assistant(None, *calls)


def call(name: str, arguments: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def answer(episode: Kinds, name: str, arguments: str) -> str:
    result = await episode.step(say(call(name, arguments)))
    (message,) = result.messages
    assert (message.role, message.tool_call_id) == ("tool", "c1")
    return message.content or ""


# --- schemas --------------------------------------------------------------------------------------------------------


def test_tools_keep_the_order_of_their_definition() -> None:
    assert list(SPECS)[:4] == ["text", "whole", "real", "flag"] and list(SPECS)[-1] == "give_up"


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("text", {"type": "string", "description": "Some text."}),
        ("whole", {"type": "integer"}),
        ("real", {"type": "number"}),
        ("flag", {"type": "boolean"}),
        ("words", {"type": "array", "items": {"type": "string"}}),
        ("choice", {"enum": ["green", "red"]}),
        ("maybe", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_a_parameter_becomes_a_schema(name: str, schema: dict[str, Any]) -> None:
    parameters = SPECS[name].parameters
    assert parameters == {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_parameters_with_a_default_are_not_required_and_show_it() -> None:
    parameters = SPECS["optional"].parameters
    assert parameters["required"] == []
    assert parameters["properties"] == {
        "value": {"type": "integer", "default": 7},
        "unit": {"enum": ["ms", "s"], "default": "s"},
    }


def test_a_nested_record_lies_in_defs_of_the_same_schema() -> None:
    parameters = SPECS["box"].parameters
    assert set(parameters["$defs"]) == {"Box", "Point"}
    text = json.dumps(parameters)
    assert "#/$defs/Box" in text and "#/components" not in text
    assert parameters["properties"]["value"]["description"] == "Where."
    assert parameters["$defs"]["Point"]["required"] == ["x"]


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert SPECS["nothing"].parameters["properties"] == {}
    assert SPECS["nothing"].parameters["additionalProperties"] is False


def test_the_description_is_the_first_paragraph_on_one_line() -> None:
    assert SPECS["text"].description == "Take text."
    assert SPECS["whole"].description == "Take a whole number."


def test_every_schema_is_json_of_its_own() -> None:
    for spec in SPECS.values():
        assert json.loads(json.dumps(dict(spec.parameters), allow_nan=False)) == spec.parameters


def test_a_parameter_without_a_type_is_refused_by_name() -> None:
    class Untyped(Kinds):
        @tool
        def bad(self, mystery) -> str:  # type: ignore[no-untyped-def]  # what is tested
            """Bad."""
            return ""

    with pytest.raises(TypeError, match=r"'mystery' of tool 'bad'"):
        toolset_of(Untyped)


def test_tools_are_inherited_and_can_be_replaced_in_place() -> None:
    class Child(Kinds):
        @tool
        def text(self, value: int) -> str:  # type: ignore[override]  # another signature under the same name
            """Take a number now."""
            return "child"

        @tool
        def extra(self) -> str:
            """One more."""
            return "extra"

    names = [spec.name for spec in toolset_of(Child).specs]
    assert names[: len(SPECS)] == list(SPECS) and names[-1] == "extra"
    assert toolset_of(Child).specs[0].parameters["properties"]["value"] == {"type": "integer"}
    assert toolset_of(Kinds).specs[0].description == "Take text."


def test_a_note_that_is_a_constraint_is_checked() -> None:
    class Bounded(Kinds):
        @tool
        def small(self, n: Annotated[int, msgspec.Meta(le=3), "At most three."]) -> str:
            """Take a small number."""
            return "ran"

    spec = next(each for each in toolset_of(Bounded).specs if each.name == "small")
    assert spec.parameters["properties"]["n"] == {"type": "integer", "maximum": 3, "description": "At most three."}


# --- good calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "values"),
    [
        ("text", '{"value": "漢字\\n😀"}', ("漢字\n😀",)),
        ("text", '{"value": "\\ud83d\\ude00"}', ("😀",)),
        ("whole", '{"value": -3}', (-3,)),
        ("real", '{"value": 3}', (3.0,)),
        ("flag", '{"value": true}', (True,)),
        ("words", '{"value": []}', ([],)),
        ("choice", '{"value": "green"}', ("green",)),
        ("maybe", '{"value": null}', (None,)),
        ("optional", "{}", (7, "s")),
        ("optional", '{"unit": "ms"}', (7, "ms")),
        ("box", '{"value": {"corner": {"x": 1}}}', (Box(Point(1)),)),
        ("nothing", " {} ", ()),
        ("slow", '{"value": "x"}', ("x",)),
    ],
)
async def test_a_good_call_runs_once_with_typed_values(name: str, arguments: str, values: tuple[Any, ...]) -> None:
    episode = Kinds()
    assert await answer(episode, name, arguments) == f"ran {name}"
    assert episode.runs == [(name, values)]


# --- the payloads of B005 -------------------------------------------------------------------------------------------

NEVER_RIGHT = [
    "",
    "null",
    "[]",
    "3",
    '"ls"',
    "{'a':1}",
    '{"a":1,}',
    '{"a":1}{"a":1}',
    '"{\\"value\\": \\"x\\"}"',
    '{"value": "x", "value": "y"}',
    '{"answer": 5}',
    '{"answer": null}',
    '{"value": "cut in the mid',
    '{"value": NaN}',
    '{"value": Infinity}',
    '{"value": 1e999}',
    '{"value": "\\ud800"}',
    '{"\\udfff": 1}',
    '{"value": "x"} trailing',
    "[" * 100_000,
    '{"value":' * 50_000,
    "1" * 5_000,
    "\x00",
    "\ufeff{}",
]


@pytest.mark.parametrize("arguments", NEVER_RIGHT, ids=lambda text: repr(text[:24]))
@pytest.mark.parametrize("name", [name for name in SPECS if name not in ("nothing",)])
async def test_malformed_arguments_are_answered_and_run_nothing_b005(name: str, arguments: str) -> None:
    episode = Kinds()
    result = await episode.step(say(call(name, arguments)))
    (message,) = result.messages
    assert message.tool_call_id == "c1" and (message.content or "").startswith("Error: ")
    assert len(message.content or "") < 500
    assert not result.done and not episode.runs


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.parameters.get("required")])
async def test_an_empty_object_names_the_field_that_is_missing_b005(name: str) -> None:
    episode = Kinds()
    text = await answer(episode, name, "{}")
    assert SPECS[name].parameters["required"][0] in text and name in text and not episode.runs


@pytest.mark.parametrize(
    ("name", "arguments", "names"),
    [
        ("whole", '{"value": "3"}', "$.value"),
        ("whole", '{"value": 3.5}', "$.value"),
        ("whole", '{"value": true}', "$.value"),
        ("flag", '{"value": 1}', "$.value"),
        ("text", '{"value": 5}', "$.value"),
        ("text", '{"value": null}', "$.value"),
        ("words", '{"value": "one"}', "$.value"),
        ("words", '{"value": ["a", 2]}', "$.value[1]"),
        ("choice", '{"value": "blue"}', "$.value"),
        ("box", '{"value": {"corner": {"x": "1"}}}', "$.value.corner.x"),
        ("optional", '{"value": null}', "$.value"),
        ("nothing", '{"extra": 1}', "extra"),
    ],
)
async def test_a_wrong_value_is_named_by_its_path_b005(name: str, arguments: str, names: str) -> None:
    episode = Kinds()
    assert names in await answer(episode, name, arguments)
    assert not episode.runs


async def test_a_call_that_was_malformed_on_the_wire_is_answered_with_its_problem() -> None:
    episode = Kinds()
    result = await episode.step(say(ToolCall("c1", "text", "", "tool_calls[0].function.arguments: must be a string")))
    assert result.messages[0].content == "Error: tool_calls[0].function.arguments: must be a string"


async def test_an_unknown_tool_is_answered_with_the_valid_names() -> None:
    text = await answer(Kinds(), "rm\ud800" + "x" * 5000, "{}")
    assert "there is no tool named" in text and "text, whole, real" in text
    text.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.just("value"), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    calls=st.lists(
        st.tuples(
            st.text(max_size=6),
            st.sampled_from([*sorted(set(SPECS) - {"crash", "odd"}), "", "unknown"]),
            st.text(st.characters(), max_size=40) | json_values.map(json.dumps),
        ),
        min_size=1,
        max_size=5,
    )
)
async def test_whatever_an_agent_sends_gets_one_answer_a_call_and_raises_nothing(
    calls: list[tuple[str, str, str]],
) -> None:
    result = await Kinds().step(say(*(ToolCall(call_id, name, arguments) for call_id, name, arguments in calls)))
    assert [each.tool_call_id for each in result.messages] == [call_id for call_id, _, _ in calls]
    assert all(each.role == "tool" and isinstance(each.content, str) for each in result.messages)
    "".join(each.content or "" for each in result.messages).encode()
    assert not result.truncated


# --- several calls in one message: B006 -----------------------------------------------------------------------------

OK = '{"value": "x"}'


def contents(result: StepResult) -> list[str]:
    return [message.content or "" for message in result.messages]


def ids(result: StepResult) -> list[str | None]:
    return [message.tool_call_id for message in result.messages]


async def test_two_valid_calls_run_in_order_b006a() -> None:
    episode = Kinds()
    result = await episode.step(say(call("slow", OK, "1"), call("text", OK, "2")))
    assert ids(result) == ["1", "2"] and contents(result) == ["ran slow", "ran text"]
    assert [name for name, _ in episode.runs] == ["slow", "text"]


async def test_one_id_twice_is_answered_twice_b006b() -> None:
    result = await Kinds().step(say(call("text", OK, "same"), call("whole", '{"value": 1}', "same")))
    assert ids(result) == ["same", "same"] and contents(result) == ["ran text", "ran whole"]


async def test_the_finishing_call_may_come_second_b006d() -> None:
    result = await Kinds().step(say(call("text", OK, "1"), call("finish", "{}", "2")))
    assert contents(result) == ["ran text", "Well done."]
    assert (result.terminated, result.reward, result.stop_reason, result.info) == (
        True,
        1.0,
        StopReason.COMPLETED,
        {"n": 2},
    )


async def test_nothing_runs_after_the_finishing_call_b006e() -> None:
    episode = Kinds()
    result = await episode.step(say(call("finish", "{}", "1"), call("text", OK, "2"), call("finish", "{}", "3")))
    assert contents(result) == ["Well done.", OVER, OVER] and ids(result) == ["1", "2", "3"]
    assert [name for name, _ in episode.runs] == ["finish"] and result.reward == 1.0


async def test_a_malformed_call_does_not_keep_the_next_from_running_b006f() -> None:
    episode = Kinds()
    result = await episode.step(say(call("text", "{", "1"), call("text", OK, "2")))
    assert contents(result)[0].startswith("Error: ") and contents(result)[1] == "ran text"
    assert len(episode.runs) == 1


async def test_of_40_calls_32_run_and_all_are_answered_b006g() -> None:
    episode = Kinds()
    result = await episode.step(say(*(call("text", OK, str(number)) for number in range(40))))
    assert ids(result) == [str(number) for number in range(40)]
    assert len(episode.runs) == 32
    assert contents(result)[31] == "ran text" and contents(result)[32].startswith("Error: not executed; at most 32")


async def test_a_tool_that_refuses_answers_with_its_text_and_the_next_call_runs() -> None:
    result = await Kinds().step(say(call("refuse", '{"why": "closed"}', "1"), call("text", OK, "2")))
    assert contents(result) == ["Error: refused: closed", "ran text"] and not result.done


class Slow(ToolEpisode):
    turn_limits = TurnLimits(max_calls=4, budget_s=10.0)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    @tool
    async def wait(self, seconds: float) -> str:
        """Let time pass."""
        await cast(FakeClock, self.clock).advance(seconds)
        return "waited"


async def test_no_call_starts_once_the_turns_time_is_used_up() -> None:
    calls = [call("wait", '{"seconds": 6}', str(number)) for number in range(3)]
    result = await Slow(FakeClock()).step(say(*calls))
    assert contents(result) == ["waited", "waited", "Error: not executed; this turn's 10 s are used up."]


async def test_the_turns_time_starts_anew_with_each_message() -> None:
    episode = Slow(FakeClock())
    for _ in range(3):
        assert contents(await episode.step(say(call("wait", '{"seconds": 9}')))) == ["waited"]


# --- faults and text ------------------------------------------------------------------------------------------------


async def test_a_tool_that_raises_is_the_environments_failure() -> None:
    with pytest.raises(EpisodeFailedError, match="tool failed: KeyError: 'missing'") as caught:
        await Kinds().step(say(call("crash", '{"how": "key"}')))
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_error_of_the_hub_keeps_its_class() -> None:
    with pytest.raises(GraderError):
        await Kinds().step(say(call("crash", '{"how": "grader"}')))


@pytest.mark.parametrize(
    ("code", "content"), [(0xD800, "[\ufffd]"), (0xDFFF, "[\ufffd]"), (0x1F600, "[😀]"), (0, "[\0]")]
)
async def test_what_a_tool_answers_can_be_encoded(code: int, content: str) -> None:
    assert await answer(Kinds(), "odd", json.dumps({"code": code})) == content


@given(st.text(st.characters()))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_cleaned_text_can_be_encoded_and_whole_text_is_untouched(text: str) -> None:
    clean(text).encode()
    if not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        assert clean(text) == text


def test_cleaning_joins_a_pair_of_surrogates() -> None:
    assert clean("\ud83d\ude00 \ud800") == "😀 \ufffd"


@pytest.mark.parametrize("content", [None, "", "I think so.", "\ud800"])
async def test_a_message_without_calls_is_answered_with_the_names_of_the_tools(content: str | None) -> None:
    result = await Kinds().step(Message.assistant(content))
    (message,) = result.messages
    assert (
        message.role == "user"
        and "no tool call" in (message.content or "")
        and "text, whole" in (message.content or "")
    )
    assert not result.done


class Chat(Kinds):
    async def on_text(self, content: str) -> Outcome:
        if content == "crash":
            raise RuntimeError("broken")
        return End(0.5, f"heard {content}") if content else "say something"


async def test_text_can_end_an_episode() -> None:
    result = await Chat().step(Message.assistant("bye \udc00"))
    assert (result.reward, result.terminated, result.messages[0].content) == (0.5, True, "heard bye \ufffd")
    assert not (await Chat().step(Message.assistant(None))).done


async def test_a_fault_while_answering_text_is_the_environments() -> None:
    with pytest.raises(EpisodeFailedError):
        await Chat().step(Message.assistant("crash"))


async def test_an_end_can_name_another_reason() -> None:
    result = await Kinds().step(say(call("give_up", "{}")))
    assert (result.reward, result.terminated, result.stop_reason) == (0.0, True, StopReason.INVALID_ACTION)


def test_tools_of_an_episode_are_those_of_its_class() -> None:
    assert Kinds().tools is toolset_of(Kinds).specs
    assert all(isinstance(spec, ToolSpec) for spec in Chat().tools)

"""Tool-call parsers: they agree with vLLM's but for differences that have a name here, and no call that was misread is executed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub import wire
from envhub.core.errors import ToolError
from envhub.core.types import JSON, Message, ToolCall, ToolSpec
from envhub.envs.toolkit import ToolEpisode, tool, toolset_of
from tests.trainer import call_corpus
from tests.trainer.call_corpus import TOOLS, Answer, Case
from tests.trainer.makers import completion
from tests.trainer.tokenizers import ByteTokenizer
from trainer_adapter.formats import FAMILIES, chat_format
from trainer_adapter.formats.family import after_reasoning

CORPUS = call_corpus.recorded()
FORMATS = {name: chat_format(name, ByteTokenizer()) for name in FAMILIES}
LOOK = Message.assistant(None, ToolCall("call_0", "look", '{"at": "box"}'))
HERMES_LOOK = '<tool_call>{"name": "look", "arguments": {"at": "box"}}</tool_call>'
LLAMA_LOOK = '{"name": "look", "parameters": {"at": "box"}}'
GLM_LOOK = 'look\n{"at": "box"}'
WAIT = ToolCall("call_1", "wait", '{"n": 1}')


def read(family: str, text: str, tools: Sequence[ToolSpec] = TOOLS) -> Message:
    return FORMATS[family].parse(completion(text=text), tools)


def ours(message: Message) -> Answer:
    """As vLLM's server does it: without the reasoning."""
    return Answer.of(Message(message.role, after_reasoning(message.content or "")[1], message.tool_calls))


def difference(family: str, case: Case) -> str:
    """How our answer differs from vLLM's on purpose; "none" where both are the same."""
    message = read(family, case.text)
    answer = ours(message)
    refused = [call for call in message.tool_calls if call.problem]
    if not refused and answer == case.vllm:
        return "none"
    if refused and not case.vllm.calls:
        return "a malformed call is answered; vLLM passes the whole completion on as text"
    if refused and family == "glm45":
        return "a call with damaged or missing arguments is answered; vLLM runs it with those it could read"
    if any(not call.name for call in refused):
        return "a call with an empty name is answered; vLLM passes it on"
    if not refused and family == "glm45" and case.vllm.calls == tuple(c for c in answer.calls if _is_known(c[0])):
        return "a call of an unknown tool is passed on, and the environment names the valid ones; vLLM drops it"
    if not refused and family == "llama3" and "}{" in case.text and not case.vllm.calls:
        return "objects without anything between them are calls of their own; vLLM skips every other one"
    if not refused and _loaded(answer) == _loaded(case.vllm):
        return "a lone surrogate stays escaped, so that the call can be sent"
    return "unexplained"


def _is_known(name: str) -> bool:
    return name in {tool.name for tool in TOOLS}


def _loaded(answer: Answer) -> list[tuple[str, JSON]]:
    return [(name, json.loads(arguments)) for name, arguments in answer.calls]


@pytest.mark.parametrize(("family", "n_differences"), [("hermes", 3), ("llama3", 4), ("glm45", 3)])
def test_parsers_agree_with_vllm_but_for_named_differences(family: str, n_differences: int) -> None:
    cases = CORPUS[family]
    found = Counter(difference(family, case) for case in cases)
    assert [case.text for case in cases if difference(family, case) == "unexplained"] == []
    assert len(found) - 1 == n_differences, found
    assert found["none"] > 90, found
    called = [case for case in cases if case.vllm.calls and difference(family, case) == "none"]
    assert len(called) >= 45
    assert all(call.problem is None for case in called for call in read(family, case.text).tool_calls)


class _Anything(ToolEpisode):
    """Tools that would take what a misread call might hold."""

    @tool
    def look(self, name: str = "", at: str = "", arguments: JSON = None, parameters: JSON = None) -> str:
        """Look."""
        return "executed"

    @tool
    def wait(self, n: int = 0) -> str:
        """Wait."""
        return "executed"

    @tool
    def every(self, text: str = "") -> str:
        """Any."""
        return "executed"


def _arrives(message: Message) -> Message:
    """The message as the hub gets it."""
    return wire.message_from_json(wire.loads_json(wire.dumps(wire.message_to_json(message))))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_call_with_a_problem_is_executed_by_an_environment(family: str) -> None:
    n_refused = 0
    for name, cases in CORPUS.items():
        for case in cases:
            message = read(family, case.text)
            assert len({call.id for call in message.tool_calls}) == len(message.tool_calls), name
            for call, arrived in zip(message.tool_calls, _arrives(message).tool_calls, strict=True):
                if call.problem:
                    n_refused += 1
                    with pytest.raises(ToolError):
                        toolset_of(_Anything).parse(arrived)
    assert n_refused or family == "plain"


@pytest.mark.parametrize("family", FAMILIES)
@given(text=st.text(st.sampled_from(list('{}[]",:\\ \n</>_argkeyvtolcn1')) | st.characters(), max_size=60))
def test_reading_never_raises_and_what_is_read_can_be_sent(family: str, text: str) -> None:
    marks = ("", "<tool_call>", "<|python_tag|>", "look\n", "CALL look ", '{"name": "look", "arguments": ')
    for mark in marks:
        message = read(family, mark + text)
        assert _arrives(message).role == "assistant"
        if "</think>" not in text:
            assert message.tool_calls or message.content is not None


@pytest.mark.parametrize(
    "text",
    [
        "Set {x} to 5.",
        "CSS: a { b: c }",
        'An object: {"a": 1}',
        "A dict: {'a': 1}",
        "I could write a tool_call or say name {} at any time.",
        "We CALLed him. CALLS cost 5.",
        "look",
        "",
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_that_holds_no_call_stays_a_text(family: str, text: str) -> None:
    assert read(family, text) == Message.assistant(text)


@pytest.mark.parametrize(
    ("family", "text", "end"),
    [
        ("hermes", '<tool_call>{"name": "look", "arguments": {"at": "box"}}</tool_call>', "<|im_end|>\n"),
        ("llama3", '{"name": "look", "parameters": {"at": "box"}}', "<|eom_id|>"),
        ("llama3", '{"name": "look", "parameters": {"at": "box"}}', "<|eot_id|>"),
        ("glm4", 'look\n{"at": "box"}', "<|observation|>"),
        (
            "glm45",
            "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>box</arg_value>\n</tool_call>",
            "<|observation|>",
        ),
        ("plain", 'CALL look {"at": "box"}', "<|endoftext|>"),
    ],
)
def test_a_token_that_ended_the_turn_is_no_part_of_what_was_said(family: str, text: str, end: str) -> None:
    assert read(family, text) == LOOK
    assert read(family, text + end) == LOOK
    assert read(family, "Hello." + end) == Message.assistant("Hello.")


@pytest.mark.parametrize("family", ["hermes", "llama3", "glm4", "glm45", "plain"])
def test_calls_within_closed_reasoning_are_not_made(family: str) -> None:
    written = {
        "hermes": '<tool_call>{"name": "look", "arguments": {"at": "box"}}</tool_call>',
        "llama3": '{"name": "look", "parameters": {"at": "box"}}',
        "glm4": 'look\n{"at": "box"}',
        "glm45": "<tool_call>look<arg_key>at</arg_key><arg_value>box</arg_value></tool_call>",
        "plain": 'CALL look {"at": "box"}',
    }[family]
    message = read(family, f"<think>\n{written}\n{written}</think>\n{written}")
    assert message.tool_calls == LOOK.tool_calls
    assert (message.content or "").strip() == f"<think>\n{written}\n{written}</think>"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('\nlook\n{"at": "box"}', None, LOOK.tool_calls),
        ('I look.<|assistant|>look\n{"at": "box"}', "I look.", LOOK.tool_calls),
        ('look\n{"at": "box"}\n<|assistant|>wait\n{"n": 1}', None, (*LOOK.tool_calls, WAIT)),
        ("I look\nat {x}.", "I look\nat {x}.", ()),
    ],
)
def test_glm_4_writes_a_name_and_json_below(text: str, content: str | None, calls: tuple[ToolCall, ...]) -> None:
    assert read("glm4", text) == Message("assistant", content, calls)


@pytest.mark.parametrize("text", ['look\n{"at": "bo', 'look\n{"at": "box"} now', "look\n{'at': 1}"])
def test_glm_4_json_that_cannot_be_read_is_a_problem(text: str) -> None:
    (call,) = read("glm4", text).tool_calls
    assert call.name == "look" and call.problem and "JSON" in call.problem


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('I look.\nCALL look {"at": "box"}\nDone.', "I look.\n", LOOK.tool_calls),
        ('  CALL look{"at": "box"}', None, LOOK.tool_calls),
        ('CALL look {\n "at": "box"\n}\n\nCALL wait {"n": 1}', None, (*LOOK.tool_calls, WAIT)),
    ],
)
def test_plain_calls_are_lines(text: str, content: str | None, calls: tuple[ToolCall, ...]) -> None:
    message = read("plain", text)
    assert message.tool_calls == calls
    assert (message.content or "").strip() == (content or "").strip()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("CALL look", "look"),
        ('CALL look {"at": "bo', "look"),
        ('CALL look {"at": "box"} and more', "look"),
        ("CALL", ""),
        ('CALL {"at": "box"}', ""),
        ("CALL look(at=1)", "look(at=1)"),
    ],
)
def test_a_plain_call_that_cannot_be_read_is_a_problem_and_the_next_line_is_read(line: str, name: str) -> None:
    bad, good = read("plain", f'{line}\nCALL wait {{"n": 1}}').tool_calls
    assert bad.problem and bad.name == name
    assert good == WAIT


def test_a_glm_call_that_was_cut_off_anywhere_is_a_problem() -> None:
    whole = "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>box</arg_value>\n</tool_call>"
    assert read("glm45", whole) == LOOK
    for end in range(len("<tool_call>"), len(whole)):
        (call,) = read("glm45", whole[:end]).tool_calls
        assert call.problem, whole[:end]


@pytest.mark.parametrize(("family", "whole"), [("hermes", HERMES_LOOK), ("llama3", LLAMA_LOOK), ("glm4", GLM_LOOK)])
def test_a_json_call_that_was_cut_off_within_its_json_is_a_problem(family: str, whole: str) -> None:
    assert read(family, whole) == LOOK
    for end in range(whole.index("{") + 1, whole.rindex("}")):
        (call,) = read(family, whole[:end]).tool_calls
        assert call.problem, whole[:end]


@pytest.mark.parametrize("nothing", [None, {}])
def test_glm_calls_are_read_whatever_a_schema_leaves_out(nothing: JSON) -> None:
    body = "<tool_call>odd\n<arg_key>a</arg_key>\n<arg_value>5</arg_value>\n</tool_call>"
    for schema in (
        {"properties": nothing},
        {"properties": {"a": nothing}},
        *({"properties": {"a": {key: nothing}}} for key in ("type", "enum", "anyOf", "oneOf", "allOf")),
    ):
        (call,) = read("glm45", body, [ToolSpec("odd", "", schema)]).tool_calls  # type: ignore[arg-type]
        assert json.loads(call.arguments) == {"a": "5"}, schema


def test_glm_values_have_the_type_of_their_parameter() -> None:
    def value(name: str, text: str, tools: Sequence[ToolSpec] = TOOLS) -> JSON:
        body = f"<tool_call>every\n<arg_key>{name}</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>"
        (call,) = read("glm45", body, tools).tool_calls
        return json.loads(call.arguments)[name]

    assert [value("text", each) for each in ("5", "true", "[1]", " a ")] == ["5", "true", "[1]", " a "]
    assert [value("n", "5"), value("n", "five"), value("x", "2.5"), value("flag", "True")] == [5, "five", 2.5, True]
    assert [value("items", "[1]"), value("obj", '{"a": 1}'), value("either", "null")] == [[1], {"a": 1}, None]
    assert [value("n", "5", ()), value("other", "5")] == ["5", "5"]


@pytest.mark.parametrize(
    "piece",
    [
        "<arg_key></arg_key><arg_value>",
        "<arg_key>a</arg_key>",
        "</arg_value>",
        "<tool_call>",
        "</tool_call>",
        "{",
        "[",
        '"name" ',
        '"',
        "\\",
        "CALL look {",
        "look\n{",
        "<|assistant|>",
        "<|python_tag|>",
        "</think>",
        "<|im_end|>",
        " ",
        "\n; ",
        '{"name": "look"',
        '{"name": "look", "arguments": {"a": ',
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_that_repeats_itself_holds_nobody_up(family: str, piece: str) -> None:
    """All trajectories of a run are read by one process: reading takes time in proportion to the text."""
    began = time.process_time()
    for opening in ("", "<tool_call>look", '<tool_call>{"name": '):
        for closing in ("", "</tool_call>", "}}"):
            read(family, opening + piece * 1500 + closing)
    assert time.process_time() - began < 2.0


def test_keys_of_glm_end_where_the_next_tag_begins() -> None:
    (call,) = read(
        "glm45",
        "<tool_call>every<arg_key>text</arg_key>x<arg_key>n</arg_key><arg_value>1</arg_value></tool_call>",
    ).tool_calls
    assert call.problem and "pairs" in call.problem and call.name == "every"

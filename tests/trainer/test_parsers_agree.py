"""vLLM's own tool-call parsers, run on the corpus: what the other tests take for their answers is what they give."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from envhub import wire
from tests.require import lacking
from tests.trainer import call_corpus
from tests.trainer.call_corpus import PARSERS, TOOLS, Answer, Case
from trainer_adapter.formats.family import after_reasoning

pytestmark = [pytest.mark.trainer, pytest.mark.timeout(300)]

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class _Tokenizer:
    """What the parsers ask of a tokenizer when they get text alone."""

    all_special_tokens: Sequence[str] = ()
    all_special_ids: Sequence[int] = ()

    def get_vocab(self) -> dict[str, int]:
        marks = ("<|python_tag|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
        return {text: number for number, text in enumerate(marks)}


@pytest.fixture(scope="module")
def parsers() -> Mapping[str, Callable[[str], Answer]]:
    try:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
        from vllm.tool_parsers import ToolParserManager
    except ImportError:
        lacking("trainer", "vllm is not installed in this environment")

    tools = [ChatCompletionToolsParam.model_validate(wire.tool_to_json(tool)) for tool in TOOLS]
    request = SimpleNamespace(tools=tools, tool_choice="auto")

    def parser(name: str) -> Callable[[str], Answer]:
        made: Any = ToolParserManager.get_tool_parser(name)(_Tokenizer(), tools)

        def parse(text: str) -> Answer:
            """As its server does: reasoning is taken off first."""
            found = made.extract_tool_calls(after_reasoning(text)[1], request)
            calls = tuple((call.function.name, call.function.arguments) for call in found.tool_calls)
            return Answer(calls, (found.content or "").strip())

        return parse

    return {family: parser(name) for family, name in PARSERS.items()}


def test_the_recorded_answers_are_vllms(parsers: Mapping[str, Callable[[str], Answer]]) -> None:
    answers = {
        family: [Case(text, parsers[family](text)) for text in texts] for family, texts in call_corpus.texts().items()
    }
    if os.environ.get("ENVHUB_UPDATE_GOLDEN"):
        call_corpus.record(answers)
    known = call_corpus.recorded()
    for family, cases in answers.items():
        assert len(cases) >= 150
        for case, recorded in zip(cases, known[family], strict=True):
            assert json.dumps([case.text, case.vllm.calls, case.vllm.content]) == json.dumps(
                [recorded.text, recorded.vllm.calls, recorded.vllm.content]
            ), family

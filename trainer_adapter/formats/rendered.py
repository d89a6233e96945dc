"""A chat format out of a tokenizer, a family and a renderer: the family's own rendering, or the tokenizer's chat template.

Invariants: what follows a completion is rendered behind a placeholder, never behind the model's own text; what messages say never
becomes a control token (`fence.py`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envhub import wire
from envhub.core.types import JSON, Message, ToolCall, ToolSpec
from trainer_adapter.chat import TemplateError
from trainer_adapter.formats.family import Family, Renderer, Tokenizer, arguments_of, is_object
from trainer_adapter.formats.fence import fence_of
from trainer_adapter.tokens import Completion

_PLACEHOLDER = "@@turn@@"
_PROBE_TOOL = ToolSpec(
    "probe", "Probe.", {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
)
_PROBE_CALL = ToolCall("call_0", "probe", json.dumps({"key": "value"}))
_PROBE_REPLY = "@@reply@@"
_MAX_CACHED = 1024


class RenderedFormat:
    """One instance serves any number of conversations."""

    def __init__(self, tokenizer: Tokenizer, family: Family, renderer: Renderer) -> None:
        self._tokenizer = tokenizer
        self._family = family
        self._renderer = renderer
        eos = getattr(tokenizer, "eos_token", None)
        self._stops = (*family.stops, eos) if eos else family.stops
        self._closing = self._single_tokens((*family.closing, eos) if eos else family.closing)
        self.stop_ids = self._single_tokens(self._stops)
        """Tokens at which an engine must stop."""
        self._fence = fence_of(tokenizer)
        self._texts: OrderedDict[tuple[Message, ...], tuple[Sequence[ToolSpec], str]] = OrderedDict()

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        fenced, seam = self._fence.applied(messages)
        return self._encode(self._text(fenced, tools), seam)

    def between(self, completion: Completion, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        fenced, seam = self._fence.applied(replies)
        ids = self._encode(self._after_turn(fenced, tools), seam)
        return ids[self._n_written(completion.ids, ids) :]

    def parse(self, completion: Completion, tools: Sequence[ToolSpec]) -> Message:
        return self._read(completion.text, tools)

    def rewrites(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bool:
        """Compares renderings. One that the template refuses to make rewrites nothing: its tokens stay as they were sampled."""
        last = max(number for number, message in enumerate(messages) if message.role == "assistant")
        try:
            before = self._text(messages[:last], tools)
            after = self._after_turn(messages[last + 1 :], tools)
            now = self._text(messages, tools)
        except TemplateError:
            return False
        if len(now) < len(before) + len(after) or not (now.startswith(before) and now.endswith(after)):
            return True
        shown = self._read(now[len(before) : len(now) - len(after)], tools)
        return not _same(messages[last], shown)

    def _read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        while (stripped := text.rstrip()).endswith(self._stops):
            stop = next(each for each in self._stops if stripped.endswith(each))
            text = stripped[: -len(stop)]
        return self._family.read(text, tools)

    def _after_turn(self, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
        text = self._text((Message.user("-"), Message.assistant(_PLACEHOLDER), *replies), tools)
        _, found, rest = text.partition(_PLACEHOLDER)
        if not found:
            raise TemplateError("the chat template does not show what the assistant said")
        return rest

    def _n_written(self, sampled: Sequence[int], following: Sequence[int]) -> int:
        """How many of the tokens that follow a completion it holds already: its last ones, or another token that ends a turn."""
        for n in range(min(len(sampled), len(following), 4), 0, -1):
            if tuple(sampled[-n:]) == tuple(following[:n]):
                return n
        ends = bool(sampled) and sampled[-1] in self._closing
        return 1 if ends and following and following[0] in self._closing else 0

    def _text(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
        """The conversation up to where the model begins to speak; each is asked for again one turn later."""
        key = tuple(messages)
        known = self._texts.get(key)
        if known is not None and (known[0] is tools or known[0] == tools):
            self._texts.move_to_end(key)
            return known[1]
        text = self._renderer.render(messages, tools, generate=True)
        self._texts[key] = tools, text
        if len(self._texts) > _MAX_CACHED:
            self._texts.popitem(last=False)
        return text

    def _encode(self, text: str, seam: str = "") -> tuple[int, ...]:
        parts = text.split(seam) if seam else (text,)
        return tuple(token for part in parts for token in self._tokenizer.encode(part, add_special_tokens=False))

    def _single_tokens(self, marks: Iterable[str]) -> frozenset[int]:
        encoded = map(self._encode, marks)
        return frozenset(ids[0] for ids in encoded if len(ids) == 1)


def _same(said: Message, shown: Message) -> bool:
    """Whether a turn is shown as it was said, apart from white space and the spelling of its JSON. Calls whose arguments are no
    JSON object have no form that a template could repeat: they are not compared."""
    if (said.content or "").split() != (shown.content or "").split():
        return False
    if any(call.problem or not is_object(call.arguments) for call in said.tool_calls):
        return True
    return list(map(_meaning, said.tool_calls)) == list(map(_meaning, shown.tool_calls))


def _meaning(call: ToolCall) -> tuple[str, str, str | None]:
    return call.name, json.dumps(arguments_of(call), sort_keys=True), call.problem


class TemplateRenderer:
    """The tokenizer's own chat template. Finds out whether it wants a call's arguments as a mapping or as a string."""

    def __init__(self, tokenizer: Any, options: Mapping[str, JSON]) -> None:
        self._tokenizer = tokenizer
        self._options = dict(options)
        self._as_mapping = True

    def shows_calls_of(self, family: Family) -> bool:
        """Whether it shows tools, calls as this family reads them, and replies; settles the shape of arguments."""
        asked = (Message.user("-"),)
        replied = (*asked, Message.assistant(_PLACEHOLDER), Message.tool(_PROBE_CALL.id, _PROBE_REPLY))
        for self._as_mapping in (True, False):
            try:
                before = self.render(asked, (_PROBE_TOOL,), generate=True)
                text = self.render((*asked, Message.assistant(None, _PROBE_CALL)), (_PROBE_TOOL,), generate=False)
                after = self.render(replied, (_PROBE_TOOL,), generate=True).partition(_PLACEHOLDER)[2]
            except TemplateError:
                continue
            calls = family.read(text[_common(before, text) :], (_PROBE_TOOL,)).tool_calls
            if _PROBE_TOOL.name in before and _PROBE_REPLY in after and _meaning(_PROBE_CALL) in map(_meaning, calls):
                return True
        return False

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        conversation = [self._record(message) for message in messages]
        schemas = [wire.tool_to_json(tool) for tool in tools]
        try:
            text = self._tokenizer.apply_chat_template(
                conversation, tools=schemas or None, add_generation_prompt=generate, tokenize=False, **self._options
            )
        except Exception as error:  # boundary: a template is a program of its own and raises what it likes
            raise TemplateError(f"the chat template failed: {type(error).__name__}: {error}") from error
        return str(text)

    def _record(self, message: Message) -> dict[str, JSON]:
        """Content is always a text and an empty list of calls is left out: templates disagree about both."""
        record: dict[str, JSON] = {"role": message.role, "content": message.content or ""}
        if message.tool_calls:
            record["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": self._shaped(call)}}
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            record["tool_call_id"] = message.tool_call_id
        return record

    def _shaped(self, call: ToolCall) -> JSON:
        arguments = arguments_of(call)
        return arguments if self._as_mapping else json.dumps(arguments, ensure_ascii=False)


def _common(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

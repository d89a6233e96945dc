"""What a model family is: how it writes a conversation, and how the calls in its completions are read back.

Invariant: reading never raises; what looks like a call and cannot be read comes back as a ToolCall with ``problem`` set, whose
arguments are never a JSON object, so that no environment executes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envhub import wire
from envhub.core.text import clean
from envhub.core.types import JSON, Message, ToolCall, ToolSpec

_MAX_PROBLEM_CHARS = 200


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that formats use. One with a chat template has ``apply_chat_template`` besides."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]: ...


class Renderer(Protocol):
    """Writes a conversation as text. Raises TemplateError."""

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        """``generate``: end where the model begins to speak."""


class Family(Renderer, Protocol):
    """``closing``: tokens that end a turn and stand for one another. ``stops``: all tokens that a completion may end with."""

    closing: tuple[str, ...]
    stops: tuple[str, ...]

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message: ...


class CallError(Exception):
    """A call that cannot be read; the text says why, for the model. ``name``: what it calls, where that can be told."""

    def __init__(self, problem: str, name: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.name = name


@dataclass(slots=True)
class Calls:
    """The calls of one completion, in order; ids are their positions."""

    found: list[ToolCall] = field(default_factory=list)

    def add(self, name: JSON, arguments: JSON) -> None:
        """A call that was read. Raises CallError for a name that is none."""
        if not isinstance(name, str) or not name:
            raise CallError("the name of the call must be a non-empty string")
        self.found.append(ToolCall(self._next_id, clean(name), dumps(arguments)))

    def refuse(self, body: str, error: CallError) -> None:
        """A call that was meant and cannot be read."""
        arguments = "" if is_object(body) else clean(body)
        self.found.append(ToolCall(self._next_id, clean(error.name), arguments, error.problem))

    def message(self, content: str) -> Message:
        text = clean(content)
        return Message.assistant(text if text or not self.found else None, *self.found)

    @property
    def _next_id(self) -> str:
        return f"call_{len(self.found)}"


def loads(text: str, what: str = "the call") -> JSON:
    """JSON of a call. Raises CallError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CallError(f"{what} is not valid JSON: {str(error)[:_MAX_PROBLEM_CHARS]}") from None


def dumps(value: JSON) -> str:
    """The arguments as text, as vLLM's servers write them; escaped where the text could not be sent otherwise."""
    text = json.dumps(value, ensure_ascii=False)
    return text if clean(text) == text else json.dumps(value)


def after_reasoning(text: str) -> tuple[str, str]:
    """A completion's closed reasoning and what follows it."""
    reasoning, end, rest = text.partition("</think>")
    return (reasoning + end, rest) if end else ("", text)


def is_object(text: str) -> bool:
    """Whether it is the JSON of an object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def arguments_of(call: ToolCall) -> dict[str, JSON]:
    """A call's arguments as a mapping, for rendering; a call without readable ones shows what was written."""
    return json.loads(call.arguments) if is_object(call.arguments) else {"unreadable": call.arguments}


def tool_json(spec: ToolSpec) -> str:
    """One line."""
    return json.dumps(wire.tool_to_json(spec), ensure_ascii=False)

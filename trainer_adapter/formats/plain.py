"""The plain format, for models without a format of their own: a line ``CALL name {json}``, and replies in the user's turn.

Invariant: the model sees nothing but system, user and assistant turns; tools and calls are text in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from envhub.core.types import JSON, Message, ToolSpec
from trainer_adapter.formats.family import CallError, Calls, Renderer, after_reasoning, arguments_of

_CALL = re.compile(r"^[ \t]*CALL\b[ \t]*([^\s{]*)[ \t]*", re.MULTILINE)
_DECODER = json.JSONDecoder()
_TITLES = {"system": "System", "user": "User", "assistant": "Assistant"}
_TOOLS = """You can call these functions:
{tools}

To call one, write a line that holds the word CALL, its name and the JSON object of its arguments:
CALL name {{"argument": "value"}}
The results come with the next message."""


class PlainFamily:
    """Without a template, turns are headed by lines such as ``### User`` and end with the tokenizer's end-of-text token."""

    def __init__(self, end: str = "") -> None:
        self.closing: tuple[str, ...] = (end,) if end else ()
        self.stops: tuple[str, ...] = self.closing
        self._end = f"{end}\n\n"

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        turns = [f"### {_TITLES[each.role]}\n{each.content or ''}{self._end}" for each in flattened(messages, tools)]
        return "".join(turns) + ("### Assistant\n" if generate else "")

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        reasoning, rest = after_reasoning(text)
        calls = Calls()
        position, before = 0, None
        while (line := _CALL.search(rest, position)) is not None:
            before = rest[: line.start()] if before is None else before
            try:
                value, position = _arguments(rest, line)
                calls.add(line[1], value)
            except CallError as error:
                position = _end_of_line(rest, line.end())
                calls.refuse(rest[line.end() : position], CallError(error.problem, line[1]))
        return calls.message(reasoning + (rest if before is None else before))


@dataclass(frozen=True, slots=True)
class Flattened:
    """A renderer that knows of no tools, given conversations in which they are text."""

    inner: Renderer

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        return self.inner.render(flattened(messages, tools), (), generate=generate)


def flattened(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The same conversation in system, user and assistant messages; what the user's side says in a row is one message."""
    system = [message.content or "" for message in messages[:1] if message.role == "system"]
    rest = messages[len(system) :]
    if tools:
        system.append(_TOOLS.format(tools="\n".join(map(_signature, tools))))
    flat = [Message.system("\n\n".join(system))] if system else []
    for message in rest:
        if message.role == "assistant":
            flat.append(Message.assistant(_written(message)))
            continue
        text = f"Result: {message.content or ''}" if message.role == "tool" else message.content or ""
        if flat and flat[-1].role == "user":
            text = f"{flat.pop().content}\n{text}"
        flat.append(Message.user(text))
    return flat


def _arguments(text: str, line: re.Match[str]) -> tuple[JSON, int]:
    """The JSON behind the name, which may go on over several lines, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, line.end())
    except (ValueError, RecursionError) as error:
        raise CallError(f"the arguments of the call are not valid JSON: {str(error)[:200]}") from None
    if text[end : _end_of_line(text, end)].strip():
        raise CallError("nothing may follow the arguments of a call on its line")
    return value, end


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _signature(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description} Arguments: {json.dumps(tool.parameters, ensure_ascii=False)}"


def _written(message: Message) -> str:
    calls = [f"CALL {call.name} {json.dumps(arguments_of(call), ensure_ascii=False)}" for call in message.tool_calls]
    return "\n".join([message.content, *calls] if message.content else calls)

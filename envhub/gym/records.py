"""Chat messages to and from the plain records of the Gymnasium spaces.

Invariant: every record made here lies in its space and is new, so that keeping or changing one never touches another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from gymnasium.error import InvalidAction

from envhub.core.text import clean
from envhub.core.types import JSON, Message, ToolCall, ToolSpec
from envhub.wire import assistant_from_json, tool_to_json

Record: TypeAlias = dict[str, Any]
"""A value of one of the Dict spaces."""

Action: TypeAlias = Mapping[str, Any] | Message


def message_of(action: Action, turn: int) -> Message:
    """The assistant message of an action; its calls are named ``call_<turn>_<position>``. A Message goes as it is.

    Raises InvalidAction, naming the field.
    """
    if isinstance(action, Message):
        if action.role != "assistant":
            raise InvalidAction(f"an agent speaks as 'assistant', not {action.role!r}")
        return action
    if not isinstance(action, Mapping) or set(action) != {"content", "tool_calls"}:
        raise InvalidAction("an action is {'content': str, 'tool_calls': [{'name': str, 'arguments': str}, ...]}")
    content, calls = action["content"], action["tool_calls"]
    if not isinstance(content, str):
        raise InvalidAction(f"content: must be a str, not {type(content).__name__}")
    if isinstance(calls, str) or not isinstance(calls, Sequence):
        raise InvalidAction(f"tool_calls: must be a sequence, not {type(calls).__name__}")
    made = tuple(_call(f"call_{turn}_{position}", position, call) for position, call in enumerate(calls))
    return Message("assistant", clean(content) if content or not made else None, made)


def message_of_text(value: str | Mapping[str, JSON]) -> Message:
    """The assistant message a model wrote: an OpenAI message, the same as JSON text, or any other text as its content.

    Text counts as a message only when it is a JSON object with the key ``tool_calls``. Raises InvalidRequestError.
    """
    if not isinstance(value, str):
        return assistant_from_json(dict(value))
    try:
        record = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        record = None
    if isinstance(record, dict) and "tool_calls" in record:
        return assistant_from_json(record)
    return Message.assistant(clean(value))


def observation_of(messages: Sequence[Message], tools: str) -> Record:
    """The conversation so far as a value of the observation space."""
    return {"messages": tuple(_message_record(each) for each in messages), "tools": tools}


def tools_json(tools: Sequence[ToolSpec]) -> list[dict[str, JSON]]:
    """The tools in OpenAI's shape, copied."""
    copied: list[dict[str, JSON]] = msgspec.json.decode(msgspec.json.encode([tool_to_json(each) for each in tools]))
    return copied


def transcript(messages: Sequence[Message]) -> str:
    """The conversation for a person to read."""
    return "\n".join(line for message in messages for line in _lines(message))


def _call(call_id: str, position: int, call: object) -> ToolCall:
    where = f"tool_calls[{position}]"
    if not isinstance(call, Mapping) or set(call) != {"name", "arguments"}:
        raise InvalidAction(f"{where}: must be {{'name': str, 'arguments': str}}")
    for field in ("name", "arguments"):
        if not isinstance(call[field], str):
            raise InvalidAction(f"{where}.{field}: must be a str, not {type(call[field]).__name__}")
    return ToolCall(call_id, clean(call["name"]), clean(call["arguments"]))


def _message_record(message: Message) -> Record:
    return {
        "role": message.role,
        "content": message.content or "",
        "tool_call_id": message.tool_call_id or "",
        "tool_calls": tuple(
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ),
    }


def _lines(message: Message) -> list[str]:
    calls = [f"[{message.role}] {call.name}({call.arguments})" for call in message.tool_calls]
    return [f"[{message.role}] {message.content}", *calls] if message.content or not calls else calls

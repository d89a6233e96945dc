"""The two GLM formats: GLM-4 writes a call as the function's name, a line break and JSON; GLM-4.5 and later as tagged keys and values.

Invariant: a call that was cut off is a call with a problem, never one with the part of its arguments that had been written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from envhub.core.types import JSON, Message, ToolCall, ToolSpec
from trainer_adapter.formats.family import CallError, Calls, after_reasoning, arguments_of, dumps, loads, tool_json

_START = "[gMASK]<sop>"
_STOPS = ("<|user|>", "<|observation|>", "<|endoftext|>")
_NAME = re.compile(r"[^\s<>{}\"]+")
_BLOCK = re.compile(r"<tool_call>(.*?)(</tool_call>|\Z)", re.DOTALL)
_TOOLS_4 = """You can call these functions:

{tools}

To call one, answer with its name on a line of its own and the JSON object of its arguments below."""
_TOOLS_45 = """You can call these functions:
<tools>
{tools}
</tools>

To call one, write:
<tool_call>name
<arg_key>key</arg_key>
<arg_value>value</arg_value>
</tool_call>"""


class Glm4Family:
    """GLM-4 and GLM-4-0414. The token that ends a turn is the one that begins the next, so a completion may hold it."""

    closing: tuple[str, ...] = ()
    stops: tuple[str, ...] = _STOPS

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        parts = [_START]
        if tools:
            parts.append("<|system|>\n" + _TOOLS_4.format(tools="\n".join(map(tool_json, tools))))
        for message in messages:
            role = "observation" if message.role == "tool" else message.role
            if message.content or not message.tool_calls:
                parts.append(f"<|{role}|>\n{message.content or ''}")
            for call in message.tool_calls:
                parts.append(f"<|assistant|>{call.name}\n{json.dumps(arguments_of(call), ensure_ascii=False)}")
        return "".join(parts) + ("<|assistant|>" if generate else "")

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        reasoning, rest = after_reasoning(text.removeprefix("\n"))
        calls = Calls()
        said: list[str] = []
        for part in rest.split("<|assistant|>"):
            name, _, body = part.strip().partition("\n")
            if _NAME.fullmatch(name.strip()) and body.lstrip().startswith("{"):
                _add(calls, name.strip(), body)
            else:
                said.append(part)
        return calls.message(reasoning + "".join(said) if reasoning or "".join(said).strip() else "")


class Glm45Family:
    """GLM-4.5, 4.6 and 4.7. Values of parameters that are not text are JSON; which those are is read from the tool."""

    closing: tuple[str, ...] = ()
    stops: tuple[str, ...] = _STOPS

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        parts = [_START]
        if tools:
            parts.append("<|system|>\n" + _TOOLS_45.format(tools="\n".join(map(tool_json, tools))))
        after_tool = False
        for message in messages:
            if message.role == "tool":
                opening = "" if after_tool else "<|observation|>"
                parts.append(f"{opening}\n<tool_response>\n{message.content or ''}\n</tool_response>")
            else:
                parts.append(f"<|{message.role}|>")
                parts += [f"\n{each}" for each in (message.content, *map(_tagged, message.tool_calls)) if each]
            after_tool = message.role == "tool"
        return "".join(parts) + ("<|assistant|>" if generate else "")

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        reasoning, rest = after_reasoning(text.removeprefix("\n"))
        calls = Calls()
        for block in _BLOCK.finditer(rest):
            try:
                calls.add(*_tagged_call(block[1], tools, closed=bool(block[2])))
            except CallError as error:
                calls.refuse(block[1], error)
        before = rest.partition("<tool_call>")[0]
        if calls.found and not before.strip():
            before = ""
        return calls.message(reasoning + before)


def _add(calls: Calls, name: str, body: str) -> None:
    try:
        calls.add(name, loads(body, "the JSON of the arguments"))
    except CallError as error:
        calls.refuse(body, CallError(error.problem, name))


def _tagged(call: ToolCall) -> str:
    pairs = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{value if isinstance(value, str) else dumps(value)}</arg_value>\n"
        for key, value in arguments_of(call).items()
    )
    return f"<tool_call>{call.name}\n{''.join(pairs)}</tool_call>"


def _tagged_call(body: str, tools: Sequence[ToolSpec], *, closed: bool) -> tuple[str, dict[str, JSON]]:
    head, _, _ = body.partition("<arg_key>")
    name = head.strip()
    if not _NAME.fullmatch(name):
        raise CallError("the call must begin with the name of a function")
    if not closed:
        raise CallError("the call was cut off", name)
    schema: JSON = next((tool.parameters.get("properties") or {} for tool in tools if tool.name == name), {})
    pairs = ((key.strip(), value) for key, value in _pairs(body[len(head) :], name))
    return name, {key: _typed(value, schema.get(key, {})) for key, value in pairs}


def _pairs(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Keys and values, read once from left to right: a policy may write thousands of half pairs. Raises CallError."""
    rest = text.lstrip()
    position = len(text) - len(rest)
    while position < len(text):
        key, position = _between(text, position, "<arg_key>", "</arg_key>", name)
        value, position = _between(text, position, "<arg_value>", "</arg_value>", name)
        yield key, value


def _between(text: str, position: int, opening: str, closing: str, name: str) -> tuple[str, int]:
    """What stands between two tags, the first of which must stand here, and where the text goes on after white space."""
    end = text.find(closing, position + len(opening)) if text.startswith(opening, position) else -1
    if end < 0:
        raise CallError("the arguments must be pairs of <arg_key> and <arg_value>", name)
    found = text[position + len(opening) : end]
    position = end + len(closing)
    while position < len(text) and text[position].isspace():
        position += 1
    return found, position


def _typed(value: str, schema: JSON) -> JSON:
    """The value as the parameter's schema has it; the order of types is vLLM's. What fits none is JSON, or else text."""
    types = _types(schema)
    for wanted, convert in _CONVERSIONS.items():
        if wanted in types:
            try:
                return convert(value)
            except (ValueError, RecursionError):
                continue
    return value if "string" in types else _json_or_text(value)


def _types(schema: JSON) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset({"string"})
    declared = schema.get("type")
    types = {declared} if isinstance(declared, str) else {each for each in _listed(declared) if isinstance(each, str)}
    types |= {_JSON_TYPES[type(value)] for value in _listed(schema.get("enum"))}
    for choice in ("anyOf", "oneOf", "allOf"):
        types = types.union(*map(_types, _listed(schema.get(choice))))
    return frozenset(types or {"string"})


def _listed(value: JSON) -> list[JSON]:
    """Tools of other hubs may say null where nothing is meant."""
    return value if isinstance(value, list) else []


def _null(text: str) -> None:
    if text.lower() != "null":
        raise ValueError(text)


def _number(text: str) -> float | int:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return int(value) if value == int(value) else value


def _boolean(text: str) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    if (word := text.strip().lower()) not in words:
        raise ValueError(text)
    return words[word]


def _finite(text: str) -> JSON:
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    return value


def _json_or_text(text: str) -> JSON:
    try:
        return _finite(text)
    except (ValueError, RecursionError):
        return text


_CONVERSIONS: Mapping[str, Callable[[str], JSON]] = {
    "null": _null,
    "integer": int,
    "number": _number,
    "boolean": _boolean,
    "object": _finite,
    "array": _finite,
}
_JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

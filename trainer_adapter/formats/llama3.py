"""The Llama 3.x format: header turns, calls as bare JSON with name and parameters, after ``<|python_tag|>`` or not, ``;`` between.

Invariant: a completion with calls has no content, as in vLLM; a text that merely holds a brace stays a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from envhub.core.types import JSON, Message, ToolSpec
from trainer_adapter.formats.family import CallError, Calls, after_reasoning, arguments_of, tool_json

_TAG = "<|python_tag|>"
_MEANT = re.compile(r'\{\s*"(name|type|function|parameters|arguments)"')
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_DECODER = json.JSONDecoder()
_TOOLS = """Environment: ipython

You can call the functions below. To call one, answer with nothing but a JSON object that names it and its parameters,
{{"name": "...", "parameters": {{...}}}}; put "; " between several.

{tools}"""


class Llama3Family:
    closing: tuple[str, ...] = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
    stops: tuple[str, ...] = closing

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        system = [message.content or "" for message in messages[:1] if message.role == "system"]
        rest = messages[len(system) :]
        if tools:
            system.insert(0, _TOOLS.format(tools="\n\n".join(map(tool_json, tools))))
        turns = [("system", "\n\n".join(system))] if system else []
        turns += (("ipython" if each.role == "tool" else each.role, _written(each)) for each in rest)
        text = "".join(f"{_header(role)}{content}<|eot_id|>" for role, content in turns)
        return "<|begin_of_text|>" + text + (_header("assistant") if generate else "")

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        reasoning, rest = after_reasoning(text)
        calls = Calls()
        meant = rest.strip().startswith(("{", _TAG)) or bool(_MEANT.search(rest))
        for start, body in _objects(rest):
            try:
                calls.add(*_call(body))
            except CallError as error:
                if meant or calls.found:
                    fragment = rest[start:]
                    named = _NAME.search(fragment)
                    calls.refuse(fragment, CallError(error.problem, error.name or (named[1] if named else "")))
                break
        if not calls.found and _TAG in rest:
            calls.refuse(rest, CallError("a call must be a JSON object with name and parameters"))
        return calls.message(reasoning if calls.found else text)


def _objects(text: str) -> Iterator[tuple[int, JSON]]:
    """Each outermost JSON object and where it starts; the error where one cannot be read, and nothing after it."""
    start = text.find("{")
    while start >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            yield start, CallError(f"the call is not valid JSON: {str(error)[:200]}")
            return
        yield start, value
        start = text.find("{", end)


def _call(value: JSON) -> tuple[JSON, JSON]:
    if isinstance(value, CallError):
        raise value
    if "name" not in value:
        raise CallError('the call has no "name"')
    for key in ("arguments", "parameters"):
        if key in value:
            return value["name"], value[key]
    raise CallError('the call has no "parameters"', value["name"] if isinstance(value["name"], str) else "")


def _written(message: Message) -> str:
    if not message.tool_calls:
        return message.content or ""
    return "; ".join(
        json.dumps({"name": call.name, "parameters": arguments_of(call)}, ensure_ascii=False)
        for call in message.tool_calls
    )


def _header(role: str) -> str:
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"

"""The Hermes format (Qwen2.5, Qwen3): ChatML turns, calls as ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``.

Invariant: a block that holds a whole JSON call is one, closed or not; any other block is a call with a problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby

from envhub.core.types import Message, ToolSpec
from trainer_adapter.formats.family import CallError, Calls, after_reasoning, arguments_of, loads, tool_json

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_TOOLS = """# Functions

These functions can be called; each line is the JSON signature of one:
<tools>
{tools}
</tools>

To call a function, write a JSON object with its name and arguments between call tags, one pair of tags for each call:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>"""


class HermesFamily:
    closing: tuple[str, ...] = ("<|im_end|>", "<|endoftext|>")
    stops: tuple[str, ...] = closing

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        system = [message.content or "" for message in messages[:1] if message.role == "system"]
        rest = messages[len(system) :]
        if tools:
            system.append(_TOOLS.format(tools="\n".join(map(tool_json, tools))))
        turns = [("system", "\n\n".join(system))] if system else []
        for is_tool, group in groupby(rest, key=lambda message: message.role == "tool"):
            if is_tool:
                turns.append(("user", "\n".join(_response(each.content or "") for each in group)))
            else:
                turns += ((each.role, _written(each)) for each in group)
        text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        return text + "<|im_start|>assistant\n" if generate else text

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        reasoning, rest = after_reasoning(text)
        calls = Calls()
        for block in _BLOCK.finditer(rest):
            try:
                calls.add(*_call(block[1]))
            except CallError as error:
                calls.refuse(block[1], error)
        return calls.message(reasoning + rest.partition(_OPEN)[0])


def _call(body: str) -> tuple[object, object]:
    try:
        value = loads(body)
    except CallError as error:
        named = _NAME.search(body)
        raise CallError(error.problem, named[1] if named else "") from None
    if not isinstance(value, dict):
        raise CallError("the call must be a JSON object")
    if "name" not in value:
        raise CallError('the call has no "name"')
    if "arguments" not in value:
        raise CallError('the call has no "arguments"', value["name"] if isinstance(value["name"], str) else "")
    return value["name"], value["arguments"]


def _written(message: Message) -> str:
    calls = [
        f"{_OPEN}\n"
        + json.dumps({"name": call.name, "arguments": arguments_of(call)}, ensure_ascii=False)
        + f"\n{_CLOSE}"
        for call in message.tool_calls
    ]
    return "\n".join([message.content, *calls] if message.content else calls)


def _response(content: str) -> str:
    return f"<tool_response>\n{content}\n</tool_response>"

"""A tokenizer that needs no files: special tokens, then bytes. With a Jinja template it also renders as a Hugging Face one does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2
import jinja2.sandbox

SPECIAL = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "[gMASK]",
    "<sop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
)


class ByteTokenizer:
    """Ids 0 to 255 are bytes; special tokens follow. ``encoded`` holds all texts it was asked to encode."""

    eos_token = "<|endoftext|>"
    chat_template: str | None = None

    def __init__(self, special: Sequence[str] = SPECIAL) -> None:
        self.all_special_tokens = special
        self._ids = {text: 256 + number for number, text in enumerate(special)}
        self._texts = {number: text for text, number in self._ids.items()}
        self._pattern = re.compile(f"({'|'.join(map(re.escape, special))})")
        self.encoded: list[str] = []

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self.encoded.append(text)
        return self.ids(text)

    def ids(self, text: str) -> list[int]:
        """What an engine would sample for this text."""
        ids: list[int] = []
        for part in self._pattern.split(text):
            ids += [self._ids[part]] if part in self._ids else part.encode()
        return ids

    def get_added_vocab(self) -> dict[str, int]:
        return dict(self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        parts = (self._texts[each].encode() if each > 255 else bytes([each]) for each in ids)
        return b"".join(parts).decode("utf-8", "replace")


class JinjaTokenizer(ByteTokenizer):
    def __init__(self, template: str, special: Sequence[str] = SPECIAL) -> None:
        super().__init__(special)
        self.chat_template = template
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(template)

    def apply_chat_template(
        self,
        conversation: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]] | None,
        add_generation_prompt: bool,
        tokenize: bool,
        **options: Any,
    ) -> str:
        assert not tokenize
        for message in conversation:
            assert isinstance(message["content"], str)
            assert message.get("tool_calls") != []
        return self._template.render(
            messages=conversation, tools=tools, add_generation_prompt=add_generation_prompt, **options
        )


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


_TAIL = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

MAPPING = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{{ '\n' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}{% set f = call.function %}"
    '{{ \'\n<tool_call>\n{"name": "\' + f.name + \'", "arguments": {\' }}'
    "{% for key, value in f.arguments.items() %}{{ key | tojson }}: {{ value | tojson }}"
    "{{ ', ' if not loop.last }}{% endfor %}{{ '}}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    + _TAIL
)
"""Iterates over the arguments: fails for a string."""

STRING = (
    "{% if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '<tool_call>{\"name\": \"' + call.function.name + '\", \"arguments\": ' + call.function.arguments + '}</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" + _TAIL
)
"""Concatenates the arguments: fails for a mapping."""

NO_TOOLS = (
    "{% for message in messages %}"
    "{% if message.role not in ('system', 'user', 'assistant') %}{{ raise_exception('unknown role') }}{% endif %}"
    "{% if not loop.first and messages[loop.index0 - 1].role == message.role %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}" + _TAIL
)
"""Knows neither tools nor two messages of one role in a row."""

FORGETFUL = (
    "{% if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}"
    "{% set content = message.content %}"
    "{% if message.role == 'assistant' and not loop.last and '</think>' in content %}"
    "{% set content = content.split('</think>')[-1].lstrip() %}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\n' + content }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '\n<tool_call>\n' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson + '\n</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" + _TAIL
)
"""Shows the reasoning of the last assistant turn only, and only while nothing follows it."""

EMPTY_THINK = FORGETFUL.replace(_TAIL, "") + (
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}{% endif %}"
)
"""Opens the turn to come with an empty think block, and shows earlier turns without it."""

ONE_CALL = MAPPING.replace(
    "{% for call in message.tool_calls or [] %}",
    "{% if message.tool_calls and message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}"
    "{% for call in message.tool_calls or [] %}",
)
"""Refuses messages with several calls."""

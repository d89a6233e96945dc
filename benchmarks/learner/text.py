"""The benchmark's own language: a tokenizer made from the hub's episodes, and a chat format with few tokens.

Invariant: every text can be encoded and comes back as it was; a call that is written can be read back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Model
from tokenizers.decoders import ByteLevel

from envhub.core.types import JSON, Message, ToolCall, ToolSpec
from trainer_adapter.formats.family import Calls, arguments_of
from trainer_adapter.formats.rendered import RenderedFormat

END = "<|end|>"
_ROLES = {"user": "<|user|>", "tool": "<|tool|>", "assistant": "<|assistant|>"}
_BETWEEN = " | "
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,9})?")
_WORDS = Regex(r" ?[A-Za-z_]+(?:\.[a-z_]+)+| ?[A-Za-z_]+| ?\d| ?[^\sA-Za-z_\d]|\s+")
"""A digit is a word of its own, so that numbers can be copied digit by digit; a dotted name is one word."""


class Tokenizer:
    """Byte-level BPE within words; special tokens for the roles and the end of a turn."""

    eos_token = END
    chat_template = None

    def __init__(self, model: Model) -> None:
        self._model = model
        self.size: int = model.get_vocab_size()

    @staticmethod
    def made_from(texts: Iterable[str], size: int) -> Tokenizer:
        """Of at most ``size`` tokens, the bytes included."""
        model = Model(models.BPE())
        words = pre_tokenizers.Split(_WORDS, "isolated")
        model.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
        model.decoder = ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[END, *_ROLES.values()],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        model.train_from_iterator(texts, trainer)
        return Tokenizer(model)

    @staticmethod
    def load(path: Path) -> Tokenizer:
        return Tokenizer(Model.from_file(str(path)))

    def save(self, path: Path) -> None:
        self._model.save(str(path))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = self._model.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._model.decode(list(ids), skip_special_tokens=False)
        return text


class CompactFamily:
    """Instructions that are always the same are left out, and so are the tools: a policy this small knows them by heart.
    A call is its name and the values of its arguments, ``multiply 12 | 7``."""

    closing: tuple[str, ...] = (END,)
    stops: tuple[str, ...] = (END,)

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, generate: bool) -> str:
        turns = [_turn(message) for message in messages if message.role != "system"]
        return "".join(turns) + (_ROLES["assistant"] if generate else "")

    def read(self, text: str, tools: Sequence[ToolSpec]) -> Message:
        """What begins with the name of a tool is a call; values that its parameters do not ask for leave it a plain text."""
        calls = Calls()
        name, _, rest = text.strip().partition(" ")
        spec = next((tool for tool in tools if tool.name == name), None)
        if spec is None:
            return calls.message(text)
        parameters: dict[str, JSON] = spec.parameters.get("properties", {})
        values = [part.strip() for part in rest.split(_BETWEEN)]
        if len(values) != len(parameters):
            return calls.message(text)
        named = zip(parameters.items(), values, strict=True)
        calls.add(name, {parameter: _value(value, schema) for (parameter, schema), value in named})
        return calls.message("")


def _value(text: str, schema: JSON) -> JSON:
    """A number where one is asked for and written."""
    if schema.get("type") in ("number", "integer") and _NUMBER.fullmatch(text):
        return json.loads(text)
    return text


def compact_format(tokenizer: Tokenizer) -> RenderedFormat:
    family = CompactFamily()
    return RenderedFormat(tokenizer, family, family)


def written(message: Message) -> str:
    """What an assistant message looks like to the policy."""
    calls = [_call(call) for call in message.tool_calls]
    return calls[0] if calls else message.content or ""


def _turn(message: Message) -> str:
    if message.role == "assistant":
        return f"{_ROLES['assistant']}{written(message)}{END}"
    return f"{_ROLES[message.role]}{message.content or ''}"


def _call(call: ToolCall) -> str:
    arguments: dict[str, JSON] = arguments_of(call)
    values = [value if isinstance(value, str) else json.dumps(value) for value in arguments.values()]
    return f"{call.name} {_BETWEEN.join(values)}"

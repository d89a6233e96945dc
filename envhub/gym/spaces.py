"""Gymnasium spaces for chat: text of any script, one of a few words, and the action and observation of a tool-calling agent.

Invariant: whatever a space samples it contains, sampling depends on the seed alone, and two spaces are equal exactly when
they contain the same values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

MAX_CHARS = 2**24
"""Longest text of an action or an observation, in characters."""

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789.,;:!?'\"`()[]{}<>|/\\@#$%^&*-_=+~",
    "\n\t\r \u00a0\u3000",
    "äöüßéèñçøåæœłšžğıαβγδλπσωабвгдежз",
    "中文字数据库表格查询日本語ひらがなカタカナ한국어",
    "😀🚀👩‍💻🇺🇳é",
)
_MEAN_SAMPLED_CHARS = 12


class Unicode(spaces.Space[str]):
    """Every ``str`` of at most ``max_length`` characters, the empty one included."""

    def __init__(self, max_length: int = MAX_CHARS, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 0:
            raise ValueError(f"max_length must be 0 or more, not {max_length}")
        self.max_length = max_length
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A short text in one to three scripts; valid Unicode, so that it survives JSON."""
        _refuse(mask, probability)
        rng = self.np_random
        length = min(int(rng.geometric(1 / _MEAN_SAMPLED_CHARS)) - 1, self.max_length)
        letters = "".join(_ALPHABETS[index] for index in rng.integers(len(_ALPHABETS), size=3))
        return "".join(letters[index] for index in rng.integers(len(letters), size=length))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # a space carries a generator; gymnasium's own are unhashable too


class Choice(spaces.Space[str]):
    """One of a few words."""

    def __init__(self, words: Iterable[str], seed: int | np.random.Generator | None = None) -> None:
        self.words = tuple(words)
        if not self.words or len(set(self.words)) != len(self.words):
            raise ValueError(f"words must be distinct, and at least one: {self.words}")
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        _refuse(mask, probability)
        return self.words[int(self.np_random.integers(len(self.words)))]

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and x in self.words

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.words))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]  # as above


def action_space(max_length: int = MAX_CHARS) -> spaces.Dict:
    """What an assistant says: a text (may be empty) and its tool calls in order; ``arguments`` is JSON text."""
    call = spaces.Dict([(name, Unicode(max_length)) for name in ("name", "arguments")])
    return spaces.Dict([("content", Unicode(max_length)), ("tool_calls", spaces.Sequence(call))])


def observation_space(max_length: int = MAX_CHARS) -> spaces.Dict:
    """The conversation so far, and the tools as OpenAI-shaped JSON text.

    A field that a message does not have is the empty text (``tool_call_id``, ``content``) or the empty tuple
    (``tool_calls``).
    """
    call = spaces.Dict([(name, Unicode(max_length)) for name in ("id", "name", "arguments")])
    message = spaces.Dict(
        [
            ("role", Choice(("system", "user", "assistant", "tool"))),
            ("content", Unicode(max_length)),
            ("tool_call_id", Unicode(max_length)),
            ("tool_calls", spaces.Sequence(call)),
        ]
    )
    return spaces.Dict([("messages", spaces.Sequence(message)), ("tools", Unicode(max_length))])


def _refuse(mask: object, probability: object) -> None:
    if mask is not None or probability is not None:
        raise ValueError("texts are sampled without mask and probability")

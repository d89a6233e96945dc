"""Keeps what messages say from becoming control tokens: a tool that answers ``<|im_end|>`` has written ten letters, no end of turn.

Invariant: a token that only a template or an engine may write never comes out of the text of a message; other texts are encoded as
they always were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from envhub.core.types import Message

_BRACKETED = re.compile(r"[<\[].+[>\]]", re.DOTALL)
"""Tokens such as ``<tool_call>``, which tokenizers add without calling them special. Added words and runs of blanks are text."""


class Fence:
    """``special`` marks are control tokens wherever they stand; ``added`` ones are part of an assistant's own language (its calls, its
    reasoning) and may not come from anyone else."""

    def __init__(self, special: Iterable[str], added: Iterable[str] = ()) -> None:
        special = frozenset(special)
        self._of_assistants = _longer(special)
        self._of_others = _longer(special.union(added))

    def applied(self, messages: Sequence[Message]) -> tuple[Sequence[Message], str]:
        """The messages with a seam within every mark, and the seam: what stands on its sides must be encoded apart.

        The messages themselves, and no seam, where no text holds a mark.
        """
        found = [self._marks_in(message) for message in messages]
        if not any(found):
            return messages, ""
        texts = [text for message in messages for text in _texts(message)]
        seam = next(mark for mark in (f"@@seam{n}@@" for n in count()) if not any(mark in text for text in texts))
        return [_spelled(*each, seam) for each in zip(messages, found, strict=True)], seam

    def _marks_in(self, message: Message) -> list[str]:
        """Looked for one by one: with hundreds of marks that is many times faster than an expression of them all."""
        marks = self._of_assistants if message.role == "assistant" else self._of_others
        return [mark for mark in marks if any(mark in text for text in _texts(message))]


def fence_of(tokenizer: Any) -> Fence:
    """Of a Hugging Face tokenizer; one without added tokens needs none."""
    added = getattr(tokenizer, "get_added_vocab", None)
    if added is None:
        return Fence(())
    known = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = {*getattr(tokenizer, "all_special_tokens", ()), *(str(each) for each in known if each.special)}
    return Fence(special, (mark for mark in map(str, added()) if _BRACKETED.fullmatch(mark.strip())))


def _longer(marks: frozenset[str]) -> tuple[str, ...]:
    """A single character forges nothing."""
    return tuple(sorted(mark for mark in marks if len(mark) > 1))


def _texts(message: Message) -> tuple[str, ...]:
    return (message.content or "", *(call.arguments for call in message.tool_calls))


def _spelled(message: Message, marks: Sequence[str], seam: str) -> Message:
    """With a seam behind the first character of every mark, of those that overlap too."""
    if not marks:
        return message
    beginnings = re.compile(rf"(?=(?:{'|'.join(map(re.escape, marks))})).", re.DOTALL)

    def apart(text: str) -> str:
        return beginnings.sub(lambda found: found[0] + seam, text)

    calls = tuple(replace(call, arguments=apart(call.arguments)) for call in message.tool_calls)
    return replace(message, content=None if message.content is None else apart(message.content), tool_calls=calls)

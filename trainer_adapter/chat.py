"""What the adapter needs of a chat format: prompts as token ids, the tokens between two turns, and the calls in a completion.

Invariant: a model's own text is never encoded; only what stands between its turns is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from envhub.core.types import Message, ToolSpec
from trainer_adapter.tokens import Completion


class TemplateError(Exception):
    """The chat template cannot show a conversation, or not in the way its family writes calls."""


class TemplateRewritesError(TemplateError):
    """The chat template shows earlier turns otherwise than they were sampled (it drops their reasoning, for example)."""


class ChatFormat(Protocol):
    """One model family's way to write conversations with tools."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens at which an engine must stop: each ends a turn."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """The whole conversation, ending where the model begins to speak. Raises TemplateError."""

    def between(self, completion: Completion, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """What follows a completion: the end of its turn as far as it did not write that itself, the replies, and the beginning of
        the next turn. Raises TemplateError."""

    def parse(self, completion: Completion, tools: Sequence[ToolSpec]) -> Message:
        """The completion as an assistant message. A call that cannot be read becomes a ToolCall with ``problem`` set, so that
        the environment answers it; it never raises."""

    def rewrites(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bool:
        """Whether the template shows the last assistant turn, or anything before it, otherwise than it stood when that turn was
        sampled, now that replies follow it."""

"""Policies for tests: what they say is decided beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envhub.core.protocols import Environment
from envhub.core.types import Message, TaskRef, ToolSpec


class ScriptedPolicy:
    """Says the given messages in order, and then the last one again and again."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._left = list(messages)
        if not self._left:
            raise ValueError("a scripted policy needs at least one message")

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def solving(environment: Environment, task: TaskRef) -> ScriptedPolicy:
    """Plays the reference solution of a task. Raises ValueError when there is none."""
    solution = environment.solution(task)
    if solution is None:
        raise ValueError(f"{task} has no reference solution")
    return ScriptedPolicy(solution)

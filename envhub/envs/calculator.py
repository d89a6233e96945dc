"""The example environment: one arithmetic expression, four tools. Small enough to read, real enough to measure the hub with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from envhub.core.errors import ToolError
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, TaskRef, ToolCall
from envhub.envs.toolkit import End, ToolEpisode, tool

_SPLITS = {"train": 10_000, "test": 100}


class CalculatorEpisode(ToolEpisode):
    def __init__(self, a: int, b: int, c: int) -> None:
        self._question = f"Compute {a} * {b} + {c}. Use the tools, then submit the result."
        self._expected = a * b + c

    async def reset(self) -> Observation:
        return Observation((Message.user(self._question),), self.tools)

    @tool
    def add(self, a: float, b: float) -> str:
        """Add two numbers."""
        return f"{a + b:g}"

    @tool
    def multiply(self, a: float, b: float) -> str:
        """Multiply two numbers."""
        return f"{a * b:g}"

    @tool
    def divide(self, a: float, b: float) -> str:
        """Divide a by b."""
        if b == 0:
            raise ToolError("Error: division by zero")
        return f"{a / b:g}"

    @tool
    def submit(self, answer: Annotated[float, "The final result."]) -> End:
        """Submit the final result and end the episode."""
        correct = answer == self._expected
        return End(float(correct), "Correct." if correct else "Wrong.")

    async def close(self) -> None:
        pass


class CalculatorEnvironment:
    def info(self) -> EnvironmentInfo:
        return EnvironmentInfo(
            name="calculator",
            version="1",
            description="Arithmetic with tools; the example environment.",
            splits=_SPLITS,
            dataset_hash="generated-2",
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> CalculatorEpisode:
        return CalculatorEpisode(*_numbers(task))

    def solution(self, task: TaskRef) -> Sequence[Message]:
        a, b, c = _numbers(task)
        return (
            Message.assistant(None, ToolCall("1", "multiply", f'{{"a": {a}, "b": {b}}}')),
            Message.assistant(None, ToolCall("2", "add", f'{{"a": {a * b}, "b": {c}}}')),
            Message.assistant(None, ToolCall("3", "submit", f'{{"answer": {a * b + c}}}')),
        )

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        pass


def _numbers(task: TaskRef) -> tuple[int, int, int]:
    rng = random.Random(f"{task.split}/{task.index}")
    return rng.randint(2, 99), rng.randint(2, 99), rng.randint(1, 999)


def create(settings: Mapping[str, JSON]) -> CalculatorEnvironment:
    """Composition root of the environment; it has no settings."""
    return CalculatorEnvironment()

"""An episode with one tool of every parameter kind; each run is recorded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from envhub.core.errors import GraderError, ToolError
from envhub.core.types import Message, Observation, StopReason
from envhub.envs.toolkit import End, ToolEpisode, tool


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Box:
    corner: Point
    labels: list[str] = field(default_factory=list)


class Kinds(ToolEpisode):
    def __init__(self) -> None:
        self.runs: list[tuple[str, Any]] = []

    async def reset(self) -> Observation:
        return Observation((Message.user("go"),), self.tools)

    async def close(self) -> None:
        pass

    def _ran(self, name: str, *values: Any) -> str:
        self.runs.append((name, values))
        return f"ran {name}"

    @tool
    def text(self, value: Annotated[str, "Some text."]) -> str:
        """Take text.

        This paragraph is for people who read the code.
        """
        return self._ran("text", value)

    @tool
    def whole(self, value: int) -> str:
        """Take a whole
        number."""
        return self._ran("whole", value)

    @tool
    def real(self, value: float) -> str:
        """Take a number."""
        return self._ran("real", value)

    @tool
    def flag(self, value: bool) -> str:
        """Take a flag."""
        return self._ran("flag", value)

    @tool
    def words(self, value: list[str]) -> str:
        """Take words."""
        return self._ran("words", value)

    @tool
    def choice(self, value: Literal["red", "green"]) -> str:
        """Take one of two."""
        return self._ran("choice", value)

    @tool
    def maybe(self, value: str | None) -> str:
        """Take text or null."""
        return self._ran("maybe", value)

    @tool
    def optional(self, value: int = 7, unit: Literal["s", "ms"] = "s") -> str:
        """Take what has a default."""
        return self._ran("optional", value, unit)

    @tool
    def box(self, value: Annotated[Box, "Where."]) -> str:
        """Take a record."""
        return self._ran("box", value)

    @tool
    def nothing(self) -> str:
        """Take nothing."""
        return self._ran("nothing")

    @tool
    async def slow(self, value: str) -> str:
        """Take text, later."""
        await asyncio.sleep(0)
        return self._ran("slow", value)

    @tool
    async def refuse(self, why: str) -> str:
        """Always refuse."""
        raise ToolError(f"Error: refused: {why}")

    @tool
    def crash(self, how: Literal["key", "grader"]) -> str:
        """Break."""
        if how == "grader":
            raise GraderError("no verdict")
        raise KeyError("missing")

    @tool
    def odd(self, code: int) -> str:
        """Answer with one character."""
        return f"[{chr(code)}]"

    @tool
    def finish(self, reward: float = 1.0) -> End:
        """End the episode."""
        self._ran("finish", reward)
        return End(reward, "Well done.", info={"n": len(self.runs)})

    @tool
    def give_up(self) -> End:
        """End it badly."""
        return End(0.0, stop_reason=StopReason.INVALID_ACTION)

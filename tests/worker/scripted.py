"""An environment that does what each message says, on the clock of the test, and notes every breach of its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, GraderError, InvalidRequestError, TaskUnusableError, UnavailableError
from envhub.core.types import (
    JSON,
    Defect,
    EnvironmentInfo,
    Message,
    Observation,
    StepResult,
    StopReason,
    TaskRef,
    ToolSpec,
)

OPTIONS: Mapping[str, JSON] = {
    "grading": "strict",
    "fail": "",
    "open_s": 0.0,
    "reset_s": 0.0,
    "close_s": 0.0,
    "n": 1,
    "flag": False,
    "any": None,
}


@dataclass
class Log:
    """``breaches`` must stay empty."""

    opened: list[ScriptedEpisode] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    environment_closed: int = 0

    @property
    def live(self) -> list[ScriptedEpisode]:
        return [each for each in self.opened if not each.closed]


class ScriptedEpisode:
    """Commands: ``hold`` (until ``release``), ``wait S``, ``swallow`` and ``swallow-end`` (wait, ignore one cancellation and go
    on, or end), ``end R``, ``pay R``, ``lose R`` (ends as an invalid action), ``truncate``, ``raise``, ``fail``, ``grader``,
    ``info``, ``luck`` (answers something else in every episode); anything else is echoed."""

    def __init__(self, log: Log, clock: Clock, task: TaskRef, seed: int, options: Mapping[str, JSON]) -> None:
        self.task, self.seed, self.options = task, seed, options
        self.closed = 0
        self.steps: list[str] = []
        self.released = asyncio.Event()
        self.cancelled_steps = 0
        self._log = log
        self._clock = clock
        self._stepping = False
        log.opened.append(self)

    async def reset(self) -> Observation:
        await _sleep(self._clock, self.options["reset_s"])
        if self.options["fail"] == "reset":
            raise RuntimeError("reset failed")
        return Observation(
            (Message.user(f"task {self.task.index}"),), (ToolSpec("f", "A tool.", {"type": "object"}),), {"k": 1}
        )

    async def step(self, message: Message) -> StepResult:
        if self._stepping:
            self._log.breaches.append("two steps at once")
        if self.closed:
            self._log.breaches.append("stepped after close")
        self._stepping = True
        self.steps.append(message.content or "")
        try:
            return await self._do(*(message.content or "").partition(" ")[::2])
        except asyncio.CancelledError:
            self.cancelled_steps += 1
            raise
        finally:
            self._stepping = False

    async def close(self) -> None:
        self.closed += 1
        if self.closed > 1:
            self._log.breaches.append("closed twice")
        await _sleep(self._clock, self.options["close_s"])
        if self.options["fail"] == "close":
            raise RuntimeError("close failed")

    async def _do(self, command: str, argument: str) -> StepResult:
        said = (Message.user(f"heard {command}"),)
        if command in ("hold", "swallow", "swallow-end"):
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                if command == "hold":
                    raise
        if command in ("end", "swallow-end"):
            return StepResult(said, float(argument or 1), terminated=True)
        if command == "lose":
            return StepResult(said, float(argument or 0), terminated=True, stop_reason=StopReason.INVALID_ACTION)
        if command == "pay":
            return StepResult(said, float(argument))
        if command == "truncate":
            return StepResult(said, truncated=True)
        if command == "wait":
            await self._clock.sleep(float(argument))
        if command == "luck":
            return StepResult((Message.user(f"heard {len(self._log.opened)}"),))
        if command == "raise":
            raise KeyError(argument)
        if command == "fail":
            raise EpisodeFailedError(argument)
        if command == "grader":
            raise GraderError(argument)
        return StepResult(said, info={"command": command} if command == "info" else {})


class ScriptedEnvironment:
    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "scripted",
        max_turns: int = 10,
        max_episode_s: float = 100.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.log = Log()
        self._clock = clock
        self._info = EnvironmentInfo(
            name,
            "1",
            "For tests.",
            {"test": 100, "train": 10, "empty": 0},
            "cafe",
            OPTIONS,
            max_turns=max_turns,
            max_episode_s=max_episode_s,
            reward_range=reward_range,
        )

    def info(self) -> EnvironmentInfo:
        return self._info

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> ScriptedEpisode:
        await _sleep(self._clock, options["open_s"])
        fail = options["fail"]
        if fail == "open":
            raise RuntimeError("open failed")
        if fail == "unavailable":
            raise UnavailableError("not now", retry_after_s=2.0)
        if fail == "unusable":
            raise TaskUnusableError("a broken task")
        if fail == "option":
            raise InvalidRequestError("a bad option")
        return ScriptedEpisode(self.log, self._clock, task, seed, options)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        return (Message.assistant("end 1"),)

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        self.log.environment_closed += 1


async def _sleep(clock: Clock, seconds: float) -> None:
    if seconds:
        await clock.sleep(seconds)

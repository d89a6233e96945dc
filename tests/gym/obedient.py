"""An environment whose episodes do what the agent tells them to, so that every end and every failure can be played."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envhub.core.errors import EpisodeFailedError, TaskUnusableError
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StepResult, TaskRef

UNUSABLE = 3


class ObedientEpisode:
    """Words it obeys: ``break``, ``end 0.5``, ``meet`` (wait for all others), ``score <JSON>``; the rest it repeats."""

    def __init__(self, owner: Obedient, task: TaskRef, seed: int) -> None:
        self._owner = owner
        self._task = task
        self._seed = seed
        self._open = True
        owner.n_open += 1

    async def reset(self) -> Observation:
        return Observation((Message.system("Obey."), Message.user(f"task {self._task.index} seed {self._seed}")), ())

    async def step(self, message: Message) -> StepResult:
        word, _, rest = (message.content or "").partition(" ")
        if word == "break":
            raise EpisodeFailedError("told to break")
        if word == "meet":
            self._owner.n_waiting += 1
            if self._owner.n_waiting == self._owner.n_meeting:
                self._owner.met.set()
            async with asyncio.timeout(20):
                await self._owner.met.wait()
        if word == "end":
            return StepResult((Message.user("over"),), float(rest), terminated=True, info={"success": float(rest) == 1})
        score = {"1": 1, "0.5": 0.5, "null": None}[rest] if word == "score" else 0
        return StepResult((Message.user(message.content or ""),), 0.25, info={"score": score})

    async def close(self) -> None:
        self._owner.n_open -= self._open
        self._open = False


class Obedient:
    def __init__(self) -> None:
        self.n_open = 0
        self.n_meeting = 0
        self.n_waiting = 0
        self.met = asyncio.Event()
        self.closed = False
        self.broken = False

    def info(self) -> EnvironmentInfo:
        return EnvironmentInfo(
            name="obedient",
            version="1",
            description="Does as told.",
            splits={"train": 10, "bad": 4, "empty": 0},
            dataset_hash="none",
            options={"colour": "red"},
            max_turns=5,
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> ObedientEpisode:
        if task.index == UNUSABLE or (task.split == "bad" and task.index != 0):
            raise TaskUnusableError(f"{task} cannot be played")
        if self.broken:
            raise EpisodeFailedError("cannot open")
        return ObedientEpisode(self, task, seed)

    def solution(self, task: TaskRef) -> Sequence[Message]:
        return (Message.assistant("end 1"),)

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        self.closed = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where the obedient and the calculator environments are played."""

    obedient: Obedient
    url: str | None

    def seat(self, name: str = "obedient", **changes: Any) -> dict[str, Any]:
        """Arguments of HubEnv and HubVectorEnv."""
        environment = self.obedient if name == "obedient" and self.url is None else name
        return {"environment": environment, "url": self.url, **changes}

"""What a benchmark run will play. Equal plans name the same episodes in the same order, with the same seeds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import msgspec

from envhub.core.types import JSON, TaskRef

_TARGET = re.compile(r"(?P<environment>[\w.-]+)(/(?P<split>[\w.-]+))?(:(?P<tasks>[\d,\s-]+))?", re.ASCII)


class PlanError(ValueError):
    """A plan that cannot be made or resumed; the text says what is valid."""


@dataclass(frozen=True, slots=True)
class Target:
    """Tasks of one split, in ascending order."""

    environment: str
    split: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpisodeKey:
    """Names one row of the results. ``repeat`` counts from 0."""

    agent: str
    task: TaskRef
    repeat: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``agents`` maps each agent's name to what defines it (kind, model, sampling; never a key)."""

    targets: tuple[Target, ...]
    agents: Mapping[str, Mapping[str, JSON]]
    repeats: int = 1
    seed: int = 0
    options: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def n_episodes(self) -> int:
        return sum(len(target.tasks) for target in self.targets) * len(self.agents) * self.repeats

    def episodes(self) -> Iterator[EpisodeKey]:
        """Repeat by repeat, so that a run cut short has seen every task before any task twice; agents innermost."""
        for repeat in range(self.repeats):
            for target in self.targets:
                for index in target.tasks:
                    for agent in self.agents:
                        yield EpisodeKey(agent, TaskRef(target.environment, target.split, index), repeat)

    def seed_of(self, key: EpisodeKey) -> int:
        """The same for every agent, so that agents meet the same episodes; different for every task and repeat."""
        digest = hashlib.sha256(f"{self.seed}/{key.task}/{key.repeat}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    def to_json(self) -> dict[str, JSON]:
        return cast(dict[str, JSON], msgspec.to_builtins(self))


def plan_from_json(value: JSON) -> Plan:
    """Raises PlanError."""
    try:
        return msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:
        raise PlanError(f"not a benchmark plan: {error}") from None


def differences(old: Plan, new: Plan) -> tuple[str, ...]:
    """What changed between two plans, in words."""
    before, after = old.to_json(), new.to_json()
    return tuple(
        f"{name}: was {_brief(before[name])}, now {_brief(after[name])}"
        for name in before
        if before[name] != after[name]
    )


def _brief(value: JSON) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target as it is written, before the size of the split is known. None means the default or every task."""

    environment: str
    split: str | None = None
    tasks: str | None = None


def parse_target(text: str) -> TargetSpec:
    """``ENV[/SPLIT][:TASKS]``, such as ``db``, ``db/dev`` or ``db/test:0-99,120``. Raises PlanError."""
    found = _TARGET.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is not a target; write ENV[/SPLIT][:TASKS], such as db/test:0-99,120")
    return TargetSpec(found["environment"], found["split"], found["tasks"])


def parse_tasks(text: str | None, n_tasks: int) -> tuple[int, ...]:
    """``0-99,120`` (both ends included) to sorted, distinct indices; None selects every task. Raises PlanError."""
    if text is None:
        return tuple(range(n_tasks))
    chosen: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,9})\s*(-\s*(\d{1,9})\s*)?", part, re.ASCII)
        if found is None:
            raise PlanError(f"{part.strip()!r} is not a task selection; write indices and ranges, such as 0-99,120")
        first = int(found[1])
        last = int(found[3]) if found[3] else first
        if last < first:
            raise PlanError(f"the range {part.strip()!r} runs backwards")
        if last >= n_tasks:
            raise PlanError(f"there is no task {last}; valid: 0-{n_tasks - 1}")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))

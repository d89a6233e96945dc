"""What an environment and its episodes must be. The hub knows environments through these protocols alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StepResult, TaskRef


@runtime_checkable
class Episode(Protocol):
    """One run of a task. Called by one session, one call at a time, in the order reset, step*, close.

    Nothing an agent sends may raise out of ``step``: a model's mistake is a tool message. What does raise (EpisodeError
    or anything else) is our failure, ends the session and leaves it without a reward.
    """

    async def reset(self) -> Observation: ...

    async def step(self, message: Message) -> StepResult: ...

    async def close(self) -> None:
        """Free everything the episode holds. Idempotent; may be called at any time, also while ``step`` was cancelled."""


@runtime_checkable
class Environment(Protocol):
    """A family of tasks. One instance serves every session of a worker."""

    def info(self) -> EnvironmentInfo:
        """Cheap and constant for the life of the instance."""

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> Episode:
        """Prepare a task, which lies in a split of ``info()``. ``options`` holds every option (defaults filled in). Frees
        what it took if it raises.

        Raises TaskUnusableError, InvalidRequestError (a bad option), UnavailableError, EpisodeError.
        """

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        """Assistant messages that earn the full reward, or None when no reference solution is known."""

    def lint(self, split: str) -> Iterable[Defect]:
        """The tasks of a split that are defective, in index order."""

    async def close(self) -> None:
        """Free everything the environment holds. Idempotent."""


Script = Generator[Message, tuple[Message, ...], None]
"""Plays an episode: yields assistant messages, is sent the messages that answer each; when it returns, nothing more is said."""


@runtime_checkable
class Exploits(Protocol):
    """An environment that also knows how its tasks could be paid for without being solved; checked by ``envhub tasks verify``."""

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        """By name, the scripts of agents that must hardly ever earn the reward. None of them may know the answer."""


@runtime_checkable
class SelfTesting(Protocol):
    """An environment that also finds defects by trying its tasks out: right must pass, wrong must fail."""

    async def self_tests(self, split: str) -> Sequence[Defect]:
        """The defects that show, in index order. Takes as long as setting up and grading every task of the split."""


@runtime_checkable
class Forkable(Episode, Protocol):
    """An episode that can be doubled. One without this, or that answers None, is forked by playing its messages again."""

    async def fork(self) -> Episode | None:
        """An independent episode in the same state, past its reset. Called between steps; ``close`` may come meanwhile."""


@runtime_checkable
class Planner(Episode, Protocol):
    """An episode whose expert can plan from any of its states. ``action_tool`` takes one action of a plan as ``action``."""

    action_tool: str

    def expert_plan(self) -> Sequence[str] | None:
        """Actions that solve the task from here; None when there is no way."""

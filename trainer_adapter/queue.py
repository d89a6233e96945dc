"""Trajectory queue: groups are admitted, their trajectories come back one by one, complete groups leave in dynamic batches.

Invariants: every admitted trajectory is trained, dropped with a reason, or still live, and is counted exactly once; a group leaves
whole; a batch holds at least B_min and at most B_max groups; nothing that is too stale is ever handed out.

The rules alone, without clocks, tasks or locks: `pipeline.py` waits on them, `openrlhf/` puts them into a Ray actor.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from envhub.core.types import TaskRef
from trainer_adapter.groups import is_flat
from trainer_adapter.tokens import Failure, FailureKind, Trajectory


class OnFailure(StrEnum):
    """What an infrastructure failure of one trajectory does. ``FAIL_FAST`` ends the run; ``RETRY`` plays it again within the
    budget and gives the group up when that is spent; ``SURVIVORS`` retries too, then goes on with a smaller group."""

    FAIL_FAST = "fail_fast"
    RETRY = "retry"
    SURVIVORS = "survivors"


class DropReason(StrEnum):
    STALE = "stale"
    """The group's oldest token was sampled too many versions ago."""
    FLAT = "flat"
    """All rewards of the group are equal, and such groups are filtered out."""
    FAILED = "failed"
    """Too few of the group's trajectories have a reward."""
    UNTRAINABLE = "untrainable"
    """No token was sampled, or the chat template does not allow to train on what was."""
    CANCELLED = "cancelled"
    """Given up by the run: aborted, or it stopped."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """``b_min``, ``b_max``: groups in a batch. ``multiple``: the trajectories of a batch are a multiple of it (data-parallel ranks
    times micro batch), but where nothing else is left to hand out. ``max_staleness``: policy versions between the oldest counted
    token of a group and the step that trains it. ``fresh_engines``: the engines whose tokens count for that; None counts all.
    ``max_failure_rate``: over the last ``failure_window`` outcomes; above it the run stops, as it does when the last
    ``max_lost_groups`` groups of an environment were lost, or when so many in a row, of all, were flat or came back too old."""

    group_size: int = 8
    b_min: int = 32
    b_max: int = 64
    multiple: int = 1
    max_staleness: int = 4
    fresh_engines: frozenset[int] | None = None
    on_failure: OnFailure = OnFailure.RETRY
    n_retries: int = 3
    min_group: int = 2
    filter_flat: bool = False
    max_failure_rate: float = 0.5
    failure_window: int = 64
    max_lost_groups: int = 256

    def __post_init__(self) -> None:
        if min(self.group_size, self.multiple, self.failure_window, self.max_lost_groups) < 1 or self.n_retries < 0:
            raise ValueError(
                "group_size, multiple, failure_window and max_lost_groups must be at least 1, n_retries at least 0"
            )
        if not 1 <= self.b_min <= self.b_max:
            raise ValueError(f"b_min {self.b_min} must be at least 1 and at most b_max {self.b_max}")
        if self.max_staleness < 0:
            raise ValueError("max_staleness must be at least 0")
        if not 1 <= self.min_group <= self.group_size:
            raise ValueError(f"min_group {self.min_group} must lie between 1 and the group size {self.group_size}")
        if not 0 < self.max_failure_rate <= 1:
            raise ValueError("max_failure_rate must lie in (0, 1]")
        if all(n * self.group_size % self.multiple for n in range(self.b_min, min(self.b_max, self.window) + 1)):
            raise ValueError(
                f"no batch of {self.b_min} to {min(self.b_max, self.window)} groups of {self.group_size} trajectories "
                f"is a multiple of {self.multiple}"
            )

    @property
    def window(self) -> int:
        """Groups that may be unfinished at once: with more, the last would be too stale by the time it is trained."""
        return self.b_min * (self.max_staleness + 1)


class InfrastructureDownError(Exception):
    """So many trajectories failed that training would only learn from what is left by accident. ``failures`` are the last ones."""

    def __init__(self, message: str, failures: Sequence[Failure]) -> None:
        super().__init__(message)
        self.failures = tuple(failures)

    def __reduce__(self) -> tuple[type[InfrastructureDownError], tuple[str, tuple[Failure, ...]]]:
        """It travels between processes."""
        return InfrastructureDownError, (str(self), self.failures)


class NothingToTrainError(Exception):
    """Episodes are played and none of them can be trained: waiting longer would not change that."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One trajectory to be played; ``attempt`` counts its repetitions from 0."""

    group: str
    member: int
    task: TaskRef
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """The trajectories of one task that are compared with each other, by member; all have a reward.

    ``serial`` counts admissions; ``oldest`` is the version of its oldest counted token, or where no token counts the one at which
    it was admitted.
    """

    id: str
    serial: int
    oldest: int
    task: TaskRef
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one training step gets. ``staleness`` has one entry per group: versions since its oldest counted token."""

    version: int
    groups: tuple[Group, ...]
    staleness: tuple[int, ...]

    @property
    def n_trajectories(self) -> int:
        return sum(len(group.trajectories) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Account:
    """Trajectories by what became of them; ``admitted`` is always the sum of the others."""

    admitted: int
    trained: int
    dropped: Mapping[str, int]
    live: int
    ready: int
    retries: int

    @property
    def balanced(self) -> bool:
        return self.admitted == self.trained + sum(self.dropped.values()) + self.live + self.ready


@dataclass(slots=True)
class _Open:
    """A group under way; ``attempts`` holds the members that are still waited for, ``begun`` the versions of the first counted tokens
    of those that have some."""

    task: TaskRef
    serial: int
    version: int
    attempts: dict[int, int]
    begun: dict[int, int] = field(default_factory=dict)
    done: dict[int, Trajectory] = field(default_factory=dict)
    lost: list[Failure] = field(default_factory=list)


class TrajectoryQueue:
    """See the module. ``version`` is the number of training steps done; ``serial`` of groups admitted."""

    def __init__(self, settings: QueueSettings, *, version: int = 0, serial: int = 0) -> None:
        self.settings = settings
        self.version = version
        self.serial = serial
        self.retries: deque[Ticket] = deque()
        """Trajectories that must be played again."""
        self._open: dict[str, _Open] = {}
        self._ready: list[Group] = []
        self._counts: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        """Failed attempts by environment and code, those of groups that are gone included."""
        self._outcomes: deque[tuple[str, Failure | None]] = deque(maxlen=settings.failure_window)
        self._n_lost: Counter[str] = Counter()
        """Groups lost since the last that was not, by environment."""
        self._n_flat = 0
        """Groups that were flat since the last that was not."""
        self._n_stale = 0
        """Groups that came back too old since the last batch."""

    # --- in ---------------------------------------------------------------------------------------------------------

    @property
    def may_admit(self) -> bool:
        """Back-pressure: whether one more group would still be fresh enough when its turn comes."""
        return len(self._open) + len(self._ready) < self.settings.window

    def admit(self, task: TaskRef) -> tuple[Ticket, ...]:
        """A new group; the trajectories to play. Raises RuntimeError when the window is full."""
        if not self.may_admit:
            raise RuntimeError("the window of unfinished groups is full")
        group = f"g{self.serial}"
        members = range(self.settings.group_size)
        self._open[group] = _Open(task, self.serial, self.version, dict.fromkeys(members, 0))
        self.serial += 1
        self._counts["admitted"] += len(members)
        return tuple(Ticket(group, member, task) for member in members)

    def is_open(self, group: str) -> bool:
        """Whether its trajectories are still waited for: it is neither complete nor gone."""
        return group in self._open

    def sampled(self, ticket: Ticket, *, engine: int, version: int) -> None:
        """A trajectory under way has tokens of this version now."""
        group = self._open.get(ticket.group)
        if group is not None and group.attempts.get(ticket.member) == ticket.attempt and self._counts_of(engine):
            group.begun.setdefault(ticket.member, version)

    def put(self, trajectory: Trajectory) -> None:
        """What became of a ticket; one of a group that is gone already was counted when it went.

        Raises InfrastructureDownError (fail fast, or too many failures), NothingToTrainError, ValueError for a member nobody
        waits for.
        """
        failure = trajectory.failure
        if failure is None and not trajectory.n_actions:
            failure = Failure(FailureKind.UNTRAINABLE, "no_action", "the trajectory holds no sampled token")
        if failure is not None and failure.kind is not FailureKind.CANCELLED:
            self.failures[trajectory.task.environment, failure.code] += 1
        group = self._open.get(trajectory.group)
        if group is None:
            return
        if trajectory.member not in group.attempts:
            raise ValueError(f"{trajectory.group} does not wait for member {trajectory.member}")
        group.begun.pop(trajectory.member, None)
        if failure is None:
            self._outcomes.append((trajectory.task.environment, None))
            group.done[trajectory.member] = trajectory
            del group.attempts[trajectory.member]
        else:
            self._failed(group, trajectory, failure)
        if trajectory.group not in self._open:
            return
        if not group.attempts:
            self._complete(trajectory.group, group)
        elif self._hopeless(group):
            self._drop_open(trajectory.group, DropReason.STALE)
            self._count_stale()

    def _failed(self, group: _Open, trajectory: Trajectory, failure: Failure) -> None:
        member = trajectory.member
        if failure.kind is FailureKind.CANCELLED:
            self._drop_open(trajectory.group, DropReason.CANCELLED)
            return
        if failure.kind is FailureKind.UNTRAINABLE:
            self._outcomes.append((trajectory.task.environment, None))
            self._lose(group, trajectory, failure, DropReason.UNTRAINABLE)
            return
        self._outcomes.append((trajectory.task.environment, failure))
        self._check_failures(failure)
        if group.attempts[member] < self.settings.n_retries:
            group.attempts[member] += 1
            self._counts["retries"] += 1
            self.retries.append(Ticket(trajectory.group, member, group.task, group.attempts[member]))
        else:
            self._lose(group, trajectory, failure, DropReason.FAILED)

    def _lose(self, group: _Open, trajectory: Trajectory, failure: Failure, reason: DropReason) -> None:
        """There will be no such member: the group goes on without it, or not at all."""
        if self.settings.on_failure is OnFailure.SURVIVORS:
            del group.attempts[trajectory.member]
            group.lost.append(failure)
        else:
            self._drop_open(trajectory.group, reason)
            self._count_lost(group.task.environment, failure)

    def _count_lost(self, environment: str, failure: Failure) -> None:
        self._n_lost[environment] += 1
        if self._n_lost[environment] >= self.settings.max_lost_groups:
            raise NothingToTrainError(
                f"the last {self._n_lost[environment]} groups of {environment} were lost; last: {failure.code}: {failure.message}"
            )

    def _count_stale(self) -> None:
        self._n_stale += 1
        if self._n_stale >= self.settings.max_lost_groups:
            raise NothingToTrainError(
                f"the last {self._n_stale} groups came back too old: engines that count have an old version, or max_staleness "
                f"{self.settings.max_staleness} is too small for how long episodes take"
            )

    def _check_failures(self, failure: Failure) -> None:
        failed = [each for _, each in self._outcomes if each is not None]
        if self.settings.on_failure is OnFailure.FAIL_FAST:
            raise InfrastructureDownError(f"a trajectory failed: {failure.code}: {failure.message}", failed)
        rate = len(failed) / len(self._outcomes)
        if len(self._outcomes) == self.settings.failure_window and rate > self.settings.max_failure_rate:
            codes = ", ".join(f"{code} x{n}" for code, n in Counter(each.code for each in failed).most_common(5))
            raise InfrastructureDownError(
                f"{len(failed)} of the last {len(self._outcomes)} trajectories failed ({codes}); last: {failure.message}",
                failed,
            )

    def _complete(self, name: str, group: _Open) -> None:
        if len(group.done) < min(self.settings.min_group, self.settings.group_size):
            self._drop_open(name, DropReason.FAILED)
            self._count_lost(group.task.environment, group.lost[-1])
            return
        self._n_lost[group.task.environment] = 0
        trajectories = tuple(group.done[member] for member in sorted(group.done))
        if self.settings.filter_flat and is_flat([each.reward for each in trajectories if each.reward is not None]):
            self._drop_open(name, DropReason.FLAT)
            self._n_flat += 1
            if self._n_flat >= self.settings.max_lost_groups:
                raise NothingToTrainError(
                    f"in each of the last {self._n_flat} groups all rewards were equal, and such groups are filtered out"
                )
            return
        self._n_flat = 0
        del self._open[name]
        self._drop_lost(group)
        oldest = self._oldest(trajectories)
        made = Group(name, group.serial, group.version if oldest is None else oldest, group.task, trajectories)
        if self.staleness(made) > self.settings.max_staleness:
            self._dropped[DropReason.STALE] += len(trajectories)
            self._count_stale()
        else:
            insort(self._ready, made, key=lambda each: each.serial)

    # --- out --------------------------------------------------------------------------------------------------------

    def drain(self, *, last: bool = False) -> Batch | None:
        """The next batch, the groups admitted first in front: everything ready up to ``b_max``; None while fewer than ``b_min`` are.

        With ``last``, when nothing more will come, a smaller batch is handed out too, in the end one that is no multiple.
        """
        is_last = last or self._stalled
        at_least = 1 if is_last else self.settings.b_min
        if len(self._ready) < at_least:
            return None
        chosen = self._fitting(self._ready[: self.settings.b_max])
        if len(chosen) < at_least:
            chosen = self._fitting(self._ready)[: self.settings.b_max]
        if len(chosen) < at_least or sum(len(each.trajectories) for each in chosen) % self.settings.multiple:
            if not is_last:
                return None
            chosen = self._ready[: self.settings.b_max]
        taken = {group.id for group in chosen}
        self._ready = [group for group in self._ready if group.id not in taken]
        self._n_stale = 0
        self._counts["trained"] += sum(len(group.trajectories) for group in chosen)
        return Batch(self.version, tuple(chosen), tuple(map(self.staleness, chosen)))

    @property
    def _stalled(self) -> bool:
        """Nothing is under way and nothing may be: only a batch below ``b_min`` goes on from here."""
        return not self._open and not self.may_admit

    def _fitting(self, groups: Sequence[Group]) -> list[Group]:
        """As many of them as make a multiple of trajectories, older ones first: the best choice for each remainder so far."""
        multiple = self.settings.multiple
        best: dict[int, tuple[Group, ...]] = {0: ()}
        for group in groups:
            for remainder, chosen in list(best.items()):
                key = (remainder + len(group.trajectories)) % multiple
                if len(chosen) + 1 > len(best.get(key, ())):
                    best[key] = (*chosen, group)
        return list(best[0])

    def staleness(self, group: Group) -> int:
        """Versions between its oldest counted token and now."""
        return self.version - group.oldest

    def advance(self, version: int) -> tuple[str, ...]:
        """A training step is done and engines get this version; the groups that can no longer be trained, now dropped.

        Their trajectories may be aborted; what still comes of them is ignored. Raises ValueError when it goes back.
        """
        if version < self.version:
            raise ValueError(f"version {version} is before {self.version}")
        self.version = version
        self._drop_stale()
        hopeless = [name for name, group in self._open.items() if self._hopeless(group)]
        for name in hopeless:
            self._drop_open(name, DropReason.STALE)
        return tuple(hopeless)

    def cancel(self, groups: Iterable[str] | None = None) -> None:
        """Give up groups under way; with None all of them, and the complete ones too."""
        if groups is None and self._ready:
            self._dropped[DropReason.CANCELLED] += sum(len(each.trajectories) for each in self._ready)
            self._ready = []
        for name in list(self._open if groups is None else groups):
            if name in self._open:
                self._drop_open(name, DropReason.CANCELLED)

    def _counts_of(self, engine: int) -> bool:
        """Whether its tokens count for staleness."""
        return self.settings.fresh_engines is None or engine in self.settings.fresh_engines

    def _oldest(self, trajectories: Iterable[Trajectory]) -> int | None:
        engines = self.settings.fresh_engines
        found = (each.oldest_version if engines is None else each.oldest_of(engines) for each in trajectories)
        return min((version for version in found if version is not None), default=None)

    def _hopeless(self, group: _Open) -> bool:
        """It will be too stale, whatever comes of the members under way."""
        found = (self._oldest(group.done.values()), *group.begun.values())
        oldest = min((version for version in found if version is not None), default=self.version)
        return self.version - oldest > self.settings.max_staleness

    def _drop_stale(self) -> None:
        kept: list[Group] = []
        for group in self._ready:
            if self.staleness(group) > self.settings.max_staleness:
                self._dropped[DropReason.STALE] += len(group.trajectories)
            else:
                kept.append(group)
        self._ready = kept

    def _drop_open(self, name: str, reason: DropReason) -> None:
        group = self._open.pop(name)
        if n_others := len(group.attempts) + len(group.done):
            self._dropped[reason] += n_others
        self._drop_lost(group)
        self.retries = deque(ticket for ticket in self.retries if ticket.group != name)

    def _drop_lost(self, group: _Open) -> None:
        for failure in group.lost:
            is_untrainable = failure.kind is FailureKind.UNTRAINABLE
            self._dropped[DropReason.UNTRAINABLE if is_untrainable else DropReason.FAILED] += 1

    # --- what others read -------------------------------------------------------------------------------------------

    @property
    def n_ready(self) -> int:
        """Complete groups."""
        return len(self._ready)

    @property
    def n_open(self) -> int:
        """Groups under way."""
        return len(self._open)

    def failure_rates(self) -> dict[str, float]:
        """Share of infrastructure failures among the last outcomes, by environment."""
        found: dict[str, list[bool]] = {}
        for environment, failure in self._outcomes:
            found.setdefault(environment, []).append(failure is not None)
        return {environment: sum(each) / len(each) for environment, each in sorted(found.items())}

    def account(self) -> Account:
        live = sum(len(each.attempts) + len(each.done) + len(each.lost) for each in self._open.values())
        ready = sum(len(group.trajectories) for group in self._ready)
        return Account(
            self._counts["admitted"], self._counts["trained"], dict(self._dropped), live, ready, self._counts["retries"]
        )

    def unfinished(self) -> tuple[TaskRef, ...]:
        """The tasks of all groups that are admitted and not trained, oldest first: what a resumed run must admit again."""
        groups: list[Group | _Open] = [*self._ready, *self._open.values()]
        groups.sort(key=lambda group: group.serial)
        return tuple(group.task for group in groups)

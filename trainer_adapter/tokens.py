"""The token track of a trajectory: what was sampled, by whom, and what was put in between.

Invariants: ids, mask, log-probs, engines and versions have equal length at every moment; a token is trained (mask 1) exactly when
an engine sampled it, and then its id and log-prob are the engine's own, never encoded again; everything else carries log-prob 0.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from envhub.core.types import JSON, StopReason, TaskRef

NOBODY = -1
"""Engine and version of a token that no engine sampled."""


class FinishReason(StrEnum):
    """How an engine ended a completion. ``ABORT`` is never an end that training may see as one."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine sampled for one turn.

    ``version``: the policy version of its weights, read before the request went out: a weight update that lands meanwhile never
    makes a token look fresher than it is. ``text`` is the engine's own decoding of ``ids``, without the end-of-turn token.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish: FinishReason
    engine: int
    version: int

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.logprobs):
            raise ValueError(f"{len(self.ids)} sampled tokens, {len(self.logprobs)} log-probs")
        if not all(map(math.isfinite, self.logprobs)):
            raise ValueError("a sampled token's log-prob is not finite")


class Sampler(Protocol):
    """One engine or a pool of them. Raises SamplerError when the engine, not the policy, failed."""

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion: ...


class SamplerError(Exception):
    """An engine failed or was aborted: nothing that the policy is to blame for."""


class TokenTrack:
    """One training sequence that grows turn by turn."""

    __slots__ = ("engines", "ids", "logprobs", "mask", "versions")

    def __init__(self) -> None:
        self.ids = array("q")
        self.mask = array("b")
        self.logprobs = array("d")
        self.engines = array("q")
        self.versions = array("q")

    def __len__(self) -> int:
        return len(self.ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Tokens of the prompt, the environment or the chat format: seen, not trained."""
        n = len(ids)
        self.ids.extend(ids)
        self.mask.extend([0] * n)
        self.logprobs.extend([0.0] * n)
        self.engines.extend([NOBODY] * n)
        self.versions.extend([NOBODY] * n)

    def act(self, completion: Completion) -> None:
        """Tokens that an engine sampled, as they came."""
        n = len(completion.ids)
        self.ids.extend(completion.ids)
        self.mask.extend([1] * n)
        self.logprobs.extend(completion.logprobs)
        self.engines.extend([completion.engine] * n)
        self.versions.extend([completion.version] * n)

    def trim(self) -> None:
        """Forget what follows the last trained token: nothing was sampled after it."""
        kept = len(self)
        while kept and not self.mask[kept - 1]:
            kept -= 1
        for values in (self.ids, self.mask, self.logprobs, self.engines, self.versions):
            del values[kept:]

    def sequence(self) -> TokenSequence:
        return TokenSequence(
            tuple(self.ids), tuple(self.mask), tuple(self.logprobs), tuple(self.engines), tuple(self.versions)
        )


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A finished track; all five fields have length L. ``mask`` is 1 where a token is trained."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    engines: tuple[int, ...]
    versions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_actions(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)

    @property
    def action_ranges(self) -> tuple[tuple[int, int], ...]:
        """Half-open ranges of trained tokens, in order."""
        ranges: list[tuple[int, int]] = []
        begin = None
        for position, trained in enumerate((*self.mask, 0)):
            if trained and begin is None:
                begin = position
            elif not trained and begin is not None:
                ranges.append((begin, position))
                begin = None
        return tuple(ranges)

    def sampled_versions(self) -> tuple[int, ...]:
        """The policy version of every trained token, in order."""
        return tuple(version for version, trained in zip(self.versions, self.mask, strict=True) if trained)


class FailureKind(StrEnum):
    """Why a trajectory has no reward. No kind is the policy's fault."""

    INFRASTRUCTURE = "infrastructure"
    """Hub, environment or engine failed; another attempt may succeed."""
    UNTRAINABLE = "untrainable"
    """Nothing to learn from, and another attempt would be the same: a prompt that fills the context, a template that rewrites, a
    task that the hub knows to be unusable."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trajectory has no reward; ``code`` is the hub's error code, or the class of another error."""

    kind: FailureKind
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one trajectory: waiting for a slot of the hub, for engines, for the environment; the player's clock at its end."""

    start_s: float = 0.0
    generate_s: float = 0.0
    environment_s: float = 0.0
    ended_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode as training data, or a failure. ``group`` names the rollouts of one task that are compared with each other.

    ``sequences`` is more than one only where the chat template rewrote earlier turns. ``reward`` is None exactly when ``failure``
    is set; otherwise it is finite, and what the environment paid (``environment_return``) plus any penalty of ours.
    """

    group: str
    member: int
    task: TaskRef
    sequences: tuple[TokenSequence, ...] = ()
    reward: float | None = None
    environment_return: float | None = None
    stop_reason: StopReason | None = None
    n_turns: int = 0
    failure: Failure | None = None
    timing: Timing = Timing()
    info: dict[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.reward is None) != (self.failure is not None):
            raise ValueError("a trajectory has either a reward or a failure")
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"reward {self.reward} is not finite")

    @property
    def n_actions(self) -> int:
        return sum(sequence.n_actions for sequence in self.sequences)

    @property
    def oldest_version(self) -> int | None:
        """The smallest policy version that any of its trained tokens was sampled with."""
        return min((v for sequence in self.sequences for v in sequence.sampled_versions()), default=None)

    def oldest_of(self, engines: frozenset[int]) -> int | None:
        """The same, over the tokens that these engines sampled."""
        return min(
            (
                version
                for sequence in self.sequences
                for version, engine in zip(sequence.versions, sequence.engines, strict=True)
                if engine in engines
            ),
            default=None,
        )

"""The pool of fresh and stale engines: which one samples a step, and which ones get weights when.

Invariants: the engine of a step depends on the seed and the step alone, not on what else is going on; fresh engines get every
version, stale ones every N-th and the first; a failing engine is named.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from trainer_adapter.tokens import Completion, Sampler, SamplerError

_SCALE = float(1 << 64)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """``stale_ratio`` of the engines, rounded down, are stale and get weights every ``stale_every`` versions
    (arXiv 2510.04206, cross-policy sampling). ``weights`` (one per engine) replace the uniform draw.
    """

    n_engines: int
    stale_ratio: float = 0.0
    stale_every: int = 25
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.n_engines < 1:
            raise ValueError("n_engines must be at least 1")
        if not 0 <= self.stale_ratio < 1:
            raise ValueError(f"stale_ratio must lie in [0, 1), not {self.stale_ratio}: some engine must be fresh")
        if self.stale_every < 1:
            raise ValueError("stale_every must be at least 1")
        if self.weights and (len(self.weights) != self.n_engines or min(self.weights) < 0 or sum(self.weights) <= 0):
            raise ValueError(f"weights must be {self.n_engines} numbers of at least 0, not all 0")
        if not math.isfinite(sum(self.weights)):
            raise ValueError("engines.weights are too large: their sum is not finite")
        if self.weights and not any(self.weights[: len(self.fresh)]):
            raise ValueError("fresh engines, the first ones, must have a weight above 0")

    @property
    def n_stale(self) -> int:
        return int(self.stale_ratio * self.n_engines)

    @property
    def fresh(self) -> frozenset[int]:
        return frozenset(range(self.n_engines - self.n_stale))

    @property
    def stale(self) -> frozenset[int]:
        return frozenset(range(self.n_engines - self.n_stale, self.n_engines))

    def due(self, version: int) -> frozenset[int]:
        """The engines that get this version's weights."""
        return self.fresh | self.stale if version % self.stale_every == 0 else self.fresh

    def lag(self, version: int) -> int:
        """How many versions the stale engines are behind at this one."""
        return version % self.stale_every if self.n_stale else 0


@dataclass(frozen=True, slots=True)
class Step:
    """One environment step of one trajectory."""

    group: str
    member: int
    attempt: int
    turn: int


class Draw:
    """Draws an engine for each environment step."""

    def __init__(self, plan: EnginePlan, *, seed: int) -> None:
        self._seed = seed
        self._bounds = tuple(accumulate(plan.weights or (1.0,) * plan.n_engines))

    def __call__(self, step: Step) -> int:
        text = f"{self._seed}\0{step.group}\0{step.member}\0{step.attempt}\0{step.turn}"
        return self._at(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / _SCALE)

    def _at(self, share: float) -> int:
        """The engine at a share in [0, 1] of all weight; 1 itself, which rounding may make, is the last engine that has some."""
        drawn = share * self._bounds[-1]
        return next(
            (engine for engine, bound in enumerate(self._bounds) if drawn < bound), self._bounds.index(self._bounds[-1])
        )


@dataclass(slots=True)
class EnginePool:
    """Samplers by engine number. ``only_fresh`` (evaluation) maps a draw of a stale engine to a fresh one."""

    plan: EnginePlan
    samplers: Sequence[Sampler]
    draw: Draw
    only_fresh: bool = False
    used: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.samplers) != self.plan.n_engines:
            raise ValueError(f"{len(self.samplers)} samplers for {self.plan.n_engines} engines")

    async def sample(self, step: Step, ids: Sequence[int], *, max_tokens: int) -> Completion:
        """Raises SamplerError naming the engine."""
        engine = self.draw(step)
        if self.only_fresh:
            engine %= len(self.plan.fresh)
        self.used[engine] = self.used.get(engine, 0) + 1
        try:
            return await self.samplers[engine].sample(ids, max_tokens=max_tokens)
        except SamplerError as error:
            raise SamplerError(f"engine {engine}: {error}") from error

    def mix(self) -> Mapping[int, float]:
        """Share of the steps by engine."""
        total = sum(self.used.values())
        return {engine: n / total for engine, n in sorted(self.used.items())}

"""The sizes of this benchmark: what is demonstrated, how long a run is, and how much of it a quick one does."""

from __future__ import annotations

from dataclasses import dataclass

from learner.run import Plan
from learner.warm_start import WarmStart


@dataclass(frozen=True, slots=True)
class Settings:
    """``n_held_out``: tasks of each environment that an evaluation plays, or all where there are fewer."""

    warm_start: WarmStart
    plan: Plan
    n_held_out: int


FULL = Settings(
    WarmStart({"calculator": 300, "kg": 1_290}, n_tokens=3_245_000, n_planned=4_000_000),
    Plan(n_batches=24, evaluate_every=8),
    n_held_out=150,
)
QUICK = Settings(
    WarmStart({"calculator": 40, "kg": 40}, n_tokens=20_000, n_planned=20_000, vocabulary=600),
    Plan(n_batches=2, evaluate_every=2, n_groups=2, group_size=4, max_live=16, steps_per_batch=1, context_tokens=400),
    n_held_out=8,
)

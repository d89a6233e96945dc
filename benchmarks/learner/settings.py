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
    WarmStart({"alfworld": 600, "kg": 2000}, n_tokens=2_400_000),
    Plan(n_batches=12, evaluate_every=4),
    n_held_out=140,
)
QUICK = Settings(
    WarmStart({"alfworld": 40, "kg": 40}, n_tokens=20_000, vocabulary=600),
    Plan(n_batches=2, evaluate_every=2, n_groups=2, group_size=4, max_live=16, steps_per_batch=1, context_tokens=400),
    n_held_out=8,
)

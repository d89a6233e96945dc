"""The sizes of this benchmark: what is demonstrated, how long a run is, and how much of it a quick one does."""

from __future__ import annotations

from dataclasses import dataclass

from learner.environments import Sizes
from learner.run import Plan
from learner.warm_start import WarmStart


@dataclass(frozen=True, slots=True)
class Settings:
    warm_start: WarmStart
    plan: Plan
    sizes: Sizes


FULL = Settings(
    WarmStart({"alfworld": 800, "calculator": 1_000}, n_tokens=4_000_000, until={"calculator": 0.55}, seed=2),
    Plan(n_batches=20, evaluate_every=5),
    Sizes(demonstrated=800, train=1_000, validation=60, held_out=100),
)
QUICK = Settings(
    WarmStart({"alfworld": 40, "calculator": 40}, n_tokens=20_000, until={"calculator": 1.0}, vocabulary=600),
    Plan(n_batches=2, evaluate_every=2, n_groups=2, group_size=4, max_live=16, steps_per_batch=1, context_tokens=400),
    Sizes(demonstrated=40, train=20, validation=4, held_out=8),
)

"""One run: a variant and a seed, from the warm start to the last evaluation, with the adapter's queue, engines and weight updates.

Invariant: variants of a seed begin with the same weights and draw their tasks in the same order; each differs from the full
variant in the one thing that it is named after.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Protocol

from learner.environments import Course
from learner.model import Policy
from learner.stage import Stage, stage
from learner.text import Tokenizer
from learner.update import Learner

from envhub.core.types import TaskRef
from trainer_adapter.advantage_modes import TaskNormalization
from trainer_adapter.config import (
    AlgorithmSection,
    Config,
    CorrectionSection,
    EnginesSection,
    EvaluateSection,
    ModelSection,
    QueueSection,
    RolloutSection,
    TaskSection,
    TrainSection,
)
from trainer_adapter.metrics import batch_metrics
from trainer_adapter.pipeline import Pipeline
from trainer_adapter.queue import Batch, TrajectoryQueue
from trainer_adapter.stream import TaskSource, TaskStream

Report = Callable[[str], None]

_KEPT = ("reward/", "success/", "turns/", "tokens/", "staleness/m", "engines/", "batch/flat")
"""Which of a batch's metrics go into the record."""


class Variant(StrEnum):
    FULL = "full"
    NO_TASK_NORM = "no_task_norm"
    NO_CROSS_POLICY = "no_cross_policy"
    SYNCHRONOUS = "synchronous"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run is and how large its batches: ``n_groups`` of ``group_size`` trajectories, cut into ``steps_per_batch``
    optimizer steps. ``breaths``: turns of the event loop that engines get after each micro batch of training."""

    n_batches: int
    evaluate_every: int
    n_groups: int = 48
    group_size: int = 8
    steps_per_batch: int = 1
    stale_every: int = 5
    learning_rate: float = 8e-4
    kl_coef: float = 0.0
    max_live: int = 192
    breaths: int = 2
    context_tokens: int = 768
    turn_tokens: int = 32
    temperature: float = 0.8
    evaluation_temperature: float = 0.8
    evaluation_samples: int = 2


def config_of(variant: Variant, plan: Plan, courses: Sequence[Course], seed: int) -> Config:
    """The paper's settings but for what a policy this small needs: a larger rate, no pull to the warm start, and importance ratios
    clipped from above. A quarter of all environment steps is sampled by a stale engine."""
    normal = TaskNormalization.OFF if variant is Variant.NO_TASK_NORM else TaskNormalization.BATCH
    one = EnginesSection(n=1, stale_ratio=0.0)
    two = EnginesSection(n=2, stale_ratio=0.5, stale_every=plan.stale_every, weights=(0.75, 0.25))
    max_staleness = 0 if variant is Variant.SYNCHRONOUS else 2
    return Config(
        model=ModelSection(path="learner", format="plain"),
        tasks=tuple(section for each in courses for section in _sections(each, each.train)),
        rollout=RolloutSection(
            group_size=plan.group_size,
            temperature=plan.temperature,
            context_tokens=plan.context_tokens,
            turn_tokens=plan.turn_tokens,
            max_live=plan.max_live,
        ),
        queue=QueueSection(b_min=plan.n_groups, b_max=plan.n_groups, max_staleness=max_staleness),
        engines=one if variant is Variant.NO_CROSS_POLICY else two,
        algorithm=AlgorithmSection(
            task_normalization=normal,
            learning_rate=plan.learning_rate,
            kl_coef=plan.kl_coef,
            correction=CorrectionSection(level="token", mode="clip", threshold=(0.0, 2.0)),
        ),
        train=TrainSection(n_steps=plan.n_batches, n_gpus=1, steps_per_batch=plan.steps_per_batch, seed=seed),
        evaluate=EvaluateSection(
            every=plan.evaluate_every,
            n_samples=plan.evaluation_samples,
            temperature=plan.evaluation_temperature,
            tasks=tuple(section for each in courses for section in _sections(each, each.held_out)),
        ),
    )


def _sections(course: Course, tasks: Sequence[TaskRef]) -> Iterator[TaskSection]:
    """One for each split that they are from."""
    for split in sorted({task.split for task in tasks}):
        indices = tuple(task.index for task in tasks if task.split == split)
        yield TaskSection(environment=course.environment, split=split, indices=indices, options=dict(course.options))


async def run(
    variant: Variant,
    plan: Plan,
    courses: Sequence[Course],
    warm: tuple[Policy, Tokenizer],
    *,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """The record of a run; JSON. The policy is trained in place."""
    policy, tokenizer = warm
    config = config_of(variant, plan, courses, seed)
    learner = Learner(policy, config)
    began = time.monotonic()
    batches: list[dict[str, float]] = []
    async with stage(config, courses, policy, tokenizer) as played:
        evaluations: list[dict[str, float]] = [{"step": 0, **await played.evaluate(0)}]
        queue = TrajectoryQueue(config.queue_settings)
        async with _source(variant, config, courses, queue, played) as source:
            for version in range(1, plan.n_batches + 1):
                batch = await source.batch()
                assert batch is not None, "the order of tasks is endless"
                found = await learner.step(batch, played.breathe(plan.breaths))
                await played.synchronize(version)
                source.advance(version)
                batches.append({"step": version, **_kept(batch), **found})
                report(_line(variant, seed, batches[-1], time.process_time()))
                if version % plan.evaluate_every == 0 or version == plan.n_batches:
                    evaluations.append({"step": version, **await played.evaluate(version)})
                    report(f"{variant} {seed}: {evaluations[-1]}")
        account = queue.account()
    return {
        "variant": variant.value,
        "seed": seed,
        "batches": batches,
        "evaluations": evaluations,
        "account": {
            "admitted": account.admitted,
            "trained": account.trained,
            "dropped": dict(account.dropped),
            "unaccounted": 0 if account.balanced else 1,
        },
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time(), 1),
    }


async def examined(
    plan: Plan, courses: Sequence[Course], warm: tuple[Policy, Tokenizer], *, seed: int
) -> Mapping[str, float]:
    """An evaluation of the warm start."""
    async with stage(config_of(Variant.FULL, plan, courses, seed), courses, *warm) as played:
        return await played.evaluate(0)


class _Source(Protocol):
    async def batch(self) -> Batch | None: ...

    def advance(self, version: int) -> None: ...


@dataclass(slots=True)
class _Turns:
    """Synchronous: a batch is played to its end without a change of weights, and nothing else is played before it was trained."""

    queue: TrajectoryQueue
    tasks: Iterator[TaskRef]
    played: Stage
    max_live: int

    async def batch(self) -> Batch | None:
        tasks = islice(self.tasks, self.queue.settings.b_max)
        async with Pipeline(self.queue, tasks, self.played.play, max_live=self.max_live) as pipeline:
            return await pipeline.batch()

    def advance(self, version: int) -> None:
        self.queue.advance(version)


@asynccontextmanager
async def _source(
    variant: Variant, config: Config, courses: Sequence[Course], queue: TrajectoryQueue, played: Stage
) -> AsyncIterator[_Source]:
    sources = [
        TaskSource(
            each.environment, each.train[0].split, each.n_tasks, indices=tuple(task.index for task in each.train)
        )
        for each in courses
    ]
    tasks = TaskStream(sources, seed=config.train.seed)
    if variant is Variant.SYNCHRONOUS:
        yield _Turns(queue, tasks, played, config.rollout.max_live)
        return
    async with Pipeline(queue, tasks, played.play, max_live=config.rollout.max_live) as pipeline:
        yield pipeline


def _kept(batch: Batch) -> Mapping[str, float]:
    return {name: value for name, value in batch_metrics(batch).items() if name.startswith(_KEPT)}


def _line(variant: Variant, seed: int, found: Mapping[str, float], seconds: float) -> str:
    shown = " ".join(f"{name} {value:.2f}" for name, value in found.items() if name.startswith(("success/", "turns/")))
    more = " ".join(
        f"{name} {found[name]:.3f}" for name in ("staleness/mean", "clipped", "gradient_norm", "ratio/mean_abs_log")
    )
    return f"{variant} {seed}: step {found['step']} {shown} {more} | {seconds:.0f} s"

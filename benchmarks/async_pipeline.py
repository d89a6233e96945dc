"""Asynchronous training against synchronous: a discrete-event simulation with the adapter's own queue.

Episodes of two environments (30 steps and 5 steps of 1.5 s, heavy-tailed) feed a trainer in three ways on the same number of
GPUs: synchronous (all GPUs play a batch, then all train it), batch-level asynchronous (half play whole batches while the other
half trains the one before), and the trajectory queue of ``trainer_adapter.queue``. The bound is what the slower of the playing
and the training half would need for the episodes that were trained if it never waited.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import Claim, arguments, finish

from envhub.core.types import TaskRef
from trainer_adapter.queue import Batch, QueueSettings, Ticket, TrajectoryQueue
from trainer_adapter.tokens import Completion, FinishReason, TokenTrack, Trajectory

GROUP_SIZE, BATCH_GROUPS = 8, 256
"""As published for 14B: 256 tasks of 8 episodes in a batch."""
PAPER_GPUS = (16, 32, 64)
SHAPES = (*((n_gpus, 4) for n_gpus in PAPER_GPUS), (128, 4), (128, 8))
"""GPUs, half of which are engines, and the staleness that is allowed: more engines make versions faster than long episodes end."""


@dataclass(frozen=True, slots=True)
class Shape:
    """``per_engine``: episodes that an engine plays at once without slowing down. ``step_s`` is the mean of a lognormal with
    ``sigma``; an episode is slow as a whole by another lognormal factor (``episode_sigma``). ``train_s``: seconds of one GPU for
    one step of one episode; ``sync_s``: engines stand still for a weight update."""

    n_gpus: int = 32
    per_engine: int = 32
    step_s: float = 1.5
    sigma: float = 0.5
    episode_sigma: float = 0.5
    train_s: float = 0.05
    sync_s: float = 5.0
    lengths: tuple[tuple[str, int], ...] = (("alfworld", 30), ("db", 5))


@dataclass(slots=True)
class Outcome:
    """``trained``: episodes per second; ``idle``: share of the time that the trainer's GPUs wait for episodes; ``bound``: episodes per
    second that could be trained at most."""

    trained: float
    idle: float
    bound: float = 0.0
    staleness: Counter[int] = field(default_factory=Counter)
    batches: list[int] = field(default_factory=list)
    dropped: int = 0


class World:
    """Draws episodes. The same seed gives every way of training the same episodes in the same order."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self._seed = seed

    def tasks(self) -> Iterator[TaskRef]:
        for number in count():
            name, _ = self.shape.lengths[number % len(self.shape.lengths)]
            yield TaskRef(name, "train", number)

    def seconds(self, task: TaskRef, member: int) -> float:
        """How long one episode is played."""
        shape = self.shape
        rng = random.Random(f"{self._seed}/{task.index}/{member}")
        slow = rng.lognormvariate(-(shape.episode_sigma**2) / 2, shape.episode_sigma)
        mean = math.log(shape.step_s) - shape.sigma**2 / 2
        return slow * sum(rng.lognormvariate(mean, shape.sigma) for _ in range(self.steps(task)))

    def steps(self, task: TaskRef) -> int:
        return dict(self.shape.lengths)[task.environment]

    def train_s(self, tasks: list[TaskRef], n_gpus: int) -> float:
        """Seconds to train these groups on so many GPUs."""
        return sum(self.steps(task) for task in tasks) * GROUP_SIZE * self.shape.train_s / n_gpus


def makespan(seconds: list[float], slots: int) -> float:
    """When the last of these ends, started in order on so many slots."""
    free = [0.0] * min(slots, len(seconds))
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def batches_of(world: World, n: int) -> Iterator[list[TaskRef]]:
    tasks = world.tasks()
    for _ in range(n):
        yield [next(tasks) for _ in range(BATCH_GROUPS)]


def played(world: World, tasks: list[TaskRef], slots: int) -> float:
    return makespan([world.seconds(task, member) for task in tasks for member in range(GROUP_SIZE)], slots)


def synchronous(world: World, n_batches: int) -> Outcome:
    shape = world.shape
    playing = training = 0.0
    for tasks in batches_of(world, n_batches):
        playing += played(world, tasks, shape.n_gpus * shape.per_engine) + shape.sync_s
        training += world.train_s(tasks, shape.n_gpus)
    episodes = n_batches * BATCH_GROUPS * GROUP_SIZE
    return Outcome(episodes / (playing + training), playing / (playing + training), Counter({0: episodes}))


def batch_level(world: World, n_batches: int) -> Outcome:
    """Half of the GPUs plays whole batches; the other half trains the one before meanwhile."""
    shape = world.shape
    half = shape.n_gpus // 2
    made = trained = busy = 0.0
    for tasks in batches_of(world, n_batches):
        made = max(made, trained - shape.sync_s) + played(world, tasks, half * shape.per_engine) + shape.sync_s
        seconds = world.train_s(tasks, half)
        trained = max(made, trained) + seconds
        busy += seconds
    episodes = n_batches * BATCH_GROUPS * GROUP_SIZE
    return Outcome(episodes / trained, 1 - busy / trained, Counter({1: episodes}))


class Asynchronous:
    """The real queue under simulated time. Engines stand still for weight updates: their clock is ``now - paused``."""

    def __init__(self, world: World, settings: QueueSettings) -> None:
        shape = world.shape
        self.world = world
        self.queue = TrajectoryQueue(settings)
        self.half = shape.n_gpus // 2
        self.free = self.half * shape.per_engine
        self.now = self.paused = 0.0
        self.playing: list[tuple[float, int, Ticket, int]] = []
        self.waiting: list[Ticket] = []
        self.tasks = world.tasks()
        self.order = count()

    def run(self, n_batches: int) -> Outcome:
        outcome = Outcome(0.0, 0.0)
        training: tuple[float, Batch] | None = None
        busy = warm_at = play_s = 0.0
        n_trained = n_warm = 0
        warm_up = n_batches // 5
        while len(outcome.batches) < n_batches:
            self.fill()
            if training is None and (batch := self.queue.drain()) is not None:
                seconds = self.world.train_s([group.task for group in batch.groups], self.half)
                training = self.now + seconds, batch
                if len(outcome.batches) >= warm_up:
                    busy += seconds
            ends = self.playing[0][0] + self.paused if self.playing else math.inf
            if training is not None and training[0] <= ends:
                self.now, batch = training
                training = None
                n_trained += batch.n_trajectories
                outcome.batches.append(len(batch.groups))
                for staleness in batch.staleness:
                    outcome.staleness[staleness] += 1
                if len(outcome.batches) == warm_up:
                    warm_at, n_warm = self.now, n_trained
                elif len(outcome.batches) > warm_up:
                    play_s += sum(
                        self.world.seconds(group.task, each.member)
                        for group in batch.groups
                        for each in group.trajectories
                    )
                self.give_up(set(self.queue.advance(self.queue.version + 1)))
                self.paused += self.world.shape.sync_s
            else:
                self.end(*heapq.heappop(self.playing))
        account = self.queue.account()
        assert account.balanced, account
        elapsed = self.now - warm_at
        outcome.trained, outcome.idle = (n_trained - n_warm) / elapsed, max(0.0, 1 - busy / elapsed)
        outcome.bound = (n_trained - n_warm) / max(busy, play_s / (self.half * self.world.shape.per_engine))
        outcome.dropped = sum(account.dropped.values())
        return outcome

    def fill(self) -> None:
        while self.free:
            if not self.waiting:
                if not self.queue.may_admit:
                    return
                self.waiting += self.queue.admit(next(self.tasks))
            ticket = self.waiting.pop(0)
            self.free -= 1
            ends = self.now - self.paused + self.world.seconds(ticket.task, ticket.member)
            heapq.heappush(self.playing, (ends, next(self.order), ticket, self.queue.version))
            self.queue.sampled(ticket, engine=0, version=self.queue.version)

    def give_up(self, groups: set[str]) -> None:
        """As the pipeline does with those that can no longer be trained."""
        kept = [each for each in self.playing if each[2].group not in groups]
        self.free += len(self.playing) - len(kept)
        self.playing = kept
        heapq.heapify(self.playing)
        self.waiting = [ticket for ticket in self.waiting if ticket.group not in groups]

    def end(self, ends: float, _order: int, ticket: Ticket, version: int) -> None:
        self.now = max(self.now, ends + self.paused)
        self.free += 1
        track = TokenTrack()
        track.act(Completion((0,), (0.0,), "", FinishReason.STOP, 0, version))
        self.queue.put(
            Trajectory(ticket.group, ticket.member, ticket.task, (track.sequence(),), float(ticket.member % 2))
        )


def measure(shape: Shape, *, n_batches: int, max_staleness: int, seed: int) -> dict[str, Any]:
    world = World(shape, seed)
    settings = QueueSettings(
        group_size=GROUP_SIZE,
        b_min=BATCH_GROUPS,
        b_max=BATCH_GROUPS * 2,
        max_staleness=max_staleness,
    )
    sync, stock, ours = (
        synchronous(world, n_batches),
        batch_level(world, n_batches),
        Asynchronous(world, settings).run(n_batches),
    )
    return {
        "n_gpus": shape.n_gpus,
        "n_engines": shape.n_gpus // 2,
        "max_staleness": max_staleness,
        "episodes_per_s": {
            "synchronous": round(sync.trained, 3),
            "batch_level": round(stock.trained, 3),
            "queue": round(ours.trained, 3),
            "bound": round(ours.bound, 3),
        },
        "trainer_idle": {
            "synchronous": round(sync.idle, 3),
            "batch_level": round(stock.idle, 3),
            "queue": round(ours.idle, 3),
        },
        "speedup_over_sync": ours.trained / sync.trained,
        "speedup_over_batch_level": ours.trained / stock.trained,
        "share_of_bound": ours.trained / ours.bound,
        "staleness": {str(lag): n for lag, n in sorted(ours.staleness.items())},
        "batch_groups": {"median": statistics.median(ours.batches), "max": max(ours.batches)},
        "dropped_trajectories": ours.dropped,
    }


def main() -> int:
    args = arguments(__doc__ or "").parse_args()
    n_batches, seeds = (10, 1) if args.quick else (40, 3)
    rows = []
    for n_gpus, max_staleness in SHAPES:
        shape = Shape(n_gpus=n_gpus)
        for seed in range(seeds):
            rows.append(measure(shape, n_batches=n_batches, max_staleness=max_staleness, seed=seed))
            print(rows[-1])
    published = [row for row in rows if row["n_gpus"] in PAPER_GPUS]
    claims = {
        "speedup_over_sync": Claim(
            statistics.median(row["speedup_over_sync"] for row in published), 1.9, at_least=True
        ),
        "share_of_bound": Claim(min(row["share_of_bound"] for row in published), 0.95, at_least=True),
    }
    return finish("async_pipeline", args, claims, {"rows": rows})


if __name__ == "__main__":
    sys.exit(main())

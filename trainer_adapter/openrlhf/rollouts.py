"""The trajectory queue of a run as one actor: it plays the hub's tasks on the engines and hands out batches.

Invariants: the order of tasks, the draw of engines and the seed of a group depend on the run's seed and the group's number alone;
evaluation samples on fresh engines only; when it stops, every session has been ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from transformers import AutoTokenizer

from envhub.client.hub import Hub
from envhub.core.clock import SystemClock
from envhub.core.types import TaskRef
from trainer_adapter.config import Config, TaskSection
from trainer_adapter.engines import Draw, EnginePool
from trainer_adapter.formats import chat_format
from trainer_adapter.metrics import account_metrics, evaluation_metrics
from trainer_adapter.openrlhf import logs, settings
from trainer_adapter.openrlhf.sampling import RemoteEngine
from trainer_adapter.pipeline import Pipeline
from trainer_adapter.queue import Account, Batch, Ticket, TrajectoryQueue
from trainer_adapter.rollout import Rollout
from trainer_adapter.stream import TaskStream
from trainer_adapter.tokens import Trajectory
from trainer_adapter.train import hub_key

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """``steps`` counts environment steps by engine."""

    account: Account
    metrics: Mapping[str, float]
    steps: Mapping[int, int]


class Rollouts:
    def __init__(self, engines: Sequence[Any]) -> None:
        logs.show()
        run = settings.of_this_run()
        self._config = run.config
        self._engines = tuple(engines)
        self._clock = SystemClock()
        self._stream = TaskStream(run.sources, seed=self._config.train.seed)
        self._queue = TrajectoryQueue(self._config.queue_settings)
        tokenizer = AutoTokenizer.from_pretrained(self._config.model.path, trust_remote_code=True)
        self._chat = chat_format(self._config.model.format, tokenizer)
        self._pool = self._new_pool(self._config.rollout.temperature)
        self._options = {(task.environment, task.split): task.options for task in self._config.tasks}
        self._hub: Hub | None = None
        self._pipeline: asyncio.Future[Pipeline] | None = None
        self._stopped: asyncio.Event | None = None

    # --- what OpenRLHF's asynchronous trainer calls -----------------------------------------------------------------

    async def get_max_steps(self) -> int:
        """Optimizer steps of the whole run, for the learning-rate schedule."""
        return self._config.train.n_steps * self._config.train.steps_per_batch

    async def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint was made: with the tasks that were under way. Raises ValueError."""
        self._stream.restore(state["stream"])
        self._queue = TrajectoryQueue(
            self._config.queue_settings, version=int(state["version"]), serial=int(state["serial"])
        )
        log.info("restored: version %d, %d groups given out", self._queue.version, self._queue.serial)

    async def fit(self, episode: int, total_consumed_prompts: int) -> None:
        """Play until the trainer stops."""
        config = self._config
        stopped = self._stopped_event()
        async with Hub(config.hub.url, key=hub_key(config)) as hub:
            self._hub = hub
            async with Pipeline(
                self._queue,
                self._stream,
                self._play,
                max_live=config.rollout.max_live,
                abort_hopeless=config.queue.abort_hopeless,
            ) as pipeline:
                self._running().set_result(pipeline)
                await stopped.wait()

    # --- what our trainer calls -------------------------------------------------------------------------------------

    async def next_batch(self) -> Batch | None:
        """Raises InfrastructureDownError and whatever else ended the run."""
        return await (await self._running()).batch()

    async def advance(self, version: int) -> None:
        """The engines have this version."""
        if self._running().done():
            self._running().result().advance(version)
        else:
            self._queue.advance(version)

    async def state_dict(self) -> Mapping[str, Any]:
        """For a checkpoint; what is unfinished is given out again first."""
        stream = dict(self._stream.state())
        unfinished = [[task.environment, task.split, task.index] for task in self._queue.unfinished()]
        stream["again"] = [*unfinished, *stream["again"]]  # type: ignore[misc]  # the state is JSON
        return {"stream": stream, "version": self._queue.version, "serial": self._queue.serial}

    async def report(self) -> QueueReport:
        account = self._queue.account()
        found = account_metrics(account, n_ready=self._queue.n_ready, n_open=self._queue.n_open)
        return QueueReport(account, found, dict(self._pool.used))

    async def evaluate(self, version: int) -> Mapping[str, float]:
        """Play the evaluation tasks while training goes on. ``version`` seeds nothing: every evaluation plays the same tasks."""
        await self._running()
        section = self._config.evaluate
        if section is None or self._hub is None:
            return {}
        pool = self._new_pool(section.temperature)
        pool.only_fresh = True
        rollout = Rollout(pool, self._chat, self._config.rollout_settings, clock=self._clock)
        slots = asyncio.Semaphore(self._config.rollout.max_live)
        sizes = {info.name: info.splits for info in await self._hub.environments()}
        played: dict[str, list[list[Trajectory]]] = {}
        for number, task in enumerate(section.tasks):
            tickets = [
                Ticket(f"eval{version}/{number}/{index}", member, TaskRef(task.environment, task.split, index))
                for index in _chosen(task, sizes[task.environment][task.split], section.n_tasks)
                for member in range(section.n_samples)
            ]
            found = await asyncio.gather(*(self._sample_of(rollout, task, ticket, slots) for ticket in tickets))
            n = section.n_samples
            played.setdefault(task.environment, []).extend(list(found[i : i + n]) for i in range(0, len(found), n))
        return {**evaluation_metrics(played), "version_begun": version, "version_ended": self._queue.version}

    async def stop(self) -> None:
        self._stopped_event().set()

    # --- playing ----------------------------------------------------------------------------------------------------

    async def _play(self, ticket: Ticket) -> Trajectory:
        task = ticket.task
        options = self._options[task.environment, task.split]
        rollout = Rollout(self._pool, self._chat, self._config.rollout_settings, clock=self._clock)
        return await self._played(rollout, ticket, options)

    async def _sample_of(
        self, rollout: Rollout, task: TaskSection, ticket: Ticket, slots: asyncio.Semaphore
    ) -> Trajectory:
        async with slots:
            return await self._played(rollout, ticket, task.options)

    async def _played(self, rollout: Rollout, ticket: Ticket, options: Mapping[str, Any]) -> Trajectory:
        assert self._hub is not None, "episodes are played while `fit` runs"
        task = ticket.task
        session = self._hub.session(
            task.environment,
            task.split,
            task.index,
            seed=group_seed(self._config, ticket),
            lease_s=self._config.rollout.lease_s,
            options=options,
            tags={"group": ticket.group, "member": str(ticket.member)},
        )
        return await rollout.play(ticket, session)

    def _new_pool(self, temperature: float) -> EnginePool:
        stop_ids = tuple(sorted(self._chat.stop_ids))
        top_p, limit_s = self._config.rollout.top_p, self._config.engines.turn_limit_s
        samplers = [
            RemoteEngine(handle, number, temperature, top_p, stop_ids, limit_s)
            for number, handle in enumerate(self._engines)
        ]
        plan = self._config.engine_plan
        return EnginePool(plan, samplers, Draw(plan, seed=self._config.train.seed))

    def _running(self) -> asyncio.Future[Pipeline]:
        if self._pipeline is None:
            self._pipeline = asyncio.get_running_loop().create_future()
        return self._pipeline

    def _stopped_event(self) -> asyncio.Event:
        if self._stopped is None:
            self._stopped = asyncio.Event()
        return self._stopped


def group_seed(config: Config, ticket: Ticket) -> int:
    """The same for all trajectories of a group: they are compared, so they must begin alike."""
    text = f"{config.train.seed}\0{ticket.group}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) >> 1


def _chosen(task: TaskSection, n_tasks: int, n_wanted: int) -> Sequence[int]:
    """The evaluation's tasks: the same every time."""
    known = range(n_tasks) if task.indices is None else task.indices
    return known if len(known) <= n_wanted else sorted(random.Random(task.environment).sample(list(known), n_wanted))


RolloutsActor = ray.remote(num_cpus=0, max_concurrency=1000)(Rollouts)

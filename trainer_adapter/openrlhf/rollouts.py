"""The trajectory queue of a run as one actor: it plays the hub's tasks on the engines and hands out batches.

Invariants: the order of tasks, the draw of engines and the seed of a group depend on the run's seed and the group's number alone;
evaluation samples on fresh engines only; when it stops, every session has been ended.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from envhub.client.hub import Hub
from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.types import TaskRef
from trainer_adapter.config import EvaluateSection, TaskSection
from trainer_adapter.engines import Draw, EnginePool
from trainer_adapter.groups import group_seed
from trainer_adapter.metrics import (
    account_metrics,
    evaluation_metrics,
    evaluation_names,
    failure_metrics,
    is_told,
    queue_seconds,
)
from trainer_adapter.openrlhf import logs, settings
from trainer_adapter.openrlhf.model import chat_format_of
from trainer_adapter.openrlhf.sampling import RemoteEngine
from trainer_adapter.pipeline import Pipeline
from trainer_adapter.queue import Account, Batch, Ticket, TrajectoryQueue
from trainer_adapter.rollout import Rollout, Sampled
from trainer_adapter.stream import TaskStream
from trainer_adapter.tokens import Completion, Failure, Trajectory
from trainer_adapter.train import hub_key

log = logging.getLogger(__name__)

NAME = "trainer_adapter.rollouts"
"""Of the actor, within its run."""
_TELL_EVERY_S = 60.0
"""A trainer that waits says what for."""


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
        self._chat = chat_format_of(self._config.model)
        self._pool = self._new_pool(self._config.rollout.temperature)
        self._options = {(task.environment, task.split): task.options for task in self._config.tasks}
        self._waited: dict[str, float] = {}
        self._told: Counter[tuple[str, str]] = Counter()
        self._evaluations: set[asyncio.Future[dict[str, list[list[Trajectory]]]]] = set()
        self._hub: Hub | None = None
        self._pipeline: asyncio.Future[Pipeline] | None = None
        self._events: dict[str, asyncio.Event] = {}
        self._begun = False

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
        try:
            await self._fit()
        finally:
            self._event("ended").set()

    async def _fit(self) -> None:
        config = self._config
        self._begun = True
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
                await self._event("stopped").wait()
                for evaluation in self._evaluations:
                    evaluation.cancel()
            await asyncio.gather(*self._evaluations, return_exceptions=True)

    # --- what our trainer calls -------------------------------------------------------------------------------------

    async def next_batch(self) -> Batch | None:
        """Raises InfrastructureDownError and whatever else ended the run."""
        waiting = asyncio.ensure_future((await self._running()).batch())
        try:
            while not (await asyncio.wait({waiting}, timeout=_TELL_EVERY_S))[0]:
                account = self._queue.account()
                log.info(
                    "waiting for a batch: %d of %d groups ready, %d under way; dropped so far: %s",
                    self._queue.n_ready,
                    self._queue.settings.b_min,
                    self._queue.n_open,
                    account.dropped or "none",
                )
            batch = waiting.result()
            self._waited = {} if batch is None else queue_seconds(batch, self._clock.now())
            return batch
        finally:
            waiting.cancel()

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
        found |= failure_metrics(self._queue.failures, self._queue.failure_rates())
        return QueueReport(account, found | self._waited, dict(self._pool.used))

    async def evaluate(self, version: int) -> Mapping[str, float]:
        """Play the evaluation tasks while training goes on; the same ones, begun alike, whatever the version.

        Nothing when the hub does not answer, or when the run stops meanwhile.
        """
        await self._running()
        section = self._config.evaluate
        if section is None or self._hub is None:
            return {}
        playing = asyncio.ensure_future(self._evaluated(section, self._hub))
        self._evaluations.add(playing)
        try:
            found = evaluation_metrics(await playing)
        except EnvhubError as error:
            log.warning("the evaluation of version %d has no result: %s", version, error)
            return {}
        except asyncio.CancelledError:
            if self._event("stopped").is_set():
                return {}
            raise
        finally:
            self._evaluations.discard(playing)
        return {**found, "version_begun": version, "version_ended": self._queue.version}

    async def _evaluated(self, section: EvaluateSection, hub: Hub) -> dict[str, list[list[Trajectory]]]:
        """By name, for every task its samples; no tasks of an environment that the hub does not have just now."""
        pool = self._new_pool(section.temperature)
        pool.only_fresh = True
        rollout = Rollout(pool, self._chat, self._config.rollout_settings, clock=self._clock)
        slots = asyncio.Semaphore(self._config.rollout.max_live)
        sizes = {info.name: info.splits for info in await hub.environments()}
        played: dict[str, list[list[Trajectory]]] = {}
        names = evaluation_names([(task.environment, task.split) for task in section.tasks])
        for number, (name, task) in enumerate(zip(names, section.tasks, strict=True)):
            n_tasks = sizes.get(task.environment, {}).get(task.split, 0)
            tickets = [
                Ticket(f"eval{number}/{index}", member, TaskRef(task.environment, task.split, index))
                for index in _chosen(task, n_tasks, section.n_tasks)
                for member in range(section.n_samples)
            ]
            found = await _all(self._sample_of(rollout, task, ticket, slots) for ticket in tickets)
            n = section.n_samples
            played[name] = [list(found[i : i + n]) for i in range(0, len(found), n)]
        return played

    async def stop(self) -> None:
        """Returns when nothing is played any more and every session has been ended. Idempotent."""
        self._event("stopped").set()
        if self._begun:
            await self._event("ended").wait()

    # --- playing ----------------------------------------------------------------------------------------------------

    async def _play(self, ticket: Ticket) -> Trajectory:
        task = ticket.task
        options = self._options[task.environment, task.split]
        rollout = Rollout(self._pool, self._chat, self._config.rollout_settings, clock=self._clock)

        def sampled(completion: Completion) -> None:
            self._queue.sampled(ticket, engine=completion.engine, version=completion.version)

        return await self._played(rollout, ticket, options, sampled)

    async def _sample_of(
        self, rollout: Rollout, task: TaskSection, ticket: Ticket, slots: asyncio.Semaphore
    ) -> Trajectory:
        async with slots:
            return await self._played(rollout, ticket, task.options)

    async def _played(
        self, rollout: Rollout, ticket: Ticket, options: Mapping[str, Any], sampled: Sampled | None = None
    ) -> Trajectory:
        assert self._hub is not None, "episodes are played while `fit` runs"
        task = ticket.task
        session = self._hub.session(
            task.environment,
            task.split,
            task.index,
            seed=group_seed(self._config.train.seed, ticket.group),
            lease_s=self._config.rollout.lease_s,
            options=options,
            tags={"group": ticket.group, "member": str(ticket.member)},
        )
        played = await rollout.play(ticket, session, sampled=sampled)
        if played.failure is not None:
            self._tell(task.environment, played.failure)
        return played

    def _tell(self, environment: str, failure: Failure) -> None:
        self._told[environment, failure.code] += 1
        if is_told(n := self._told[environment, failure.code]):
            log.warning("a trajectory of %s failed (%s, %d so far): %s", environment, failure.code, n, failure.message)

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

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


async def _all(samples: Iterable[Coroutine[Any, Any, Trajectory]]) -> list[Trajectory]:
    """In order; when it is cancelled, everything has ended before it is left."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in samples]
    return [task.result() for task in tasks]


def _chosen(task: TaskSection, n_tasks: int, n_wanted: int) -> Sequence[int]:
    """The evaluation's tasks: the same every time; none of a split that is not there."""
    known = range(n_tasks) if task.indices is None or not n_tasks else task.indices
    return known if len(known) <= n_wanted else sorted(random.Random(task.environment).sample(list(known), n_wanted))


RolloutsActor = ray.remote(num_cpus=0, max_concurrency=1000)(Rollouts)

"""Where episodes are played: a hub and engines in this process, and the weight updates between the policy and its engines.

Invariants: an engine plays with weights only after they were verified tensor by tensor; an evaluation plays every held-out task
with the newest weights, while the engines of the training stand still, and leaves none out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import torch
from learner.engine import Engine, tensor_checksum
from learner.environments import Course, environments, hub_of
from learner.model import Policy
from learner.text import Tokenizer, compact_format
from learner.update import Breathe

from envhub.client.hub import Hub
from envhub.core.clock import SystemClock
from trainer_adapter.config import Config
from trainer_adapter.engines import Draw, EnginePlan, EnginePool
from trainer_adapter.groups import group_seed
from trainer_adapter.metrics import evaluation_metrics
from trainer_adapter.queue import Ticket
from trainer_adapter.rollout import Rollout
from trainer_adapter.tokens import Trajectory
from trainer_adapter.weight_sync import Limits, update

_LIMITS = Limits()


class Stage:
    """Made by ``stage``. ``examiner`` is the engine of evaluations."""

    def __init__(
        self,
        config: Config,
        courses: Sequence[Course],
        hub: Hub,
        policy: Policy,
        engines: Sequence[Engine],
        examiner: Engine,
    ) -> None:
        self._config, self._courses, self._hub, self._policy = config, courses, hub, policy
        self._engines, self._examiner = engines, examiner
        self._options = {each.environment: each.options for each in courses}
        self._tokenizer = engines[0].tokenizer
        plan = config.engine_plan
        self.pool = EnginePool(plan, engines, Draw(plan, seed=config.train.seed))
        alone = EnginePlan(1)
        examined = EnginePool(alone, (examiner,), Draw(alone, seed=0), only_fresh=True)
        self._rollout, self._examination = self._rollout_on(self.pool), self._rollout_on(examined)

    async def play(self, ticket: Ticket) -> Trajectory:
        return await self._played(self._rollout, ticket)

    async def synchronize(self, version: int) -> None:
        """The policy's weights to the engines that are due. Raises WeightSyncError."""
        await self._send({number: self._engines[number] for number in self._config.engine_plan.due(version)}, version)

    async def evaluate(self, version: int) -> Mapping[str, float]:
        """By environment: success and mean return over all held-out tasks. Raises RuntimeError where an episode failed."""
        assert self._config.evaluate is not None, "this benchmark evaluates"
        n_samples = self._config.evaluate.n_samples
        for engine in self._engines:
            await engine.pause()
        await self._send({0: self._examiner}, version)
        played: dict[str, list[list[Trajectory]]] = {}
        for course in self._courses:
            tickets = [
                Ticket(f"evaluation/{task}", sample, task) for task in course.held_out for sample in range(n_samples)
            ]
            found = await asyncio.gather(*(self._played(self._examination, ticket) for ticket in tickets))
            played[course.environment] = [
                list(found[begin : begin + n_samples]) for begin in range(0, len(found), n_samples)
            ]
        for engine in self._engines:
            await engine.resume()
        found = evaluation_metrics(played)
        failed = {name: value for name, value in found.items() if name.startswith("failures/") and value}
        if failed:
            raise RuntimeError(f"episodes of an evaluation failed: {failed}")
        return found

    def breathe(self, n_turns: int) -> Breathe:
        """Lets engines and environments go on for so many turns of the event loop."""

        async def breathe() -> None:
            for _ in range(n_turns):
                await asyncio.sleep(0)

        return breathe

    async def _send(self, engines: Mapping[int, Engine], version: int) -> None:
        async def send() -> Mapping[str, str]:
            sent: dict[str, str] = {}
            for name, weight in self._policy.named_parameters():
                tensor = weight.detach().to(torch.bfloat16)
                sent[name] = tensor_checksum(tensor)
                for engine in engines.values():
                    engine.receive(name, tensor)
            return sent

        await update(engines, send, version, _LIMITS)

    async def _played(self, rollout: Rollout, ticket: Ticket) -> Trajectory:
        task = ticket.task
        session = self._hub.session(
            task.environment,
            task.split,
            task.index,
            seed=group_seed(self._config.train.seed, ticket.group),
            options=self._options[task.environment],
        )
        return await rollout.play(ticket, session)

    def _rollout_on(self, pool: EnginePool) -> Rollout:
        return Rollout(pool, compact_format(self._tokenizer), self._config.rollout_settings, clock=SystemClock())


@asynccontextmanager
async def stage(
    config: Config, courses: Sequence[Course], policy: Policy, tokenizer: Tokenizer
) -> AsyncIterator[Stage]:
    """All engines begin with the policy's weights, version 0."""
    assert config.evaluate is not None, "this benchmark evaluates"
    rollout, seed = config.rollout, config.train.seed
    n_measured = max(len(each.held_out) for each in courses) * config.evaluate.n_samples
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(
                Engine(
                    number,
                    tokenizer,
                    policy,
                    n_slots=rollout.max_live,
                    temperature=rollout.temperature,
                    seed=random.Random(f"{seed}/engine {number}").getrandbits(63),
                )
            )
            for number in range(config.engine_plan.n_engines)
        ]
        examiner = Engine(0, tokenizer, policy, n_slots=n_measured, temperature=config.evaluate.temperature, seed=seed)
        await stack.enter_async_context(examiner)
        hub = await stack.enter_async_context(hub_of(environments(courses)))
        yield Stage(config, courses, hub, policy, engines, examiner)

"""OpenRLHF's asynchronous trainer around our queue: take a batch, train, bring the engines up to date, log, save.

Invariants: version n of the policy is what n training steps made of it; no batch is taken before the engines that are due have the
newest version, verified; the queue is stopped however training ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from openrlhf.trainer import ppo_trainer_async
from ray.exceptions import GetTimeoutError, RayError

from trainer_adapter.metrics import batch_metrics, progress_line
from trainer_adapter.openrlhf import logs, settings
from trainer_adapter.openrlhf.compat import unwrapped
from trainer_adapter.openrlhf.experience import ExperienceMaker, experience, rows_of
from trainer_adapter.openrlhf.policy import NotFiniteError
from trainer_adapter.openrlhf.rollouts import NAME, QueueReport, RolloutsActor
from trainer_adapter.queue import Batch
from trainer_adapter.versions import Manifest
from trainer_adapter.weight_sync import Limits, Progress, compare, update

log = logging.getLogger(__name__)

_STOP_LIMIT_S = 90.0
"""Longer than a session of a hub that is away takes to be given up."""
_FINITE = ("policy_loss", "actor_grad_norm", "critic_loss", "critic_grad_norm")


@dataclass(frozen=True, slots=True)
class RemoteEngineControl:
    """One engine as the weight update sees it."""

    handle: Any

    async def pause(self) -> None:
        await self.handle.pause_generation.remote()

    async def progress(self) -> Progress:
        found: Progress = await self.handle.progress.remote()
        return found

    async def received(self) -> Sequence[Mapping[str, str]]:
        found: Sequence[Mapping[str, str]] = await self.handle.received.remote()
        return found

    async def set_version(self, version: int) -> None:
        await self.handle.set_version.remote(version)

    async def resume(self) -> None:
        await self.handle.resume_generation.remote()

    async def held(self) -> str:
        found: str = await self.handle.held.remote()
        return found


class Trainer(unwrapped(ppo_trainer_async.TrainingActor)):  # type: ignore[misc]  # the base is known at run time only
    def __init__(self, *args: Any, rollouts: Any, **kwargs: Any) -> None:
        self._config = settings.of_this_run().config
        logs.for_wandb(self._config.train.wandb)
        super().__init__(*args, vllm_lock=None, rollout_queue=None, rollout_slots=None, **kwargs)
        logs.show()
        self._rollouts = rollouts
        self._version = 0
        self._is_behind = False
        self._limits = Limits(self._config.engines.call_limit_s, self._config.engines.send_limit_s)
        self._evaluation: tuple[int, Any] | None = None
        train = self._config.train
        self._multiple = train.n_gpus * train.micro_batch * train.steps_per_batch
        self.experience_maker = ExperienceMaker(
            self.actor_model_group,
            self.critic_model_group,
            self.reward_model_group,
            self.reference_model_group,
            self.kl_ctl,
            self.strategy,
            self.tokenizer,
            config=self._config,
        )

    def init_checkpoint_states(self) -> dict[str, Any]:
        states: dict[str, Any] = super().init_checkpoint_states()
        self._version = int(states["global_step"])
        if self._version:
            self._is_behind = True
            self.experience_maker.normalizer.restore(states["normalizer"])
        return states

    def fit(self, global_step: int = 0) -> None:
        """Until the configured number of training steps is done or the tasks are used up."""
        try:
            while global_step < self._config.train.n_steps:
                began = time.monotonic()
                batch = ray.get(self._rollouts.next_batch.remote())
                if batch is None:
                    break
                global_step = self._step(batch, global_step, began)
            self._finish_evaluation(wait=True)
        finally:
            stop(self._rollouts)
            for logger in (self.wandb_logger, self.tensorboard_logger):
                if logger is not None:
                    logger.close()

    def ppo_train(self, global_steps: int) -> dict[str, Any]:
        """Raises NotFiniteError, before weights are sent or saved."""
        status: dict[str, Any] = super().ppo_train(global_steps)
        if bad := [f"{name} {status[name]}" for name in _FINITE if not math.isfinite(status.get(name, 0.0))]:
            raise NotFiniteError(
                f"step {global_steps + 1}: {', '.join(bad)}; checkpoints are of earlier steps. See algorithm.learning_rate and, in "
                "the log, at ratios and rewards"
            )
        return status

    def broadcast_to_vllm(self) -> None:
        """After a training step: the next version to the engines that are due. After a checkpoint was loaded: to all of them."""
        plan = self._config.engine_plan
        version = self._version if self._is_behind else self._version + 1
        due = frozenset(range(plan.n_engines)) if self._is_behind else plan.due(version)
        for kind, engines in (("fresh", plan.fresh & due), ("stale", plan.stale & due)):
            if engines:
                sent = self._update(kind, sorted(engines), version)
                log.info(
                    "version %d: sent %s (%d tensors) to %s engines", version, sent.digest, len(sent.tensors), kind
                )
        self._compare(sorted(due), version)
        self._is_behind = False
        self._version = version
        ray.get(self._rollouts.advance.remote(version))

    def _update(self, kind: str, numbers: Sequence[int], version: int) -> Manifest:
        controls = {number: RemoteEngineControl(self.vllm_engines[number]) for number in numbers}

        async def send() -> Mapping[str, str]:
            answers = self.actor_model_group.async_run_method("broadcast_to_vllm", kind)
            sent = await asyncio.gather(*(asyncio.wrap_future(answer.future()) for answer in answers))
            return next(each for each in sent if each is not None)

        return asyncio.run(update(controls, send, version, self._limits))

    def _compare(self, due: Sequence[int], version: int) -> None:
        """Engines that were sent the same must hold the same, after vLLM has merged and stored it. Raises WeightSyncError."""
        controls = {number: RemoteEngineControl(handle) for number, handle in enumerate(self.vllm_engines)}
        held = asyncio.run(compare(controls, due, self._limits))
        log.info("version %d: held %s", version, " ".join(f"{number}:{digest}" for number, digest in held.items()))

    def _step(self, batch: Batch, global_step: int, began: float) -> int:
        waited_s = time.monotonic() - began
        rows = rows_of(batch, multiple=self._multiple)
        self.experience_maker.rows = rows
        samples = [experience(row, max_len=self._config.rollout.context_tokens) for row in rows]
        status, global_step = self.train_step(samples, global_step)
        report: QueueReport = ray.get(self._rollouts.report.remote())
        seconds = time.monotonic() - began
        status |= {
            **batch_metrics(batch),
            **report.metrics,
            **self.experience_maker.metrics,
            "batch/fillers": sum(row.filler for row in rows),
            "timing/wait_for_batch": waited_s,
            "timing/step_total": seconds,
        }
        print(progress_line(global_step, self._config.train.n_steps, status, seconds=seconds), flush=True)  # noqa: T201  # the display
        self.save_logs_and_checkpoints(global_step, status, self._client_states(global_step))
        self._evaluate(global_step)
        return global_step

    def save_logs_and_checkpoints(self, *args: Any, **kwargs: Any) -> None:
        """Ordinary checkpoints have no metric: OpenRLHF makes room by the lowest metric, which after a peak is the newest's."""
        self._latest_eval_metric_value = None
        super().save_logs_and_checkpoints(*args, **kwargs)

    def _client_states(self, global_step: int) -> dict[str, Any]:
        """What a checkpoint holds besides the model; the names that OpenRLHF reads stand first."""
        return {
            "episode": 0,
            "global_step": global_step,
            "total_consumed_prompts": 0,
            "data_loader_state_dict": ray.get(self._rollouts.state_dict.remote()),
            "normalizer": {task: list(moments) for task, moments in self.experience_maker.normalizer.state().items()},
        }

    def _evaluate(self, global_step: int) -> None:
        """Evaluation runs beside training; one at a time."""
        self._finish_evaluation(wait=False)
        section = self._config.evaluate
        if section is None or global_step % section.every:
            return
        if self._evaluation is not None:
            log.warning(
                "the evaluation of step %d is left out: that of step %d still plays", global_step, self._evaluation[0]
            )
            return
        self._evaluation = global_step, self._rollouts.evaluate.remote(self._version)

    def _finish_evaluation(self, *, wait: bool) -> None:
        if self._evaluation is None:
            return
        step, answer = self._evaluation
        ready, _ = ray.wait([answer], timeout=None if wait else 0)
        if not ready:
            return
        self._evaluation = None
        found = ray.get(answer)
        if not found:
            return
        log.info("evaluation of step %d: %s", step, found)
        for logger in (self.wandb_logger, self.tensorboard_logger):
            if logger is not None:
                logger.log_eval(step, found)
        self.save_best_checkpoint(found, self._version, self._client_states(self._version))


def stop(rollouts: Any) -> None:
    """End all playing and wait until its sessions have ended; what hinders that is told, not raised."""
    try:
        ray.get(rollouts.stop.remote(), timeout=_STOP_LIMIT_S)
    except (RayError, GetTimeoutError) as error:
        log.warning("sessions on the hub may be left to their leases: %s", error)


TrainerActor = ray.remote(num_cpus=0)(Trainer)


class AsyncTrainer(unwrapped(ppo_trainer_async.PPOTrainerAsync)):  # type: ignore[misc]  # the base is known at run time only
    """Takes the place of OpenRLHF's; ``fit`` and ``get_max_steps`` are inherited."""

    def __init__(
        self,
        pretrain: str,
        strategy: Any,
        actor_model_group: Any,
        critic_model_group: Any,
        reward_model_group: Any,
        reference_model_group: Any,
        vllm_engines: Sequence[Any],
        **generate_kwargs: Any,
    ) -> None:
        if strategy.args.ckpt.save_steps == -1:
            strategy.args.ckpt.save_steps = float("inf")
        self.generator_actor = RolloutsActor.options(name=NAME).remote(list(vllm_engines))
        self.trainer_actor = TrainerActor.remote(
            pretrain,
            strategy,
            actor_model_group,
            critic_model_group,
            reward_model_group,
            reference_model_group,
            vllm_engines,
            rollouts=self.generator_actor,
        )


AsyncTrainerActor = ray.remote(AsyncTrainer)

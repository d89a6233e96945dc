"""OpenRLHF's policy, trained on batches whose size changes, with one weight-sync group for fresh engines and one for stale ones.

Invariants: a batch is exactly the configured number of optimizer steps; all ranks send to a group equally often; what was sent is
known tensor by tensor.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from openrlhf.trainer.ray import ppo_actor

from trainer_adapter.openrlhf import settings
from trainer_adapter.openrlhf.checkpoints import random_file
from trainer_adapter.openrlhf.checksums import RecordingGroup
from trainer_adapter.openrlhf.compat import unwrapped


class NotFiniteError(Exception):
    """Training came to a loss, a gradient or weights that are not finite; nothing that was made of them is sent or saved."""


class PolicyTrainer(ppo_actor.ActorPPOTrainer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        config = settings.of_this_run().config
        plan = config.engine_plan
        self._engines_of = {"fresh": sorted(plan.fresh), "stale": sorted(plan.stale)}
        self._groups: dict[str, RecordingGroup] = {}
        self._n_steps = config.train.steps_per_batch
        super().__init__(*args, **kwargs)

    def ppo_train(self, kl_ctl: float) -> dict[str, float]:
        """Raises RuntimeError when the batch does not come to whole optimizer steps, and NotFiniteError.

        DeepSpeed leaves out an optimizer step whose gradient is not finite; with ZeRO-3 it makes the step, and reports a norm of 1.
        """
        engine, ranks = self.actor.model, torch.distributed.get_world_size()
        n_micro, rest = divmod(len(self.replay_buffer.items), self.micro_train_batch_size)
        accumulate, more = divmod(n_micro, self._n_steps)
        if rest or more or not accumulate:
            raise RuntimeError(
                f"{len(self.replay_buffer.items)} sequences do not make {self._n_steps} optimizer steps of micro batches of "
                f"{self.micro_train_batch_size}"
            )
        engine.set_train_batch_size(accumulate * self.micro_train_batch_size * ranks)
        engine.optimizer.gradient_accumulation_steps = (
            accumulate  # read where the optimizer is offloaded; not set by the line above
        )
        self.strategy.accumulated_gradient = accumulate
        before, skipped_before = engine.global_steps, engine.skipped_steps
        status: dict[str, float] = super().ppo_train(kl_ctl)
        done, wanted = engine.global_steps - before, self._n_steps * self.max_epochs
        if done != wanted:
            raise RuntimeError(f"the batch came to {done} optimizer steps, not {wanted}")
        if engine.skipped_steps > skipped_before and not engine.fp16_enabled():  # whose loss scale is found that way
            raise NotFiniteError(f"a gradient is not finite (policy_loss {status.get('policy_loss')})")
        if self._n_broken():
            raise NotFiniteError(f"weights are not finite after this step (policy_loss {status.get('policy_loss')})")
        return {**status, "optimizer_steps": done}

    def _n_broken(self) -> int:
        """Parameters with values that are not finite, counted by rank; each rank looks at what it holds."""
        # with ZeRO-3 a shard
        held = (getattr(each, "ds_tensor", each) for each in self.actor.model.module.parameters())
        flags = [~torch.isfinite(each.detach()).all() for each in held]
        return int(self.strategy.all_reduce({"n": float(torch.stack(flags).sum())}, op="sum")["n"])

    def _init_vllm_sync_group(self, backend: str) -> None:
        """The base's, once for each kind of engine."""
        engines = self.vllm_engines
        for kind, numbers in self._engines_of.items():
            if numbers:
                with self._only(engines, numbers):
                    super()._init_vllm_sync_group(backend)
                self._groups[kind] = RecordingGroup(self._model_update_group, sends=True)

    def send(self, kind: str) -> Mapping[str, str] | None:
        """Broadcast all weights to the engines of a kind. On rank 0: the checksum of every tensor by name."""
        group = self._groups.get(kind)
        with self._only(self.vllm_engines, self._engines_of[kind]):
            if group is not None:
                group.checksums.clear()
                self._model_update_group = group
            self.broadcast_to_vllm()
        return None if group is None else dict(zip(self._names(), group.checksums, strict=True))

    def _names(self) -> list[str]:
        frozen = bool(getattr(self.actor, "is_vlm", False))
        return [name for name, value in self.actor.model.module.named_parameters() if value.requires_grad or not frozen]

    def _only(self, engines: list[Any], numbers: list[int]) -> _Engines:
        return _Engines(self, [engines[number] for number in numbers])


class _Engines:
    """For a while, the trainer knows these engines only."""

    def __init__(self, trainer: PolicyTrainer, engines: list[Any]) -> None:
        self._trainer, self._engines = trainer, engines

    def __enter__(self) -> None:
        arguments = self._trainer.strategy.args.vllm
        self._before = self._trainer.vllm_engines, arguments.num_engines
        self._trainer.vllm_engines, arguments.num_engines = self._engines, len(self._engines)

    def __exit__(self, *error: object) -> None:
        self._trainer.vllm_engines, self._trainer.strategy.args.vllm.num_engines = self._before


class Policy(unwrapped(ppo_actor.PolicyModelActor)):  # type: ignore[misc]  # the base is known at run time only
    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        ppo_actor.ActorPPOTrainer = PolicyTrainer
        super().init_model_from_pretrained(strategy, *args, **kwargs)
        if self.checkpoint_states:
            self._restore_random(str(self.checkpoint_states["tag"]))

    def broadcast_to_vllm(self, kind: str) -> Mapping[str, str] | None:
        sent: Mapping[str, str] | None = self.trainer.send(kind)
        return sent

    def save_checkpoint(self, tag: str, client_states: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """The base returns when all ranks have written; then come the files that say so."""
        file = self._random_file(tag)
        file.unlink(missing_ok=True)
        super().save_checkpoint(tag, {**(client_states or {}), "tag": tag}, **kwargs)
        if not self.disable_ds_ckpt:
            new = file.with_name(f"{file.name}.new")
            torch.save(_random_state(), new)
            os.replace(new, file)

    def _restore_random(self, tag: str) -> None:
        _set_random_state(torch.load(self._random_file(tag), weights_only=False))

    def _random_file(self, tag: str) -> Path:
        return random_file(Path(self.strategy.args.ckpt.path, "_actor", tag), int(os.environ["RANK"]))


def _random_state() -> dict[str, Any]:
    found = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()}
    return {**found, "cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else found


def _set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


PolicyActor = ray.remote(num_gpus=1)(Policy)

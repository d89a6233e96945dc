"""Which OpenRLHF the adapter works with, and the names of it that are used.

Invariant: a run starts only when the installed version and every name are there; nothing of OpenRLHF is changed on disk.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

SUPPORTED = (0, 11)
AT_LEAST = (0, 11, 2)

_INSTALL = (
    "the adapter works with openrlhf>=0.11.2,<0.12. With a GPU: pip install 'openrlhf[vllm]==0.11.2', as OpenRLHF documents. Without: "
    "`make trainer-cpu`, then run this with .venv-trainer/bin/python"
)

REPLACED = (
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor"),
    ("openrlhf.trainer.ray.ppo_actor", "PolicyModelActor"),
    ("openrlhf.trainer.ppo_trainer_async", "PPOTrainerAsync"),
)
"""The complete list of what is replaced, in the running processes alone."""

_USED = (
    ("openrlhf.trainer.ray.vllm_engine", "create_vllm_engines", ()),
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor.generate", ("prompt_token_ids", "sampling_params")),
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor.update_weight", ("name", "dtype", "shape", "empty_cache")),
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor.pause_generation", ()),
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor.resume_generation", ()),
    ("openrlhf.trainer.ray.vllm_worker_wrap", "WorkerWrap.update_weight", ("name", "dtype", "shape", "empty_cache")),
    ("openrlhf.trainer.ray.vllm_worker_wrap", "WorkerWrap.init_process_group", ("rank_offset", "world_size")),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer._init_vllm_sync_group", ("backend",)),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.broadcast_to_vllm", ()),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.ppo_train", ("kl_ctl",)),
    ("openrlhf.trainer.ray.ppo_actor", "PolicyModelActor.save_checkpoint", ("tag", "client_states")),
    ("openrlhf.trainer.ppo_trainer_async", "TrainingActor.train_step", ("rollout_samples", "global_step")),
    ("openrlhf.trainer.ppo_trainer_async", "TrainingActor.init_checkpoint_states", ()),
    ("openrlhf.trainer.ppo_trainer_async", "TrainingActor.save_logs_and_checkpoints", ("global_step", "logs_dict")),
    ("openrlhf.trainer.ppo_trainer_async", "TrainingActor.save_best_checkpoint", ("eval_metrics", "global_step", "client_states")),
    ("openrlhf.trainer.ppo_trainer_async", "PPOTrainerAsync.fit", ()),
    ("openrlhf.trainer.ppo_utils.experience_maker", "RemoteExperienceMaker.compute_advantages_and_returns", ("experiences",)),
    ("openrlhf.trainer.ppo_utils.experience", "Experience", ("sequences", "action_mask", "rollout_log_probs", "index", "info")),
)  # fmt: skip


class IncompatibleError(Exception):
    """The installed OpenRLHF is not one that the adapter knows; the text says what to install."""


def check() -> None:
    """Raises IncompatibleError. Imports OpenRLHF's trainer: some ten seconds."""
    check_version()
    check_names()


def check_version() -> None:
    try:
        found = version("openrlhf")
    except PackageNotFoundError:
        raise IncompatibleError(f"openrlhf is not installed in {sys.prefix}; {_INSTALL}") from None
    parts = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
    if parts[:2] != SUPPORTED or parts < AT_LEAST:
        raise IncompatibleError(f"openrlhf {found} is installed in {sys.prefix}; {_INSTALL}")


def check_names() -> None:
    missing = []
    for module, name, parameters in (*((module, name, ()) for module, name in REPLACED), *_USED):
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(unwrapped(found), part, None)
            if found is None:
                missing.append(f"{module}.{name}")
                break
        else:
            if parameters and (lacking := set(parameters) - set(inspect.signature(unwrapped(found)).parameters)):
                missing.append(f"{module}.{name}({', '.join(sorted(lacking))})")
    if missing:
        raise IncompatibleError(
            f"openrlhf {version('openrlhf')} lacks what the adapter builds on: {', '.join(missing)}; "
            "install openrlhf==0.11.2"
        )


def unwrapped(actor: Any) -> Any:
    """The class under ``@ray.remote``, to be subclassed; anything else unchanged."""
    metadata = getattr(actor, "__ray_metadata__", None)
    return actor if metadata is None else metadata.modified_class

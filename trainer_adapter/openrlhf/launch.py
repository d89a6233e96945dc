"""Starts Ray, puts our three classes in the place of OpenRLHF's, and runs OpenRLHF's own command line.

Invariant: OpenRLHF's files stay as they are; what is replaced is the list in `compat.py`, in the processes of this run alone.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer_adapter.config import Config
from trainer_adapter.openrlhf import compat, cpu, settings
from trainer_adapter.plan import plan
from trainer_adapter.stream import TaskSource

_CLI = "openrlhf.cli.train_ppo_ray"
_AGENT = Path(__file__).with_name("agent.py")
_UNSUPPORTED = (
    "--algo.dynamic_filtering_enable", "--vllm.enable_sleep", "--vllm.sync_with_ray", "--reward.overlong_buffer_len",
    "--reward.stop_properly_penalty_coef", "--ds.ring_attn_size", "--ds.tensor_parallel_size", "--eval.dataset",
)  # fmt: skip
"""Flags of OpenRLHF that go around the queue or that the adapter has a setting of its own for."""
_OWN_BASELINES = ("reinforce_baseline", "gae")


def launch(config: Config, sources: tuple[TaskSource, ...], extra: Sequence[str] = ()) -> int:
    """Train to the end; the exit status. Prints why it stopped when it did not get there."""
    try:
        refuse(config, extra)
        compat.check_version()
    except (compat.IncompatibleError, ValueError) as error:
        return _stop(error)
    run = settings.Settings(config=config, sources=sources, cpu=not _has_gpu())
    if run.cpu:
        os.environ.update(cpu.ENVIRONMENT)
        cpu.setup()
    os.environ[settings.VARIABLE] = settings.dumps(run)
    import ray
    from ray.exceptions import RayError

    try:
        compat.check_names()
        ray.init(**_ray_options(run))
        _replace()
        _run_cli(flags(run, extra))
    except (compat.IncompatibleError, RayError) as error:
        return _stop(error)
    finally:
        ray.shutdown()
    return 0


def refuse(config: Config, extra: Sequence[str]) -> None:
    """Raises ValueError for what OpenRLHF and the adapter cannot do together."""
    for flag in extra:
        if flag.partition("=")[0] in _UNSUPPORTED:
            raise ValueError(f"{flag.partition('=')[0]} does not work with the trajectory queue")
    if config.algorithm.baseline in _OWN_BASELINES:
        if config.queue.on_failure == "survivors":
            raise ValueError(
                f"baseline {config.algorithm.baseline} is OpenRLHF's own and wants whole groups: not survivors"
            )
        if config.rollout.on_rewrite == "split":
            raise ValueError(
                f"baseline {config.algorithm.baseline} wants one sequence a trajectory: set on_rewrite = 'refuse'"
            )

    if config.algorithm.baseline == "gae" and config.queue.b_min != config.queue.b_max:
        raise ValueError("baseline gae trains a critic, whose batches are of one size: set queue.b_max to queue.b_min")


def flags(run: settings.Settings, extra: Sequence[str]) -> list[str]:
    """All of OpenRLHF's flags; what stands later wins."""
    config = run.config
    more = ["--ckpt.output_dir", str(Path(config.train.checkpoint, "final"))]
    if config.algorithm.baseline == "gae":
        more += ["--critic.num_nodes", "1", "--critic.num_gpus_per_node", str(config.train.n_gpus)]
    resolved = plan(config, prompts="none", agent=str(_AGENT), extra=(*more, *(cpu.FLAGS if run.cpu else ()), *extra))
    return list(resolved.flags)


def _ray_options(run: settings.Settings) -> dict[str, Any]:
    variables = {settings.VARIABLE: os.environ[settings.VARIABLE]}
    environment: dict[str, Any] = {"env_vars": variables}
    options: dict[str, Any] = {"runtime_env": environment}
    if run.cpu:
        variables |= cpu.ENVIRONMENT
        environment["worker_process_setup_hook"] = "trainer_adapter.openrlhf.cpu.setup"
        options |= {"address": "local", "num_cpus": 32, "num_gpus": 16, "include_dashboard": False}
    return options


def _replace() -> None:
    from trainer_adapter.openrlhf import engine, policy, trainer

    ours = (engine.EngineActor, policy.PolicyActor, trainer.AsyncTrainerActor)
    for (module, name), actor in zip(compat.REPLACED, ours, strict=True):
        setattr(importlib.import_module(module), name, actor)


def _run_cli(arguments: Sequence[str]) -> None:
    before = sys.argv
    sys.argv = [_CLI, *arguments]
    try:
        runpy.run_module(_CLI, run_name="__main__", alter_sys=True)
    finally:
        sys.argv = before


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _stop(error: Exception) -> int:
    cause: Any = error
    while getattr(cause, "cause", None) is not None:  # Ray wraps what a process raised once for each that passed it on
        cause = cause.cause
    print(f"error: training stopped: {type(cause).__name__}: {cause}", file=sys.stderr)  # noqa: T201  # the terminal is the caller
    return 1

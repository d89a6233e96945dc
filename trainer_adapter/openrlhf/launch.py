"""Starts Ray, puts our three classes in the place of OpenRLHF's, and runs OpenRLHF's own command line.

Invariant: OpenRLHF's files stay as they are; what is replaced is the list in `compat.py`, in the processes of this run alone.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from trainer_adapter.config import Config, ConfigError
from trainer_adapter.openrlhf import code, compat, cpu, logs, model, settings
from trainer_adapter.plan import plan
from trainer_adapter.stream import TaskSource

_CLI = "openrlhf.cli.train_ppo_ray"
_INTERRUPTED = 130
_AGENT = Path(__file__).with_name("agent.py")


def launch(config: Config, sources: tuple[TaskSource, ...], extra: Sequence[str] = ()) -> int:
    """Train to the end; the exit status. Prints why it stopped when it did not get there."""
    try:
        compat.check_version()
        code.check(config.model)
        logs.check_wandb(config.train.wandb)
        model.chat_format_of(config.model)
    except (compat.IncompatibleError, ConfigError) as error:
        return _stop(error)
    run = settings.Settings(config=config, sources=sources, cpu=not _has_gpu())
    if run.cpu:
        os.environ.update(cpu.ENVIRONMENT)
        cpu.setup()
    os.environ[settings.VARIABLE] = settings.dumps(run)
    import ray
    from ray.exceptions import RayError

    signals: list[int] = []

    def terminated(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        sys.exit()

    try:
        compat.check_names()
        ray.init(**_ray_options(run))
        signal.signal(signal.SIGTERM, terminated)  # Ray's own would end the run's processes before its sessions
        _replace()
        _run_cli(flags(run, extra))
    except (compat.IncompatibleError, RayError) as error:
        return _stop(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit:  # a SIGTERM, with a status that is Ray's; or a flag that OpenRLHF does not know
        if not signals:
            raise
        return 128 + signals[0]
    finally:
        if ray.is_initialized():
            _end_sessions()
            ray.shutdown()
    return 0


def _end_sessions() -> None:
    """Of a run that is left in the middle: otherwise the hub would hold them until their leases end."""
    import ray

    from trainer_adapter.openrlhf import rollouts, trainer

    try:
        actor = ray.get_actor(rollouts.NAME)
    except ValueError:  # it has not come so far
        return
    trainer.stop(actor)


def flags(run: settings.Settings, extra: Sequence[str]) -> list[str]:
    """All of OpenRLHF's flags; what stands later wins."""
    own = cpu.FLAGS if run.cpu else ()
    return list(plan(run.config, prompts="none", agent=str(_AGENT), extra=(*own, *extra)).flags)


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

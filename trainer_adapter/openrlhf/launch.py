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

from msgspec import structs

from trainer_adapter.config import Config, ConfigError
from trainer_adapter.openrlhf import checkpoints, code, compat, cpu, logs, model, settings
from trainer_adapter.plan import gpus, placement, plan
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
        config = _with_whole_checkpoint(config)
        start = checkpoints.start_of(config)
    except (compat.IncompatibleError, ConfigError) as error:
        return _stop(error)
    start.note()
    print(start.text, flush=True)  # noqa: T201  # the terminal is the caller
    train = structs.replace(config.train, resume=start.tag is not None)
    run = settings.Settings(config=structs.replace(config, train=train), sources=sources)
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
        check_gpus(config, int(ray.cluster_resources().get("GPU", 0)))
        signal.signal(signal.SIGTERM, terminated)  # Ray's own would end the run's processes before its sessions
        _replace()
        _run_cli(flags(run, extra))
    except (compat.IncompatibleError, ConfigError, RayError) as error:
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


def _with_whole_checkpoint(config: Config) -> Config:
    """The folder that is looked at here is the one that the processes of a Ray cluster, begun elsewhere, write to."""
    folder = Path(config.train.checkpoint).absolute()
    return structs.replace(config, train=structs.replace(config.train, checkpoint=str(folder)))


def _end_sessions() -> None:
    """Of a run that is left in the middle: otherwise the hub would hold them until their leases end."""
    import ray

    from trainer_adapter.openrlhf import rollouts, trainer

    try:
        actor = ray.get_actor(rollouts.NAME)
    except ValueError:  # it has not come so far
        return
    trainer.stop(actor)


def check_gpus(config: Config, n_there: int) -> None:
    """OpenRLHF would wait for ever for GPUs that there are not. Raises ConfigError."""
    if sum(gpus(config).values()) <= n_there:
        return
    if not n_there:
        raise ConfigError(
            "the Ray cluster has no GPU, or none that its driver shows. To train a tiny model without one, to try things out: "
            'train.device = "cpu"'
        )
    raise ConfigError(
        f"GPUs: the run needs {placement(config)}; the Ray cluster has {n_there} (see train.n_gpus, engines.n and "
        "engines.tensor_parallel)"
    )


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
        n = sum(gpus(run.config).values())  # which Ray only counts
        options |= {"address": "local", "num_cpus": 2 * n + 16, "num_gpus": n, "include_dashboard": False}
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


def _stop(error: Exception) -> int:
    cause: Any = error
    while getattr(cause, "cause", None) is not None:  # Ray wraps what a process raised once for each that passed it on
        cause = cause.cause
    print(f"error: training stopped: {type(cause).__name__}: {cause}", file=sys.stderr)  # noqa: T201  # the terminal is the caller
    return 1

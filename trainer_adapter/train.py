"""``python -m trainer_adapter.train --config FILE [--dry-run] [-- OpenRLHF flags]``: the launcher.

Invariant: nothing is started before the configuration, the hub and the installed OpenRLHF have been checked.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from envhub.client.hub import Hub
from envhub.core.errors import EnvhubError
from envhub.core.types import EnvironmentInfo
from trainer_adapter.config import Config, ConfigError, TaskSection, load
from trainer_adapter.plan import Plan, plan
from trainer_adapter.stream import TaskSource


def main(argv: Sequence[str] | None = None) -> int:
    arguments, extra = _parse(sys.argv[1:] if argv is None else argv)
    console = Console()
    try:
        config = load(arguments.config)
        resolved = plan(config, extra=extra)
        _show(console, resolved)
        sources = asyncio.run(check_hub(config))
    except (ConfigError, EnvhubError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 2
    for source in sources:
        console.print(f"hub: {source.environment}/{source.split} has {source.n_tasks} tasks", markup=False)
    if arguments.dry_run:
        return 0
    try:
        from trainer_adapter.openrlhf.launch import launch
    except ModuleNotFoundError as error:
        console.print(
            f"error: training needs the package {error.name!r}: see trainer_adapter/README.md",
            style="red",
            markup=False,
        )
        return 2
    return launch(config, sources, extra=extra)


async def check_hub(config: Config) -> tuple[TaskSource, ...]:
    """The training tasks as the hub has them; those of the evaluation are checked too. Raises ConfigError, EnvhubError."""
    async with Hub(config.hub.url, key=hub_key(config), retry_for_s=5.0) as hub:
        infos = {info.name: info for info in await hub.environments()}
    for task in () if config.evaluate is None else config.evaluate.tasks:
        _source(task, infos)
    return tuple(_source(task, infos) for task in config.tasks)


def _source(task: TaskSection, infos: Mapping[str, EnvironmentInfo]) -> TaskSource:
    info = infos.get(task.environment)
    if info is None:
        raise ConfigError(f"the hub has no environment {task.environment!r}; it has: {', '.join(infos) or 'none'}")
    if task.split not in info.splits:
        raise ConfigError(f"{info.name} has no split {task.split!r}; valid: {', '.join(info.splits)}")
    for option in task.options:
        if option not in (*info.options, "max_turns", "max_episode_s"):
            raise ConfigError(f"{info.name} has no option {option!r}; valid: {', '.join(info.options)}")
    try:
        return TaskSource(info.name, task.split, info.splits[task.split], task.weight, task.indices)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def hub_key(config: Config) -> str | None:
    """Raises ConfigError."""
    if config.hub.key_file is None:
        return None
    try:
        return Path(config.hub.key_file).read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"hub.key_file: {error}") from error


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    own, extra = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, ())
    parser = argparse.ArgumentParser(
        prog="python -m trainer_adapter.train", description="Train a policy on a hub's environments."
    )
    parser.add_argument("--config", type=Path, required=True, help="a TOML file; see trainer_adapter/configs")
    parser.add_argument("--dry-run", action="store_true", help="show the resolved plan, check the hub, start nothing")
    return parser.parse_args(own), tuple(extra)


def _show(console: Console, resolved: Plan) -> None:
    table = Table(show_header=False, box=None)
    for row in resolved.rows:
        table.add_row(row.name, row.value)
    console.print(table)
    console.print("openrlhf " + " ".join(resolved.flags), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())

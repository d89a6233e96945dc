"""``python -m trainer_adapter.train --config FILE [--dry-run] [-- OpenRLHF flags]``: the launcher.

Invariant: nothing is started before the configuration, the hub and the installed OpenRLHF have been checked.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from envhub.client.hub import Hub
from envhub.core.errors import (
    AuthenticationError,
    EnvhubError,
    EpisodeError,
    InvalidRequestError,
    NoCapacityError,
    RequestError,
    TaskUnusableError,
    UnavailableError,
)
from envhub.core.types import EnvironmentInfo
from trainer_adapter.config import Config, ConfigError, TaskSection, key_in, load
from trainer_adapter.openrlhf import compat
from trainer_adapter.openrlhf.checkpoints import start_of
from trainer_adapter.openrlhf.model import rendering
from trainer_adapter.plan import Row, plan
from trainer_adapter.stream import TaskSource

_ANSWER_LIMIT_S = 15.0
_RETRY_FOR_S = 5.0
_WAIT_FOR_A_SLOT_S = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    arguments, extra = _parse(sys.argv[1:] if argv is None else argv)
    console = Console(soft_wrap=True)
    try:
        config = load(arguments.config)
    except ConfigError as error:
        return _refused(console, str(error))
    try:
        resolved = plan(config, extra=extra)
        _show(console, resolved.flags, [*resolved.rows, *(_found(config) if arguments.dry_run else ())])
        sources = asyncio.run(check_hub(config, tell=partial(console.print, markup=False)))
    except ConfigError as error:
        return _refused(console, str(error))
    except EnvhubError as error:
        return _refused(console, f"hub.url {config.hub.url}: {error}{_advice(error, config)}")
    if arguments.dry_run:
        _show_packages(console)
        return 0
    try:
        from trainer_adapter.openrlhf.launch import launch

        return launch(config, sources, extra=extra)
    except ModuleNotFoundError as error:
        return _refused(
            console, f"training needs the package {error.name!r}: see trainer_adapter/README.md, how to install it"
        )


def _found(config: Config) -> Sequence[Row]:
    """What a run would find on this machine. Raises ConfigError."""
    return (
        Row("chat format", f"{config.model.format}: {rendering(config.model)}"),
        Row("begins", start_of(config).text),
    )


async def check_hub(config: Config, *, tell: Callable[[str], None] = lambda line: None) -> tuple[TaskSource, ...]:
    """The training tasks as the hub has them. An episode of each environment, those of the evaluation too, is started and cancelled.

    ``tell`` gets a line about each. Raises ConfigError, EnvhubError.
    """
    evaluated = () if config.evaluate is None else config.evaluate.tasks
    async with Hub(config.hub.url, key=hub_key(config), retry_for_s=_RETRY_FOR_S) as hub:
        infos = {info.name: info for info in await _environments(hub)}
        sources = [_source(task, infos) for task in (*config.tasks, *evaluated)]
        for task, source in zip((*config.tasks, *evaluated), sources, strict=True):
            tell(f"hub: {task.environment}/{task.split} has {source.n_tasks} tasks; {await _tried(hub, task, source)}")
    return tuple(sources[: len(config.tasks)])


async def _environments(hub: Hub) -> tuple[EnvironmentInfo, ...]:
    """Raises UnavailableError for an address that does not answer, InvalidRequestError for one whose answer is no hub's."""
    try:
        async with asyncio.timeout(_ANSWER_LIMIT_S):
            return await hub.environments()
    except TimeoutError:
        raise UnavailableError(f"no answer within {_ANSWER_LIMIT_S:g} s") from None
    except (InvalidRequestError, msgspec.ValidationError, LookupError, TypeError) as error:
        raise InvalidRequestError(f"what answers is no hub: {error}") from error


async def _tried(hub: Hub, task: TaskSection, source: TaskSource) -> str:
    """What became of one episode that was started for a try. Raises ConfigError for one that never will start."""
    name = f"{task.environment}/{task.split}"
    session = hub.session(
        task.environment, task.split, source.tasks[0], options=task.options, lease_s=60.0, wait_s=_WAIT_FOR_A_SLOT_S
    )
    try:
        await session.start()
    except (NoCapacityError, TaskUnusableError) as error:
        return f"none was started for a try: {error}"
    except (RequestError, EpisodeError) as error:
        raise ConfigError(f"an episode of {name} does not start: {error.code}: {error}") from error
    finally:
        await session.cancel()
    return f"an episode starts, with {', '.join(tool.name for tool in session.tools)}"


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
    return key_in(config.hub.key_file, "hub.key_file")


def _advice(error: Exception, config: Config) -> str:
    if isinstance(error, AuthenticationError) and config.hub.key_file is not None:
        return f"; the key in {config.hub.key_file} (hub.key_file) is none of this hub's"
    if isinstance(error, AuthenticationError):
        return "; hub.key_file names the file with a key of this hub (its ENVHUB_CLIENT_KEY_FILE)"
    if isinstance(error, UnavailableError):
        names = " ".join(f"-e {name}" for name in dict.fromkeys(task.environment for task in config.tasks))
        return f"; `envhub up {names}` starts a hub on this machine, hub.url says where another one is"
    return ""


def _refused(console: Console, text: str) -> int:
    console.print(f"error: {text}", style="red", markup=False)
    return 2


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    own, extra = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, ())
    parser = argparse.ArgumentParser(
        prog="python -m trainer_adapter.train", description="Train a policy on a hub's environments."
    )
    parser.add_argument("--config", type=Path, required=True, help="a TOML file; see trainer_adapter/configs")
    parser.add_argument("--dry-run", action="store_true", help="show the resolved plan, check the hub, start nothing")
    return parser.parse_args(own), tuple(extra)


def _show_packages(console: Console) -> None:
    """Whether this interpreter could train."""
    try:
        compat.check_version()
    except compat.IncompatibleError as error:
        console.print(f"packages: {error}", style="yellow", markup=False)
    else:
        console.print("packages: openrlhf is installed in a version that the adapter works with", markup=False)


def _show(console: Console, flags: Sequence[str], rows: Sequence[Row]) -> None:
    table = Table(show_header=False, box=None)
    for row in rows:
        table.add_row(row.name, Text(row.value))
    console.print(table)
    console.print("openrlhf " + " ".join(flags), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())

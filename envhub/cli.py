"""The command line: ``envhub up``, ``bench``, ``tasks``, ``episodes``, ``images``, ``doctor`` and the programs behind a deployment.

Exit codes: 0 done, 1 a check failed, 2 wrong use, 3 nothing was graded, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from envhub import __version__, logs
from envhub.config import ConfigError, Settings, checked, load
from envhub.core.errors import EnvhubError
from envhub.core.protocols import Environment, SelfTesting
from envhub.envs import registry
from envhub.store.commands import export_episodes, list_episodes, show_episode
from envhub.store.episodes import EpisodeFilter, EpisodeStore

OK, FAILED, WRONG_USE = 0, 1, 2
_FIRST_ANSWER_S = 3.0
_BESIDE_A_HUB = 8801


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if not hasattr(args, "run"):
        parser.print_help()
        return WRONG_USE
    try:
        settings = load(os.environ, environment_names=registry.names(), file=args.config)
        settings = _overridden(settings, args)
        logs.set_up(settings.log_level, settings.log_format)
        return int(args.run(args, settings))
    except (ConfigError, EnvhubError, ValueError, OSError) as error:
        print(f"envhub: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="envhub", description="An environment hub for language-model agents.")
    parser.add_argument("--version", action="version", version=f"envhub {__version__}")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: $ENVHUB_CONFIG)")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_programs(commands)
    _add_bench(commands)
    _add_tasks(commands)
    _add_episodes(commands)
    _add_images(commands)
    _add_webshop(commands)
    doctor = _command(commands, "doctor", "what this machine can do, and what to install", _doctor)
    doctor.add_argument("--json", action="store_true", help="print JSON")
    demo = _command(commands, "demo", "a hub, every environment, a few agents, one report", _demo)
    demo.add_argument("-o", "--output", type=Path, default=Path("results"))
    _add_hub_argument(_command(commands, "environments", "what can be played", _environments))
    return parser


def _command(
    commands: Any, name: str, text: str, run: Callable[[argparse.Namespace, Settings], int]
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:])
    command.set_defaults(run=run)
    return command


def _overridden(settings: Settings, args: argparse.Namespace) -> Settings:
    """Flags come last, after variables and the file."""
    names = ("host", "port", "capacity", "hub", "store_url", "controllers", "environments", "images")
    given = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    return checked({**msgspec.structs.asdict(settings), **given}, "options")


# --- programs -------------------------------------------------------------------------------------------------------


def _add_programs(commands: Any) -> None:
    up = _command(commands, "up", "start a hub and keep it", _up)
    place = up.add_mutually_exclusive_group()
    place.add_argument("--workers", type=int, default=0, help="worker processes (default: play in this process)")
    place.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="workers on a Ray cluster (default: the one of this machine)",
    )
    controller = _command(commands, "controller", "the controller alone", _controller)
    for each in (up, controller):
        each.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
        each.add_argument("--port", type=int, help="port to listen on (default: 8800)")
        each.add_argument("--store", dest="store_url", metavar="URL", help="database of finished episodes")
    worker = _command(commands, "worker", "a worker for a running controller", _worker)
    worker.add_argument(
        "-c", "--controller", dest="controllers", action="append", metavar="URL", help="may be repeated"
    )
    worker.add_argument("--exit-with", type=int, metavar="PID", help="stop when that parent process is gone")
    for each in (up, worker):
        each.add_argument(
            "-e", "--environment", dest="environments", action="append", metavar="NAME", help="may be repeated"
        )
        each.add_argument("--capacity", type=int, help="sessions of one worker (default: 256)")


def _up(args: argparse.Namespace, settings: Settings) -> int:
    if args.ray is not None:
        return _up_on_ray(settings, args.ray)
    from envhub import up

    with _named_address(settings):
        uvloop.run(up.run(settings, n_workers=args.workers, environ=os.environ))
    return OK


def _up_on_ray(settings: Settings, address: str) -> int:
    from envhub.cluster.main import run

    if address:
        ray = msgspec.structs.replace(settings.ray, address=address)
        settings = msgspec.structs.replace(settings, ray=ray)
    with _named_address(settings):
        run(settings)
    return OK


def _controller(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.controller.main import run

    with _named_address(settings):
        uvloop.run(run(settings))
    return OK


@contextmanager
def _named_address(settings: Settings) -> Iterator[None]:
    """An address that cannot be listened on is named. Raises ConfigError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise ConfigError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
        raise


def _worker(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.worker.main import run

    uvloop.run(run(settings, parent=args.exit_with))
    return OK


# --- playing --------------------------------------------------------------------------------------------------------


def _add_hub_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("--hub", metavar="URL", help="a running hub (default: $ENVHUB_HUB, else one in this process)")


def _add_bench(commands: Any) -> None:
    from envhub.bench.commands import add_bench_arguments

    bench = _command(commands, "bench", "play tasks with models or built-in agents and report", _bench)
    add_bench_arguments(bench)
    _add_hub_argument(bench)


def _bench(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.bench.commands import bench

    return bench(args, _connect(settings), create=_create(settings))


def _connect(settings: Settings) -> Callable[[], Any]:
    """Opens the hub that is named, or one in this process with every environment installed here."""
    from envhub.client.hub import Hub
    from envhub.embedded import embedded_hub
    from envhub.worker.main import make_environments

    @asynccontextmanager
    async def connect() -> AsyncIterator[Hub]:
        if settings.hub is not None:
            async with Hub(settings.hub, key=settings.client_key) as hub:
                await hub.request("GET", "/v1/environments", retry_for_s=_FIRST_ANSWER_S)
                yield hub
            return
        async with embedded_hub(make_environments(settings), settings=settings) as embedded:
            yield embedded.hub

    return connect


def _create(settings: Settings) -> Callable[[str], Environment]:
    """Makes an environment here as a worker with these settings would."""
    from envhub.worker.main import environment_settings

    return lambda name: registry.create(name, environment_settings(settings, name))


def _demo(args: argparse.Namespace, settings: Settings) -> int:
    from envhub import demo

    return demo.run(settings, os.environ, output=args.output)


def _environments(args: argparse.Namespace, settings: Settings) -> int:
    infos = asyncio.run(_list_environments(_connect(settings)))
    table = Table(title="Environments", title_justify="left")
    for heading in ("name", "version", "tasks", "turns", "description"):
        table.add_column(heading)
    for info in infos:
        splits = ", ".join(f"{split} {size}" for split, size in info.splits.items())
        table.add_row(info.name, info.version, splits, str(info.max_turns), info.description)
    Console().print(table)
    return OK


async def _list_environments(connect: Callable[[], Any]) -> Any:
    async with connect() as hub:
        return await hub.environments()


# --- tasks ----------------------------------------------------------------------------------------------------------


def _add_tasks(commands: Any) -> None:
    from envhub.bench.commands import add_verify_arguments

    tasks = commands.add_parser("tasks", help="look at, lint and verify tasks", description="Look at tasks.")
    verbs = tasks.add_subparsers(title="verbs", metavar="VERB", required=True)
    lint = _command(verbs, "lint", "list the defective tasks of an environment", _lint)
    lint.add_argument("environment")
    lint.add_argument("--split", help="one split only")
    lint.add_argument(
        "--play", action="store_true", help="also set each task up and see whether right passes and wrong fails"
    )
    expert = _command(verbs, "expert", "solutions as JSON lines, for imitation data", _expert)
    expert.add_argument("target", metavar="ENV[/SPLIT][:TASKS]", help="such as alfworld/train:0-99")
    expert.add_argument(
        "--after", action="append", default=[], metavar="ACTION", help="plan from the state that these actions lead to"
    )
    verify = _command(verbs, "verify", "prove that tasks can be solved, and only by solving them", _verify)
    add_verify_arguments(verify)
    _add_hub_argument(verify)


def _lint(args: argparse.Namespace, settings: Settings) -> int:
    environment = _create(settings)(args.environment)
    splits = environment.info().splits
    if args.split is not None and args.split not in splits:
        raise ValueError(f"{args.environment} has no split {args.split!r}; valid: {', '.join(splits)}")
    if args.play and not isinstance(environment, SelfTesting):
        raise ValueError(f"the tasks of {args.environment} have no self-test; see envhub tasks verify")
    asyncio.run(_print_defects(environment, [args.split] if args.split else list(splits), play=args.play))
    return OK


async def _print_defects(environment: Environment, splits: Sequence[str], *, play: bool) -> None:
    n_defects = n_unusable = 0
    try:
        for split in splits:
            defects = list(environment.lint(split))
            if play and isinstance(environment, SelfTesting):
                defects += await environment.self_tests(split)
            for defect in sorted(defects, key=lambda defect: defect.task.index):
                n_defects += 1
                n_unusable += not defect.usable
                print(f"{defect.task}: {'' if defect.usable else 'UNUSABLE: '}{defect.problem}")
    finally:
        await environment.close()
    print(f"{n_defects} findings, {n_unusable} of them make a task unusable")


def _expert(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.expert import write_plans

    asyncio.run(write_plans(_create(settings), args.target, args.after, print))
    return OK


def _verify(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.bench.commands import verify_tasks

    return verify_tasks(args, _connect(settings), create=_create(settings))


# --- webshop --------------------------------------------------------------------------------------------------------


def _add_webshop(commands: Any) -> None:
    webshop = commands.add_parser("webshop", help="catalogues of the WebShop environment", description="Look at shops.")
    verbs = webshop.add_subparsers(title="verbs", metavar="VERB", required=True)
    make = _command(verbs, "make", "make a named catalogue now instead of at first use", _webshop_make)
    make.add_argument("catalogue", choices=("tiny", "small", "medium", "large"))
    report = _command(verbs, "report", "how hard the goals of a catalogue are", _webshop_report)
    export = _command(verbs, "export", "write a catalogue as files of the official form", _webshop_export)
    for each in (report, export):
        each.add_argument("catalogue", help="tiny, small, medium, large, or the folder of a converted one")
    export.add_argument("out", type=Path)
    for each in (make, report, export):
        each.add_argument("--cache", type=Path, help="folder of named catalogues (default: below $XDG_CACHE_HOME)")
    convert = _command(verbs, "convert", "make a catalogue of the official files", _webshop_convert)
    convert.add_argument("official", type=Path, help="folder with the official files")
    convert.add_argument("out", type=Path, help="folder of the catalogue, for the setting 'catalogue'")
    convert.add_argument("--goals", choices=("human", "synthetic"), default="human")
    convert.add_argument("--seed", type=int, default=0, help="of prices and price bounds (default: 0)")
    convert.add_argument("--limit", type=int, metavar="N", help="the first N products only")
    convert.add_argument("--partial", action="store_true", help="accept fewer goals than the official splits need")
    serve = _command(verbs, "serve", "the shop as a web site, for people and for agents with a browser", _webshop_serve)
    serve.add_argument(
        "--catalogue", help="tiny, small, medium, large, or a folder (default: the environment's setting)"
    )
    serve.add_argument("--cache", type=Path, help="folder of named catalogues (default: below $XDG_CACHE_HOME)")
    serve.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (default: 8800, or 8801 in front of a running hub)")
    serve.add_argument("--split", help="split of the task that is offered first")
    serve.add_argument("--task", type=int, default=0, help="index of that task (default: 0)")
    _add_hub_argument(serve)


def _webshop_make(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.envs.webshop import commands

    commands.make_named(args.catalogue, args.cache, print)
    return OK


def _webshop_report(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.envs.webshop import commands

    commands.report(args.catalogue, args.cache, print)
    return OK


def _webshop_export(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.envs.webshop import commands

    commands.export(args.catalogue, args.out, args.cache, print)
    return OK


def _webshop_convert(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.envs.webshop import commands

    commands.convert_official(
        args.official, args.out, print, goals=args.goals, seed=args.seed, limit=args.limit, partial=args.partial
    )
    return OK


def _webshop_serve(args: argparse.Namespace, settings: Settings) -> int:
    from envhub.worker.main import environment_settings

    given = {"catalogue": args.catalogue, "cache": args.cache}
    own = environment_settings(settings, "webshop") | {key: each for key, each in given.items() if each is not None}
    environment = registry.create("webshop", own)
    from envhub.webshop_site import serve

    if settings.hub is not None and args.port is None:
        settings = msgspec.structs.replace(settings, port=_BESIDE_A_HUB)
    with _named_address(settings):
        uvloop.run(serve.run(environment, settings, print, offer=serve.Offer(args.split, args.task)))
    return OK


# --- episodes -------------------------------------------------------------------------------------------------------


def _add_episodes(commands: Any) -> None:
    episodes = commands.add_parser("episodes", help="finished episodes", description="Finished episodes.")
    verbs = episodes.add_subparsers(title="verbs", metavar="VERB", required=True)
    listed = _command(verbs, "list", "the newest episodes and the returns by environment", _list_episodes)
    listed.add_argument("--limit", type=int, default=50)
    listed.add_argument("--after", type=int, help="go on after this row")
    exported = _command(verbs, "export", "all matching episodes as JSON lines, traces included", _export_episodes)
    exported.add_argument("-o", "--output", type=Path, help="file (default: standard output)")
    for each in (listed, exported):
        each.add_argument("-e", "--environment")
        each.add_argument("--split")
        each.add_argument("--tag", action="append", default=[], metavar="NAME=VALUE", type=_name_and_value)
        each.add_argument("--state", choices=("ok", "error"), help="graded or cancelled, or failed")
        each.add_argument("--since", type=_unix_time, metavar="TIME", help="ended at or after this ISO 8601 time")
    show = _command(verbs, "show", "one episode with its conversation", _show_episode)
    show.add_argument("session_id")
    prune = _command(verbs, "prune", "delete the episodes that ended before a time", _prune_episodes)
    prune.add_argument(
        "--before", type=_unix_time, required=True, metavar="TIME", help="ISO 8601; UTC without an offset"
    )
    for each in (listed, exported, show, prune):
        each.add_argument("--store", dest="store_url", metavar="URL", help="default: sqlite:///envhub.db")


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _unix_time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO 8601 time, such as 2026-01-31T12:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _filters(args: argparse.Namespace) -> EpisodeFilter:
    return EpisodeFilter(args.environment, args.split, args.state, dict(args.tag), args.since)


@contextmanager
def _store(settings: Settings) -> Iterator[EpisodeStore]:
    with closing(EpisodeStore(settings.store_url)) as store:
        store.open()
        yield store


def _list_episodes(args: argparse.Namespace, settings: Settings) -> int:
    with _store(settings) as store:
        list_episodes(store, _filters(args), Console(), limit=args.limit, after=args.after)
    return OK


def _show_episode(args: argparse.Namespace, settings: Settings) -> int:
    with _store(settings) as store:
        show_episode(store, args.session_id, Console())
    return OK


def _export_episodes(args: argparse.Namespace, settings: Settings) -> int:
    with _store(settings) as store:
        if args.output is None:
            export_episodes(store, _filters(args), sys.stdout.buffer)
            return OK
        with args.output.open("wb") as stream:
            n_episodes = export_episodes(store, _filters(args), stream)
    print(f"{n_episodes} episodes written to {args.output}")
    return OK


def _prune_episodes(args: argparse.Namespace, settings: Settings) -> int:
    with _store(settings) as store:
        print(f"{store.delete_before(args.before)} episodes deleted")
    return OK


# --- images ---------------------------------------------------------------------------------------------------------


def _add_images(commands: Any) -> None:
    images = commands.add_parser("images", help="userlands of the OS environment", description="Userlands.")
    verbs = images.add_subparsers(title="verbs", metavar="VERB", required=True)
    build = _command(verbs, "build", "make userlands, by debootstrap or with Docker", _build_images)
    build.add_argument("environment", choices=("os",))
    build.add_argument("--image", action="append", default=[], metavar="NAME", help="may be repeated (default: all)")
    build.add_argument("--from", dest="way", choices=("debootstrap", "docker"), help="default: what works here")
    build.add_argument("--docker", action="store_true", help="also make envhub/os-NAME, for the docker driver")
    for each in (build, _command(verbs, "list", "the userlands that are ready", _list_images)):
        each.add_argument("--dir", dest="images", metavar="DIR", help="default: ~/.cache/envhub/images")


def _build_images(args: argparse.Namespace, settings: Settings) -> int:
    from envhub import images

    images.build(args.image, way=args.way, root=_images_root(settings), into_docker=args.docker, say=print)
    return OK


def _list_images(args: argparse.Namespace, settings: Settings) -> int:
    from envhub import images

    images.show(_images_root(settings), Console())
    return OK


def _images_root(settings: Settings) -> Path | None:
    return None if settings.images is None else Path(settings.images)


# --- this machine ---------------------------------------------------------------------------------------------------


def _doctor(args: argparse.Namespace, settings: Settings) -> int:
    from envhub import doctor

    findings = doctor.examine(settings)
    if args.json:
        print(msgspec.json.encode([asdict(each) for each in findings]).decode())
    else:
        doctor.show(findings, Console())
    return FAILED if any(each.state == "bad" for each in findings) else OK


if __name__ == "__main__":
    sys.exit(main())

"""``envhub bench`` and ``envhub tasks verify``: composition roots that turn arguments into a run and a run into an exit code.

Exit codes: 0 done, 1 not verified, 2 wrong use or a run that could not go on, 3 nothing was graded, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from rich.console import Console

from envhub.bench.agents import Agent, AgentError, ModelAgent, NullAgent, OracleAgent, RandomAgent
from envhub.bench.console import counter_on, progress_on, results_table
from envhub.bench.plan import Plan, PlanError, Target, TargetSpec, parse_target, parse_tasks
from envhub.bench.report import render
from envhub.bench.results import ResultsFolder, Status
from envhub.bench.runner import RunAbortedError, Runner, RunOptions
from envhub.bench.summary import mixed_identities, summarize
from envhub.bench.verify import ProofReport, VerifyOptions, lines, verify
from envhub.client.hub import Hub
from envhub.client.openai_policy import Endpoint
from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.protocols import Environment
from envhub.core.types import JSON, LIMIT_OPTIONS
from envhub.envs import registry

OK, NOT_VERIFIED, WRONG_USE, NOTHING_GRADED, INTERRUPTED = 0, 1, 2, 3, 130
_PLAIN_WIDTH = 140
_N_FAILURES_SHOWN, _FAILURE_CHARS = 5, 300
BUILT_IN = ("oracle", "null", "random")

Connect = Callable[[], AbstractAsyncContextManager[Hub]]
"""Opens the hub that is played against; closing it closes what was opened."""
Create = Callable[[str], Environment]
"""Makes the environment of a name; the command closes it."""


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets", nargs="+", metavar="ENV[/SPLIT][:TASKS]", help="what to play, such as db or db/test:0-99,120"
    )
    parser.add_argument("--split", help="split of targets that name none (default: the one to measure on)")
    parser.add_argument("-t", "--tasks", help="tasks of targets that name none, such as 0-99,120 (default: all)")
    parser.add_argument("-n", "--repeats", type=_positive, default=1, help="episodes of every task (default: 1)")
    parser.add_argument("-j", "--jobs", type=_positive, default=32, help="sessions at a time (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run (default: 0)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an environment option; JSON or text"
    )
    parser.add_argument(
        "-a", "--agent", action="append", choices=BUILT_IN, default=[], help="a built-in agent; may be repeated"
    )
    _add_model_arguments(parser)
    results = parser.add_argument_group("results")
    results.add_argument(
        "-o", "--output", type=Path, default=Path("results"), help="folder of all runs (default: results)"
    )
    results.add_argument("--name", help="folder of this run (default: agents, targets and the time)")
    results.add_argument(
        "--resume", action="store_true", help="go on with an earlier run of that name and the same plan"
    )
    results.add_argument("--traces", action="store_true", help="keep every conversation")


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("models", "any OpenAI-compatible endpoint; the key comes from OPENAI_API_KEY")
    model.add_argument(
        "-m", "--model", action="append", default=[], metavar="NAME[@URL]", help="a model to play; may be repeated"
    )
    model.add_argument("-u", "--base-url", help="endpoint of models that name none (default: OPENAI_BASE_URL)")
    model.add_argument(
        "--cross", action="store_true", help="one agent of all models: each turn is played by one of them"
    )
    model.add_argument("--temperature", type=float, help="left to the endpoint when absent")
    model.add_argument("--max-tokens", type=_positive, help="of one answer; left to the endpoint when absent")
    model.add_argument("--extra-body", type=_json_object, default={}, metavar="JSON", help="merged into every request")
    model.add_argument("--model-timeout", type=float, default=600.0, metavar="S", help="for one answer (default: 600)")
    model.add_argument("--model-retries", type=int, default=5, metavar="N", help="of one failed call (default: 5)")
    model.add_argument("--keep-reasoning", action="store_true", help="send a model's reasoning back to it")


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets", nargs="+", metavar="ENV[/SPLIT][:TASKS]", help="what to verify; no split means every split"
    )
    parser.add_argument("-j", "--jobs", type=_positive, default=64, help="sessions at a time (default: 64)")
    parser.add_argument(
        "--max-exploit-rate",
        type=float,
        default=0.05,
        help="share of tasks one exploit may be paid for (default: 0.05)",
    )


def bench(
    args: argparse.Namespace, connect: Connect, *, create: Create = registry.create, console: Console | None = None
) -> int:
    """Play, then show and write the results. ``create`` makes an environment for its reference solutions."""
    console = console or _console()
    folder = args.output / (args.name or _default_name(args))
    interrupted = f"interrupted; go on with --name {folder.name} --resume"
    return _run(_bench(args, connect, create, folder, console), console, interrupted)


def verify_tasks(
    args: argparse.Namespace, connect: Connect, *, create: Create = registry.create, console: Console | None = None
) -> int:
    """Prove the tasks of the environments that ``create`` makes here against the hub."""
    console = console or _console()
    return _run(_verify(args, connect, create, console), console, "interrupted")


def _console() -> Console:
    """What is not a terminal is given room for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH)


def _run(work: Coroutine[None, None, int], console: Console, interrupted: str) -> int:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        console.print(interrupted, style="yellow", markup=False)
        return INTERRUPTED
    except (PlanError, RunAbortedError, AgentError, EnvhubError) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return WRONG_USE


async def _bench(args: argparse.Namespace, connect: Connect, create: Create, path: Path, console: Console) -> int:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        environments = await stack.enter_async_context(_LocalEnvironments(create))
        agents = await _agents(args, environments.get, stack)
        hub = await stack.enter_async_context(connect())
        specs = [parse_target(text) for text in args.targets]
        options = _options(args.option)
        targets = await _targets(hub, specs, options, split=args.split, tasks=args.tasks)
        definitions = {agent.name: agent.definition for agent in agents}
        plan = Plan(targets, definitions, args.repeats, args.seed, options)
        with ResultsFolder(path, clock=clock) as folder:
            folder.begin(plan, resume=args.resume)
            finished = [row for row in folder.rows if row.status is Status.GRADED]
            progress = progress_on(console, total=plan.n_episodes, finished=finished, clock=clock)
            how = RunOptions(jobs=args.jobs, traces=args.traces)
            try:
                with progress:
                    await Runner(hub, agents, folder, options=how, on_row=progress.row, clock=clock).run()
            finally:
                _show(folder, console)
            return OK if any(row.status is Status.GRADED for row in folder.rows) else NOTHING_GRADED


def _show(folder: ResultsFolder, console: Console) -> None:
    rows = folder.rows
    if not rows:
        return
    summaries = summarize(rows)
    report = folder.path / "report.html"
    report.write_text(render(folder.path.name, folder.plan, rows, folder.identities), "utf-8")
    console.print(results_table(summaries))
    warnings = mixed_identities(summaries)
    if "oracle" in folder.plan.agents and set(folder.plan.options) - set(LIMIT_OPTIONS):
        warnings += ("reference solutions are written for the default options; other options may not suit them",)
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    n_redone = sum(row.status is not Status.GRADED for row in rows)
    if n_redone:
        console.print(f"{n_redone} episodes are not graded; --resume plays them again", style="yellow", markup=False)
    failures = Counter((row.error.code, row.error.message) for row in rows if row.error is not None)
    for (code, message), n_times in failures.most_common(_N_FAILURES_SHOWN):
        text = f"  {n_times} x {code}: {message[:_FAILURE_CHARS]}"
        console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {report}", markup=False, soft_wrap=True)


async def _agents(
    args: argparse.Namespace, environment: Callable[[str], Environment], stack: AsyncExitStack
) -> Sequence[Agent]:
    built_in: dict[str, Agent] = {"oracle": OracleAgent(environment), "null": NullAgent(), "random": RandomAgent()}
    agents = [built_in[name] for name in dict.fromkeys(args.agent)]
    if args.model:
        connector = aiohttp.TCPConnector(limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        endpoints = [_endpoint(text, args) for text in args.model]
        names = [endpoint.model for endpoint in endpoints]
        if len(set(names)) < len(names) and not args.cross:
            names = [f"{endpoint.model}@{endpoint.base_url}" for endpoint in endpoints]
        if args.cross:
            agents.append(ModelAgent(endpoints, session))
        else:
            agents += [ModelAgent([each], session, name=name) for each, name in zip(endpoints, names, strict=True)]
    if not agents:
        raise PlanError(f"nobody plays: give --model NAME or --agent {'|'.join(BUILT_IN)}")
    if len({agent.name for agent in agents}) < len(agents):
        raise PlanError("two agents have the same name")
    return agents


def _endpoint(text: str, args: argparse.Namespace) -> Endpoint:
    model, at, url = text.rpartition("@")
    if not at or not url.startswith(("http://", "https://")):
        model, url = text, args.base_url or os.environ.get("OPENAI_BASE_URL", "")
    if not url:
        raise PlanError(f"model {model!r} has no endpoint: give --base-url, or set OPENAI_BASE_URL")
    return Endpoint(
        base_url=url,
        model=model,
        api_key=os.environ.get("OPENAI_API_KEY", ""),
        temperature=args.temperature,
        max_tokens=args.max_tokens,
        extra_body=args.extra_body,
        timeout_s=args.model_timeout,
        max_retries=args.model_retries,
        keep_reasoning=args.keep_reasoning,
    )


async def _targets(
    hub: Hub, specs: Sequence[TargetSpec], options: Mapping[str, JSON], *, split: str | None, tasks: str | None
) -> tuple[Target, ...]:
    targets = []
    for spec in specs:
        info = await hub.info(spec.environment)
        valid = [*info.options, *LIMIT_OPTIONS]
        unknown = [name for name in options if name not in valid]
        if unknown:
            raise PlanError(f"{spec.environment} has no option {unknown[0]!r}; valid: {', '.join(valid)}")
        chosen = spec.split or split or info.default_split
        n_tasks = _split_size(spec.environment, info.splits, chosen)
        targets.append(Target(spec.environment, chosen, parse_tasks(spec.tasks or tasks, n_tasks)))
    places = [(each.environment, each.split) for each in targets]
    if len(set(places)) < len(places):
        raise PlanError("a split is named twice; put its tasks into one target")
    return tuple(targets)


def _split_size(environment: str, splits: Mapping[str, int], split: str) -> int:
    if split not in splits:
        raise PlanError(f"{environment} has no split {split!r}; valid: {', '.join(splits)}")
    return splits[split]


async def _verify(args: argparse.Namespace, connect: Connect, create: Create, console: Console) -> int:
    clock = SystemClock()
    reports: list[ProofReport] = []
    async with _LocalEnvironments(create) as environments, connect() as hub:
        for spec in map(parse_target, args.targets):
            local = environments.get(spec.environment)
            splits = local.info().splits
            for split in (spec.split,) if spec.split else tuple(splits):
                tasks = parse_tasks(spec.tasks, _split_size(spec.environment, splits, split))
                started = clock.now()
                with counter_on(console, f"{spec.environment}/{split}") as count:
                    report = await verify(
                        hub, local, split, VerifyOptions(tasks, args.jobs, args.max_exploit_rate, count)
                    )
                reports.append(report)
                for line in lines(report):
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
                console.print(f"  {clock.now() - started:.1f} s", markup=False, highlight=False)
    return OK if all(report.ok for report in reports) else NOT_VERIFIED


class _LocalEnvironments:
    """Environments installed here, made on first use and closed at the end."""

    def __init__(self, create: Create) -> None:
        self._create = create
        self._made: dict[str, Environment] = {}

    async def __aenter__(self) -> _LocalEnvironments:
        return self

    async def __aexit__(self, *_: object) -> None:
        for environment in self._made.values():
            await environment.close()

    def get(self, name: str) -> Environment:
        if name not in self._made:
            self._made[name] = self._create(name)
        return self._made[name]


def _options(pairs: Sequence[str]) -> dict[str, JSON]:
    options: dict[str, JSON] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise PlanError(f"{pair!r} is not an option; write NAME=VALUE")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def _default_name(args: argparse.Namespace) -> str:
    words = [*args.agent, *args.model, *args.targets]
    stem = "-".join("".join(each if each.isalnum() or each in "-_." else "_" for each in word) for word in words)
    return f"{stem[:80]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _json_object(text: str) -> dict[str, JSON]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value

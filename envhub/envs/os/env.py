"""The OS environment: something to do, or to find out, on a Linux of one's own.

Invariant: an episode owns one sandbox, which is closed with it and never used again; the gold of its task is known before the
agent acts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Protocol, cast, get_args

from envhub.core.clock import SystemClock
from envhub.core.errors import (
    EnvhubError,
    EpisodeFailedError,
    GraderError,
    InvalidRequestError,
    SandboxLostError,
    SandboxUnavailableError,
    TaskUnusableError,
    ToolError,
)
from envhub.core.protocols import Script
from envhub.core.sandbox import CommandStatus, ForkableSandbox, Sandbox, SandboxDriver, SandboxSpec
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, TaskRef, ToolCall
from envhub.envs.datasets import dataset_dir, read_manifest
from envhub.envs.os import judge, lint, official, prompts
from envhub.envs.os.exploits import EXPLOITS
from envhub.envs.os.judge import GradingLimits
from envhub.envs.os.lint import SelfTest
from envhub.envs.os.scripts import complaint, run_script
from envhub.envs.os.tasks import OSTask, TaskSet, load_split
from envhub.envs.os.verdict import Verdict
from envhub.envs.toolkit import End, ToolEpisode, TurnLimits, tool
from envhub.sandbox.choose import DriverName, choose
from envhub.sandbox.pool import WarmPool

log = logging.getLogger(__name__)

NAME = "os"
VERSION = "1"
MAX_TURNS = 8
IMAGES = ("default", "packages", "ubuntu")
POOL_SIZE = 4
MAX_ANSWER_CHARS = 16_000
MAX_SCRIPT_CHARS = 200_000
MAX_OUTPUT_BYTES = 64 << 10
OPTIONS: Mapping[str, JSON] = {"grading": "strict", "max_observation_chars": 800, "command_timeout_s": 30.0}
_MAX_TURN_S = 300.0
"""A turn takes no longer, whatever its calls do: a session's own limit on a step would end it without a reward."""
_SET_UP_S = 60.0
_PROOF_S = 60.0
"""What it may take to prove on an untouched sandbox that it is not the grader that is broken."""
_FILES_OF_A_CONTAINER = 'ulimit -Sn "$(ulimit -Hn)"'
"""Containers come with high limits, and a published set-up writes ``echo 123321>file``, which needs that many descriptors."""
_GRADING = GradingLimits()
_LOST = Verdict(False, "the session brought its own system down")


class Sandboxes(Protocol):
    """Where sandboxes come from; closed with the environment."""

    async def acquire(self, spec: SandboxSpec) -> Sandbox: ...

    async def close(self) -> None: ...


class WarmSandboxes:
    """A pool over a driver, both closed with it; what dead owners left is removed, as far as it can be, before a sandbox is given."""

    def __init__(self, driver: SandboxDriver, pool: WarmPool) -> None:
        self._driver = driver
        self._pool = pool
        self._sweep: asyncio.Task[None] | None = None

    async def acquire(self, spec: SandboxSpec) -> Sandbox:
        if self._sweep is None:
            self._sweep = asyncio.create_task(self._swept(), name="sandbox-sweep")
        await asyncio.shield(self._sweep)
        return await self._pool.acquire(spec)

    async def _swept(self) -> None:
        try:
            n_removed = await self._driver.sweep()
        except Exception:  # boundary: what a dead owner left is no reason not to play
            log.warning("what dead owners left could not be removed", exc_info=True)
        else:
            if n_removed:
                log.info("removed %d sandboxes of dead owners", n_removed)

    async def close(self) -> None:
        if self._sweep is not None:
            await asyncio.wait([self._sweep])
        try:
            await self._pool.close()
        finally:
            await self._driver.close()


@dataclass(frozen=True, slots=True)
class OSOptions:
    """``grading``: ``strict`` or ``agentbench``. The latter also cuts output as the published environment does."""

    grading: judge.Mode
    max_observation_chars: int
    command_timeout_s: float

    @staticmethod
    def of(options: Mapping[str, JSON]) -> OSOptions:
        """Raises InvalidRequestError."""
        grading = options["grading"]
        if grading not in judge.MODES:
            raise InvalidRequestError(f"option 'grading' of os must be one of {', '.join(judge.MODES)}")
        chars, timeout_s = options["max_observation_chars"], options["command_timeout_s"]
        if not 80 <= chars <= 32_000:
            raise InvalidRequestError("option 'max_observation_chars' of os must be between 80 and 32000")
        if not 0.1 <= timeout_s <= 120:
            raise InvalidRequestError("option 'command_timeout_s' of os must be between 0.1 and 120")
        return OSOptions(cast(judge.Mode, grading), int(chars), float(timeout_s))


class OSEpisode(ToolEpisode):
    """``task`` is set up in ``sandbox``, which the episode owns, and has its gold. ``is_sound`` says whether its grading works on a
    sandbox that no agent has touched."""

    def __init__(
        self, task: OSTask, sandbox: Sandbox, options: OSOptions, *, is_sound: Callable[[], Awaitable[bool]]
    ) -> None:
        self._task = task
        self._sandbox = sandbox
        self._options = options
        self._is_sound = is_sound
        grading_s = _GRADING.total_s + _PROOF_S
        self.turn_limits = TurnLimits(budget_s=max(1.0, _MAX_TURN_S - options.command_timeout_s - grading_s))

    async def reset(self) -> Observation:
        messages = Message.system(prompts.SYSTEM), Message.user(prompts.first_message(self._task.description))
        kind = self._task.answer.kind if self._task.answer is not None else "state"
        info = {"kind": kind, "family": self._task.family, "difficulty": self._task.difficulty}
        return Observation(messages, self.tools, info)

    @tool
    async def bash_action(self, script: Annotated[str, "The bash script to run."]) -> str | End:
        """Run a bash script in your shell and get its output."""
        if "\0" in script or len(script) > MAX_SCRIPT_CHARS:
            raise ToolError(
                f"Error: a script is text of at most {MAX_SCRIPT_CHARS} characters, without NUL. Nothing was run."
            )
        timeout_s = self._options.command_timeout_s
        try:
            result = await self._sandbox.run(script, timeout_s=timeout_s, max_bytes=MAX_OUTPUT_BYTES)
        except SandboxLostError as error:
            if not error.by_session or self._options.grading != "strict":
                raise
            return _end(_LOST, "The system has crashed. The task has ended.")
        return prompts.observation(
            result,
            max_chars=self._options.max_observation_chars,
            published=self._options.grading == "agentbench",
            timeout_s=timeout_s,
        )

    @tool
    async def answer_action(self, answer: Annotated[str, "The answer, short and exact."]) -> End:
        """Submit the answer to the question and end the task."""
        if len(answer) > MAX_ANSWER_CHARS:
            raise ToolError(f"Error: the answer is longer than {MAX_ANSWER_CHARS} characters. Nothing was submitted.")
        return _end(await self._grade(answer), "Your answer has been submitted.")

    @tool
    async def finish_action(self, thought: Annotated[str, "Why the task is done, or cannot be done."]) -> End:
        """End a task that asks for no answer, when it is done or when you cannot go on."""
        published = self._options.grading == "agentbench"
        verdict = await self._grade(thought[:MAX_ANSWER_CHARS] if published else None)
        return _end(verdict, "The task has ended.")

    async def fork(self) -> OSEpisode | None:
        """A double in a copied sandbox (files and shell, no background processes); None when the driver cannot copy."""
        if not isinstance(self._sandbox, ForkableSandbox):
            return None
        return OSEpisode(self._task, await self._sandbox.fork(), self._options, is_sound=self._is_sound)

    async def close(self) -> None:
        await self._sandbox.close()

    async def _grade(self, submitted: str | None) -> Verdict:
        """In strict mode a check that breaks on what the agent left, and on nothing else, has found the task not done."""
        try:
            return await judge.grade(self._task, submitted, self._sandbox, mode=self._options.grading, limits=_GRADING)
        except SandboxLostError as error:
            if not error.by_session or self._options.grading != "strict":
                raise
            return _LOST
        except (GraderError, EpisodeFailedError) as error:
            if self._options.grading != "strict" or not await self._is_sound():
                raise
            log.info("what an agent left cannot be graded", extra={"task": self._task.id, "reason": error.message})
            return Verdict(False, "what is there cannot be graded")


def _end(verdict: Verdict, content: str) -> End:
    info = {"correct": verdict.correct, "score": verdict.reward, "reason": verdict.reason}
    return End(verdict.reward, content, info=info)


class OSEnvironment:
    """``splits`` are the task sets by name; ``sandboxes`` is closed with the environment.

    ``driver`` names what runs the sandboxes; ``image_digest`` stands for the userlands that the tasks use, ``installs`` says
    that packages can be installed in them, ``users`` that they have others than root.
    """

    def __init__(
        self,
        sandboxes: Sandboxes,
        splits: Mapping[str, TaskSet],
        *,
        driver: str,
        image_digest: str | None = None,
        installs: bool = True,
        users: bool = True,
    ) -> None:
        self._sandboxes = sandboxes
        self._splits = splits
        self._driver = driver
        self._image_digest = image_digest
        self._installs = installs
        self._users = users
        self._sound: dict[TaskRef, bool] = {}

    def info(self) -> EnvironmentInfo:
        hashes = json.dumps({name: tasks.dataset_hash for name, tasks in sorted(self._splits.items())})
        return EnvironmentInfo(
            name=NAME,
            version=f"{VERSION}-{self._driver}",
            description="Things to do, or to find out, on a private Linux, by bash.",
            splits={name: len(tasks) for name, tasks in self._splits.items()},
            dataset_hash=hashlib.sha256(hashes.encode()).hexdigest()[:16],
            options=OPTIONS,
            max_turns=MAX_TURNS,
            deterministic=False,  # an operating system has clocks, process numbers and races
            image_digest=self._image_digest,
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> OSEpisode:
        checked = OSOptions.of(options)
        problem = self._playable(task)
        sandbox = await self._sandboxes.acquire(SandboxSpec(image=problem.image))
        try:
            await set_up(problem, sandbox, seed=seed)
            if checked.grading == "strict":
                problem = await judge.measured(problem, sandbox, _GRADING)
        except BaseException:
            await sandbox.close()
            raise
        return OSEpisode(problem, sandbox, checked, is_sound=lambda: self._is_sound(task))

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        """None for a published task, whose gold only its sandbox knows."""
        problem = self._splits[task.split][task.index]
        if not problem.solution and problem.final_answer is None:
            return None
        calls: list[tuple[str, JSON]] = [("bash_action", {"script": script}) for script in problem.solution]
        final = problem.final_answer
        calls.append(("finish_action", {"thought": "Done."}) if final is None else ("answer_action", {"answer": final}))
        return tuple(
            Message.assistant(None, ToolCall(f"call_{turn}", name, json.dumps(arguments, ensure_ascii=False)))
            for turn, (name, arguments) in enumerate(calls)
        )

    def lint(self, split: str) -> Iterable[Defect]:
        return lint.lint(self._splits[split], environment=NAME, split=split, installs=self._installs, users=self._users)

    async def self_test(self, task: TaskRef, *, seed: int = 0) -> SelfTest:
        """Set the task up in a sandbox and see whether right passes and wrong fails."""
        try:
            problem = self._playable(task)
        except TaskUnusableError as error:
            return SelfTest(error.message, usable=False)
        sandbox = await self._sandboxes.acquire(SandboxSpec(image=problem.image))
        try:
            await set_up(problem, sandbox, seed=seed)
            return await lint.self_test(problem, sandbox, _GRADING)
        except (TaskUnusableError, EpisodeFailedError) as error:
            return SelfTest(error.message, usable=False)
        finally:
            await sandbox.close()

    async def self_tests(self, split: str) -> Sequence[Defect]:
        """Self-test every task of a split, some at a time."""
        left = iter(range(len(self._splits[split])))
        found: list[Defect] = []

        async def work() -> None:
            for index in left:
                ref = TaskRef(NAME, split, index)
                result = await self.self_test(ref)
                if result.problem:
                    found.append(Defect(ref, result.problem, usable=result.usable))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(2 * (os.cpu_count() or 1)):
                tasks.create_task(work())
        return sorted(found, key=lambda defect: defect.task.index)

    def _playable(self, task: TaskRef) -> OSTask:
        """Raises TaskUnusableError for one that these sandboxes cannot be set up for."""
        problem = self._splits[task.split][task.index]
        if not self._users and lint.needs_users(problem):
            raise TaskUnusableError(f"task {problem.id} cannot be played here: {lint.NO_USERS}")
        return problem

    async def _is_sound(self, task: TaskRef) -> bool:
        """Whether the task's grading works where no agent has been. Only what could be found out is remembered."""
        if task not in self._sound:
            try:
                async with asyncio.timeout(_PROOF_S):
                    self._sound[task] = (await self.self_test(task)).usable
            except (EnvhubError, TimeoutError) as error:
                log.warning("whether the grading of %s %d works is not known: %s", task.split, task.index, error)
                return False
        return self._sound[task]

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        return EXPLOITS

    async def close(self) -> None:
        await self._sandboxes.close()


async def set_up(task: OSTask, sandbox: Sandbox, *, seed: int) -> None:
    """Bring a fresh sandbox into the state the task starts from; ``$RANDOM`` of its bash scripts follows the seed.

    Raises TaskUnusableError when a script fails, EpisodeFailedError when one does not end.
    """
    for number, script in enumerate(task.init):
        if script.language == "bash":
            script = replace(script, code=f"{_FILES_OF_A_CONTAINER}\nRANDOM={seed % 32768}\n{script.code}")
        result = await run_script(sandbox, script, timeout_s=_SET_UP_S)
        if result.timed_out:
            raise EpisodeFailedError(f"set-up script {number} of {task.id} {complaint(result)}")
        if result.exit_code != 0:
            raise TaskUnusableError(f"set-up script {number} of {task.id} {complaint(result)}")
    if task.start is not None:
        started = await sandbox.run(task.start, timeout_s=_SET_UP_S, max_bytes=MAX_OUTPUT_BYTES)
        if started.status is not CommandStatus.OK:
            raise EpisodeFailedError(f"the start script of {task.id} ended with status {started.status}")
        if started.exit_code != 0:
            raise TaskUnusableError(
                f"the start script of {task.id} exited with {started.exit_code}: {started.output[-300:]}"
            )


def create(settings: Mapping[str, JSON]) -> OSEnvironment:
    """Composition root of the environment.

    Settings: ``driver`` (auto, bubblewrap, docker), ``images`` (folder of prepared userlands), ``docker_url``, ``pool_size`` (how many
    are kept ready of each userland), ``datasets`` (root of shipped data), ``official`` (AgentBench's folder with data/ and scripts/:
    splits agentbench-std, agentbench-dev, agentbench-train). Raises InvalidRequestError, and SandboxUnavailableError where
    nothing can keep an agent in.
    """
    known = ("driver", "images", "docker_url", "pool_size", "datasets", "official")
    for key in settings:
        if key not in known:
            raise InvalidRequestError(f"environment os has no setting {key!r}; valid: {', '.join(known)}")
    root = Path(settings["datasets"]) if "datasets" in settings else None
    shipped = dataset_dir(NAME, root=root)
    splits: dict[str, TaskSet] = {split: load_split(shipped, split) for split in read_manifest(shipped).splits}
    if "official" in settings:
        splits |= official.load_official(Path(settings["official"]))
    driver = _driver(settings)
    digests = {image: digest for image in IMAGES if (digest := _digest(driver, image)) is not None}
    default = driver.image_digest(IMAGES[0])
    named = default if len(digests) == 1 else hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    pool = WarmPool(driver, clock=SystemClock(), size=_pool_size(settings))
    can = driver.capabilities()
    return OSEnvironment(
        WarmSandboxes(driver, pool),
        splits,
        driver=can.driver,
        image_digest=named,
        installs=not default.startswith("host-"),
        users=can.users,
    )


def _driver(settings: Mapping[str, JSON]) -> SandboxDriver:
    name = settings.get("driver", "auto")
    if name not in get_args(DriverName):
        raise InvalidRequestError(f"setting 'driver' of os must be {', '.join(get_args(DriverName))}, not {name!r}")
    images = Path(settings["images"]) if "images" in settings else None
    url = settings.get("docker_url")
    return choose(cast(DriverName, name), clock=SystemClock(), image_root=images, docker_url=url)


def _pool_size(settings: Mapping[str, JSON]) -> int:
    try:
        size = int(settings.get("pool_size", POOL_SIZE))
    except (TypeError, ValueError) as error:
        raise InvalidRequestError("setting 'pool_size' of os must be a number") from error
    if not 0 <= size <= 1024:
        raise InvalidRequestError("setting 'pool_size' of os must be between 0 and 1024")
    return size


def _digest(driver: SandboxDriver, image: str) -> str | None:
    try:
        return driver.image_digest(image)
    except SandboxUnavailableError:
        return None

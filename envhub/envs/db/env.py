"""The DB environment: a question about, or a change to, a private MySQL-dialect database.

Invariant: an episode owns one database, which is dropped when the episode closes; what an agent sends reaches no other one.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, cast

from envhub.core.clock import SystemClock
from envhub.core.errors import InvalidRequestError, ToolError
from envhub.core.protocols import Script
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, TaskRef, ToolCall
from envhub.envs.datasets import dataset_dir, read_manifest
from envhub.envs.db import folders, judge, official, prompts
from envhub.envs.db.database import Database, DatabaseDriver, QueryLimits
from envhub.envs.db.exploits import EXPLOITS
from envhub.envs.db.tasks import DBTask, TaskSet, load_split
from envhub.envs.registry import missing_extra
from envhub.envs.toolkit import End, ToolEpisode, TurnLimits, tool

NAME = "db"
VERSION = "1"
MAX_TURNS = 15
_MAX_ANSWERS, _MAX_ANSWER_CHARS = 10_000, 200_000
_MAX_TURN_S = 300.0
"""A turn takes no longer, whatever its calls do: a session's own limit on a step would end it without a reward."""
OPTIONS: Mapping[str, JSON] = {"grading": "strict", "max_observation_chars": 800, "statement_timeout_s": 60.0}


@dataclass(frozen=True, slots=True)
class DBOptions:
    """``grading``: ``strict`` or ``agentbench``. The latter also shows results as the published environment does."""

    grading: judge.Mode
    max_observation_chars: int
    statement_timeout_s: float

    @staticmethod
    def of(options: Mapping[str, JSON]) -> DBOptions:
        """Raises InvalidRequestError."""
        grading = options["grading"]
        if grading not in judge.MODES:
            raise InvalidRequestError(f"option 'grading' of db must be one of {', '.join(judge.MODES)}")
        chars, timeout_s = options["max_observation_chars"], options["statement_timeout_s"]
        if not 80 <= chars <= 100_000:
            raise InvalidRequestError("option 'max_observation_chars' of db must be between 80 and 100000")
        if not 0.1 <= timeout_s <= 120:
            raise InvalidRequestError("option 'statement_timeout_s' of db must be between 0.1 and 120")
        return DBOptions(cast(judge.Mode, grading), int(chars), float(timeout_s))


class DBEpisode(ToolEpisode):
    def __init__(self, task: DBTask, database: Database, driver: DatabaseDriver, options: DBOptions) -> None:
        self._task = task
        self._database = database
        self._driver = driver
        self._options = options
        self.turn_limits = TurnLimits(budget_s=_MAX_TURN_S - options.statement_timeout_s)

    async def reset(self) -> Observation:
        messages = Message.system(prompts.SYSTEM), Message.user(prompts.first_message(self._task))
        return Observation(messages, self.tools, {"kind": self._task.kind, "difficulty": self._task.difficulty})

    @tool
    async def execute_sql(self, query: Annotated[str, "One SQL statement."]) -> str:
        """Run one SQL statement on the database and get its result."""
        result = await self._database.execute(query)
        published = self._options.grading == "agentbench"
        return prompts.observation(result, max_chars=self._options.max_observation_chars, published=published)

    @tool
    async def commit_final_answer(
        self, answers: Annotated[list[str], "The answer, one string for each value, in order."]
    ) -> End:
        """Submit the final answer and end the task."""
        if len(answers) > _MAX_ANSWERS or sum(map(len, answers)) > _MAX_ANSWER_CHARS:
            limits = f"{_MAX_ANSWERS} strings and {_MAX_ANSWER_CHARS} characters"
            raise ToolError(f"Error: answers are too long; at most {limits} in all. Nothing was submitted.")
        mode = self._options.grading
        verdict = await judge.grade(self._task, answers, self._database, self._driver, mode=mode)
        info = {"correct": verdict.correct, "score": verdict.reward, "reason": verdict.reason, **verdict.metrics}
        return End(verdict.reward, "Your answer has been submitted.", info=info)

    async def fork(self) -> DBEpisode | None:
        """With a copy of the database; None when the engine cannot make one."""
        twin = await self._driver.fork(self._database)
        return None if twin is None else DBEpisode(self._task, twin, self._driver, self._options)

    async def close(self) -> None:
        await self._database.close()


class DBEnvironment:
    """``splits`` are the task sets by name; the driver is closed with the environment."""

    def __init__(
        self, driver: DatabaseDriver, splits: Mapping[str, TaskSet], *, folder_splits: Iterable[str] = ()
    ) -> None:
        self._driver = driver
        self._splits = splits
        self._folder_splits = frozenset(folder_splits)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="db-tasks")

    def info(self) -> EnvironmentInfo:
        hashes = json.dumps({name: tasks.dataset_hash for name, tasks in sorted(self._splits.items())})
        return EnvironmentInfo(
            name=NAME,
            version=f"{VERSION}-{self._driver.name}",
            description="Questions about, and changes to, a private MySQL-dialect database, by SQL.",
            splits={name: len(tasks) for name, tasks in self._splits.items()},
            dataset_hash=hashlib.sha256(hashes.encode()).hexdigest()[:16],
            options=OPTIONS,
            max_turns=MAX_TURNS,
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> DBEpisode:
        checked = DBOptions.of(options)
        problem = await self._load(task)
        limits = QueryLimits(timeout_s=checked.statement_timeout_s)
        database = await self._driver.open(problem.tables, limits=limits)
        return DBEpisode(problem, database, self._driver, checked)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        problem = self._splits[task.split][task.index]
        if problem.modifies and not problem.solution:
            return None
        calls: list[tuple[str, JSON]] = [("execute_sql", {"query": sql}) for sql in problem.solution]
        calls.append(("commit_final_answer", {"answers": list(problem.final_answers)}))
        return tuple(
            Message.assistant(None, ToolCall(f"call_{turn}", name, json.dumps(arguments, ensure_ascii=False)))
            for turn, (name, arguments) in enumerate(calls)
        )

    def lint(self, split: str) -> Iterable[Defect]:
        lint = folders.lint if split in self._folder_splits else official.lint
        return lint(self._splits[split], environment=NAME, split=split)

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        return EXPLOITS

    async def close(self) -> None:
        await self._driver.close()
        self._readers.shutdown(wait=False)

    async def _load(self, task: TaskRef) -> DBTask:
        tasks = self._splits[task.split]
        if task.split not in self._folder_splits:
            return tasks[task.index]
        return await asyncio.get_running_loop().run_in_executor(self._readers, tasks.__getitem__, task.index)


def create(settings: Mapping[str, JSON]) -> DBEnvironment:
    """Composition root of the environment.

    Settings: ``driver`` (sqlite, mysql), ``url`` of the mysql server, ``password`` or ``password_file`` unless the url has
    it, ``datasets`` (root of shipped data), ``official`` (folder with AgentBench's standard.jsonl and dev.jsonl: splits
    agentbench-std, agentbench-dev),
    ``folders`` (BIRD- or Spider-style sets: ``name=databases:questions.json``, comma-separated). Raises InvalidRequestError.
    """
    known = ("driver", "url", "password", "password_file", "datasets", "official", "folders")
    for key in settings:
        if key not in known:
            raise InvalidRequestError(f"environment db has no setting {key!r}; valid: {', '.join(known)}")
    root = Path(settings["datasets"]) if "datasets" in settings else None
    shipped = dataset_dir(NAME, root=root)
    splits: dict[str, TaskSet] = {split: load_split(shipped, split) for split in read_manifest(shipped).splits}
    if "official" in settings:
        published = Path(settings["official"])
        for split, file in (("agentbench-std", "standard.jsonl"), ("agentbench-dev", "dev.jsonl")):
            splits[split] = official.load_official(published / file)
    own_folders = _folders(str(settings.get("folders", "")))
    for name, (databases, questions) in own_folders.items():
        splits[name] = folders.load_folder(databases, questions, clock=SystemClock())
    return DBEnvironment(_driver(settings), splits, folder_splits=own_folders)


def _driver(settings: Mapping[str, JSON]) -> DatabaseDriver:
    name = settings.get("driver", "mysql" if "url" in settings else "sqlite")
    if name == "sqlite":
        if find_spec("re2") is None:  # the hosts load it when a statement first needs it
            raise missing_extra("environment 'db'", "db", ModuleNotFoundError(name="re2"))
        from envhub.envs.db.sqlite.driver import SqliteDriver

        if importlib.util.find_spec("re2") is None:  # without it, REGEXP would be refused: other results, same identity
            raise missing_extra("the sqlite driver of db", "db", ModuleNotFoundError(name="re2"))
        return SqliteDriver()
    if name != "mysql":
        raise InvalidRequestError(f"setting 'driver' of db must be sqlite or mysql, not {name!r}")
    if "url" not in settings:
        raise InvalidRequestError(
            "the mysql driver of db needs the setting 'url', e.g. mysql://user:password@host:3306"
        )
    try:
        from envhub.envs.db.mysql.driver import MysqlDriver
    except ModuleNotFoundError as error:
        raise missing_extra("the mysql driver of db", "db", error) from error

    if "password" in settings and "password_file" in settings:
        raise InvalidRequestError("give db one of the settings 'password' and 'password_file'")
    password = str(settings["password"]) if "password" in settings else None
    file = settings.get("password_file")
    return MysqlDriver(settings["url"], owner=secrets.token_hex(4), password=password, password_file=file)


def _folders(text: str) -> dict[str, tuple[Path, Path]]:
    found: dict[str, tuple[Path, Path]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, paths = entry.partition("=")
        databases, _, questions = paths.rpartition(":")
        if not (name and databases and questions):
            raise InvalidRequestError(f"setting 'folders' of db: {entry!r} is not name=databases:questions.json")
        found[name] = Path(databases), Path(questions)
    return found

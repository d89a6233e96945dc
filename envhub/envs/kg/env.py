"""The KG environment: a question over a knowledge graph, answered by naming a set that the tools have built.

Invariant: an episode owns its variables and nothing else; stores are shared and read only. A store that fails is our failure
and never a reward; every answer of an agent gives exactly one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import urlsplit

from envhub.core.errors import (
    EnvhubError,
    EpisodeFailedError,
    EpisodeTimeoutError,
    InvalidRequestError,
    TaskUnusableError,
    ToolError,
    UnavailableError,
)
from envhub.core.protocols import Script
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StopReason, TaskRef
from envhub.envs.datasets import dataset_dir, read_manifest
from envhub.envs.kg import judge, official, prompts
from envhub.envs.kg.exploits import EXPLOITS
from envhub.envs.kg.ontology import Ontology
from envhub.envs.kg.programs import Best, Instances, Program
from envhub.envs.kg.sparql import MAX_ROWS, Compiler
from envhub.envs.kg.store import TripleStore
from envhub.envs.kg.tasks import GRAPH, ONTOLOGY, KGTask, TaskSet, load_graph, load_ontology, load_split
from envhub.envs.kg.terms import Term
from envhub.envs.kg.workspace import Call, Variable, Workspace, check_attribute, check_relation
from envhub.envs.registry import missing_extra
from envhub.envs.toolkit import End, ToolEpisode, tool

NAME = "kg"
VERSION = "1"
MAX_TURNS = 15
OPTIONS: Mapping[str, JSON] = {
    "grading": "strict",
    "one_shot": False,
    "answer_tool": False,
    "max_observation_chars": 12_000,
}
_ANSWER = re.compile(r"(?:Final|Find) Answer:\s*#(\d{1,9})", re.ASCII)

AnyVariable = Annotated[str, "A variable such as #0, or an entity of the question by name or id."]
OneVariable = Annotated[str, "A variable such as #0."]


@dataclass(frozen=True, slots=True)
class KGOptions:
    """``grading``: ``strict`` or ``agentbench``. The latter also intersects and ranks as the published environment does."""

    grading: judge.Mode
    one_shot: bool
    answer_tool: bool
    max_observation_chars: int

    @staticmethod
    def of(options: Mapping[str, JSON]) -> KGOptions:
        """Raises InvalidRequestError."""
        if options["grading"] not in judge.MODES:
            raise InvalidRequestError(f"option 'grading' of kg must be one of {', '.join(judge.MODES)}")
        for name in ("one_shot", "answer_tool"):
            if not isinstance(options[name], bool):
                raise InvalidRequestError(f"option {name!r} of kg must be true or false")
        chars = options["max_observation_chars"]
        if isinstance(chars, bool) or not isinstance(chars, int | float) or not 80 <= chars <= 1_000_000:
            raise InvalidRequestError("option 'max_observation_chars' of kg must be between 80 and 1000000")
        grading = cast(judge.Mode, options["grading"])
        return KGOptions(grading, options["one_shot"], options["answer_tool"], int(chars))


@dataclass(frozen=True, slots=True)
class World:
    """A graph to ask about; ``version`` changes when it does. Without a ``store`` its tasks cannot be played, and ``advice``
    says what to do about it."""

    ontology: Ontology
    version: str
    store: TripleStore | None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """``lint`` gives the defects of its tasks that can be told without a store."""

    tasks: TaskSet
    world: World
    lint: Callable[[], Iterable[Defect]] = tuple


class KGEpisode(ToolEpisode):
    def __init__(self, task: KGTask, ontology: Ontology, store: TripleStore, options: KGOptions) -> None:
        published = options.grading == "agentbench"
        self._task = task
        self._ontology = ontology
        self._store = store
        self._options = options
        self._compiler = Compiler(ontology, "published" if published else "all")
        self._workspace = Workspace(ontology, task.entities, exact_types=published)
        self._properties: dict[Program, frozenset[str]] = {}

    async def reset(self) -> Observation:
        posed = prompts.question(self._task.question, self._task.entities)
        messages = [Message.system(prompts.system(max_turns=MAX_TURNS, answer_tool=self._options.answer_tool))]
        if self._options.one_shot:
            messages += prompts.demonstration()
            posed = prompts.after_demonstration(posed)
        info = {"kind": self._task.kind, "n_hops": self._task.n_hops, "difficulty": self._task.difficulty}
        return Observation((*messages, Message.user(posed)), self.tools, info)

    @tool
    async def get_relations(self, variable: AnyVariable) -> str:
        """List the relations that the entities of a variable have."""
        return self._names(await self._relations(self._workspace.source(variable)))

    @tool
    async def get_neighbors(
        self, variable: AnyVariable, relation: Annotated[str, "A relation that get_relations listed for it."]
    ) -> str:
        """Make a new variable: all entities that the entities of a variable lead to by a relation."""
        source = self._workspace.source(variable)
        name = check_relation(relation.strip(), self._ontology)
        if name not in await self._relations(source):
            raise ToolError(f"Error: {variable} has no relation {name}; get_relations lists those it has")
        return self._made(self._workspace.neighbors(source, name))

    @tool
    async def intersection(self, variable1: OneVariable, variable2: OneVariable) -> str:
        """Make a new variable: the entities that are in both variables, which must hold the same type."""
        left, right = self._workspace.variable(variable1), self._workspace.variable(variable2)
        return self._made(self._workspace.intersection(left, right))

    @tool
    async def get_attributes(self, variable: OneVariable) -> str:
        """List the attributes (numbers and dates) that the entities of a variable have."""
        return self._names(await self._attributes(self._workspace.variable(variable)))

    @tool
    async def argmax(
        self, variable: OneVariable, attribute: Annotated[str, "An attribute that get_attributes listed for it."]
    ) -> str:
        """Make a new variable: the entities of a variable with the greatest value of an attribute."""
        return await self._superlative("ARGMAX", variable, attribute)

    @tool
    async def argmin(
        self, variable: OneVariable, attribute: Annotated[str, "An attribute that get_attributes listed for it."]
    ) -> str:
        """Make a new variable: the entities of a variable with the least value of an attribute."""
        return await self._superlative("ARGMIN", variable, attribute)

    @tool
    async def count(self, variable: OneVariable) -> str:
        """Make a new variable: the number of entities in a variable."""
        return self._made(self._workspace.count(self._workspace.variable(variable)))

    async def on_text(self, content: str) -> str | End:
        """A text names the answer, unless it is one that makes up observations of its own first."""
        found = _ANSWER.search(content.partition("Observation:")[0].replace("\\_", "_"))
        if found is None:
            return prompts.NO_CALL
        return await self._answer(f"#{found[1]}")

    async def close(self) -> None:
        self._properties.clear()

    async def _answer(self, argument: str) -> End:
        try:
            variable = self._workspace.variable(argument)
        except ToolError as error:
            if self._options.grading == "strict":
                raise
            info = {**judge.NOTHING.info(), "reason": str(error)}
            return End(0.0, str(error), StopReason.INVALID_ACTION, info)
        given = await self._select(self._compiler.answers(variable.program))
        whole = len(given) <= MAX_ROWS
        grade = judge.grade(self._task.answer, given, mode=self._options.grading) if whole else judge.NOTHING
        return End(grade.reward, "Your answer has been submitted.", info={**grade.info(), "n_answers": len(given)})

    async def _superlative(self, best: Best, variable: str, attribute: str) -> str:
        source = self._workspace.variable(variable)
        name = check_attribute(attribute.strip(), self._ontology)
        if name not in await self._attributes(source):
            raise ToolError(f"Error: {variable} has no attribute {name}; get_attributes lists those it has")
        return self._made(self._workspace.superlative(best, source, name))

    def _made(self, variable: Variable) -> str:
        return prompts.variable(len(self._workspace) - 1, variable.type)

    def _names(self, found: frozenset[str]) -> str:
        return prompts.names(found, max_chars=self._options.max_observation_chars)

    async def _relations(self, of: Variable) -> frozenset[str]:
        if isinstance(of.program, Instances):
            return self._ontology.relations_of(of.program.of)
        return await self._properties_of(of.program) & self._ontology.relations

    async def _attributes(self, of: Variable) -> frozenset[str]:
        return await self._properties_of(of.program) & self._ontology.attributes

    async def _properties_of(self, program: Program) -> frozenset[str]:
        if program not in self._properties:
            found = await self._select(self._compiler.properties(program))
            self._properties[program] = frozenset(term for term in found if isinstance(term, str))
        return self._properties[program]

    async def _select(self, query: str) -> Sequence[Term]:
        """Raises ToolError for a query that is too expensive, as only the agent's own program can make it."""
        try:
            return await self._store.select(query)
        except UnavailableError as error:
            raise EpisodeFailedError(f"the graph store failed: {error.message}") from error
        except EpisodeTimeoutError as error:
            await self._answers_at_all(error)
            raise ToolError("Error: this takes too long to work out; start from fewer entities") from error

    async def _answers_at_all(self, timeout: EpisodeTimeoutError) -> None:
        """Raises ``timeout`` when the store answers nothing else either: then it is the store that is slow."""
        try:
            await self._store.ready()
        except EnvhubError:
            raise timeout from None


class KGEpisodeWithAnswerTool(KGEpisode):
    @tool
    async def final_answer(self, variable: OneVariable) -> End:
        """Submit a variable as the answer and end the task."""
        return await self._answer(variable)


class KGEnvironment:
    """The stores are closed with the environment."""

    def __init__(self, splits: Mapping[str, Split]) -> None:
        self._splits = splits

    def info(self) -> EnvironmentInfo:
        parts = {name: (split.tasks.dataset_hash, split.world.version) for name, split in self._splits.items()}
        hashes = json.dumps(parts, sort_keys=True)
        return EnvironmentInfo(
            name=NAME,
            version=VERSION,
            description="Multi-hop questions over a knowledge graph, by tools that build sets of entities.",
            splits={name: len(split.tasks) for name, split in self._splits.items()},
            dataset_hash=hashlib.sha256(hashes.encode()).hexdigest()[:16],
            options=OPTIONS,
            max_turns=MAX_TURNS,
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> KGEpisode:
        checked = KGOptions.of(options)
        split = self._splits[task.split]
        world = split.world
        if world.store is None:
            raise TaskUnusableError(f"{task} cannot be played: {world.advice}")
        await world.store.ready()
        episode = KGEpisodeWithAnswerTool if checked.answer_tool else KGEpisode
        return episode(split.tasks[task.index], world.ontology, world.store, checked)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        calls = [Call.parse(text) for text in self._splits[task.split].tasks[task.index].solution]
        n_variables = sum(call.makes_variable for call in calls)
        if not n_variables:
            return None
        played = [
            Message.assistant(None, prompts.call(f"call_{turn}", call.name, call.arguments))
            for turn, call in enumerate(calls)
        ]
        return (*played, Message.assistant(f"Final Answer: #{n_variables - 1}"))

    def lint(self, split: str) -> Iterable[Defect]:
        found = self._splits[split]
        if found.world.store is not None:
            return found.lint()
        unusable = found.world.advice
        return (Defect(TaskRef(NAME, split, index), unusable, usable=False) for index in range(len(found.tasks)))

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        return EXPLOITS

    async def close(self) -> None:
        for split in self._splits.values():
            if split.world.store is not None:
                await split.world.store.close()


_ADVICE = (
    "its questions need Freebase behind a SPARQL endpoint; name it in the setting 'endpoint' of kg or in ENVHUB_KG_ENDPOINT, "
    "e.g. http://localhost:3001/sparql"
)


def create(settings: Mapping[str, JSON]) -> KGEnvironment:
    """Composition root of the environment.

    Settings: ``datasets`` (root of shipped data), ``cache`` (folder for the files of the embedded store, by default below
    $XDG_CACHE_HOME; ``memory`` for none), ``official`` (a copy of AgentBench's repository: splits agentbench-std, -dev and
    -train), ``endpoint`` (SPARQL endpoint with Freebase, which those need) and ``endpoint_graph`` (its default graph).
    Raises InvalidRequestError, MissingExtraError.
    """
    known = ("datasets", "cache", "official", "endpoint", "endpoint_graph")
    for key in settings:
        if key not in known:
            raise InvalidRequestError(f"environment kg has no setting {key!r}; valid: {', '.join(known)}")
    root = Path(settings["datasets"]) if "datasets" in settings else None
    splits = _shipped(dataset_dir(NAME, root=root), settings.get("cache"))
    if "official" in settings:
        splits |= _official(Path(settings["official"]), settings)
    return KGEnvironment(splits)


def _shipped(folder: Path, cache: str | None) -> dict[str, Split]:
    try:
        from envhub.envs.kg import embedded
    except ModuleNotFoundError as error:
        raise missing_extra("environment 'kg'", NAME, error) from error

    manifest = read_manifest(folder)
    where = None if cache == "memory" else Path(cache) if cache else _user_cache()
    key = manifest.files[GRAPH].sha256[:16]
    version = f"{key}-{manifest.files[ONTOLOGY].sha256[:16]}"
    store = embedded.EmbeddedStore(partial(embedded.open_store, where, key, partial(load_graph, folder)))
    world = World(load_ontology(folder), version, store)
    return {name: Split(load_split(folder, name), world) for name in manifest.splits}


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envhub" / NAME


def _official(root: Path, settings: Mapping[str, JSON]) -> dict[str, Split]:
    from envhub.envs.kg.http import HttpStore

    endpoint = settings.get("endpoint")
    if endpoint and (urlsplit(str(endpoint)).scheme not in ("http", "https") or not urlsplit(str(endpoint)).hostname):
        raise InvalidRequestError("setting 'endpoint' of kg must be a URL such as http://localhost:3001/sparql")
    if not (root / official.SCHEMA).exists():
        raise InvalidRequestError(
            f"setting 'official' of kg must name a copy of AgentBench's repository; {root} is none"
        )
    ontology = official.load_schema(root / official.SCHEMA)
    store = HttpStore(str(endpoint), graph=settings.get("endpoint_graph")) if endpoint else None
    world = World(ontology, "freebase", store, _ADVICE)
    found = {}
    for name, file in official.FILES.items():
        tasks = official.load_questions(root / official.QUESTIONS / file)
        found[name] = Split(tasks, world, partial(official.lint, tasks, ontology, environment=NAME, split=name))
    return found

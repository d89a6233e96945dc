"""The ALFWorld environment: a household task in text, played natively or by the real packages.

Invariant: an episode owns its play and shares nothing that changes; whatever an agent sends is carried out as written or not
at all, unless the grading mode ``agentbench`` is asked for. A win earns 1, whatever went before it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from envhub.core.errors import InvalidRequestError, TaskUnusableError
from envhub.core.protocols import Script
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StepResult, StopReason, TaskRef
from envhub.envs.alfworld import expert, official, prompts, tasks
from envhub.envs.alfworld.exploits import EXPLOITS
from envhub.envs.alfworld.game import Family, Game, Text
from envhub.envs.alfworld.options import OPTIONS, Options
from envhub.envs.alfworld.pddl import UnsupportedGameError
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.players import NativePlayer, Player
from envhub.envs.alfworld.tasks import TaskSet
from envhub.envs.alfworld.textworld_backend import POSED_TEXT, StagePool
from envhub.envs.alfworld.tools import ActionTool, Tools, VerbTools
from envhub.envs.alfworld.world import World, build
from envhub.envs.datasets import dataset_dir, read_manifest
from envhub.envs.toolkit import End, Outcome

NAME = "alfworld"
VERSION = "1"
MAX_TURNS = 20
Backend = Literal["native", "textworld", "auto"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
_DEFAULT_SPLIT = "valid_unseen"
_N_WORLDS = 512
_MAX_PROCESSES = 256
_N_REPEATS = 3
"""AgentBench ends an episode at so many equal actions in a row, once more than so many were made."""


class AlfworldEpisode:
    """``family`` is None when the game is not known natively."""

    action_tool = "take_action"

    def __init__(self, player: Player, options: Options, *, family: Family | None) -> None:
        self.player = player
        self._options = options
        self._family = family
        self._tools: Tools = (VerbTools if options.tools == "verbs" else ActionTool)(self._act, put=player.put)
        self._last_written: deque[str] = deque(maxlen=_N_REPEATS)
        self._n_actions = 0
        self._executed: str | None = None

    async def reset(self) -> Observation:
        system = prompts.SYSTEM_AGENTBENCH if self._options.published else prompts.SYSTEM
        shown = self.player.admissible if self._options.admissible != "never" else None
        task = prompts.first_message(self.player.observation, shown, published=self._options.published)
        return Observation((Message.system(system), Message.user(task)), self._tools.tools, self._info())

    async def step(self, message: Message) -> StepResult:
        self._executed = None
        result = await self._tools.step(message)
        return replace(result, info={**result.info, **self._info()})

    async def close(self) -> None:
        await self.player.close()

    def expert_plan(self) -> tuple[str, ...] | None:
        """Actions that win from here; None when there is no way, or when the real packages play."""
        return self.player.expert_plan() if isinstance(self.player, NativePlayer) else None

    async def fork(self) -> AlfworldEpisode | None:
        """An independent episode that goes on from here; None when the real packages play."""
        if not isinstance(self.player, NativePlayer):
            return None
        other = AlfworldEpisode(self.player.fork(), self._options, family=self._family)
        other._last_written.extend(self._last_written)
        other._n_actions = self._n_actions
        return other

    async def _act(self, written: str) -> Outcome:
        self._last_written.append(written)
        self._n_actions += 1
        self._executed = await self.player.step(written, self._options.matching)
        seen = self.player.observation
        if self._executed is None and self._options.reasons and (reason := self.player.reason(written)):
            seen = f"{seen} {reason}"
        shown = self.player.admissible if self._options.admissible == "always" and not self.player.won else None
        text = prompts.observation(seen, shown, published=self._options.published)
        if self.player.won:
            return End(1.0, text)
        if self._options.published and self._repeats():
            return End(0.0, text, StopReason.INVALID_ACTION)
        return text

    def _repeats(self) -> bool:
        return self._n_actions > _N_REPEATS and len(set(self._last_written)) == 1

    def _info(self) -> Mapping[str, JSON]:
        return {
            "won": self.player.won,
            "family": self._family.value if self._family else None,
            "subgoals": self.player.progress(),
            "executed": self._executed,
            "n_actions": self._n_actions,
        }


class AlfworldEnvironment:
    """``splits`` are the task sets by name. ``stages`` plays what the backend leaves to the real packages; closed with this."""

    def __init__(
        self, splits: Mapping[str, TaskSet], *, backend: Backend = "native", stages: StagePool | None = None
    ) -> None:
        self._splits = splits
        self._backend = backend
        self._stages = stages
        self._worlds: OrderedDict[tuple[str, int, Text | None], World] = OrderedDict()

    def info(self) -> EnvironmentInfo:
        hashes = json.dumps({name: tasks.dataset_hash for name, tasks in sorted(self._splits.items())})
        return EnvironmentInfo(
            name=NAME,
            version=VERSION if self._backend == "native" else f"{VERSION}-{self._backend}",
            description="Household tasks in text: find, clean, heat, cool, light up and place objects.",
            splits={name: len(tasks) for name, tasks in self._splits.items()},
            dataset_hash=hashlib.sha256(hashes.encode()).hexdigest()[:16],
            options=OPTIONS,
            max_turns=MAX_TURNS,
            default_split=_DEFAULT_SPLIT if _DEFAULT_SPLIT in self._splits else next(iter(self._splits)),
        )

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> AlfworldEpisode:
        checked = Options.of(options)
        try:
            world = self._world(task, checked.text)
        except UnsupportedGameError:
            if self._stages is None:
                raise
            return await self._open_in_textworld(task, None, checked)
        if self._backend == "textworld":
            return await self._open_in_textworld(task, world.game, checked)
        return AlfworldEpisode(NativePlayer(Play(world)), checked, family=world.game.goal.family)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        try:
            world = self._world(task, None)
        except TaskUnusableError:
            return None
        if world.game.walkthrough:
            return tasks.solution(world.game)
        return tasks.solution(replace(world.game, walkthrough=expert.plan(world) or ()))

    def expert_plan(self, task: TaskRef) -> tuple[str, ...] | None:
        """The actions of the expert from the start; None when it finds no way. Raises TaskUnusableError."""
        return expert.plan(self._world(task, None))

    def lint(self, split: str) -> Iterable[Defect]:
        for defect in tasks.lint(self._splits[split], environment=NAME, split=split):
            path = self._splits[split].path(defect.task.index)
            if not defect.usable and self._stages is not None and path is not None and path.is_file():
                yield replace(defect, problem=f"{defect.problem}; the TextWorld backend plays it", usable=True)
            else:
                yield defect

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        return EXPLOITS

    async def close(self) -> None:
        if self._stages is not None:
            await self._stages.close()

    def _world(self, task: TaskRef, text: Text | None) -> World:
        """Raises TaskUnusableError."""
        key = task.split, task.index, text
        if key not in self._worlds:
            self._worlds[key] = build(self._splits[task.split][task.index], text)
        self._worlds.move_to_end(key)
        if len(self._worlds) > _N_WORLDS:
            self._worlds.popitem(last=False)
        return self._worlds[key]

    async def _open_in_textworld(self, task: TaskRef, game: Game | None, options: Options) -> AlfworldEpisode:
        """``game`` is None for an official file that is not understood natively."""
        assert self._stages is not None, "the composition root makes the pool when the backend needs one"
        path = self._splits[task.split].path(task.index)
        source = game if path is None else path
        assert source is not None, "only an official file can be one that is not understood"
        text = POSED_TEXT if path is None else game.text if game is not None else "2.1.1"
        if options.text not in (None, text):
            raise InvalidRequestError(f"the TextWorld backend of alfworld plays this game in the wording {text} only")
        player = await self._stages.begin(source, text)
        return AlfworldEpisode(player, options, family=game.goal.family if game is not None else None)


_SETTINGS = ("datasets", "official", "partial", "agentbench", "backend", "python", "processes")


def create(settings: Mapping[str, JSON]) -> AlfworldEnvironment:
    """Composition root of the environment.

    Settings: ``datasets`` (root of shipped data), ``official`` (folder that holds json_2.1.1: splits official-train,
    official-valid_seen, official-valid_unseen; ``partial=true`` accepts a part of a release), ``agentbench`` (folder of
    AgentBench's lists, its data/alfworld: splits agentbench-std, ...; needs ``official``), ``backend`` (native; textworld: the
    real packages play; auto: they play what the native engine refuses), ``python`` (an interpreter that has the packages) and
    ``processes`` (how many of it). Raises InvalidRequestError.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise InvalidRequestError(f"environment alfworld has no setting {key!r}; valid: {', '.join(_SETTINGS)}")
    backend = settings.get("backend", "native")
    if backend not in BACKENDS:
        raise InvalidRequestError(f"setting 'backend' of alfworld must be one of {', '.join(BACKENDS)}")
    try:
        splits = {**_shipped(settings), **_official(settings)}
    except (FileNotFoundError, ValueError) as error:
        raise InvalidRequestError(f"alfworld: {error}") from error
    return AlfworldEnvironment(splits, backend=backend, stages=_stages(settings) if backend != "native" else None)


def _shipped(settings: Mapping[str, JSON]) -> dict[str, TaskSet]:
    folder = dataset_dir(NAME, root=Path(settings["datasets"]) if "datasets" in settings else None)
    return {split: tasks.load_split(folder, split) for split in read_manifest(folder).splits}


def _official(settings: Mapping[str, JSON]) -> dict[str, TaskSet]:
    if "official" not in settings:
        if "agentbench" in settings:
            raise InvalidRequestError("setting 'agentbench' of alfworld needs 'official', the folder of the games")
        return {}
    index = official.open_index(Path(settings["official"]))
    partial = _flag(settings, "partial")
    found = {}
    for split in official.RELEASE_SIZES:
        if not partial or any(path.startswith(f"{official.FOLDER}/{split}/") for path in index.games):
            found[f"official-{split}"] = official.load_split(index, split, partial=partial)
    if "agentbench" in settings:
        for split, file in official.AGENTBENCH_LISTS.items():
            found[split] = official.load_list(Path(settings["agentbench"]) / file, index)
    return found


def _flag(settings: Mapping[str, JSON], name: str) -> bool:
    value = str(settings.get(name, False)).lower()
    if value not in ("true", "false"):
        raise InvalidRequestError(f"setting {name!r} of alfworld must be true or false")
    return value == "true"


def _stages(settings: Mapping[str, JSON]) -> StagePool:
    wanted = str(settings.get("processes", os.cpu_count() or 1))
    size = int(wanted) if wanted.isdecimal() else 0
    if not 1 <= size <= _MAX_PROCESSES:
        raise InvalidRequestError(f"setting 'processes' of alfworld must be between 1 and {_MAX_PROCESSES}")
    return StagePool(python=settings.get("python"), size=size)

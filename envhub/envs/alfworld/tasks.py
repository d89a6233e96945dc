"""ALFWorld task sets: the games of one split, decoded when asked for, and the file format they ship in.

Invariant: task *n* of a split is the same game on every machine; a file that is not what its manifest says is refused.

Native format, one folder per dataset (``datasets/alfworld``): a manifest and packed files as in ``envhub.envs.datasets``; a split
holds one game a line in the compact form of ``game.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from envhub.core.errors import TaskUnusableError
from envhub.core.types import JSON, Defect, Message, TaskRef, ToolCall
from envhub.envs import datasets
from envhub.envs.alfworld.game import Family, Game, Thing, Trait, decode, encode
from envhub.envs.alfworld.tables import ACCEPTS
from envhub.envs.datasets import Manifest, SplitEntry

SPLITS = ("train", "valid_seen", "valid_unseen")

_CHANGES_AT: Mapping[Family, str] = {Family.CLEAN: "SinkBasin", Family.HEAT: "Microwave", Family.COOL: "Fridge"}
_CHANGEABLE: Mapping[Family, Trait] = {
    Family.CLEAN: Trait.CLEANABLE,
    Family.HEAT: Trait.HEATABLE,
    Family.COOL: Trait.COOLABLE,
}


class TaskSet(datasets.TaskSet[Game]):
    """The games of one split. ``suspects`` are the tasks in doubt, in index order; the others are known to be sound.

    An item that cannot be read or played natively raises TaskUnusableError.
    """

    def __init__(
        self,
        name: str,
        n_tasks: int,
        load: Callable[[int], Game],
        *,
        dataset_hash: str,
        suspects: Sequence[int] = (),
        path: Callable[[int], Path] | None = None,
    ) -> None:
        super().__init__(name, n_tasks, load, dataset_hash=dataset_hash)
        self.suspects = tuple(suspects)
        self._path = path

    def path(self, index: int) -> Path | None:
        """The official game file of a task, which may be missing; None for a task that never was in such a file.

        Raises IndexError outside 0..len-1.
        """
        self.check(index)
        return self._path(index) if self._path else None


def solution(game: Game) -> tuple[Message, ...] | None:
    """The assistant messages that play the game's walkthrough, one command each; None when it has none."""
    if not game.walkthrough:
        return None
    return tuple(
        Message.assistant(None, ToolCall(f"call_{turn}", "take_action", json.dumps({"action": command})))
        for turn, command in enumerate(game.walkthrough)
    )


def lint(tasks: TaskSet, *, environment: str, split: str) -> Iterator[Defect]:
    """The tasks that cannot be played or cannot be won, in index order."""
    for index in tasks.suspects:
        task = TaskRef(environment, split, index)
        try:
            game = tasks[index]
        except TaskUnusableError as error:
            yield Defect(task, error.message, usable=False)
            continue
        reason = obstacle(game)
        if reason:
            yield Defect(task, f"it can be played but not won: {reason}")
        elif not game.walkthrough:
            yield Defect(task, "its file says that it is not solvable, though nothing stands in the way")


def obstacle(game: Game) -> str | None:
    """Why nobody can win the game, or None. What lies in no receptacle can never be taken."""
    goal = game.goal
    takeable = [each for each in game.things if each.receptacles and Trait.PICKUPABLE in each.traits]
    n_wanted = 2 if goal.family is Family.TWO else 1
    n_found = sum(each.kind == goal.object for each in takeable)
    if n_found < n_wanted:
        return f"it wants {n_wanted} {goal.object}, and only {n_found} can be taken"
    if goal.family is Family.LIGHT:
        lit = any(each.kind == goal.target and each.receptacles for each in _toggleable(game))
        return None if lit else f"no {goal.target} can be used"
    kinds = {each.kind for each in game.receptacles}
    for needed in (goal.target, _CHANGES_AT.get(goal.family)):
        if needed and needed not in kinds:
            return f"the room has no {needed}"
    if goal.object not in ACCEPTS[goal.target]:
        return f"no {goal.object} can be put into a {goal.target}"
    able = _CHANGEABLE.get(goal.family)
    if able and not any(each.kind == goal.object and able in each.traits for each in takeable):
        return f"no {goal.object} is {able.name.lower()}"
    return None


def _toggleable(game: Game) -> Iterator[Thing]:
    return (each for each in game.things if Trait.TOGGLEABLE in each.traits)


def load_split(folder: Path, split: str) -> TaskSet:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    manifest = datasets.read_manifest(folder)
    lines = datasets.read_split_lines(folder, manifest, split)
    entry = manifest.splits[split]
    if len(lines) != entry.n_tasks:
        raise ValueError(f"{folder / entry.file} holds {len(lines)} tasks; the manifest says {entry.n_tasks}")
    name = f"{manifest.name}/{split}"
    return TaskSet(name, entry.n_tasks, lambda index: decode(json.loads(lines[index])), dataset_hash=entry.sha256)


def write_dataset(
    folder: Path,
    splits: Mapping[str, Iterable[Game]],
    *,
    name: str,
    version: str,
    generator: Mapping[str, JSON],
) -> Manifest:
    """Write every split and the manifest; equal games give equal bytes. Raises ValueError when two games share an id."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {split: _write_split(folder, split, list(games)) for split, games in splits.items()}
    manifest = Manifest(name, version, generator, entries)
    datasets.write_manifest(folder, manifest)
    return manifest


def _write_split(folder: Path, split: str, games: list[Game]) -> SplitEntry:
    name, n_times = Counter(game.id for game in games).most_common(1)[0]
    if n_times > 1:
        raise ValueError(f"split {split} has {n_times} games of the id {name!r}")
    lines = (datasets.compact(encode(game)) for game in games)
    return datasets.write_split(folder, split, lines, n_tasks=len(games))

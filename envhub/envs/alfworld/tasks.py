"""ALFWorld task sets: the games of one split, decoded when asked for, and the file format they ship in.

Invariant: task *n* of a split is the same game on every machine; a file that is not what its manifest says is refused.

Native format, one folder per dataset (``datasets/alfworld``)::

    manifest.json     {"format": 1, "name": "alfworld", "version": "1.0.0",
                       "generator": {"seed": 2026, ...},                            free-form, how it was made
                       "splits": {"train": {"file": "train.jsonl.gz", "tasks": 3553,
                                            "sha256": <of the uncompressed JSONL>, "bytes": <of the compressed file>}}}
    <split>.jsonl.gz  UTF-8, one game a line in the compact form of ``game.py``; gzip without name or time stamp
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.core.errors import TaskUnusableError
from envhub.core.types import JSON, Defect, Message, TaskRef, ToolCall
from envhub.envs.alfworld.game import Family, Game, Thing, Trait, decode, encode
from envhub.envs.alfworld.tables import ACCEPTS

FORMAT = 1
SPLITS = ("train", "valid_seen", "valid_unseen")

_CHANGES_AT: Mapping[Family, str] = {Family.CLEAN: "SinkBasin", Family.HEAT: "Microwave", Family.COOL: "Fridge"}
_CHANGEABLE: Mapping[Family, Trait] = {
    Family.CLEAN: Trait.CLEANABLE,
    Family.HEAT: Trait.HEATABLE,
    Family.COOL: Trait.COOLABLE,
}


class TaskSet:
    """The games of one split. ``suspects`` are the tasks in doubt, in index order; the others are known to be sound."""

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
        self.name = name
        self.dataset_hash = dataset_hash
        self.suspects = tuple(suspects)
        self._n_tasks = n_tasks
        self._load = load
        self._path = path

    def __len__(self) -> int:
        return self._n_tasks

    def __getitem__(self, index: int) -> Game:
        """Raises IndexError outside 0..len-1 and TaskUnusableError for a game that cannot be read or played natively."""
        self._check(index)
        return self._load(index)

    def __iter__(self) -> Iterator[Game]:
        return (self._load(index) for index in range(self._n_tasks))

    def path(self, index: int) -> Path | None:
        """The official game file of a task, which may be missing; None for a task that never was in such a file."""
        self._check(index)
        return self._path(index) if self._path else None

    def _check(self, index: int) -> None:
        if not 0 <= index < self._n_tasks:
            raise IndexError(f"{self.name} has no task {index}; valid: 0..{self._n_tasks - 1}")


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


@dataclass(frozen=True, slots=True)
class SplitEntry:
    file: str
    n_tasks: int
    sha256: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    version: str
    generator: Mapping[str, JSON]
    splits: Mapping[str, SplitEntry]


def read_manifest(folder: Path) -> Manifest:
    """Raises ValueError when the manifest is not of this format."""
    raw = json.loads((folder / "manifest.json").read_text("utf-8"))
    if raw.get("format") != FORMAT:
        raise ValueError(f"{folder}/manifest.json has format {raw.get('format')!r}; this version reads {FORMAT}")
    splits = {
        name: SplitEntry(entry["file"], entry["tasks"], entry["sha256"], entry["bytes"])
        for name, entry in raw["splits"].items()
    }
    return Manifest(raw["name"], raw["version"], raw["generator"], splits)


def load_split(folder: Path, split: str) -> TaskSet:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    manifest = read_manifest(folder)
    if split not in manifest.splits:
        raise KeyError(f"no split {split!r}; valid: {', '.join(manifest.splits)}")
    entry = manifest.splits[split]
    content = gzip.decompress((folder / entry.file).read_bytes())
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry.sha256:
        raise ValueError(f"{folder / entry.file} has sha256 {digest}; the manifest says {entry.sha256}")
    lines = content.split(b"\n")[:-1]
    if len(lines) != entry.n_tasks:
        raise ValueError(f"{folder / entry.file} holds {len(lines)} tasks; the manifest says {entry.n_tasks}")
    return TaskSet(
        f"{manifest.name}/{split}",
        entry.n_tasks,
        lambda index: decode(json.loads(lines[index])),
        dataset_hash=digest,
    )


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
    raw = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "generator": dict(generator),
        "splits": {
            split: {"file": entry.file, "tasks": entry.n_tasks, "sha256": entry.sha256, "bytes": entry.n_bytes}
            for split, entry in entries.items()
        },
    }
    (folder / "manifest.json").write_text(json.dumps(raw, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return Manifest(name, version, generator, entries)


def _write_split(folder: Path, split: str, games: list[Game]) -> SplitEntry:
    name, n_times = Counter(game.id for game in games).most_common(1)[0]
    if n_times > 1:
        raise ValueError(f"split {split} has {n_times} games of the id {name!r}")
    lines = (json.dumps(encode(game), ensure_ascii=False, separators=(",", ":")) for game in games)
    content = "".join(f"{line}\n" for line in lines).encode()
    packed = gzip.compress(content, 9, mtime=0)
    file = f"{split}.jsonl.gz"
    (folder / file).write_bytes(packed)
    return SplitEntry(file, len(games), hashlib.sha256(content).hexdigest(), len(packed))

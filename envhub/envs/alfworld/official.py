"""The official ALFWorld games: where they lie, the index that names them, and the lists AgentBench draws from them.

Layout, below the data folder (``$ALFWORLD_DATA`` of the alfworld package)::

    json_2.1.1/<train|valid_seen|valid_unseen>/<task>/<trial>/game.tw-pddl
    json_2.1.1/envhub-index.json             made by the first start, in one walk; later starts read it and walk nothing

Invariant: order is by path, never by file system; a game that is not byte for byte the one that was indexed is refused, and
an index that no longer fits the folders is made again. The official splits hold the games that the alfworld package plays:
marked solvable, of one of the six families, nothing sliced and no movable receptacle.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from envhub.core.errors import TaskUnusableError
from envhub.core.types import JSON
from envhub.envs.alfworld.game import Family, Game
from envhub.envs.alfworld.pddl import GameFile, UnsupportedGameError, parse_game, text_version
from envhub.envs.alfworld.tasks import SPLITS, TaskSet

log = logging.getLogger(__name__)

FOLDER = "json_2.1.1"
GAME_FILE = "game.tw-pddl"
INDEX_FILE = "envhub-index.json"
RELEASE_SIZES: Mapping[str, int] = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Games of each split in a whole release; 2.1.1 and 2.1.2 agree."""

AGENTBENCH_LISTS: Mapping[str, str] = {
    "agentbench-std": "new_std.json",
    "agentbench-old": "standard.json",
    "agentbench-dev": "dev.json",
    "agentbench-train": "train_valid.json",
}
"""Split name to the file of AgentBench's ``data/alfworld`` that lists its games."""

HOW_TO_GET = (
    "The games come with the alfworld package: `pip install alfworld`, then `alfworld-download --data-dir FOLDER`, and name "
    f"FOLDER here; or unpack json_2.1.2_tw-pddl.zip of its release 0.4.0, so that FOLDER/{FOLDER}/train exists. The "
    "splits that ship with envhub need none of this."
)
_FORMAT = 1
_REPORT_EVERY = 500
_READABLE = 0o644
"""An index is for the workers of every user; a temporary file is private."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One indexed game file. ``path`` is relative to the data folder, with slashes; ``text`` is None for unknown rules."""

    path: str
    size: int
    mtime_ns: int
    sha256: str
    solvable: bool
    text: str | None

    @property
    def official(self) -> bool:
        """Whether the alfworld package would play it, going by its name and its mark."""
        family, _, rest = self.path.split("/")[2].partition("-")
        return self.solvable and family in set(Family) and "Sliced" not in rest and "movable" not in self.path


@dataclass(frozen=True, slots=True)
class Index:
    """The games below ``root``, by path, in order of path. ``folders`` are the times at which folders last changed."""

    root: Path
    games: Mapping[str, Entry]
    folders: Mapping[str, int]

    def read(self, path: str) -> GameFile:
        """Raises TaskUnusableError when the game is not there, or not as it was indexed."""
        entry = self.games.get(path)
        if entry is None:
            raise TaskUnusableError(f"{path} is not in the data folder {self.root}", path=path)
        try:
            content = (self.root / path).read_bytes()
        except OSError as error:
            raise TaskUnusableError(f"{path} cannot be read: {error.strerror}", path=path) from error
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise TaskUnusableError(
                f"{path} has changed since it was indexed (wrong sha256); restart to index it anew", path=path
            )
        return GameFile.of(content.decode("utf-8", "replace"))

    def game(self, path: str) -> Game:
        """Raises TaskUnusableError; the kind UnsupportedGameError when the file is sound but not for the native engine."""
        return parse_game(self.read(path), name=path.removesuffix(f"/{GAME_FILE}"))


def open_index(root: Path, *, file: Path | None = None) -> Index:
    """The index of the games below ``root``, kept in ``file`` (default: beside the games) and made when missing or stale.

    Raises FileNotFoundError when there are no games, with the way to get them; ValueError when some are cut short.
    """
    if not (root / FOLDER).is_dir():
        raise FileNotFoundError(f"no official ALFWorld games in {root}: it has no folder {FOLDER}. {HOW_TO_GET}")
    file = file or root / FOLDER / INDEX_FILE
    known = _load(file, root)
    if known is not None and known.folders == _folder_times(root, known.folders):
        return known
    index = _scan(root, known.games if known is not None else {})
    if not index.games:
        raise FileNotFoundError(f"no {GAME_FILE} below {root / FOLDER}. {HOW_TO_GET}")
    _save(file, index)
    return index


def load_split(index: Index, split: str, *, partial: bool = False) -> TaskSet:
    """An official split. Raises ValueError for one that is not whole, unless ``partial``, and KeyError for an unknown one."""
    if split not in RELEASE_SIZES:
        raise KeyError(f"no official split {split!r}; valid: {', '.join(RELEASE_SIZES)}")
    prefix = f"{FOLDER}/{split}/"
    paths = [path for path, entry in index.games.items() if path.startswith(prefix) and entry.official]
    if not paths or (len(paths) != RELEASE_SIZES[split] and not partial):
        raise ValueError(
            f"{index.root / FOLDER / split} holds {len(paths)} of {RELEASE_SIZES[split]} games: the folder is not whole. "
            f"Remove it and unpack the archive again, or set partial=true to play what is there. {HOW_TO_GET}"
        )
    return _task_set(f"official/{split}", paths, index)


def load_list(path: Path, index: Index) -> TaskSet:
    """A list of AgentBench: a JSON object of families, each a list of game paths; joined in file order.

    A game that is not in the index keeps its number and cannot be played. Raises FileNotFoundError, or ValueError when the
    file is not such a list.
    """
    try:
        raw = json.loads(path.read_bytes())
        paths = [game for games in raw.values() for game in games]
        wrong = [game for game in paths if not isinstance(game, str) or not game.endswith(f"/{GAME_FILE}")]
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not a JSON object of lists of game paths: {error}") from error
    if wrong or not paths:
        raise ValueError(f"{path} names no games, or something else than games: {wrong[:1]}")
    return _task_set(f"agentbench/{path.stem}", paths, index)


def _task_set(name: str, paths: list[str], index: Index) -> TaskSet:
    digest = hashlib.sha256()
    suspects = []
    for number, path in enumerate(paths):
        entry = index.games.get(path)
        digest.update(f"{path} {entry.sha256 if entry else 'missing'}\n".encode())
        if entry is None or not entry.official or entry.text is None:
            suspects.append(number)
    return TaskSet(
        name,
        len(paths),
        lambda number: index.game(paths[number]),
        dataset_hash=digest.hexdigest(),
        suspects=suspects,
        path=lambda number: index.root / paths[number],
    )


def _load(file: Path, root: Path) -> Index | None:
    """The index as it was saved; None when there is none or it cannot be used."""
    try:
        raw = json.loads(file.read_bytes())
        if raw["format"] != _FORMAT:
            return None
        entries = [Entry(*row) for row in raw["games"]]
        return Index(root, {entry.path: entry for entry in entries}, raw["folders"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        log.warning("alfworld index %s cannot be used (%s); it is made again", file, error)
        return None


def _save(file: Path, index: Index) -> None:
    """Replaces the file at once, so that no reader ever sees half of it; a folder that cannot be written is no failure."""
    rows = [list(asdict(entry).values()) for entry in index.games.values()]
    record: JSON = {"format": _FORMAT, "folders": index.folders, "games": rows}
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as draft:
            json.dump(record, draft, separators=(",", ":"))
        os.chmod(draft.name, _READABLE)
        os.replace(draft.name, file)
    except OSError as error:
        log.warning("alfworld index cannot be kept in %s (%s); every start walks the games again", file, error)


def _folder_times(root: Path, folders: Iterable[str]) -> Mapping[str, int]:
    """When the named folders and those of the splits last changed; a folder that is gone is left out."""
    found: dict[str, int] = {}
    for name in dict.fromkeys((*(f"{FOLDER}/{split}" for split in SPLITS), *folders)):
        try:
            found[name] = (root / name).stat().st_mtime_ns
        except OSError:
            continue
    return found


def _scan(root: Path, known: Mapping[str, Entry]) -> Index:
    """Walks the games once, in order of path; files that have not changed since ``known`` are not read again."""
    folders: dict[str, int] = {}
    files = sorted(_game_files(root, folders.__setitem__))
    log.info("alfworld: indexing %d games below %s", len(files), root / FOLDER)
    games: dict[str, Entry] = {}
    broken: list[str] = []
    for number, path in enumerate(files, 1):
        try:
            games[path] = _entry(root, path, known.get(path))
        except UnsupportedGameError:
            broken.append(path)
        if number % _REPORT_EVERY == 0:
            log.info("alfworld: %d of %d games indexed", number, len(files))
    if broken:
        raise ValueError(
            f"{len(broken)} of {len(files)} game files below {root / FOLDER} are cut short or not game files, the first "
            f"{broken[0]}: the folder is half unpacked. Remove it and unpack the archive again."
        )
    return Index(root, games, folders)


def _game_files(root: Path, note: Callable[[str, int], None]) -> Iterator[str]:
    """Paths of the game files, in no order; every folder where one may still appear is noted with its time of change."""
    for split in SPLITS:
        if not (root / FOLDER / split).is_dir():
            continue
        note(f"{FOLDER}/{split}", (root / FOLDER / split).stat().st_mtime_ns)
        for task in os.scandir(root / FOLDER / split):
            if not task.is_dir():
                continue
            note(f"{FOLDER}/{split}/{task.name}", task.stat().st_mtime_ns)
            for trial in os.scandir(task.path):
                path = f"{FOLDER}/{split}/{task.name}/{trial.name}"
                if (root / path / GAME_FILE).is_file():
                    yield f"{path}/{GAME_FILE}"
                elif trial.is_dir():
                    note(path, trial.stat().st_mtime_ns)


def _entry(root: Path, path: str, known: Entry | None) -> Entry:
    """Raises UnsupportedGameError for a file that is not a game file at all."""
    status = (root / path).stat()
    if known is not None and (known.size, known.mtime_ns) == (status.st_size, status.st_mtime_ns):
        return known
    content = (root / path).read_bytes()
    game = GameFile.of(content.decode("utf-8", "replace"))
    try:
        text: str | None = text_version(game.domain, game.grammar)
    except UnsupportedGameError:
        text = None
    digest = hashlib.sha256(content).hexdigest()
    return Entry(path, len(content), status.st_mtime_ns, digest, game.solvable, text)

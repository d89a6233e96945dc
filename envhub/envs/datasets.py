"""Where shipped datasets lie, and the manifest that describes one.

Invariant: the same name finds the same files in a checkout and in an installed wheel, and a file that is not byte for byte
what its manifest says is refused.

::

    manifest.json     {"format": 1, "name": "db", "version": "1.0.0",
                       "generator": {"seed": 7, "version": "1.0.0", ...},            free-form, how it was made
                       "splits": {"train": {"file": "train.jsonl.gz", "tasks": 2000,
                                            "sha256": <of the uncompressed text>, "bytes": <of the compressed file>}},
                       "files": {"graph": {"file": "graph.tsv.gz", "records": 210000, "sha256": ..., "bytes": ...}}}
    *.gz              UTF-8 lines, ``\\n`` after each; gzip without name or time stamp

``files`` is what the splits share; it is left out when they share nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from envhub.core.types import JSON

FORMAT = 1
_ANY_SYSTEM = b"\xff"
"""The byte of a gzip header that names the operating system; Python versions differ in what they write there."""
_PACKAGE = Path(__file__).resolve().parents[1]

T = TypeVar("T")


def dataset_dir(name: str, *, root: Path | None = None) -> Path:
    """The folder of dataset ``name``: below ``root`` when given, else in the wheel, else in the checkout.

    Raises FileNotFoundError naming every place that was tried.
    """
    roots = (root,) if root is not None else (_PACKAGE / "_datasets", _PACKAGE.parent / "datasets")
    for candidate in roots:
        if (candidate / name / "manifest.json").is_file():
            return candidate / name
    tried = ", ".join(str(candidate / name) for candidate in roots)
    raise FileNotFoundError(f"dataset {name!r} has no manifest.json; looked in {tried}")


class TaskSet(Generic[T]):
    """The tasks of one split, decoded when asked for."""

    def __init__(self, name: str, n_tasks: int, decode: Callable[[int], T], *, dataset_hash: str) -> None:
        self.name = name
        self.dataset_hash = dataset_hash
        self._n_tasks = n_tasks
        self._decode = decode

    def __len__(self) -> int:
        return self._n_tasks

    def __getitem__(self, index: int) -> T:
        """Raises IndexError outside 0..len-1."""
        self.check(index)
        return self._decode(index)

    def check(self, index: int) -> None:
        """Raises IndexError outside 0..len-1."""
        if not 0 <= index < self._n_tasks:
            raise IndexError(f"{self.name} has no task {index}; valid: 0..{self._n_tasks - 1}")

    def __iter__(self) -> Iterator[T]:
        return (self._decode(index) for index in range(self._n_tasks))


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """A packed file of tasks."""

    file: str
    n_tasks: int
    sha256: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A packed file of other records."""

    file: str
    n_records: int
    sha256: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    version: str
    generator: Mapping[str, JSON]
    splits: Mapping[str, SplitEntry]
    files: Mapping[str, FileEntry] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest:
    """Raises ValueError when the manifest is not of this format."""
    raw = json.loads((folder / "manifest.json").read_text("utf-8"))
    if raw.get("format") != FORMAT:
        raise ValueError(f"{folder}/manifest.json has format {raw.get('format')!r}; this version reads {FORMAT}")
    splits = {
        name: SplitEntry(entry["file"], entry["tasks"], entry["sha256"], entry["bytes"])
        for name, entry in raw["splits"].items()
    }
    files = {
        name: FileEntry(entry["file"], entry["records"], entry["sha256"], entry["bytes"])
        for name, entry in raw.get("files", {}).items()
    }
    return Manifest(raw["name"], raw["version"], raw["generator"], splits, files)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    raw: dict[str, JSON] = {
        "format": FORMAT,
        "name": manifest.name,
        "version": manifest.version,
        "generator": dict(manifest.generator),
        "splits": {
            name: {"file": entry.file, "tasks": entry.n_tasks, "sha256": entry.sha256, "bytes": entry.n_bytes}
            for name, entry in manifest.splits.items()
        },
    }
    if manifest.files:
        raw["files"] = {
            name: {"file": entry.file, "records": entry.n_records, "sha256": entry.sha256, "bytes": entry.n_bytes}
            for name, entry in manifest.files.items()
        }
    (folder / "manifest.json").write_text(json.dumps(raw, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_split_lines(folder: Path, manifest: Manifest, split: str) -> list[bytes]:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    if split not in manifest.splits:
        raise KeyError(f"no split {split!r}; valid: {', '.join(manifest.splits)}")
    return read_lines(folder, manifest.splits[split])


def read_lines(folder: Path, entry: SplitEntry | FileEntry) -> list[bytes]:
    """The lines of a packed file, without their ends. Raises ValueError when it is not what the manifest says."""
    content = gzip.decompress((folder / entry.file).read_bytes())
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry.sha256:
        raise ValueError(f"{folder / entry.file} has sha256 {digest}; the manifest says {entry.sha256}")
    return content.split(b"\n")[:-1]


def write_split(folder: Path, split: str, lines: Iterable[str], *, n_tasks: int) -> SplitEntry:
    """Pack the lines of a split; equal lines give equal bytes."""
    file = f"{split}.jsonl.gz"
    digest, n_bytes = _pack(folder / file, lines)
    return SplitEntry(file, n_tasks, digest, n_bytes)


def write_file(folder: Path, file: str, lines: Iterable[str], *, n_records: int) -> FileEntry:
    """Pack the lines of a shared file; equal lines give equal bytes."""
    digest, n_bytes = _pack(folder / file, lines)
    return FileEntry(file, n_records, digest, n_bytes)


def _pack(path: Path, lines: Iterable[str]) -> tuple[str, int]:
    content = "".join(line + "\n" for line in lines).encode()
    packed = gzip.compress(content, 9, mtime=0)
    packed = packed[:9] + _ANY_SYSTEM + packed[10:]
    path.write_bytes(packed)
    return hashlib.sha256(content).hexdigest(), len(packed)


def compact(record: JSON) -> str:
    """One line of JSON."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

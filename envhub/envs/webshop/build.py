"""Building a catalogue: products and goals in, a directory that :mod:`envhub.envs.webshop.store` opens out.

Invariant: ``out`` appears complete or not at all; of any number of processes that build it at once, one does the work; memory
is bounded by one shard of products and the list of all index terms.

Products are worked off in shards, each kept in a staging folder beside ``out`` until the end: a build that was interrupted
goes on where it stopped when it is given the same products again.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from envhub.core.types import JSON
from envhub.envs.webshop import postings
from envhub.envs.webshop.analyser import terms, word_term
from envhub.envs.webshop.catalogue import Catalogue, Goal, Product
from envhub.envs.webshop.store import CATALOG, FORMAT, INDEX, Digest, StoreError, file_checksum, open_store

SHARD_SIZE = 32_768
_LEVEL = 6
_SEAL = "seal"
_WORDS_KEPT = 1_000_000
_OWN_META = frozenset(("format", "counts", "goals", "sizes", "checksums", "digest"))

Goals: TypeAlias = Mapping[str, Sequence[Goal]]
Progress: TypeAlias = Callable[[str, int], None]
"""Called with a stage ("products", "index", "catalogue", "goals") and how many of them are done."""


def build(
    products: Iterable[Product],
    goals: Goals | Callable[[Catalogue], Goals],
    out: Path,
    *,
    meta: Mapping[str, JSON],
    shard_size: int = SHARD_SIZE,
    progress: Progress = lambda stage, done: None,
) -> Path:
    """Build the catalogue ``out`` unless it is there already, and return ``out``.

    ``products`` may be a stream; each asin once. ``goals`` maps a split to its goals, or makes them from the catalogue that
    holds the products and can be searched. ``meta`` says what is built (name, version, seed, ...): an ``out`` that says the same
    is left as it is. Raises StoreError when ``out`` holds something else, ValueError for products or goals that do not fit,
    OSError for a disk that is full.
    """
    if reserved := _OWN_META & meta.keys():
        raise ValueError(f"meta cannot say {', '.join(sorted(reserved))}: the store says it itself")
    identity: Mapping[str, JSON] = msgspec.json.decode(msgspec.json.encode({"format": FORMAT, **meta}))
    if _is_there(out, identity):  # before anything is written: it may lie where nothing can be
        return out
    with sqlite_as_os_errors(out):
        return _build(products, goals, out, identity, shard_size, progress)


def _build(
    products: Iterable[Product],
    goals: Goals | Callable[[Catalogue], Goals],
    out: Path,
    identity: Mapping[str, JSON],
    shard_size: int,
    progress: Progress,
) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    with _alone(out.with_name(f".{out.name}.lock")):
        if _is_there(out, identity):
            return out
        staging = _Staging(out.with_name(f".{out.name}.building"), {**identity, "shard_size": shard_size})
        shards = list(_write_shards(products, staging, shard_size, progress))
        if not shards:
            raise ValueError("there are no products")
        assemble(shards, goals, staging.result, meta=identity, progress=progress)
        _sync(staging.result)
        staging.result.rename(out)
        staging.remove()
    return out


def document(product: Product) -> str:
    """The text that is searched: of the bullets only the first is in it."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    first = product.bullets[0] if product.bullets else ""
    return f"{product.title} {product.description} {first} {options}".lower()


@contextmanager
def sqlite_as_os_errors(out: Path) -> Iterator[None]:
    """A full or failing disk is an OSError, whether SQLite or another finds it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(f"{out} cannot be written: {error}") from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process builds here. The file stays: removing it would let a third process in."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_there(out: Path, identity: Mapping[str, JSON]) -> bool:
    """Raises StoreError when ``out`` holds another catalogue or none."""
    if not out.exists():
        return False
    with open_store(out) as store:
        different = sorted(key for key, value in identity.items() if store.meta.get(key) != value)
        if different:
            said = ", ".join(f"{key} {store.meta.get(key)!r} instead of {identity[key]!r}" for key in different)
            raise StoreError(f"{out} holds another catalogue ({said}); remove it or choose another folder")
    return True


class _Staging:
    """The folder of a build that is not finished. Emptied when it was begun for something else."""

    def __init__(self, folder: Path, identity: Mapping[str, JSON]) -> None:
        self._folder = folder
        self.result = folder / "result"
        said = msgspec.json.encode(identity)
        label = folder / "identity.json"
        if not label.is_file() or label.read_bytes() != said:
            self.remove()
            folder.mkdir()
            label.write_bytes(said)
        _remove(self.result)

    def shard(self, number: int) -> Path:
        return self._folder / f"shard-{number:05}"

    def remove(self) -> None:
        _remove(self._folder)


@dataclass(frozen=True, slots=True)
class _Record:
    """A product ready to be stored."""

    asin: str
    title: str
    price_tag: str
    body: bytes
    text: str

    @property
    def hash(self) -> bytes:
        return sha256(self.body).digest()


def _record(product: Product) -> _Record:
    if not isfinite(product.price):
        raise ValueError(f"product {product.asin} has the price {product.price}; valid: a finite number")
    body = msgspec.json.encode(replace(product, price=float(product.price)), enc_hook=dict)
    return _Record(product.asin, product.title, product.price_tag, body, document(product))


def _write_shards(
    products: Iterable[Product], staging: _Staging, shard_size: int, progress: Progress
) -> Iterator[Path]:
    stream = iter(products)
    term = _WordMemory()
    n_done = 0
    for number in range(1 << 30):
        records = [_record(product) for product in islice(stream, shard_size)]
        if not records:
            return
        records.sort(key=lambda record: record.asin)
        shard = staging.shard(number)
        fingerprint = sha256(b"".join(record.hash for record in records)).digest()
        if not _is_whole(shard, fingerprint):
            _write_shard(records, shard, term, fingerprint)
        n_done += len(records)
        progress("products", n_done)
        yield shard


class _WordMemory(dict[str, str | None]):
    """The terms of words seen so far."""

    def __missing__(self, word: str) -> str | None:
        if len(self) >= _WORDS_KEPT:
            self.clear()
        term = self[word] = word_term(word)
        return term


def _write_shard(records: Sequence[_Record], shard: Path, term: _WordMemory, fingerprint: bytes) -> None:
    unfinished = shard.with_suffix(".unfinished")
    for leftover in (unfinished, shard):
        _remove(leftover)
    unfinished.mkdir()
    collected = postings.Shard()
    for record in records:
        collected.add(terms(record.text, term=term.__getitem__))
    collected.write(unfinished)
    write_items(
        unfinished,
        ((each.asin, each.title, each.price_tag, zlib.compress(each.body, _LEVEL), each.hash) for each in records),
    )
    (unfinished / _SEAL).write_text(_seal(unfinished, fingerprint))
    _sync(unfinished)
    unfinished.rename(shard)


def _is_whole(shard: Path, fingerprint: bytes) -> bool:
    """That a shard of an earlier build holds these products and no file of it has changed."""
    try:
        return (shard / _SEAL).read_bytes() == _seal(shard, fingerprint).encode()
    except OSError:
        return False


def _seal(shard: Path, fingerprint: bytes) -> str:
    files = sorted(path for path in shard.iterdir() if path.name != _SEAL)
    return "\n".join([fingerprint.hex(), *(f"{file_checksum(path)} {path.name}" for path in files)])


def write_items(shard: Path, items: Iterable[tuple[str, str, str, bytes, bytes]]) -> None:
    """In the order of asins: asin, title, price tag, compressed JSON of the product, SHA-256 of the JSON."""
    with _database(shard / "items.sqlite") as database:
        database.execute("CREATE TABLE item (asin TEXT, title TEXT, price_tag TEXT, body BLOB, hash BLOB)")
        database.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?)", items)


def assemble(
    shards: Sequence[Path],
    goals: Goals | Callable[[Catalogue], Goals],
    result: Path,
    *,
    meta: Mapping[str, JSON],
    progress: Progress = lambda stage, done: None,
) -> None:
    """Make a catalogue of shards that :func:`write_items` and :func:`postings.write_shard` have written."""
    (result / INDEX).mkdir(parents=True)
    catalog = result / CATALOG
    digest = Digest()
    with _database(catalog) as database:
        database.executescript(_TABLES)
        rows = _write_items(shards, database, digest, progress)
        lexicon = postings.merge(shards, rows, result / INDEX)
        database.executemany("INSERT INTO lexicon VALUES (?, ?)", ((term, at) for at, term in enumerate(lexicon)))
        files = sorted((result / INDEX).iterdir())
        facts: dict[str, JSON] = {
            **meta,
            "format": FORMAT,
            "counts": {"products": sum(map(len, rows)), "terms": len(lexicon)},
            "goals": {},
            "sizes": {file.name: file.stat().st_size for file in files},
            "checksums": {file.name: file_checksum(file) for file in files},
            "digest": "",
        }
        progress("index", len(lexicon))
        _write_meta(database, facts)
    if callable(goals):
        with open_store(result) as store:
            goals = goals(store)
    with _database(catalog) as database:
        n_goals = _write_goals(goals, database, digest)
        progress("goals", sum(n_goals.values()))
        _write_meta(database, {**facts, "goals": n_goals, "digest": digest.value()})


_TABLES = """
CREATE TABLE item (row INTEGER PRIMARY KEY, asin TEXT NOT NULL COLLATE NOCASE, title TEXT NOT NULL,
                   price_tag TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE goal (split TEXT NOT NULL, idx INTEGER NOT NULL, asin TEXT NOT NULL, text TEXT NOT NULL, attributes TEXT NOT NULL,
                   options TEXT NOT NULL, price_upper REAL NOT NULL, weight REAL NOT NULL, PRIMARY KEY (split, idx)) WITHOUT ROWID;
CREATE TABLE lexicon (term TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def _write_items(
    shards: Sequence[Path], database: sqlite3.Connection, digest: Digest, progress: Progress
) -> list[npt.NDArray[np.int64]]:
    """In the order of asins; the answer says, shard by shard, which row each product got."""
    rows: list[list[int]] = [[] for _ in shards]

    def merged() -> Iterator[tuple[int, str, str, str, bytes]]:
        for row, (asin, title, tag, body, of_record, shard) in enumerate(
            heapq.merge(*map(_items, range(len(shards)), shards))
        ):
            rows[shard].append(row)
            digest.add_hash(of_record)
            yield row, asin, title, tag, body

    database.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?)", merged())
    try:
        database.execute("CREATE UNIQUE INDEX item_asin ON item (asin)")
    except sqlite3.IntegrityError as error:
        (asin,) = database.execute("SELECT asin FROM item GROUP BY asin HAVING count(*) > 1").fetchone()
        raise ValueError(
            f"more than one product has the asin {asin} (upper or lower case makes no difference)"
        ) from error
    progress("catalogue", sum(map(len, rows)))
    return [np.array(of_shard, np.int64) for of_shard in rows]


def _items(number: int, shard: Path) -> Iterator[tuple[str, str, str, bytes, bytes, int]]:
    with closing(sqlite3.connect(shard / "items.sqlite")) as items:
        for asin, title, tag, body, of_record in items.execute("SELECT * FROM item ORDER BY rowid"):
            yield asin, title, tag, body, of_record, number


def _write_goals(goals: Goals, database: sqlite3.Connection, digest: Digest) -> dict[str, int]:
    """The answer says how many each split has, in the order given."""
    for split in sorted(goals):
        for index, goal in enumerate(goals[split]):
            if not database.execute("SELECT 1 FROM item WHERE asin = ?", (goal.asin,)).fetchone():
                raise ValueError(f"goal {index} of split {split!r} wants {goal.asin}, which is not among the products")
            options = dict(goal.options) if isinstance(goal.options, Mapping) else tuple(goal.options)
            goal = replace(goal, options=options, price_upper=float(goal.price_upper), weight=float(goal.weight))
            encode = msgspec.json.Encoder().encode
            digest.add(encode((split, goal)))
            columns = (encode(goal.attributes).decode(), encode(options).decode(), goal.price_upper, goal.weight)
            database.execute(
                "INSERT INTO goal VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (split, index, goal.asin, goal.text, *columns)
            )
    return {split: len(each) for split, each in goals.items()}


def _write_meta(database: sqlite3.Connection, facts: Mapping[str, JSON]) -> None:
    rows = ((key, msgspec.json.encode(value).decode()) for key, value in facts.items())
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """For one transaction. What is written is lost with the process: the file counts only once its folder is renamed."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        with database:
            yield database


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Bring the files to the disk, so that the rename cannot come before them."""
    for path in chain([folder], folder.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

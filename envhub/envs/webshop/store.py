"""A built catalogue on disk, opened read-only by any number of workers.

Invariant: nothing in an open store changes; what is large lies in memory maps that all workers of a machine share.

::

    catalog.sqlite   item(row, asin, title, price_tag, body)   rows in the order of their asins; body = zlib of the product's JSON
                     goal(split, idx, asin, text, attributes, options, price_upper, weight)
                     lexicon(term, number)                     numbers of ``index/``
                     meta(key, value)                          values in JSON
    index/*.npy      see :mod:`envhub.envs.webshop.index`
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import msgspec

from envhub.core.types import JSON
from envhub.envs.webshop.analyser import terms
from envhub.envs.webshop.catalogue import Goal, Head, Product
from envhub.envs.webshop.index import ARRAYS, Index

FORMAT = 1
CATALOG = "catalog.sqlite"
INDEX = "index"
N_HITS = 50
_MAP_BYTES = 1 << 31
_CHECKED_BYTES = 4 << 20
"""An index up to this size is compared with its checksums whenever it is opened."""

_LONGEST_KEPT = 256
"""Longer queries are not remembered."""

_GOAL = "SELECT asin, text, attributes, options, price_upper, weight FROM goal WHERE split = ?"


class StoreError(Exception):
    """A catalogue on disk that is missing, unfinished, damaged or of another version."""


_DAMAGE = (
    sqlite3.DatabaseError,
    zlib.error,
    msgspec.MsgspecError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
)
"""What reading files with other bytes in them raises."""


def open_store(folder: Path, *, compiled: bool = False) -> Store:
    """Raises StoreError. ``compiled``: search with numba, see :class:`Index`."""
    catalog = folder / CATALOG
    if not catalog.is_file():
        raise StoreError(f"{folder} holds no catalogue: {CATALOG} is missing; build it first")
    _check_length(catalog)
    uri = f"{catalog.resolve().as_uri()}?mode=ro&immutable=1"
    with ExitStack() as opened:
        try:
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
            opened.callback(connection.close)
            meta = _read_meta(connection, folder)
            _check_index(folder / INDEX, meta)
            store = Store(folder, connection, Index(folder / INDEX, compiled=compiled), meta)
        except _DAMAGE as error:
            raise StoreError(f"{folder} is damaged ({error}); remove it and build it again") from error
        opened.pop_all()
        return store


class Store:
    """A :class:`Catalogue`. Any thread may use it. Close it when done."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, index: Index, meta: Mapping[str, JSON]) -> None:
        self.folder = folder
        self.meta = meta
        self.digest = str(meta["digest"])
        self.n_products = index.n_rows
        self._connection = connection
        self._connection.execute(f"PRAGMA mmap_size = {_MAP_BYTES}")
        self._lock = threading.Lock()
        self._index = index
        self._n_goals = msgspec.convert(meta["goals"], dict[str, int])
        self._recent_product = lru_cache(256)(self._read_product)
        self._recent_search = lru_cache(512)(self._search)
        self._number = lru_cache(4096)(self._read_number)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._n_goals)

    def product(self, asin: str) -> Product:
        """By its asin as stored, or in lower case as a page shows it. Raises KeyError."""
        return self._recent_product(asin)

    def heads(self, rows: Sequence[int]) -> Sequence[Head]:
        """Raises KeyError for a row that there is not."""
        marks = ",".join("?" * len(rows))
        found = self._rows(f"SELECT row, asin, title, price_tag FROM item WHERE row IN ({marks})", *rows)
        by_row = {row: Head(*head) for row, *head in found}
        return tuple(by_row[row] for row in rows)

    def search(self, keywords: Sequence[str]) -> Sequence[int]:
        """Rows of the best 50 products, best first; equal scores in the order of their asins."""
        query = " ".join(keywords)
        return self._recent_search(query) if len(query) <= _LONGEST_KEPT else self._search(query)

    def goals(self, split: str) -> Sequence[Goal]:
        """Read when asked for. Raises KeyError."""
        if split not in self._n_goals:
            raise KeyError(f"no split {split!r}; valid: {', '.join(self._n_goals)}")
        return StoredGoals(self, split, self._n_goals[split])

    def products(self) -> Iterator[Product]:
        """All, in the order of their asins."""
        for row in range(self.n_products):
            ((body,),) = self._rows("SELECT body FROM item WHERE row = ?", row)
            yield _product(body)

    def read_goals(self, split: str, first: int, end: int) -> list[Goal]:
        rows = self._rows(f"{_GOAL} AND idx >= ? AND idx < ? ORDER BY idx", split, first, end)
        return [_goal(*row) for row in rows]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def _read_product(self, asin: str) -> Product:
        found = self._rows("SELECT body FROM item WHERE asin = ?", asin)
        if not found:
            raise KeyError(asin)
        return _product(found[0][0])

    def _search(self, keywords: str) -> tuple[int, ...]:
        query: dict[int, int] = {}
        for term, times in Counter(terms(keywords)).items():
            number = self._number(term)
            if number is not None:
                query[number] = times
        return tuple(self._index.search(query, limit=N_HITS))

    def _read_number(self, term: str) -> int | None:
        found = self._rows("SELECT number FROM lexicon WHERE term = ?", term)
        return found[0][0] if found else None


class StoredGoals(Sequence[Goal]):
    """The goals of a split, read from the store when asked for."""

    def __init__(self, store: Store, split: str, n_goals: int) -> None:
        self._store = store
        self._split = split
        self._n_goals = n_goals

    def __len__(self) -> int:
        return self._n_goals

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Goal]: ...
    def __getitem__(self, index: int | slice) -> Goal | Sequence[Goal]:
        """Raises IndexError outside -len..len-1."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._n_goals))]
        at = index + self._n_goals if index < 0 else index
        if not 0 <= at < self._n_goals:
            raise IndexError(f"split {self._split!r} has no goal {index}; valid: 0..{self._n_goals - 1}")
        return self._store.read_goals(self._split, at, at + 1)[0]

    def __iter__(self) -> Iterator[Goal]:
        for first in range(0, self._n_goals, 256):
            yield from self._store.read_goals(self._split, first, first + 256)


def verify(folder: Path) -> None:
    """Read everything and compare it with the checksums. Raises StoreError."""
    with open_store(folder) as store:
        digest = Digest()
        try:
            _check_arrays(folder / INDEX, store.meta)
            for product in store.products():
                digest.add(msgspec.json.encode(product))
            for split in sorted(store.splits):
                for goal in store.goals(split):
                    digest.add(msgspec.json.encode((split, goal)))
        except _DAMAGE as error:
            raise StoreError(f"{folder / CATALOG} is damaged ({error}); remove {folder} and build it again") from error
        if digest.value() != store.digest:
            raise StoreError(f"{folder / CATALOG} is damaged; remove {folder} and build it again")


class Digest:
    """Of the products in the order of their asins, then of the goals, split by split in the order of their names."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, record: bytes) -> None:
        self._hash.update(hashlib.sha256(record).digest())

    def add_hash(self, sha256: bytes) -> None:
        """What :meth:`add` does, for a record whose hash is known."""
        self._hash.update(sha256)

    def value(self) -> str:
        return self._hash.hexdigest()


def file_checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _goal(asin: str, text: str, attributes: str, options: str, price_upper: float, weight: float) -> Goal:
    chosen = msgspec.json.decode(options, type=tuple[str, ...] | dict[str, str])
    return Goal(asin, text, msgspec.json.decode(attributes, type=tuple[str, ...]), chosen, price_upper, weight)


def _product(body: bytes) -> Product:
    return _decoder.decode(zlib.decompress(body))


_decoder = msgspec.json.Decoder(Product)


def _check_length(catalog: Path) -> None:
    """A cut file still opens; its header tells how many pages it should have."""
    with catalog.open("rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if not header.startswith(b"SQLite format 3\0") or catalog.stat().st_size != expected:
        raise StoreError(f"{catalog} is damaged or unfinished; remove {catalog.parent} and build it again")


def _read_meta(connection: sqlite3.Connection, folder: Path) -> Mapping[str, JSON]:
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    meta = {key: msgspec.json.decode(value) for key, value in rows}
    if meta.get("format") != FORMAT:
        raise StoreError(
            f"{folder} has format {meta.get('format')!r}; this version reads {FORMAT}: "
            "build it again, or use the version of envhub that made it"
        )
    if "digest" not in meta:
        raise StoreError(f"{folder} is unfinished; remove it and build it again")
    return meta


def _check_arrays(folder: Path, meta: Mapping[str, JSON]) -> None:
    checksums = msgspec.convert(meta["checksums"], dict[str, str])
    for name in ARRAYS:
        path = folder / f"{name}.npy"
        if file_checksum(path) != checksums.get(path.name):
            raise StoreError(f"{path} is damaged; remove {folder.parent} and build it again")


def _check_index(folder: Path, meta: Mapping[str, JSON]) -> None:
    """The checksums too, where that takes no time."""
    sizes = msgspec.convert(meta["sizes"], dict[str, int])
    for name in ARRAYS:
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise StoreError(f"{path} is missing; remove {folder.parent} and build it again")
        if path.stat().st_size != sizes.get(path.name):
            raise StoreError(f"{path} is damaged or unfinished; remove {folder.parent} and build it again")
    if sum(sizes.values()) <= _CHECKED_BYTES:
        _check_arrays(folder, meta)

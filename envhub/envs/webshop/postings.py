"""Who holds which term: collected a shard at a time, then merged term by term into the arrays of a search index.

Invariant: memory is bounded by one shard and by the list of all terms, however many documents there are; the arrays do not
depend on how the documents were dealt to the shards.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from envhub.envs.webshop import bm25

_BLOCK = 4_000_000
"""Postings merged together."""
_COUNT_BITS = 20
_MOST = (1 << _COUNT_BITS) - 1


class Shard:
    """The postings of documents that come one after the other."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._terms = array("i")
        self._lengths = array("i")

    def add(self, terms: Sequence[str]) -> None:
        numbers = self._numbers
        self._terms.extend([numbers.setdefault(term, len(numbers)) for term in terms])
        self._lengths.append(len(terms))

    def write(self, folder: Path) -> None:
        write_shard(folder, list(self._numbers), np.array(self._terms, np.int32), np.array(self._lengths, np.int32))


def write_shard(
    folder: Path, terms: Sequence[str], numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]
) -> None:
    """``terms.txt`` (sorted), ``indptr.npy``, ``docs.npy``, ``counts.npy``, ``lengths.npy``.

    ``numbers`` are positions in ``terms``, document after document; ``lengths`` says how many each document has.
    """
    order = sorted(range(len(terms)), key=terms.__getitem__)
    rank = np.zeros(len(terms), np.int64)
    rank[order] = np.arange(len(terms))
    keys = rank[numbers] * len(lengths) + np.repeat(np.arange(len(lengths)), lengths)
    keys, counts = np.unique(keys, return_counts=True)
    ranks, docs = np.divmod(keys, len(lengths))
    indptr = np.zeros(len(terms) + 1, np.int64)
    np.cumsum(np.bincount(ranks, minlength=len(terms)), out=indptr[1:])
    (folder / "terms.txt").write_text("\n".join(terms[at] for at in order), "utf-8")
    np.save(folder / "indptr.npy", indptr)
    np.save(folder / "docs.npy", docs.astype(np.int32))
    np.save(folder / "counts.npy", counts.astype(np.int32))
    np.save(folder / "lengths.npy", lengths)


def merge(shards: Sequence[Path], rows: Sequence[npt.NDArray[np.int64]], folder: Path) -> list[str]:
    """Write the arrays of a search index into ``folder``; return its terms in the order of their numbers.

    ``rows`` says, shard by shard, which row each document has.
    """
    names = [_terms(shard) for shard in shards]
    terms = sorted(set().union(*names))
    number = {term: at for at, term in enumerate(terms)}
    parts = [
        _Part(shard, np.array([number[term] for term in of_shard], np.int64), of_row)
        for shard, of_shard, of_row in zip(shards, names, rows, strict=True)
    ]
    del names, number
    frequencies = np.zeros(len(terms), np.int64)
    for part in parts:
        frequencies[part.terms] += np.diff(part.indptr)
    _write(folder, parts, frequencies)
    return terms


class _Part:
    """A shard that is being merged."""

    def __init__(self, folder: Path, terms: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
        self.folder = folder
        self.terms = terms
        """Their numbers in the whole, rising."""
        self.rows = rows
        self.indptr = np.load(folder / "indptr.npy")
        self.lengths = np.load(folder / "lengths.npy")

    def keys(self, first: int, end: int, n_rows: int) -> npt.NDArray[np.int64]:
        """Term, row and count of the postings of terms ``first`` to ``end``, each as one number."""
        low, high = np.searchsorted(self.terms, (first, end))
        start, stop = self.indptr[low], self.indptr[high]
        docs = np.load(self.folder / "docs.npy", mmap_mode="r")[start:stop]
        counts = np.load(self.folder / "counts.npy", mmap_mode="r")[start:stop]
        terms = np.repeat(self.terms[low:high] - first, np.diff(self.indptr[low : high + 1]))
        keys: npt.NDArray[np.int64] = ((terms * n_rows + self.rows[docs]) << _COUNT_BITS) | np.minimum(counts, _MOST)
        return keys


def _terms(shard: Path) -> list[str]:
    text = (shard / "terms.txt").read_text("utf-8")
    return text.split("\n") if text else []


def _write(folder: Path, parts: Sequence[_Part], frequencies: npt.NDArray[np.int64]) -> None:
    n_rows = sum(len(part.rows) for part in parts)
    lengths = np.zeros(n_rows, np.int64)
    for part in parts:
        lengths[part.rows] = part.lengths
    n_documents = int(np.count_nonzero(lengths))
    codes = bm25.length_codes(lengths)
    norms = bm25.inverse_norms(lengths.sum() / max(1, n_documents) or 1.0)
    idf = bm25.idf(n_documents, frequencies)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(frequencies)])
    for name, values in {"indptr": indptr, "idf": idf, "lengths": codes, "norms": norms}.items():
        np.save(folder / f"{name}.npy", values)
    with ExitStack() as files:
        docs = files.enter_context(_growing(folder / "docs.npy", np.int32, int(indptr[-1])))
        impacts = files.enter_context(_growing(folder / "impacts.npy", np.float32, int(indptr[-1])))
        for first, end in _blocks(indptr):
            keys = np.concatenate([part.keys(first, end, n_rows) for part in parts])
            keys.sort()
            counts = keys & _MOST
            keys >>= _COUNT_BITS
            rows = keys % n_rows
            weights = np.repeat(idf[first:end], frequencies[first:end])
            rows.astype(np.int32).tofile(docs)
            bm25.impacts(weights, counts, norms[codes[rows]]).tofile(impacts)


def _blocks(indptr: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of terms with about _BLOCK postings each, and at least one term."""
    first, last = 0, len(indptr) - 1
    while first < last:
        end = int(np.searchsorted(indptr, indptr[first] + _BLOCK, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end


def _growing(path: Path, dtype: Any, length: int) -> IO[bytes]:
    """An ``.npy`` file whose ``length`` values are still to be written."""
    file = path.open("wb")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file

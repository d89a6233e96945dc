"""The search index of a catalogue: memory-mapped postings, and the best rows for a bag of terms.

Invariant: rows are in the order of their asins, so that equal scores are in row order; a score is the sum, in 64 bits, of 32-bit
impacts, rounded to 32 bits, whichever loop adds them up.

::

    indptr.npy   (terms + 1,) int64    where each term's postings begin
    docs.npy     (postings,)  int32    rows, rising within a term
    impacts.npy  (postings,)  float32  what the term adds to the row's score
    idf.npy      (terms,)     float32
    lengths.npy  (rows,)      uint8    Lucene's code of each row's number of terms
    norms.npy    (256,)       float32  inverse norm of each code
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from envhub.envs.webshop import bm25

ARRAYS = ("indptr", "docs", "impacts", "idf", "lengths", "norms")
_BLOCK = 256

Rows: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float64]


class Index:
    """``compiled`` adds up with numba: the same results sooner, for more memory and a slow start (numba is imported and compiles)."""

    def __init__(self, folder: Path, *, compiled: bool = False) -> None:
        self._indptr, self._docs, self._impacts, self._idf, self._lengths, self._norms = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS
        )
        self.n_rows = len(self._lengths)
        self._add: Callable[..., None] = _compiled_add() if compiled else _add
        self._own = _Own(-(-self.n_rows // _BLOCK) * _BLOCK)

    def search(self, query: Mapping[int, int], *, limit: int = 50) -> list[int]:
        """Rows of the best, best first, that hold any term of ``query`` (term number -> how often it was asked for)."""
        if not query:
            return []
        scores = self._own.scores
        try:
            for term, times in query.items():
                start, end = self._indptr[term : term + 2]
                docs, impacts = self._docs[start:end], self._impacts[start:end]
                if times != 1:
                    impacts = self._repeated(term, times, docs, impacts)
                self._add(scores, docs, impacts)
            return _best(scores, limit)
        finally:
            scores.fill(0)

    def _repeated(self, term: int, times: int, docs: Any, impacts: Any) -> bm25.Floats:
        """Impacts of a term that the query has several times: rounded as one weight, not as a sum."""
        norms = self._norms[self._lengths[docs]]
        weight = self._idf[term]
        counts = bm25.counts_of(impacts, weight, norms)
        return bm25.impacts(np.float32(times) * weight, counts, norms)


class _Own(threading.local):
    """Of one thread: an array that is all zero between two searches."""

    def __init__(self, n_scores: int) -> None:
        self.scores: Scores = np.zeros(n_scores)


def _best(scores: Scores, limit: int) -> list[int]:
    """Blocks whose best score cannot be among the first ``limit`` are not looked into."""
    peaks = scores.reshape(-1, _BLOCK).max(axis=1)
    floor = np.float32(np.partition(peaks, -limit)[-limit] if len(peaks) > limit else 0.0)
    blocks = np.flatnonzero(peaks.astype(np.float32) >= floor)
    rows = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
    found = scores.reshape(-1, _BLOCK)[blocks].ravel().astype(np.float32)
    kept = np.flatnonzero((found >= floor) & (found > 0))
    rows, found = rows[kept], found[kept]
    order = np.argsort(-found, kind="stable")[:limit]
    best: list[int] = rows[order].tolist()
    return best


def _add(scores: Scores, docs: npt.NDArray[np.int32], impacts: bm25.Floats) -> None:
    scores[docs] += impacts  # a term has a row once


@cache
def _compiled_add() -> Callable[..., None]:
    import numba

    def add(scores: Any, docs: Any, impacts: Any) -> None:
        for at in range(len(docs)):
            scores[docs[at]] += impacts[at]

    compiled: Callable[..., None] = numba.njit(nogil=True)(add)
    return compiled

"""BM25 as Lucene computes it: its constants, its one-byte document lengths, its float32 steps.

Invariant: every function gives the bits that Lucene's ``BM25Similarity`` gives (idf, weight and impact are 32-bit floats).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Codes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]

K1 = np.float32(0.9)
B = np.float32(0.4)
_EXACT = 24
"""Lengths below are kept as they are; the rest of the byte is a number of four significant bits above it."""


def _decoded(code: int) -> int:
    if code < _EXACT:
        return code
    high, low = divmod(code - _EXACT, 8)
    return _EXACT + (low if high == 0 else (8 + low) << (high - 1))


LENGTHS: Ints = np.array([_decoded(code) for code in range(256)], np.int64)
"""The length that each code stands for, rising."""


def length_codes(lengths: npt.NDArray[np.integer]) -> Codes:
    """The code of each number of terms: the longest length that is not longer."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def inverse_norms(mean_length: float) -> Floats:
    """(256,) 1 / (k1 * (1 - b + b * length / mean length)) of each code."""
    one = np.float32(1)
    relative = B * LENGTHS.astype(np.float32) / np.float32(mean_length)
    inverse: Floats = one / (K1 * ((one - B) + relative))
    return inverse


def idf(n_documents: int, frequencies: npt.NDArray[np.integer]) -> Floats:
    """``frequencies``: in how many of the documents each term is."""
    inverse: Floats = np.log(1 + (n_documents - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
    return inverse


def impacts(weights: Floats, counts: npt.NDArray[np.integer], norms: Floats) -> Floats:
    """What a term adds to a document's score: ``weights`` its idf times its number in the query, ``counts`` its number in the
    document, ``norms`` the document's inverse norm."""
    score: Floats = weights - weights / (np.float32(1) + counts.astype(np.float32) * norms)
    return score


def counts_of(impact: Floats, weight: np.float32, norms: Floats) -> Ints:
    """The counts that :func:`impacts` made ``impact`` of."""
    exact = impact.astype(np.float64)
    return np.rint(exact / (float(weight) - exact) / norms).astype(np.int64)

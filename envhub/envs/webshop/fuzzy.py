"""Fuzzy equality of attributes and option values, with the decisions of the published reward.

Invariant: ``similar(a, b)`` is ``token_set_ratio(a, b) > 85``. The score compares sets of words with difflib's ratio
(Ratcliff and Obershelp). Most pairs are settled by rapidfuzz, whose ratio of a pair (longest common subsequence) is never
below difflib's (common blocks, which are such a subsequence); only what it leaves in doubt is confirmed by difflib.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from rapidfuzz import fuzz

SIMILAR_ABOVE = 85
_DOUBTFUL_FROM = 75.0
"""Below it the exact score cannot reach ``SIMILAR_ABOVE``; the bound itself would do, the rest is margin for rounding."""

_LATIN_1_UPPER_HALF = dict.fromkeys(range(0x80, 0x100))
_NOT_WORD = re.compile(r"\W")


def similar(bought: object, wanted: object) -> bool:
    """Whether two values say the same thing; anything but a string is compared by its ``str``, as the original does."""
    a, b = _words(bought), _words(wanted)
    if not a or not b:
        return False
    if a == b:
        return True
    upper = fuzz.token_set_ratio(a, b, score_cutoff=_DOUBTFUL_FROM)
    if upper < _DOUBTFUL_FROM:
        return False
    return upper >= 100 or _token_set_ratio(a, b) > SIMILAR_ABOVE


def token_set_ratio(a: object, b: object) -> int:
    """0..100: the best ratio among common words, common + only in ``a``, common + only in ``b``; 0 when a side has no word."""
    return _token_set_ratio(_words(a), _words(b))


def _words(value: object) -> str:
    return _NOT_WORD.sub(" ", str(value).translate(_LATIN_1_UPPER_HALF)).lower().strip()


def _token_set_ratio(a: str, b: str) -> int:
    if not a or not b:
        return 0
    left, right = set(a.split()), set(b.split())
    common = " ".join(sorted(left & right))
    with_left = f"{common} {' '.join(sorted(left - right))}".strip()
    with_right = f"{common} {' '.join(sorted(right - left))}".strip()
    return max(_ratio(common, with_left), _ratio(common, with_right), _ratio(with_left, with_right))


def _ratio(a: str, b: str) -> int:
    if not a or not b:
        return 0
    return round(100 * SequenceMatcher(None, a, b).ratio())

"""Text comparison as MySQL's utf8mb4_0900_ai_ci does it: case and accents ignored, trailing blanks significant.

Invariant: equal keys are exactly the strings the collation calls equal, and keys sort as the collation sorts (for ASCII, Latin
letters and common punctuation; other scripts by code point).
"""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from functools import lru_cache

_ORDER = "\t\n\v\f\r _‿‐‑‒–—―-,;:!¡?¿.…·'‘’\"“”«»()[]{}§¶@*/\\&#%`´^¨¯°©®+±÷×<=>|¦~¤¢$£¥€"


def _build() -> dict[int, int | None]:
    """Punctuation before digits, in the collation's order; other control characters weigh nothing."""
    table: dict[int, int | None] = dict.fromkeys(range(32))
    table[127] = None
    for place, char in enumerate(_ORDER):
        table[ord(char)] = place + 1
    for place, char in enumerate("0123456789"):
        table[ord(char)] = 120 + place
    for place, char in enumerate("abcdefghijklmnopqrstuvwxyz"):
        table[ord(char)] = 140 + place
        table[ord(char.upper())] = 140 + place
    return table


_TABLE = _build()
_LETTERS = {"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i", "ð": "d"}
_SPECIAL = str.maketrans(_LETTERS)


def _key(text: str) -> str:
    if text.isascii():
        return text.translate(_TABLE)
    folded = unicodedata.normalize("NFKD", text.casefold().translate(_SPECIAL))
    return "".join([char for char in folded if not unicodedata.combining(char)]).translate(_TABLE)


_cached_key = lru_cache(maxsize=16384)(_key)


def key(text: str) -> str:
    """Sort and equality key."""
    return _cached_key(text) if len(text) <= 64 else _key(text)


def compare(left: str, right: str) -> int:
    if left == right:
        return 0
    a, b = key(left), key(right)
    return 0 if a == b else -1 if a < b else 1


def compare_numbers(left: str, right: str) -> int:
    """The order of DECIMAL columns, whose values are stored as text."""
    if left == right:
        return 0
    try:
        a, b = Decimal(left), Decimal(right)
    except ArithmeticError:
        return -1 if left < right else 1
    return 0 if a == b else -1 if a < b else 1


@lru_cache(maxsize=16384)
def fold_char(char: str) -> str:
    """One character's base letter, always of length one: what LIKE compares."""
    folded = _key_text(char)
    return folded if len(folded) == 1 else char


def _key_text(char: str) -> str:
    folded = unicodedata.normalize("NFD", char.casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


def fold(text: str) -> str:
    """``text`` without case and accents, character for character."""
    return text.lower() if text.isascii() else "".join(map(fold_char, text))

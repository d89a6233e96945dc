"""Whether an answer is right, by the kind of its gold.

Invariant: pure and total: every answer gets a verdict, a blank one is never right, and only a gold that is no gold raises.

Both sides are read without the blanks around them and with ``\\n`` as line end. By kind, with the gold in brackets:

==========  =========================================================  ==================================================
kind        right                                                      wrong
==========  =========================================================  ==================================================
integer     ``5``, ``5.0``, ``-5`` [5, 5, -5]                          ``+5``, ``５``, ``5 files``, ``5KB``, ``None`` [5]
number      ``0.50`` [0.5], ``3`` [3.0]                                ``1/2``, ``50%``, ``5e-1`` [0.5]
string      equal text, ends of lines aside                            another case, quotes around it, a part of it
size        ``5KB``, ``5 KB``, ``5k``, ``5120`` [5120 or 5K]           ``5 KBps``, ``five KB``
            ``1.5M`` [1572864]; units are powers of 1024
items       the same words in any order, apart by blanks or commas     one missing, one too many, one twice
containing  the gold as a whole word of a short answer                 ``142`` [42], an answer that lists everything
in          one whole line or word of the gold                         a part of a word, one letter
regex       the whole answer fits                                      a part of it fits
==========  =========================================================  ==================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction

from envhub.envs.os.tasks import AnswerKind

MAX_NUMBER_CHARS = 60
MAX_SPREAD = 4
"""A ``containing`` answer is at most this many times as long as its gold (or ``_SHORT`` characters): it must not list everything."""
_SHORT = 120
_INTEGER = re.compile(r"-?[0-9]+(\.0+)?", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:(b|bytes?)|([kmgtp])(?:i?b)?)?", re.ASCII | re.IGNORECASE)
_POWERS = {letter: 1024**power for power, letter in enumerate("kmgtp", 1)}


def matches(kind: AnswerKind, gold: str, answer: str) -> bool:
    """Raises ValueError for a gold that is not of its kind."""
    gold, answer = tidy(gold), tidy(answer)
    check_gold(kind, gold)
    return bool(answer) and _RULES[kind](gold, answer)


def check_gold(kind: AnswerKind, gold: str) -> None:
    """Raises ValueError for a gold that is blank or not of its kind."""
    if not tidy(gold):
        raise ValueError("the gold is blank")
    reader = _READERS.get(kind)
    if reader is not None and reader(tidy(gold)) is None:
        raise ValueError(f"the gold is not of kind {kind}")


def tidy(text: str) -> str:
    """Without blanks around it or at the ends of lines, lines ending with ``\\n``."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def _integer(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= MAX_NUMBER_CHARS and _INTEGER.fullmatch(text) else None


def _number(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= MAX_NUMBER_CHARS and _NUMBER.fullmatch(text) else None


def _size(text: str) -> Fraction | None:
    found = _SIZE.fullmatch(text) if len(text) <= MAX_NUMBER_CHARS else None
    return None if found is None else Fraction(found[1]) * _POWERS.get((found[3] or "").lower(), 1)


def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text)
    except re.error:
        return None


def _items(text: str) -> Counter[str]:
    return Counter(re.split(r"[\s,]+", text.strip(" \n\t,")))


def _containing(gold: str, answer: str) -> bool:
    if len(answer) > max(_SHORT, MAX_SPREAD * len(gold)):
        return False
    return re.search(rf"(?<![\w.-]){re.escape(gold)}(?![\w-]|\.\w)", answer) is not None


def _in(gold: str, answer: str) -> bool:
    return answer in {line.strip() for line in gold.split("\n")} or answer in gold.split()


def _regex(gold: str, answer: str) -> bool:
    return re.fullmatch(gold, answer) is not None


_READERS: Mapping[AnswerKind, Callable[[str], object | None]] = {
    "integer": _integer,
    "number": _number,
    "size": _size,
    "regex": _pattern,
}
_RULES: Mapping[AnswerKind, Callable[[str, str], bool]] = {
    "integer": lambda gold, answer: _integer(gold) == _integer(answer),
    "number": lambda gold, answer: _number(gold) == _number(answer),
    "size": lambda gold, answer: _size(gold) == _size(answer),
    "string": lambda gold, answer: gold == answer,
    "items": lambda gold, answer: _items(gold) == _items(answer),
    "containing": _containing,
    "in": _in,
    "regex": _regex,
}

"""From what an agent writes to the command that is carried out.

Invariant: in the modes ``exact`` and ``normalised`` a text is carried out as itself or not at all. Only the mode
``agentbench``, which reproduces the published environment, may pick another admissible command than the one written.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, get_args

Mode = Literal["exact", "normalised", "agentbench"]
MODES: tuple[Mode, ...] = get_args(Mode)

_PUT = re.compile(r"(?:put|move) (\S.*?) (?:in/on|into|onto|in|on|to) (\S.*)")
_MAX_CHARS = 1000
_THRESHOLD, _SMOOTHING = 0.01, 5
_ORDERS = (1, 2, 3, 4)
_MAX_WORDS = 2000
"""A text of n words, more than this, scores at most max(ln n, words of the command) / (n - 3): below the threshold."""


def matched(written: str, admissible: Collection[str], mode: Mode, *, put: str) -> str | None:
    """The admissible command that ``written`` stands for; None when it stands for none. ``put`` is the wording's form of it."""
    if mode == "agentbench":
        return most_similar(written, sorted(admissible))
    command = written.strip() if mode == "exact" else normalised(written)
    if mode == "normalised" and command not in admissible and (found := _PUT.fullmatch(command)):
        command = put.format(found[1], found[2])
    return command if command in admissible else None


def normalised(written: str) -> str:
    """Lower case, single blanks, no full stop at the end; nothing of a text far longer than any command."""
    return " ".join(written.lower().split()).rstrip(". ") if len(written) <= _MAX_CHARS else ""


def most_similar(written: str, admissible: Sequence[str]) -> str | None:
    """AgentBench's choice: the first line if it is admissible, else the command of the highest BLEU above 0.01."""
    command = written.strip().lower().split("\n")[0]
    if command in admissible:
        return command
    words = command.split(maxsplit=_MAX_WORDS)
    if len(words) > _MAX_WORDS:
        return None
    grams = [_grams(words, order) for order in _ORDERS]
    scores = [(_bleu(each.split(), len(words), grams), each) for each in admissible]
    score, best = max(scores, key=lambda scored: scored[0], default=(0.0, ""))
    return best if score > _THRESHOLD else None


def bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Sentence BLEU up to 4-grams with smoothing method 4 (Chen and Cherry, 2014) as NLTK computes it."""
    return _bleu(reference, len(candidate), [_grams(candidate, order) for order in _ORDERS])


_Grams = Mapping[tuple[str, ...], int]


def _bleu(reference: Sequence[str], length: int, candidate: Sequence[_Grams]) -> float:
    overlaps = [_overlap(_grams(reference, order), grams) for order, grams in zip(_ORDERS, candidate, strict=True)]
    if not overlaps[0]:
        return 0.0
    logs, n_missing = [], 0
    for order, overlap in zip(_ORDERS, overlaps, strict=True):
        if not overlap and length == 1:
            continue
        n_missing += not overlap
        value = overlap or 1 / (2**n_missing * _SMOOTHING / math.log(length))
        logs.append(math.log(value / max(1, length - order + 1)) / len(_ORDERS))
    brevity = 1.0 if length > len(reference) else math.exp(1 - len(reference) / length)
    return brevity * math.exp(math.fsum(logs))


def _overlap(reference: _Grams, candidate: _Grams) -> int:
    return sum(min(count, candidate.get(gram, 0)) for gram, count in reference.items())


def _grams(words: Sequence[str], order: int) -> _Grams:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))

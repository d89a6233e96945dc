"""The Porter stemmer, with the departures that Lucene's has: two rules more, and words of one or two characters stay.

Rules as published: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; the two more ("bli" becomes "ble",
"logi" becomes "log", step 2) are those of the author's later notes. Characters other than a, e, i, o, u and y are consonants.
"""

from __future__ import annotations

from itertools import pairwise

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize"
_STEP_4_ENDINGS = tuple(_STEP_4.split())


def stem(word: str) -> str:
    """``word`` is in lower case."""
    if len(word) <= 2:
        return word
    word = _plural(word)
    word = _past_or_gerund(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    word = _strip(word)
    return _tidy(word)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_or_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((each for each in ("ed", "ing") if word.endswith(each)), "")
    if not ending or not _has_vowel(root := word[: -len(ending)]):
        return word
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _doubled(root):
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _short(root) else root


def _replace(word: str, endings: dict[str, str]) -> str:
    """The longest ending that fits decides, whether or not its condition holds."""
    for length in range(min(7, len(word)), 2, -1):
        new = endings.get(word[-length:])
        if new is not None:
            root = word[:-length]
            return root + new if _measure(root) > 0 else word
    return word


def _strip(word: str) -> str:
    ending = max((each for each in _STEP_4_ENDINGS if word.endswith(each)), key=len, default="")
    if not ending:
        return word
    root = word[: 1 - len(ending)] if ending in ("sion", "tion") else word[: -len(ending)]
    return root if _measure(root) > 1 else word


def _tidy(word: str) -> str:
    measure = _measure(word)
    if word.endswith("e") and (measure > 1 or (measure == 1 and not _short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and measure > 1 else word


def _consonants(word: str) -> list[bool]:
    kinds: list[bool] = []
    for letter in word:
        kinds.append(letter not in "aeiou" and (letter != "y" or not kinds or not kinds[-1]))
    return kinds


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    kinds = _consonants(word)
    return sum(not first and second for first, second in pairwise(kinds))


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last one not w, x or y."""
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"

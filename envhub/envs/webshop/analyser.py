"""Text to index terms, as Lucene's English analyser makes them.

Invariant: the same text gives the same terms, in the same number and order, whether it takes the ASCII path or the general one.

Words are those of Unicode's word segmentation (UAX #29), with ideographs, hiragana and emoji (UTS #51) as words of their own;
then: possessive ``'s`` off, lower case, stop words out, Porter stems. A word over 255 characters is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

from envhub.envs.webshop.porter import stem

MAX_WORD = 255
_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to "
    "was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
_ASCII_WORD = re.compile(r"\w+(?:(?:(?<=[a-z])[:.'](?=[a-z])|(?<=[0-9])[,;.'](?=[0-9]))\w+)*", re.ASCII)
_POSSESSIVE = ("'s", "\u2019s", "\uff07s")
_PICTOGRAPHS = (
    "A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 2388 23CF 23E9-23F3 23F8-23FA 24C2 "
    "25AA-25AB 25B6 25C0 25FB-25FE 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271D 2721 "
    "2728 2733-2734 2744 2747 274C 274E 2753-2755 2757 2763-2767 2795-2797 27A1 27B0 27BF 2934-2935 "
    "2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D 3297 3299 1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 "
    "1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1E5 1F201-1F20F 1F21A 1F22F 1F232-1F23A 1F23C-1F23F "
    "1F249-1F3FA 1F400-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F 1F7D5-1F7FF 1F80C-1F80F 1F848-1F84F "
    "1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1FFFD"
)
"""Extended_Pictographic of Unicode Emoji 11, the version that the published index was made with; later ones are narrower."""

Term = Callable[[str], str | None]


def word_term(word: str) -> str | None:
    """The term of a word in lower case; None for a stop word."""
    if word.endswith(_POSSESSIVE):
        word = word[:-2]
    return None if word in STOP_WORDS else stem(word)


_recent_term = lru_cache(4096)(word_term)


def terms(text: str, *, term: Term = _recent_term) -> list[str]:
    """``term`` is :func:`word_term` behind whatever memory suits the caller."""
    return [found for word in words(text) if (found := term(word)) is not None]


def words(text: str) -> list[str]:
    """The words of a text in order, in lower case."""
    if text.isascii():
        pattern, text = _ASCII_WORD, text.lower()
        found = _ASCII_WORD.findall(text)
        if "_" in text:
            found = [word for word in found if word.strip("_")]
    else:
        pattern, text = _unicode_word(), _lower(text)
        found = [match[1] for match in pattern.finditer(text) if match[1]]
    if max(map(len, found), default=0) > MAX_WORD:
        found = [piece for word in found for piece in _pieces(pattern, word)]
    return found


def _lower(text: str) -> str:
    """Character by character, without the rules that look at neighbours."""
    return text.replace("\u0130", "i").replace("\u03a3", "\u03c3").lower()


def _pieces(pattern: Any, word: str) -> Iterator[str]:
    """What is found in ``word`` when no more than MAX_WORD characters are looked at together."""
    at = 0
    while at < len(word):
        found = pattern.match(word, at, at + MAX_WORD)
        if found is not None and found[0].strip("_"):
            yield found[0]
        at = found.end() if found is not None else at + 1


@cache
def _unicode_word() -> Any:
    """Group 1 is a word; a match without it is to be passed over (joiners with nothing to join)."""
    import regex  # only texts beyond ASCII pay for it

    ignored = r"[[\p{WB=Format}\p{WB=Extend}\p{WB=ZWJ}]--\p{Emoji_Modifier}]"
    plain = ignored.replace("--", r"--\uFE0E--\uFE0F--")

    def of(characters: str) -> str:
        return f"(?:[{characters}]{ignored}*+)"

    letter, hebrew, katakana = (
        of(r"\p{WB=ALetter}\p{WB=Hebrew_Letter}"),
        of(r"\p{WB=Hebrew_Letter}"),
        of(r"\p{WB=Katakana}"),
    )
    numeric = of(r"\p{WB=Numeric}[\p{Block=HalfAndFullForms}&&\p{Nd}]")
    joiner, quote, quotes = of(r"\p{WB=ExtendNumLet}"), of(r"\p{WB=Single_Quote}"), of(r"\p{WB=Double_Quote}")
    between_letters = of(r"\p{WB=MidLetter}:\p{WB=MidNumLet}\p{WB=Single_Quote}")
    between_digits = of(r"\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    paired = f"(?:{hebrew}(?:{quotes}(?={hebrew})|{quote}))"
    run = (
        f"(?:{katakana}(?:{joiner}*+{katakana})*+"
        f"|(?:{numeric}(?:(?:{joiner}*+|{between_digits}){numeric})*+"
        f"|(?:{paired}|{letter})(?:(?:{joiner}*+|{between_letters})(?:{paired}|{letter}))*+)++)"
    )
    word = f"{joiner}*+{run}(?:{joiner}++{run})*+{joiner}*+"

    symbol = f"[{_pictographs()}]{plain}*+"
    tinted = rf"(?:\u200D*+(?:\p{{Emoji_Modifier_Base}}{plain}*+))?\p{{Emoji_Modifier}}{plain}*+"
    pictured = rf"(?:{tinted}|\u200D*+{symbol}\uFE0F?)"
    flag_half = of(r"\p{WB=Regional_Indicator}")
    emoji = (
        rf"{pictured}(?:[\U000E0020-\U000E007E]++\U000E007F|(?:(?<=\u200D){pictured}|\u200D{pictured})*)"
        rf"|[0-9#*]{plain}*+\uFE0F?\u20E3{plain}*+"
        rf"|{flag_half}{{2}}"
    )
    southeast_asian, single = of(r"\p{LB=SA}"), of(r"\p{Script=Han}\p{Script=Hiragana}")
    return regex.compile(rf"({word}|{emoji}|(?:{southeast_asian})++|{single})|{joiner}++|\u200D++", regex.V1)


def _pictographs() -> str:
    """As the inside of a character class."""
    spans = ([chr(int(end, 16)) for end in span.split("-")] for span in _PICTOGRAPHS.split())
    return "".join("-".join(span) for span in spans)

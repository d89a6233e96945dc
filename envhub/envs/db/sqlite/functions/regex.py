"""REGEXP and its relatives on RE2.

Invariant: matching takes time linear in the text, whatever the pattern; back references and look-around are errors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.functions import MAX_TEXT, Spec


@lru_cache(maxsize=256)
def compiled(pattern: str, flags: str = "") -> Any:
    import re2  # loaded by the first REGEXP, not by every start of a host

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 16 << 20
    options.case_sensitive = "c" in flags and "i" not in flags.split("c")[-1]
    options.dot_nl = "n" in flags
    options.one_line = "m" not in flags
    if "m" in flags:
        pattern = "(?m)" + pattern
    if not pattern:
        raise MySQLError(3685, "Illegal argument to a regular expression.")
    try:
        return re2.compile(pattern.replace("[[:<:]]", r"\b").replace("[[:>:]]", r"\b"), options=options)
    except re2.error as error:
        raise MySQLError(1139, f"Got error '{_text(error)}' from regexp") from None


def _text(error: Exception) -> str:
    value = error.args[0] if error.args else "invalid pattern"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _span(match: Any, text: str) -> tuple[int, int]:
    return int(match.start()), int(match.end())


def regexp_like(text: str, pattern: str, flags: str = "") -> int:
    return int(compiled(pattern, flags).search(text) is not None)


def _nth(text: str, pattern: str, start: int, occurrence: int, flags: str) -> Any:
    if start < 1 or start > len(text) + 1:
        raise MySQLError(3686, "Index out of bounds in regular expression search.")
    found = None
    for count, match in enumerate(compiled(pattern, flags).finditer(text, start - 1), 1):
        if count >= max(occurrence, 1):
            found = match
            break
    return found


def regexp_substr(text: str, pattern: str, start: int = 1, occurrence: int = 1, flags: str = "") -> str | None:
    match = _nth(text, pattern, start, occurrence, flags)
    return None if match is None else str(match.group())


def regexp_instr(text: str, pattern: str, start: int = 1, occurrence: int = 1, after: int = 0, flags: str = "") -> int:
    match = _nth(text, pattern, start, occurrence, flags)
    if match is None:
        return 0
    low, high = _span(match, text)
    return (high if after else low) + 1


def regexp_replace(
    text: str, pattern: str, new: str, start: int = 1, occurrence: int = 0, flags: str = ""
) -> str | None:
    pieces, at, size = [text[: start - 1]], start - 1, 0
    for count, match in enumerate(compiled(pattern, flags).finditer(text, start - 1), 1):
        if occurrence and count != occurrence:
            continue
        low, high = _span(match, text)
        pieces += [text[at:low], _expand(match, new)]
        at = high
        size += len(pieces[-1])
        if size > MAX_TEXT:
            return None
    return "".join(pieces) + text[at:]


def _expand(match: Any, new: str) -> str:
    """``$1`` and ``\\1`` are groups; a backslash before any other character quotes it."""
    out, index = "", 0
    while index < len(new):
        char = new[index]
        if char in "$\\" and index + 1 < len(new):
            following = new[index + 1]
            if following.isdigit():
                out += match.group(int(following)) or ""
            else:
                out += following if char == "\\" else char + following
            index += 2
        else:
            out += char
            index += 1
    return out


FUNCTIONS = {
    "REGEXP_LIKE": Spec("ss?s", "int", regexp_like),
    "REGEXP_SUBSTR": Spec("ss?iis", "str", regexp_substr),
    "REGEXP_INSTR": Spec("ss?iiis", "int", regexp_instr),
    "REGEXP_REPLACE": Spec("sss?iis", "str", regexp_replace),
}

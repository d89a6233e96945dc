"""String functions.

Invariant: positions count characters from 1, lengths named LENGTH count UTF-8 bytes, and no result exceeds MAX_TEXT.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from envhub.envs.db.sqlite.collation import fold, key
from envhub.envs.db.sqlite.functions import MAX_TEXT, Spec

Text = str | bytes


def raw(value: Text) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def left(text: str, count: int) -> str:
    return text[:count] if count > 0 else ""


def right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def substring(text: Text, start: int, count: int | None = None) -> Text:
    size = len(text)
    if start < 0:
        start += size + 1
    if start < 1 or start > size or (count is not None and count < 1):
        return text[:0]
    return text[start - 1 :] if count is None else text[start - 1 : start - 1 + count]


def locate(needle: str, text: str, start: int = 1) -> int:
    if start < 1:
        return 0
    return fold(text).find(fold(needle), start - 1) + 1


def replace(text: str, old: str, new: str) -> str | None:
    if not old:
        return text
    if new and len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT:
        return None
    return text.replace(old, new)


def repeat(text: str, count: int) -> str | None:
    if count <= 0:
        return ""
    return text * count if len(text) * count <= MAX_TEXT else None


def pad(text: str, size: int, filler: str) -> str | None:
    if size < 0 or size > MAX_TEXT:
        return None
    if size <= len(text):
        return ""
    return (filler * (size // len(filler) + 1))[: size - len(text)] if filler else None


def left_pad(text: str, size: int, filler: str = " ") -> str | None:
    padding = pad(text, size, filler)
    return None if padding is None else padding + text[:size]


def right_pad(text: str, size: int, filler: str = " ") -> str | None:
    padding = pad(text, size, filler)
    return None if padding is None else text[:size] + padding


def trim(side: str, chars: str, text: str) -> str:
    if chars:
        if side != "TRAILING":
            while text.startswith(chars):
                text = text[len(chars) :]
        if side != "LEADING":
            while text.endswith(chars):
                text = text[: -len(chars)]
    return text


def insert(text: str, start: int, count: int, new: str) -> str:
    if start < 1 or start > len(text):
        return text
    if count < 0 or start + count > len(text):
        return text[: start - 1] + new
    return text[: start - 1] + new + text[start - 1 + count :]


def substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or not count:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    if separator is None:
        return None
    present = [part for part in parts if part is not None]
    if sum(map(len, present)) + len(separator) * len(present) > MAX_TEXT:
        return None
    return separator.join(present)


def field(*values: str | None) -> int:
    wanted = values[0]
    if wanted is None:
        return 0
    folded = key(wanted)
    return next((place for place, value in enumerate(values[1:], 1) if value is not None and key(value) == folded), 0)


def find_in_set(needle: str, values: str) -> int:
    folded = key(needle)
    return next((place for place, value in enumerate(values.split(","), 1) if key(value) == folded), 0) if values else 0


def element(index: int | None, *values: str | None) -> str | None:
    return values[index - 1] if index is not None and 1 <= index <= len(values) else None


def make_set(bits: int, *values: str | None) -> str:
    return ",".join(value for place, value in enumerate(values) if value is not None and bits >> place & 1)


def characters(*codes: int | None) -> bytes:
    return b"".join(
        (code % (1 << 32)).to_bytes(max(1, ((code % (1 << 32)).bit_length() + 7) // 8), "big")
        for code in codes
        if code is not None
    )


def hexadecimal(value: int | float | Text) -> str:
    if isinstance(value, int):
        return format(value % (1 << 64), "X")
    if isinstance(value, float):
        return format(round(value) % (1 << 64), "X")
    return raw(value).hex().upper()


def unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    except ValueError:
        return None


def soundex(text: str) -> str:
    codes = {**dict.fromkeys("BFPV", "1"), **dict.fromkeys("CGJKQSXZ", "2"), **dict.fromkeys("DT", "3"), "L": "4"}
    codes.update({"M": "5", "N": "5", "R": "6"})
    letters = [char for char in text.upper() if char.isalpha()]
    if not letters:
        return ""
    result, last = letters[0], codes.get(letters[0], "")
    for char in letters[1:]:
        code = codes.get(char, "")
        if code and code != last:
            result += code
        if char not in "HW":
            last = code
    return result.ljust(4, "0")


def ordinal(text: str) -> int:
    return int.from_bytes(text[0].encode(), "big") if text else 0


def from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def to_base64(value: Text) -> str:
    data = base64.b64encode(raw(value)).decode()
    return "\n".join(data[start : start + 76] for start in range(0, len(data), 76))


def sha2(value: Text, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, raw(value)).hexdigest() if name else None


def quote(text: str | None) -> str:
    if text is None:
        return "NULL"
    return "'" + re.sub(r"['\\]", lambda m: "\\" + m.group(), text).replace("\0", "\\0").replace("\x1a", "\\Z") + "'"


@lru_cache(maxsize=512)
def _like_parts(pattern: str, escape: str) -> tuple[tuple[str, ...], ...]:
    """The pattern cut at ``%``; within a part ``_`` is the empty string."""
    parts: list[list[str]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if escape and char == escape:
            parts[-1].append(next(chars, escape))
        elif char == "%":
            parts.append([])
        elif char == "_":
            parts[-1].append("")
        else:
            parts[-1].append(char)
    return tuple(tuple(part) for part in parts)


def _fits(text: str, at: int, part: tuple[str, ...]) -> bool:
    return all(not char or text[at + offset] == char for offset, char in enumerate(part))


def _find(text: str, part: tuple[str, ...], start: int, end: int) -> int:
    if "" not in part:
        return text.find("".join(part), start, end)
    return next((at for at in range(start, end - len(part) + 1) if _fits(text, at, part)), -1)


def matches_like(text: str, parts: tuple[tuple[str, ...], ...]) -> int:
    """Greedy match of the parts from left to right: linear for patterns without ``_``."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return int(len(text) == len(first) and _fits(text, 0, first))
    end = len(text) - len(last)
    if len(first) > end or not _fits(text, 0, first) or not _fits(text, end, last):
        return 0
    at = len(first)
    for part in parts[1:-1]:
        at = _find(text, part, at, end)
        if at < 0:
            return 0
        at += len(part)
    return 1


def like(text: str, pattern: str, escape: str = "\\") -> int:
    return matches_like(fold(text), _like_parts(fold(pattern), escape))


def like_binary(text: str, pattern: str, escape: str = "\\") -> int:
    return matches_like(text, _like_parts(pattern, escape))


def compare_texts(a: str, b: str) -> int:
    left_key, right_key = key(a), key(b)
    return (left_key > right_key) - (left_key < right_key)


def extreme(largest: int, *values: str) -> str:
    return max(values, key=key) if largest else min(values, key=key)


FUNCTIONS = {
    "UPPER": Spec("s", "str", str.upper),
    "LOWER": Spec("s", "str", str.lower),
    "LENGTH": Spec("b", "int", lambda value: len(raw(value))),
    "CHAR_LENGTH": Spec("b", "int", len),
    "BIT_LENGTH": Spec("b", "int", lambda value: len(raw(value)) * 8),
    "LEFT": Spec("si", "str", left),
    "RIGHT": Spec("si", "str", right),
    "SUBSTRING": Spec("si?i", "str", substring),
    "LOCATE": Spec("ss?i", "int", locate),
    "INSTR": Spec("ss", "int", lambda text, needle: locate(needle, text)),
    "REPLACE": Spec("sss", "str", replace),
    "REPEAT": Spec("si", "str", repeat),
    "SPACE": Spec("i", "str", lambda count: repeat(" ", count)),
    "LPAD": Spec("si?s", "str", left_pad),
    "RPAD": Spec("si?s", "str", right_pad),
    "TRIM": Spec("sss", "str", trim),
    "LTRIM": Spec("s", "str", lambda text: text.lstrip(" ")),
    "RTRIM": Spec("s", "str", lambda text: text.rstrip(" ")),
    "REVERSE": Spec("s", "str", lambda text: text[::-1]),
    "INSERT": Spec("siis", "str", insert),
    "SUBSTRING_INDEX": Spec("ssi", "str", substring_index),
    "CONCAT_WS": Spec("ss*", "str", concat_ws, nulls=True),
    "FIELD": Spec("ss*", "int", field, nulls=True),
    "FIND_IN_SET": Spec("ss", "int", find_in_set),
    "ELT": Spec("is*", "str", element, nulls=True),
    "MAKE_SET": Spec("is*", "str", make_set),
    "EXPORT_SET": Spec(
        "iss?si",
        "str",
        lambda bits, on, off, sep=",", count=64: sep.join(
            on if bits >> place & 1 else off for place in range(min(count, 64))
        ),
    ),
    "ASCII": Spec("s", "int", lambda text: text.encode()[0] if text else 0),
    "ORD": Spec("s", "int", ordinal),
    "CHAR": Spec("i*", "bin", characters, nulls=True),
    "HEX": Spec("x", "str", hexadecimal),
    "UNHEX": Spec("s", "bin", unhex),
    "SOUNDEX": Spec("s", "str", soundex),
    "STRCMP": Spec("ss", "int", compare_texts),
    "QUOTE": Spec("s", "str", quote, nulls=True),
    "TO_BASE64": Spec("b", "str", to_base64),
    "FROM_BASE64": Spec("s", "bin", from_base64),
    "MD5": Spec("b", "str", lambda value: hashlib.md5(raw(value)).hexdigest()),
    "SHA1": Spec("b", "str", lambda value: hashlib.sha1(raw(value)).hexdigest()),
    "SHA2": Spec("bi", "str", sha2),
    "LOAD_FILE": Spec("s", "str", lambda name: None),
}
FUNCTIONS["UCASE"] = FUNCTIONS["UPPER"]
FUNCTIONS["LCASE"] = FUNCTIONS["LOWER"]
FUNCTIONS["OCTET_LENGTH"] = FUNCTIONS["LENGTH"]
FUNCTIONS["CHARACTER_LENGTH"] = FUNCTIONS["CHAR_LENGTH"]
FUNCTIONS["SHA"] = FUNCTIONS["SHA1"]

INTERNAL: dict[str, Callable[..., Any]] = {
    "m_like": like,
    "m_likeb": like_binary,
    "m_text": lambda value: value.decode("utf-8", "replace") if isinstance(value, bytes) else value,
    "m_blob": raw,
    "m_extreme": extreme,
    "m_left": left,
}

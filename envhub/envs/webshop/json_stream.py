"""JSON files too large to hold: the elements of one array, or the members of one object, one at a time.

Invariant: memory is bounded by the largest element plus a chunk; a file that is cut short or malformed raises ValueError that
names the place, and never yields half an element. ``.gz`` files are read as they are.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from envhub.core.types import JSON

_CHUNK_CHARS = 1 << 20
_MAX_ELEMENT_CHARS = 16 << 20
"""Beyond it an element counts as malformed: its end was never found."""

_WHITESPACE = " \t\r\n\ufeff"
_ENDS = frozenset(" \t\r\n,:]}")


def stream_array(path: Path, *, chunk_chars: int = _CHUNK_CHARS) -> Iterator[JSON]:
    """Raises ValueError, FileNotFoundError."""
    with _open(path) as source:
        reader = _Reader(path, source, chunk_chars)
        reader.expect("[")
        if reader.peek() == "]":
            reader.expect("]")
        else:
            yield reader.value()
            while reader.expect(",]") == ",":
                yield reader.value()
        reader.expect_end()


def stream_members(path: Path, *, chunk_chars: int = _CHUNK_CHARS) -> Iterator[tuple[str, JSON]]:
    """Raises ValueError, FileNotFoundError."""
    with _open(path) as source:
        reader = _Reader(path, source, chunk_chars)
        reader.expect("{")
        if reader.peek() == "}":
            reader.expect("}")
        else:
            yield reader.member()
            while reader.expect(",}") == ",":
                yield reader.member()
        reader.expect_end()


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


class _Reader:
    """A window on the file. ``_at`` is the next unread character of ``_text``, which starts ``_before`` characters in."""

    def __init__(self, path: Path, source: IO[str], chunk_chars: int) -> None:
        self._path = path
        self._source = source
        self._chunk_chars = chunk_chars
        self._text = ""
        self._at = 0
        self._before = 0
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _WHITESPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def expect(self, characters: str) -> str:
        found = self.peek()
        if not found or found not in characters:
            raise self.malformed(" or ".join(map(repr, characters)))
        self._at += 1
        return found

    def expect_end(self) -> None:
        if self.peek():
            raise self.malformed("the end of the file")

    def member(self) -> tuple[str, JSON]:
        key = self.value()
        if not isinstance(key, str):
            raise self.malformed("a name in quotes")
        self.expect(":")
        return key, self.value()

    def value(self) -> JSON:
        """A whole value: what follows it shows that a number is complete."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                end, reason = len(self._text), error.msg
            except (RecursionError, ValueError) as error:  # no more text would help: too deep, or a number too long
                raise self.malformed(f"a JSON value ({error})") from error
            else:
                if self._text[end : end + 1] in _ENDS:
                    self._at = end
                    return value
                reason = "its end is not there"
            if len(self._text) - self._at > _MAX_ELEMENT_CHARS or not self._more():
                raise self.malformed(f"a JSON value ({reason})")

    def malformed(self, expected: str) -> ValueError:
        return ValueError(f"{self._path}, character {self._before + self._at}: expected {expected}")

    def _more(self) -> bool:
        try:
            chunk = self._source.read(max(self._chunk_chars, len(self._text) - self._at))
        except (EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
            raise ValueError(f"{self._path}: {error}") from error
        self._before += self._at
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return bool(chunk)

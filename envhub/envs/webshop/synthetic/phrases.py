"""Phrases that know their nouns. Invariant: what is shown of a phrase never holds its marks.

In the tables a word that is no noun carries a ``~``: ``"~wireless earbuds"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MARK = "~"
_SMALL_WORDS = frozenset({"a", "and", "for", "in", "of", "or", "the", "to", "with"})


@dataclass(frozen=True, slots=True)
class Phrase:
    """``nouns`` are lower-cased, in order, duplicates kept."""

    text: str
    nouns: tuple[str, ...]

    @staticmethod
    def of(marked: str) -> Phrase:
        words = marked.split()
        text = " ".join(word.removeprefix(_MARK) for word in words)
        return Phrase(text, tuple(word.strip(",").lower() for word in words if not word.startswith(_MARK)))

    @property
    def titled(self) -> Phrase:
        words = (word if word in _SMALL_WORDS else word[:1].upper() + word[1:] for word in self.text.split())
        return Phrase(" ".join(words), self.nouns)


def joined(phrases: Iterable[Phrase]) -> Phrase:
    found = [phrase for phrase in phrases if phrase.text]
    text = " ".join(phrase.text for phrase in found).replace(" ,", ",")
    return Phrase(text, tuple(noun for phrase in found for noun in phrase.nouns))


def rows(table: str, n_columns: int) -> Iterator[tuple[str, ...]]:
    """The lines of a table whose columns are parted by ``|``. Raises ValueError for a line that has another number."""
    for line in table.strip().splitlines():
        columns = tuple(column.strip() for column in line.split("|"))
        if len(columns) != n_columns:
            raise ValueError(f"{line!r} has {len(columns)} columns, not {n_columns}")
        yield columns

"""The choice of a worker. Pure: what it sees is what it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Candidate(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def capacity(self) -> int: ...

    @property
    def free(self) -> int: ...


C = TypeVar("C", bound=Candidate)


def choose(candidates: Iterable[C]) -> C | None:
    """The candidate with the largest share of its capacity free, then the most free slots, then the smallest id."""
    return min(
        (each for each in candidates if each.free > 0),
        key=lambda each: (-each.free / each.capacity, -each.free, each.id),
        default=None,
    )

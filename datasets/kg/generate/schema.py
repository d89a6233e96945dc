"""What a domain of the world is made of: kinds of things, links, measures and mediators, each with the words that describe it.
Invariant: data only; every direction of a link has its own words, so that a question names its path.

Patterns: ``[a|b]`` is a for one subject and b for several; ``{x}`` and ``{y}`` are the things given. A clause is a verb phrase
("directed {x}"); one that starts with ``>`` lacks its subject at the end instead (">{x} belongs to") and ``<a|b>`` in it agrees
with {x}.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta

Literal = int | float | date
INT, FLOAT, DATETIME = "type.int", "type.float", "type.datetime"
Fan = tuple[int, ...]
"""Numbers of objects a subject may have, one drawn for each subject."""


@dataclass(frozen=True, slots=True)
class Wording:
    """``noun`` and ``clauses`` say the same about the things that are reached."""

    noun: str
    clauses: tuple[str, ...]

    @property
    def nests(self) -> bool:
        """Whether a long ``{x}`` can come last."""
        return any(text.endswith("{x}") for text in (self.noun, *self.clauses))


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of entity. One with ``pool`` is a role: it is played by that many members of its parent. ``also`` is a second
    parent."""

    name: str
    noun: str
    count: int = 0
    names: str = ""
    mention: str = "{}"
    parent: str = ""
    also: str = ""
    pool: int = 0
    person: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A relation and its reverse; the source type is the prefix of ``forward``.

    ``most_back`` limits how many subjects share an object (0: no limit); ``among`` is the path from the subject to the
    things that objects are chosen from, when it is not all of the target type.
    """

    forward: str
    target: str
    reverse: str
    fan: Fan
    out: Wording
    back: Wording
    most_back: int = 0
    among: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return type_of(self.forward)


@dataclass(frozen=True, slots=True)
class Extreme:
    """One end of a measure: ``superlative`` and ``comparative`` are clauses, ``adjective`` may be missing."""

    superlative: str
    comparative: str
    adjective: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """An attribute with a number or a date."""

    name: str
    range: str
    draw: Callable[[random.Random], Literal]
    noun: str = ""
    most: Extreme | None = None
    least: Extreme | None = None
    share: float = 1.0

    @property
    def source(self) -> str:
        return type_of(self.name)


@dataclass(frozen=True, slots=True)
class Role:
    """One place of a mediator: ``into`` leads from the entity to the mediator, ``out`` back."""

    into: str
    out: str
    target: str
    share: float = 1.0

    @property
    def key(self) -> str:
        return self.out.rsplit(".", 1)[1]


@dataclass(frozen=True, slots=True)
class Mediator:
    """A node without a name that ties several entities together; made ``fan`` times for each thing of the first role.

    ``hops`` are keyed "from>to", ``meets`` "a+b>c", ``firsts`` "from>to@date property" with the words for (earliest, latest).
    """

    name: str
    roles: tuple[Role, ...]
    fan: Fan
    measures: tuple[Measure, ...] = ()
    hops: dict[str, Wording] = field(default_factory=dict)
    meets: dict[str, Wording] = field(default_factory=dict)
    firsts: dict[str, tuple[Wording, Wording]] = field(default_factory=dict)

    def role(self, key: str) -> Role:
        return next(role for role in self.roles if role.key == key)


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    kinds: tuple[Kind, ...]
    links: tuple[Link, ...] = ()
    measures: tuple[Measure, ...] = ()
    mediators: tuple[Mediator, ...] = ()
    held_out: bool = False


def type_of(relation: str) -> str:
    return relation.rsplit(".", 1)[0]


def link(
    forward: str,
    target: str,
    reverse: str,
    fan: Fan,
    out: tuple[str, ...],
    back: tuple[str, ...],
    *,
    most_back: int = 0,
    among: tuple[str, ...] = (),
) -> Link:
    return Link(forward, target, reverse, fan, said(*out), said(*back), most_back, among)


def said(noun: str, *clauses: str) -> Wording:
    return Wording(noun, clauses)


def dated(name: str, first: str, last: str, did: str, noun: str, *, share: float = 1.0) -> Measure:
    """A date attribute; ``did`` is the verb phrase that takes "first", "earlier", "later" and "most recently"."""
    most = Extreme(f"{did} most recently", f"{did} later")
    return Measure(name, DATETIME, days(first, last), noun, most, Extreme(f"{did} first", f"{did} earlier"), share)


def stamp(name: str, first: str, last: str) -> Measure:
    """The date of a mediator; its words are in ``firsts``."""
    return Measure(name, DATETIME, days(first, last))


def amount(name: str, draw: Span) -> Measure:
    """A number of a mediator; its words are in ``firsts``."""
    return Measure(name, draw.range, draw)


def measured(
    name: str,
    draw: Span,
    noun: str,
    more: str = "highest higher",
    less: str = "lowest lower",
    adjectives: str = "",
    *,
    share: float = 1.0,
) -> Measure:
    """A number attribute; ``more`` and ``less`` are "superlative comparative", ``adjectives`` "tallest shortest"."""
    (top, upper), (bottom, lower) = more.split(), less.split()
    high, low = adjectives.split() if adjectives else ("", "")
    most = Extreme(f"[has|have] the {top} {noun}", f"[has|have] the {upper} {noun}", high)
    least = Extreme(f"[has|have] the {bottom} {noun}", f"[has|have] the {lower} {noun}", low)
    return Measure(name, draw.range, draw, noun, most, least, share)


def days(first: str, last: str) -> Callable[[random.Random], Literal]:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return lambda rng: start + timedelta(days=rng.randrange((end - start).days + 1))


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from ``low`` to ``high`` in units of ``1 / unit``; whole when ``unit`` is 1.

    Evenly; over a wide range each doubling is as likely as the next. Integers only, so equal on every platform.
    """

    low: int
    high: int
    unit: int = 1

    @property
    def range(self) -> str:
        return INT if self.unit == 1 else FLOAT

    def __call__(self, rng: random.Random) -> Literal:
        drawn = self._draw(rng)
        return drawn if self.unit == 1 else drawn / self.unit

    def _draw(self, rng: random.Random) -> int:
        if self.low <= 0 or self.high // self.low < 50:
            return rng.randint(self.low, self.high)
        doublings = (self.high // self.low).bit_length() - 1
        start = self.low << rng.randrange(doublings + 1)
        return rng.randint(start, min(self.high, 2 * start - 1))


def whole(low: int, high: int) -> Span:
    return Span(low, high)


def real(low: float, high: float, digits: int = 2) -> Span:
    unit = 10**digits
    return Span(round(low * unit), round(high * unit), unit)

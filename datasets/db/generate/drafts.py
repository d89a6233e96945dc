"""Drafts of tasks and the registry of templates that make them.

Invariant: a template returns None rather than an ambiguous draft; its gold answer comes from Python over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Literal

from model import Field, Row, Value
from selection import Scope

Difficulty = Literal["easy", "medium", "hard"]
NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six")
ORDINALS = ("", "first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class Draft:
    """``answer`` is rows of cells for a question; None with ``state`` (rows by table) for a modification."""

    question: str
    solution: tuple[str, ...]
    tags: frozenset[str]
    answer: tuple[tuple[Value, ...], ...] | None = None
    ordered: bool = False
    state: dict[str, list[Row]] | None = None


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    kind: str
    difficulty: Difficulty
    weight: int
    make: Callable[[Scope], Draft | None]


TEMPLATES: list[Template] = []


def template(kind: str, difficulty: Difficulty, weight: int = 2) -> Callable[
    [Callable[[Scope], Draft | None]], Callable[[Scope], Draft | None]
]:  # fmt: skip
    def register(make: Callable[[Scope], Draft | None]) -> Callable[[Scope], Draft | None]:
        TEMPLATES.append(Template(make.__name__, kind, difficulty, weight, make))
        return make

    return register


def single(question: str, sql: str, value: Value, tags: Iterable[str] = ()) -> Draft:
    return Draft(question, (sql,), frozenset(tags), ((value,),))


def listing(
    question: str, sql: str, values: Sequence[Value], tags: Iterable[str] = (), *, ordered: bool = False
) -> Draft:
    return Draft(question, (sql,), frozenset(tags), tuple((v,) for v in values), ordered)


def change(question: str, sql: str | Sequence[str], state: dict[str, list[Row]], tags: Iterable[str] = ()) -> Draft:
    statements = (sql,) if isinstance(sql, str) else tuple(sql)
    return Draft(question, statements, frozenset(tags), state=state)


def what(scope: Scope, thing: str, hint: str = "") -> str:
    """A question for ``thing``, in one of several moods; ``hint`` is a sentence on the format."""
    form = scope.pick(
        f"What is {thing}?", f"What is {thing}?", f"Find {thing}.", f"Could you tell me {thing}?", f"Please work out {thing}.",
        f"I would like to know {thing}.", f"Determine {thing}.",
    )  # fmt: skip
    return f"{form} {hint}".strip()


def how_many(scope: Scope, things: str) -> str:
    return scope.pick(
        f"How many {things} are there?", f"How many {things} are there?", f"Count the {things}.", f"What is the number of {things}?",
        f"Please count the {things}.", f"I need the number of {things}.", f"Can you tell me how many {things} there are?",
    )  # fmt: skip


def extremes(f: Field) -> tuple[str, str]:
    """The words for the greatest and the least value."""
    return (
        ("highest", "lowest")
        if f.role == "measure" or ("year" not in f.noun and f.role == "ordinal")
        else ("latest", "earliest")
    )


def pairs_of(values: Sequence[str]) -> str:
    """``a, b and c``."""
    return values[0] if len(values) == 1 else ", ".join(values[:-1]) + " and " + values[-1]


def numbers(rows: Iterable[Row], name: str) -> list[Decimal]:
    """The non-NULL cells of a measure."""
    return [Decimal(str(row[name])) for row in rows if row[name] is not None]


def plain(value: Decimal) -> Value:
    """An int when the value came from whole numbers."""
    return int(value) if value.as_tuple().exponent == 0 else value


def mean(values: Sequence[Decimal]) -> Decimal:
    return sum(values, Decimal(0)) / len(values)


def rounded(value: Decimal) -> Decimal | None:
    """Two decimals, half up; None when the third decimals are so near a half that engines may differ."""
    cents = value * 100
    if abs(abs(cents - cents.to_integral_value(ROUND_HALF_UP)) - Decimal("0.5")) < Decimal("0.02"):
        return None
    return value.quantize(Decimal("0.01"), ROUND_HALF_UP)


def clear_best(
    pairs: Sequence[tuple[Decimal, Value]], *, highest: bool, place: int = 1, gap: Decimal = Decimal(0)
) -> Value:
    """The name at ``place``; None unless it is separated from both neighbours by more than ``gap``."""
    if len(pairs) < place + 1:
        return None
    order = sorted(pairs, key=lambda p: p[0], reverse=highest)
    if place > 1 and abs(order[place - 2][0] - order[place - 1][0]) <= gap:
        return None
    if abs(order[place - 1][0] - order[place][0]) <= gap:
        return None
    return order[place - 1][1]


def alphabetical(values: Iterable[Value]) -> list[str] | None:
    """In alphabetical order, whatever a collation makes of signs; None when that order hangs on signs alone."""
    order = sorted(map(str, values), key=str.casefold)
    letters = ["".join(filter(str.isalnum, value.casefold())) for value in order]
    return order if all(a < b for a, b in pairwise(letters)) else None


def grouped(rows: Iterable[Row], name: str) -> dict[Value, list[Row]]:
    """Rows by the value of a column, NULL left out, in order of appearance."""
    groups: dict[Value, list[Row]] = {}
    for row in rows:
        if row[name] is not None:
            groups.setdefault(row[name], []).append(row)
    return groups

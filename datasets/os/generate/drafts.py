"""Drafts of tasks, the source of chance and names that templates draw from, and the registry of templates.

Invariant: a template gives None rather than an ambiguous draft, and its gold comes from Python over what it has made, never
from the commands of the reference solution.
"""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from tree import Tree
from words import PARTS, PEOPLE, PROJECTS, STEMS, UNSEEN_PROJECTS

Difficulty = Literal["easy", "medium", "hard"]
Kind = Literal["integer", "number", "string", "size", "items"]
T = TypeVar("T")

LEAST_NUMBER = 4
EVERYTHING_ELSE = (
    "Leave everything else as it is.",
    "Nothing else may change.",
    "Do not touch anything else.",
    "All other files must stay exactly as they are.",
    "Apart from that, keep everything the way it is now.",
)
_OPENERS = (
    "", "", "", "", "I have just taken over this machine. ", "A colleague left me this server. ", "Could you help me here? ",
    "Here is a small job. ", "We are cleaning up this host. ", "Please look into this for me. ",
    "This is a copy of a production host. ", "I am preparing a hand-over. ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """A task without its name. ``gold`` for a question, ``checks`` (view, Python) for a change, or both.

    ``solution`` are bash scripts; the last one of a question prints the gold. ``slips`` are what careless work would
    give: answers of a question, or scripts that leave a wrong state; none of them may pass. They are not shipped.
    """

    question: str
    tree: Tree
    solution: tuple[str, ...]
    gold: str = ""
    kind: Kind = "integer"
    checks: tuple[tuple[str, str], ...] = ()
    start: str = ""
    tags: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    family: str
    difficulty: Difficulty
    weight: int
    held_out: bool
    make: Callable[[Scope], Draft | None]


TEMPLATES: list[Template] = []
Maker = Callable[["Scope"], Draft | None]


def template(
    family: str, difficulty: Difficulty, weight: int = 2, *, held_out: bool = False
) -> Callable[[Maker], Maker]:
    """``held_out`` templates appear in the test split alone."""

    def register(make: Maker) -> Maker:
        name = make.__name__.replace("_", "-")
        TEMPLATES.append(Template(name, family, difficulty, weight, held_out, make))
        return make

    return register


@dataclass(slots=True)
class Scope:
    """What a template draws from: one stream of chance, and names that come once each."""

    rng: random.Random
    unseen: bool = False
    tree: Tree = field(default_factory=Tree)
    _taken: set[str] = field(default_factory=set)

    def pick(self, *choices: T) -> T:
        return self.rng.choice(choices)

    def some(self, pool: Sequence[T], n: int) -> list[T]:
        return self.rng.sample(list(pool), n)

    def between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def seed(self) -> int:
        return self.rng.randrange(1 << 30)

    def shuffled(self, items: Iterable[T]) -> list[T]:
        found = list(items)
        self.rng.shuffle(found)
        return found

    def project(self) -> str:
        return self._fresh(UNSEEN_PROJECTS if self.unseen else PROJECTS)

    def stem(self) -> str:
        return self._fresh(STEMS)

    def part(self) -> str:
        return self._fresh(PARTS)

    def person(self) -> str:
        return self._fresh(PEOPLE)

    def home(self) -> str:
        """A folder for the task, and the project it belongs to as its last part."""
        return self.pick("/srv", "/opt", "/data", "/var/lib", "/home/shared", "/mnt/work") + "/" + self.project()

    def token(self, n: int = 8) -> str:
        return "".join(self.rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=n))

    def ask(self, *forms: str) -> str:
        """One of several wordings, sometimes with a sentence before it."""
        return self.pick(*_OPENERS) + self.pick(*forms)

    def order(self, *forms: str) -> str:
        """A wording for a change, with the demand that nothing else changes."""
        return f"{self.ask(*forms)} {self.pick(*EVERYTHING_ELSE)}"

    def how_many(self, things: str, rest: str = "") -> str:
        """A question for a number: ``things`` is a plural with its description, ``rest`` a sentence on what counts."""
        asked = self.ask(
            f"How many {things} are there?", f"Count the {things}.", f"What is the number of {things}?", f"Find the number of {things}.",
            f"I need the number of {things}.", f"Tell me the number of {things}.",
        )  # fmt: skip
        return f"{asked} {rest}".strip()

    def what(self, thing: str, rest: str = "") -> str:
        asked = self.ask(
            f"What is {thing}?", f"Find {thing}.", f"Please determine {thing}.", f"I would like to know {thing}.", f"Tell me {thing}.",
            f"Work out {thing}.",
        )  # fmt: skip
        return f"{asked} {rest}".strip()

    def _fresh(self, pool: Sequence[str]) -> str:
        while True:
            name = self.rng.choice(pool)
            if name not in self._taken:
                self._taken.add(name)
                return name


def integer(
    scope: Scope, question: str, gold: int, solution: str | Sequence[str], *slips: int, tags: Iterable[str] = ()
) -> Draft | None:
    """A question for a number; None when a slip happens to give the right one, or a guess would."""
    if gold in slips or gold < LEAST_NUMBER:
        return None
    return Draft(
        question, scope.tree, scripts(solution), str(gold), "integer", slips=tuple(map(str, slips)), tags=tuple(tags)
    )


def size(
    scope: Scope, question: str, gold: int, solution: str | Sequence[str], *slips: int, tags: Iterable[str] = ()
) -> Draft | None:
    """A question for a number of bytes, which may be answered in other units."""
    draft = integer(scope, question, gold, solution, *slips, tags=tags)
    return draft and replace(draft, kind="size")


def string(
    scope: Scope,
    question: str,
    gold: str,
    solution: str | Sequence[str],
    *slips: str,
    tags: Iterable[str] = (),
    start: str = "",
) -> Draft | None:
    if gold in slips or not gold.strip():
        return None
    return Draft(question, scope.tree, scripts(solution), gold, "string", start=start, slips=slips, tags=tuple(tags))


def change(
    scope: Scope,
    question: str,
    check: str,
    solution: str | Sequence[str],
    *slips: str,
    tags: Iterable[str] = (),
    start: str = "",
) -> Draft:
    return Draft(
        question, scope.tree, scripts(solution), checks=(("judge", check),), start=start, slips=slips, tags=tuple(tags)
    )  # fmt: skip


def scripts(solution: str | Sequence[str]) -> tuple[str, ...]:
    return (solution,) if isinstance(solution, str) else tuple(solution)

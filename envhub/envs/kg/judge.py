"""Grading of answers in two named modes: ``strict`` (the default) compares values, ``agentbench`` texts as published.

Invariant: what an agent answered gives a Grade, always.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import get_args

from envhub.core.types import JSON
from envhub.envs.kg.terms import Term, text_of, value_of

Mode = OneOf["strict", "agentbench"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Grade:
    """``f1`` is a metric; the reward asks for exactly the expected set."""

    correct: bool
    precision: float
    recall: float
    f1: float

    @property
    def reward(self) -> float:
        return 1.0 if self.correct else 0.0

    def info(self) -> Mapping[str, JSON]:
        return {
            "correct": self.correct,
            "score": self.f1,
            "f1": self.f1,
            "precision": self.precision,
            "recall": self.recall,
        }


NOTHING = Grade(False, 0.0, 0.0, 0.0)


def grade(expected: Iterable[Term], given: Sequence[Term], *, mode: Mode = "strict") -> Grade:
    """Numbers are equal by value and times without their zone; in ``agentbench`` mode equal texts are equal."""
    if mode == "agentbench":
        return _compare({_published(term) for term in expected}, {_published(term) for term in given})
    return _compare({value_of(term) for term in expected}, {value_of(term) for term in given})


def _published(term: Term) -> str:
    """The text the published environment compares: -08:00 is dropped wherever it stands."""
    return text_of(term).replace("-08:00", "")


def _compare(expected: Set[Hashable], given: Set[Hashable]) -> Grade:
    n_right = len(expected & given)
    if not n_right:
        return Grade(expected == given, 0.0, 0.0, 0.0)
    precision, recall = n_right / len(given), n_right / len(expected)
    return Grade(expected == given, precision, recall, 2 * precision * recall / (precision + recall))

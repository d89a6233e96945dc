"""Puts descriptions into English. Invariant: the words name every move of the description, in an order that leaves one reading:
at most one part of a conjunction is nested, and it comes last."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from nodes import Best, Both, Earliest, Evaluator, Meeting, Node, Thing, Via, target
from schema import Extreme, Wording
from steps import Moves
from world import World

_TARGET_NUMBER = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")
_GIVEN_NUMBER = re.compile(r"<([^|>]*)\|([^>]*)>")


@dataclass(frozen=True, slots=True)
class Said:
    """A clause about the things described; ``gap`` when it ends where they belong ("X belongs to")."""

    text: str
    gap: bool


class Writer:
    def __init__(self, world: World, moves: Moves, evaluator: Evaluator, rng: random.Random) -> None:
        self._world = world
        self._kinds = moves.kinds
        self._evaluator = evaluator
        self._rng = rng

    def question(self, node: Node, *, count: bool = False) -> str:
        if count:
            text = self._count(node)
        elif isinstance(node, Best):
            text = self._superlative(node)
        else:
            text = self._listing(node)
        return text[0].upper() + text[1:]

    def mention(self, thing: str) -> str:
        return self._world.kinds[thing].mention.format(self._world.names[thing])

    def _listing(self, node: Node) -> str:
        n = self._n(node)
        noun = self._noun(node, n)
        asks = self._asks_with_noun(node, n) if self._noun_is_clear(node) else []
        if self._clause_is_clear(node):
            clauses = self._clauses(node, n)
            asks += self._asks_for_the(f"{noun} {self._relative(node, clauses)}", n)
            if not any(clause.gap for clause in clauses):
                verbs = _listed([clause.text for clause in clauses])
                asks += [f"Which {noun} {verbs}?"] * 2 + [f"Tell me which {noun} {verbs}."]
                if self._person(node):
                    asks += [f"Who {_listed([clause.text for clause in self._clauses(node, 1)])}?"] * 2
        return self._rng.choice(asks)

    def _asks_with_noun(self, node: Node, n: int) -> list[str]:
        described = self._described(node, n)
        verb = "is" if n == 1 else "are"
        word = "Who" if self._person(node) else "What"
        return [f"{word} {verb} {described}?", f"{word} {verb} {described}?", *self._orders(described, n)]

    def _asks_for_the(self, described: str, n: int) -> list[str]:
        return [f"I am looking for the {described}.", *self._orders(f"the {described}", n)]

    def _orders(self, described: str, n: int) -> list[str]:
        return [f"{self._rng.choice(('Name', 'Find', 'Give me') if n == 1 else ('Name', 'Find', 'List'))} {described}."]

    def _count(self, node: Node) -> str:
        nouns = self._noun(node, 2)
        clauses = self._clauses(node, 2)
        relative = self._relative(node, clauses)
        asks = [f"What is the number of {nouns} {relative}?", f"Count the {nouns} {relative}."]
        if not any(clause.gap for clause in clauses):
            verbs = _listed([clause.text for clause in clauses])
            asks += [f"How many {nouns} {verbs}?"] * 3 + [f"How many different {nouns} {verbs}?"]
        return self._rng.choice(asks)

    def _superlative(self, node: Best) -> str:
        end = _end(node)
        pair = self._n(node.of) == 2
        group = self._group(node.of, "two " if pair else "")
        clause = _inflect(end.comparative if pair else end.superlative, 1)
        asks = [f"Of {group}, which one {clause}?", f"From {group}, pick the one that {clause}."]
        if _is_simple(node.of):
            asks += [f"Which of {group} {clause}?"] * 2
        if end.adjective and not pair:
            word = "Who" if self._person(node) else "What"
            asks += [f"{word} is the {end.adjective} of {group}?", f"Find the {end.adjective} of {group}."]
        return self._rng.choice(asks)

    def _group(self, node: Node, number: str) -> str:
        """The set a superlative is about, always in the plural."""
        wording = self._wording(node)
        if wording and self._noun_is_clear(node) and (self._rng.random() < 0.5 or not self._clause_is_clear(node)):
            return f"the {number}{self._fill(wording.noun, node, 2)}"
        return f"the {number}{self._noun(node, 2)} {self._relative(node, self._clauses(node, 2))}"

    def _phrase(self, node: Node, *, short: bool = False) -> str:
        """A description inside another."""
        if isinstance(node, Thing):
            return self.mention(node.id)
        if isinstance(node, Best):
            return self._best_phrase(node)
        n = self._n(node)
        if self._noun_is_clear(node) and (short or self._rng.random() < 0.6 or not self._clause_is_clear(node)):
            return self._described(node, n)
        return f"the {self._noun(node, n)} {self._relative(node, self._clauses(node, n))}"

    def _best_phrase(self, node: Best) -> str:
        end = _end(node)
        pronoun = "who" if self._person(node) else "that"
        if self._n(node.of) == 2:
            return f"whichever of {self._group(node.of, 'two ')} {_inflect(end.comparative, 1)}"
        group = self._group(node.of, "")
        if end.adjective:
            return f"the {end.adjective} of {group}"
        return f"the {self._noun(node, 1)} {pronoun} {_inflect(end.superlative, 1)} among {group}"

    def _noun_is_clear(self, node: Node) -> bool:
        """Whether the noun pattern leaves one reading: what is nested comes last, unless no pattern allows that."""
        wording = self._wording(node)
        return wording is not None and (_is_simple(node) or wording.noun.endswith("{x}") or not wording.nests)

    def _clause_is_clear(self, node: Node) -> bool:
        wording = self._wording(node)
        return wording is None or _is_simple(node) or any(clause.endswith("{x}") for clause in wording.clauses)

    def _described(self, node: Node, n: int) -> str:
        wording = self._wording(node)
        assert wording is not None
        return f"the {self._fill(wording.noun, node, n)}"

    def _relative(self, node: Node, clauses: list[Said]) -> str:
        pronoun = "who" if self._person(node) else "that"
        if any(clause.gap for clause in clauses):
            return _listed([f"{pronoun} {clause.text}" for clause in clauses])
        return f"{pronoun} {_listed([clause.text for clause in clauses])}"

    def _clauses(self, node: Node, n: int) -> list[Said]:
        if isinstance(node, Both):
            simple = [part for part in node.parts if _is_simple(part)]
            nested = [part for part in node.parts if not _is_simple(part)]
            return [clause for part in (*simple, *nested) for clause in self._clauses(part, n)]
        wording = self._wording(node)
        assert wording is not None
        nesting = () if _is_simple(node) else tuple(clause for clause in wording.clauses if clause.endswith("{x}"))
        clause = self._rng.choice(nesting or wording.clauses)
        return [Said(self._fill(clause.removeprefix(">"), node, n, among="any of "), clause.startswith(">"))]

    def _wording(self, node: Node) -> Wording | None:
        match node:
            case Via():
                return node.step.wording
            case Meeting():
                return node.meet.wording
            case Earliest():
                return node.first.wording
        return None

    def _fill(self, pattern: str, node: Node, n: int, *, among: str = "") -> str:
        """The pattern with what is given; ``among`` goes before several things: a clause is true of any of them."""
        if isinstance(node, Meeting):
            return _inflect(pattern, n).format(x=self.mention(node.first.id), y=self.mention(node.second.id))
        assert isinstance(node, Via | Earliest)
        n_given = self._n(node.of)
        text = _GIVEN_NUMBER.sub(r"\1" if n_given == 1 else r"\2", _inflect(pattern, n))
        given = self._phrase(node.of, short=not pattern.endswith("{x}"))
        return text.format(x=f"{among}{given}" if n_given > 1 else given)

    def _noun(self, node: Node, n: int) -> str:
        return _inflect(self._kinds[target(node)].noun, n)

    def _person(self, node: Node) -> bool:
        return self._kinds[target(node)].person

    def _n(self, node: Node) -> int:
        return len(self._evaluator.set_of(node))


def _end(node: Best) -> Extreme:
    """Raises ValueError for a measure without words."""
    end = node.measure.most if node.most else node.measure.least
    if end is None:
        raise ValueError(f"{node.measure.name} has no words")
    return end


def _is_simple(node: Node) -> bool:
    return isinstance(node, Meeting) or (isinstance(node, Via | Earliest) and isinstance(node.of, Thing))


def _inflect(pattern: str, n: int) -> str:
    return _TARGET_NUMBER.sub(r"\1" if n == 1 else r"\2", pattern)


def _listed(clauses: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *most, last = clauses
    return f"{', '.join(most)} and {last}" if most else last

"""Draws descriptions of every published shape, backwards from a thing that answers. Invariant: what is drawn has an answer, every
part of it is needed, and no thing of the question is in a set on the way."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes import Best, Both, Earliest, Evaluator, Meeting, Node, Thing, Via, parts, target, things, walk
from schema import Measure
from steps import First, Moves, Step
from world import World, ancestors

MOST_ON_THE_WAY = 300
MOST_ANSWERS = 50
FEW_ANSWERS = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """``kind`` in the words of the task format."""

    node: Node
    kind: str
    shape: str

    @property
    def count(self) -> bool:
        return self.kind == "count"


class Shapes:
    """``allowed`` says whether a move or measure of a held-out domain may be used (None: it must be)."""

    def __init__(self, world: World, moves: Moves, evaluator: Evaluator, *, held_out: bool) -> None:
        self._world = world
        self._moves = moves
        self._evaluator = evaluator
        self._steps = [step for step in moves.steps if held_out or not step.held_out]
        self._into: dict[str, list[Step]] = defaultdict(list)
        for step in self._steps:
            self._into[step.target].append(step)
        self._popular = [name for name, steps in self._into.items() if len(steps) > 1]
        self._onward: dict[str, list[Step]] = {
            name: [step for step in self._steps if step.source in ancestors(name, moves.kinds)] for name in moves.kinds
        }
        self._meets = [meet for meet in moves.meets if held_out or not meet.held_out]
        self._firsts = [first for first in moves.firsts if held_out or not first.held_out]
        self._measures: dict[str, list[Measure]] = defaultdict(list)
        for measure, is_held_out in moves.measures:
            if held_out or not is_held_out:
                self._measures[measure.source].append(measure)

    def draw(self, shape: str, rng: random.Random) -> Draft | None:
        """A draft of the shape, or None when this try led nowhere."""
        make, kind = SHAPES[shape]
        node = make(self, rng)
        if node is None:
            return None
        if kind == "best":
            kind = "argmax" if any(_seeks_most(part) for part in walk(node)) else "argmin"
        return Draft(node, kind, shape) if self._sound(node, kind, rng) else None

    def _sound(self, node: Node, kind: str, rng: random.Random) -> bool:
        given = things(node)
        if len(set(given)) < len(given) or len({self._world.names[each] for each in given}) < len(given):
            return False
        answers = len(self._evaluator.set_of(node))
        if kind == "count":
            if not 2 <= answers <= MOST_ANSWERS:
                return False
        elif not 1 <= answers <= MOST_ANSWERS or rng.random() > _welcome(answers):
            return False
        return all(self._needed(part) for part in walk(node) if not isinstance(part, Thing)) and not any(
            each in self._evaluator.set_of(part) for part in walk(node) if not isinstance(part, Thing) for each in given
        )

    def _needed(self, node: Node) -> bool:
        """Whether leaving something out of this description would change what it means."""
        found = self._evaluator.set_of(node)
        if not 1 <= len(found) <= MOST_ON_THE_WAY:
            return False
        match node:
            case Both():
                return self._all_parts_matter(node, len(found))
            case Best():
                values = self._world.values[node.measure.name]
                group = self._evaluator.set_of(node.of)
                return len(found) == 1 and len(group) > 1 and all(each in values for each in group)
            case Meeting():
                return all(
                    self._evaluator.set_of(node) != self._world.follow(frozenset({end.id}), (into, node.meet.out))
                    for end, into in zip((node.first, node.second), node.meet.into, strict=True)
                )
            case Earliest():
                return self._first_matters(node)
        return True

    def _all_parts_matter(self, node: Both, n_found: int) -> bool:
        sets = [self._evaluator.set_of(part) for part in node.parts]
        if len(sets) == 2:
            return all(len(each) > n_found for each in sets)
        without = [frozenset.intersection(*(s for s in sets if s is not each)) for each in sets]
        return all(len(each) > n_found for each in without)

    def _first_matters(self, node: Earliest) -> bool:
        """Several mediators, every one with a value and an end, and a single one is the first."""
        first = node.first
        joined = self._world.follow(self._evaluator.set_of(node.of), (first.into,))
        values, ends = self._world.values[first.measure], self._world.objects[first.out]
        if len(joined) < 2 or not all(each in values and each in ends for each in joined):
            return False
        best = self._evaluator.best(joined, first.measure, most=first.most)
        return len(best) == 1 and len(self._world.follow(joined, (first.out,))) > 1

    # Shapes. Each starts from a type, picks a thing of it, and describes that thing.

    def chain(
        self, rng: random.Random, depth: int, type_name: str | None = None, thing: str | None = None
    ) -> Node | None:
        """``depth`` steps that lead to ``thing``, or to any thing."""
        step = self._step_to(rng, type_name)
        if step is None:
            return None
        thing = thing or self._any(rng, step.target)
        source = self._choose(rng, self._world.follow(frozenset({thing}), step.back))
        if source is None:
            return None
        if depth == 1:
            return Via(step, Thing(source)) if source in self._world.names else None
        inner = (
            self.chain(rng, depth - 1, self._type_for(rng, step.source, source), source) if step.wording.nests else None
        )
        return Via(step, inner) if inner and not _returns(step, inner) else None

    def both(
        self, rng: random.Random, depths: Sequence[int], type_name: str | None = None, thing: str | None = None
    ) -> Node | None:
        """One chain for each depth, all leading to the same thing and type."""
        type_name = type_name or rng.choice(self._popular)
        thing = thing or self._any(rng, type_name)
        made: list[Node] = []
        for depth in depths:
            part = self.chain(rng, depth, type_name, thing)
            if part is None:
                return None
            made.append(part)
        return Both(tuple(made))

    def then(self, rng: random.Random, inner: Node | None) -> Node | None:
        """One step on from a description."""
        if inner is None:
            return None
        steps = [step for step in self._onward[target(inner)] if step.wording.nests and not _returns(step, inner)]
        return Via(rng.choice(steps), inner) if steps else None

    def best(self, rng: random.Random, inner: Node | None, *, pair: bool = False) -> Node | None:
        """The extreme of a description of several things, of two when ``pair``."""
        if inner is None:
            return None
        names = ancestors(target(inner), self._moves.kinds)
        measures = [measure for name in names for measure in self._measures.get(name, ())]
        n = len(self._evaluator.set_of(inner))
        if not measures or (n != 2 if pair else n < 3):
            return None
        return Best(inner, rng.choice(measures), rng.random() < 0.5)

    def meeting(self, rng: random.Random) -> Node | None:
        meet = rng.choice(self._meets)
        if not any(meet.wording.clauses):
            return None
        answer = self._any(rng, meet.target)
        node = self._choose(rng, self._world.follow(frozenset({answer}), (meet.back,)))
        ends = [self._world.objects[out].get(node, ()) for out in meet.from_node] if node else [()]
        if not all(ends):
            return None
        return Meeting(meet, Thing(ends[0][0]), Thing(ends[1][0]))

    def first(self, rng: random.Random, depth: int = 0) -> Node | None:
        """The first or last of one thing, or of the single thing that ``depth`` steps lead to."""
        first: First = rng.choice(self._firsts)
        start = self._any(rng, first.source)
        inner: Node | None = Thing(start)
        if depth:
            inner = self.chain(rng, depth, self._type_for(rng, first.source, start), start)
            if inner is None or len(self._evaluator.set_of(inner)) != 1:
                return None
        return Earliest(first, inner) if inner else None

    def _step_to(self, rng: random.Random, type_name: str | None) -> Step | None:
        steps = self._steps if type_name is None else self._into[type_name]
        return rng.choice(steps) if steps else None

    def _type_for(self, rng: random.Random, source: str, thing: str) -> str:
        """A type of ``thing`` whose things have everything that a ``source`` has."""
        names = [n for n in self._world.types[thing] if n in self._into and source in ancestors(n, self._moves.kinds)]
        return rng.choice(names or [source])

    def _any(self, rng: random.Random, type_name: str) -> str:
        return rng.choice(self._world.members[type_name])

    def _choose(self, rng: random.Random, found: frozenset[str]) -> str | None:
        return rng.choice(sorted(found)) if found else None


def _seeks_most(node: Node) -> bool:
    return node.most if isinstance(node, Best) else isinstance(node, Earliest) and node.first.most


def _welcome(n_answers: int) -> float:
    return 1.0 if n_answers <= FEW_ANSWERS else 0.3 if n_answers <= 15 else 0.1


def _returns(step: Step, inner: Node) -> bool:
    """Whether the step goes back where a part of the description came from."""
    return any(isinstance(part, Via) and part.step.path == step.back for part in (inner, *parts(inner)))


Make = Callable[[Shapes, random.Random], Node | None]

SHAPES: dict[str, tuple[Make, str]] = {
    "one": (lambda s, r: s.chain(r, 1), "join"),
    "chain-2": (lambda s, r: s.chain(r, 2), "join"),
    "chain-3": (lambda s, r: s.chain(r, 3), "join"),
    "both": (lambda s, r: s.both(r, (1, 1)), "and"),
    "both-3": (lambda s, r: s.both(r, (1, 1, 1)), "and"),
    "both-nested": (lambda s, r: s.both(r, (1, 2)), "and"),
    "both-then": (lambda s, r: s.then(r, s.both(r, (1, 1))), "and"),
    "meeting": (lambda s, r: s.meeting(r), "and"),
    "meeting-then": (lambda s, r: s.then(r, s.meeting(r)), "and"),
    "count-one": (lambda s, r: s.chain(r, 1), "count"),
    "count-chain": (lambda s, r: s.chain(r, 2), "count"),
    "count-both": (lambda s, r: s.both(r, (1, 1)), "count"),
    "count-nested": (lambda s, r: s.both(r, (1, 2)), "count"),
    "best-one": (lambda s, r: s.best(r, s.chain(r, 1)), "best"),
    "best-chain": (lambda s, r: s.best(r, s.chain(r, 2)), "best"),
    "best-both": (lambda s, r: s.best(r, s.both(r, (1, 1))), "best"),
    "best-then": (lambda s, r: s.then(r, s.best(r, s.chain(r, 1))), "best"),
    "first": (lambda s, r: s.first(r), "best"),
    "first-of-chain": (lambda s, r: s.first(r, 1), "best"),
    "first-then": (lambda s, r: s.then(r, s.first(r)), "best"),
    "pair-one": (lambda s, r: s.best(r, s.chain(r, 1), pair=True), "comparison"),
    "pair-both": (lambda s, r: s.best(r, s.both(r, (1, 1)), pair=True), "comparison"),
    "pair-then": (lambda s, r: s.then(r, s.best(r, s.chain(r, 1), pair=True)), "comparison"),
}

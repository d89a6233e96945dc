"""Descriptions of sets of things: what a question asks for. Invariant: evaluation, program and tool calls of a description say
the same; evaluation reads the world alone and shares no code with the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from schema import Measure
from steps import First, Meet, Step
from world import World

_RELATION = re.compile(r"\(R ([a-z_0-9.]+)\)")


@dataclass(frozen=True, slots=True)
class Thing:
    id: str


@dataclass(frozen=True, slots=True)
class Via:
    step: Step
    of: Node


@dataclass(frozen=True, slots=True)
class Both:
    """What all ``parts`` describe; they lead to the same type."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Best:
    of: Node
    measure: Measure
    most: bool


@dataclass(frozen=True, slots=True)
class Meeting:
    meet: Meet
    first: Thing
    second: Thing


@dataclass(frozen=True, slots=True)
class Earliest:
    first: First
    of: Node


Node = Thing | Via | Both | Best | Meeting | Earliest


class Evaluator:
    """Sets that descriptions mean, kept while the world stays the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.set_of = lru_cache(maxsize=20_000)(self._set_of)

    def _set_of(self, node: Node) -> frozenset[str]:
        world = self._world
        match node:
            case Thing():
                return frozenset({node.id})
            case Via():
                return world.follow(self.set_of(node.of), node.step.path)
            case Both():
                return frozenset.intersection(*(self.set_of(part) for part in node.parts))
            case Best():
                return self.best(self.set_of(node.of), node.measure.name, most=node.most)
            case Meeting():
                ends = zip((node.first, node.second), node.meet.into, strict=True)
                first, second = (world.follow(frozenset({end.id}), (into,)) for end, into in ends)
                return world.follow(first & second, (node.meet.out,))
            case Earliest():
                joined = world.follow(self.set_of(node.of), (node.first.into,))
                return world.follow(self.best(joined, node.first.measure, most=node.first.most), (node.first.out,))

    def best(self, things: frozenset[str], measure: str, *, most: bool) -> frozenset[str]:
        """All that share the extreme value; things without a value do not count."""
        values = {each: self._world.values[measure][each] for each in things if each in self._world.values[measure]}
        if not values:
            return frozenset()
        wanted = (max if most else min)(values.values())  # type: ignore[type-var]  # one measure, one type
        return frozenset(each for each, value in values.items() if value == wanted)


def parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Thing():
            return ()
        case Both():
            return node.parts
        case Meeting():
            return (node.first, node.second)
    return (node.of,)


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in parts(node):
        yield from walk(part)


def things(node: Node) -> tuple[str, ...]:
    """The things a description starts from, in the order they come in it."""
    return tuple(each.id for each in walk(node) if isinstance(each, Thing))


def target(node: Node) -> str:
    """The declared type of what is described."""
    match node:
        case Via():
            return node.step.target
        case Both():
            return target(node.parts[0])
        case Best():
            return target(node.of)
        case Meeting():
            return node.meet.target
        case Earliest():
            return node.first.target
    raise TypeError("a thing given by its id has no declared type")


def n_hops(node: Node) -> int:
    """Relations on the longest way from a thing to the answer."""
    below = max((n_hops(part) for part in parts(node)), default=0)
    match node:
        case Via():
            return below + len(node.step.path)
        case Meeting() | Earliest():
            return below + 2
    return below


def ingredients(node: Node) -> frozenset[str]:
    """The moves and measures in a description."""
    found = {_label(each) for each in walk(node)}
    return frozenset(found - {""})


def combinations(node: Node) -> frozenset[str]:
    """The pairs of moves and measures that meet in a description: one applied to the other, or both of one set."""
    pairs: set[str] = set()
    for each in walk(node):
        if isinstance(each, Both):
            names = sorted(_label(part) for part in each.parts)
            pairs |= {f"{a} & {b}" for i, a in enumerate(names) for b in names[i + 1 :]}
        elif not isinstance(each, Thing | Meeting):
            inner = each.of
            below = inner.parts if isinstance(inner, Both) else (inner,)
            pairs |= {f"{_label(each)} < {_label(part)}" for part in below if _label(part)}
    return frozenset(pairs)


def _label(node: Node) -> str:
    match node:
        case Via():
            return node.step.id
        case Best():
            return f"{node.measure.name}:{'max' if node.most else 'min'}"
        case Meeting():
            return node.meet.id
        case Earliest():
            return node.first.id
    return ""


def relations(node: Node) -> frozenset[str]:
    """The relations that the program follows."""
    return frozenset(_RELATION.findall(program(node)))


def program(node: Node) -> str:
    """The s-expression, built as the tools build it."""
    match node:
        case Thing():
            return node.id
        case Via():
            return _joins(node.step.path, program(node.of))
        case Both():
            text = program(node.parts[0])
            for part in node.parts[1:]:
                text = f"(AND {text} {program(part)})"
            return text
        case Best():
            return f"({'ARGMAX' if node.most else 'ARGMIN'} {program(node.of)} {node.measure.name})"
        case Meeting():
            first, second = (
                _joins((into,), end.id) for into, end in zip(node.meet.into, (node.first, node.second), strict=True)
            )
            return _joins((node.meet.out,), f"(AND {first} {second})")
        case Earliest():
            joined = _joins((node.first.into,), program(node.of))
            best = "ARGMAX" if node.first.most else "ARGMIN"
            return _joins((node.first.out,), f"({best} {joined} {node.first.measure})")


def _joins(path: tuple[str, ...], text: str) -> str:
    for relation in path:
        text = f"(JOIN (R {relation}) {text})"
    return text


def calls(node: Node, *, count: bool) -> tuple[str, ...]:
    """A reference solution; the variable that the last call makes is the answer."""
    trace = _Trace()
    last = trace.play(node)
    if count:
        trace.make(f"count({last})")
    return tuple(trace.calls)


class _Trace:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self._n_variables = 0

    def make(self, call: str) -> str:
        self.calls.append(call)
        self._n_variables += 1
        return f"#{self._n_variables - 1}"

    def play(self, node: Node) -> str:
        match node:
            case Thing():
                return node.id
            case Via():
                return self._follow(self.play(node.of), node.step.path)
            case Both():
                made = [self.play(part) for part in node.parts]
                found = made[0]
                for each in made[1:]:
                    found = self.make(f"intersection({found},{each})")
                return found
            case Best():
                return self._best(self.play(node.of), node.measure.name, most=node.most)
            case Meeting():
                ends = zip((node.first, node.second), node.meet.into, strict=True)
                first, second = [self._follow(end.id, (into,)) for end, into in ends]
                return self._follow(self.make(f"intersection({first},{second})"), (node.meet.out,))
            case Earliest():
                joined = self._follow(self.play(node.of), (node.first.into,))
                return self._follow(self._best(joined, node.first.measure, most=node.first.most), (node.first.out,))

    def _follow(self, start: str, path: tuple[str, ...]) -> str:
        for relation in path:
            self.calls.append(f"get_relations({start})")
            start = self.make(f"get_neighbors({start},{relation})")
        return start

    def _best(self, start: str, measure: str, *, most: bool) -> str:
        self.calls.append(f"get_attributes({start})")
        return self.make(f"{'argmax' if most else 'argmin'}({start},{measure})")

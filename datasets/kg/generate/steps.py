"""The moves that questions are made of, read off the domains. Invariant: a move has one path and words of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schema import Domain, Kind, Link, Measure, Mediator, Wording


@dataclass(frozen=True, slots=True)
class Step:
    """From a thing along ``path`` (two relations when a mediator lies between) to things of type ``target``."""

    id: str
    source: str
    target: str
    path: tuple[str, ...]
    back: tuple[str, ...]
    wording: Wording
    held_out: bool


@dataclass(frozen=True, slots=True)
class Meet:
    """What the mediators that two things share lead to."""

    id: str
    sources: tuple[str, str]
    target: str
    into: tuple[str, str]
    from_node: tuple[str, str]
    out: str
    back: str
    wording: Wording
    held_out: bool


@dataclass(frozen=True, slots=True)
class First:
    """What the mediator with the least (or greatest) value leads to, among those of one thing."""

    id: str
    source: str
    target: str
    into: str
    out: str
    measure: str
    most: bool
    wording: Wording
    held_out: bool


Move = Step | Meet | First


@dataclass(frozen=True, slots=True)
class Moves:
    steps: tuple[Step, ...]
    meets: tuple[Meet, ...]
    firsts: tuple[First, ...]
    measures: tuple[tuple[Measure, bool], ...]
    kinds: dict[str, Kind]


def moves(domains: Sequence[Domain]) -> Moves:
    steps: list[Step] = []
    meets: list[Meet] = []
    firsts: list[First] = []
    for domain in domains:
        for link in domain.links:
            steps += _both_ways(link, held_out=domain.held_out)
        for mediator in domain.mediators:
            steps += _hops(mediator, held_out=domain.held_out)
            meets += _meets(mediator, held_out=domain.held_out)
            firsts += _firsts(mediator, held_out=domain.held_out)
    _check_words((*steps, *meets, *firsts))
    return Moves(
        tuple(steps),
        tuple(meets),
        tuple(firsts),
        tuple((measure, domain.held_out) for domain in domains for measure in domain.measures),
        {kind.name: kind for domain in domains for kind in domain.kinds},
    )


def _both_ways(link: Link, *, held_out: bool) -> Iterator[Step]:
    there, again = (link.forward,), (link.reverse,)
    yield Step(link.forward, link.source, link.target, there, again, link.out, held_out)
    yield Step(link.reverse, link.target, link.source, again, there, link.back, held_out)


def _hops(mediator: Mediator, *, held_out: bool) -> Iterator[Step]:
    for key, wording in mediator.hops.items():
        start, end = (mediator.role(name) for name in key.split(">"))
        path, back = (start.into, end.out), (end.into, start.out)
        yield Step(f"{mediator.name}:{key}", start.target, end.target, path, back, wording, held_out)


def _meets(mediator: Mediator, *, held_out: bool) -> Iterator[Meet]:
    for key, wording in mediator.meets.items():
        pair, _, end = key.partition(">")
        first, second = (mediator.role(name) for name in pair.split("+"))
        out = mediator.role(end)
        yield Meet(
            f"{mediator.name}:{key}",
            (first.target, second.target),
            out.target,
            (first.into, second.into),
            (first.out, second.out),
            out.out,
            out.into,
            wording,
            held_out,
        )


def _firsts(mediator: Mediator, *, held_out: bool) -> Iterator[First]:
    for key, wordings in mediator.firsts.items():
        roles, _, measure = key.partition("@")
        start, end = (mediator.role(name) for name in roles.split(">"))
        for most, wording in enumerate(wordings):
            yield First(
                f"{mediator.name}:{key}:{'max' if most else 'min'}",
                start.target,
                end.target,
                start.into,
                end.out,
                f"{mediator.name}.{measure}",
                bool(most),
                wording,
                held_out,
            )


def _check_words(found: Sequence[Move]) -> None:
    """Raises ValueError when the same words, said of the same kinds of things, could mean two moves."""
    meant: dict[tuple[str, ...], str] = {}
    for move in found:
        sources = move.sources if isinstance(move, Meet) else (move.source,)
        for text in (move.wording.noun, *move.wording.clauses):
            known = meant.setdefault((*sources, move.target, text), move.id)
            if text and known != move.id:
                raise ValueError(f"{text!r} means both {known} and {move.id}")

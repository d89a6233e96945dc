"""Programs evaluated in plain Python over a small graph: what their meaning is, without SPARQL. The compiler is checked
against it, and generators may use it to find answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from typing import Any

from envhub.envs.kg.ontology import TYPE, Ontology
from envhub.envs.kg.programs import (
    And,
    Compare,
    Count,
    Entity,
    Instances,
    Join,
    Program,
    Superlative,
    Value,
    entities,
    show,
)
from envhub.envs.kg.terms import Kind, Literal, Term, Triple

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}

Key = Decimal | str
"""What values are ordered by: numbers by value, all else by its text."""


class Graph:
    """Triples, found from either end."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._objects: dict[tuple[str, str], set[Term]] = defaultdict(set)
        self._subjects: dict[tuple[str, Term], set[str]] = defaultdict(set)
        self._holders: dict[str, set[str]] = defaultdict(set)
        self._properties: dict[str, set[str]] = defaultdict(set)
        for subject, predicate, value in triples:
            self._objects[subject, predicate].add(value)
            self._subjects[predicate, value].add(subject)
            self._holders[predicate].add(subject)
            self._properties[subject].add(predicate)

    def objects(self, subject: str, predicate: str) -> frozenset[Term]:
        return frozenset(self._objects.get((subject, predicate), ()))

    def subjects(self, predicate: str, value: Term) -> frozenset[str]:
        return frozenset(self._subjects.get((predicate, value), ()))

    def holders(self, predicate: str) -> frozenset[str]:
        """Everything that has a property."""
        return frozenset(self._holders.get(predicate, ()))

    def properties(self, subject: str) -> frozenset[str]:
        return frozenset(self._properties.get(subject, ()))


class Evaluator:
    def __init__(self, graph: Graph, ontology: Ontology) -> None:
        self._graph = graph
        self._ontology = ontology

    def answers(self, program: Program) -> frozenset[Term]:
        """What a program gives: its set without the entities it names and without text that is not English."""
        if isinstance(program, Count):
            return frozenset({Literal(str(len(self._given(program.of))), "integer")})
        return frozenset(term for term in self._given(program) if _readable(term))

    def properties(self, program: Program) -> frozenset[str]:
        """The properties of what a program gives; of the entity itself when it is one."""
        subjects = {program.id} if isinstance(program, Entity) else self._given(program)
        found = (self._graph.properties(each) for each in subjects if isinstance(each, str))
        return frozenset[str]().union(*found)

    def _given(self, program: Program) -> frozenset[Term]:
        return self._set(program) - set(entities(program))

    def _set(self, program: Program) -> frozenset[Term]:
        match program:
            case Entity():
                return frozenset({program.id})
            case Instances():
                return frozenset[Term](self._graph.subjects(TYPE, program.of))
            case Join():
                return self._join(program)
            case And():
                return self._set(program.left) & self._set(program.right)
            case Superlative():
                return self._superlative(program)
            case Compare():
                return self._holders(program.attribute, program.literal, _ORDERS[program.order])
        raise ValueError(f"no set of its own: {show(program)}")

    def _join(self, program: Join) -> frozenset[Term]:
        if isinstance(program.of, Value):
            return self._holders(program.relation, program.of.literal, eq)
        inner = self._set(program.of)
        if program.inverse:
            found = (self._graph.objects(each, program.relation) for each in inner if isinstance(each, str))
            return frozenset[Term]().union(*found)
        return frozenset[Term]().union(*(self._graph.subjects(program.relation, each) for each in inner))

    def _holders(self, attribute: str, literal: Literal, test: Callable[[Any, Any], bool]) -> frozenset[Term]:
        def fits(value: Term) -> bool:
            key = key_of(value, literal.kind)
            if literal.kind == "time" and isinstance(key, str):
                key = key[: len(literal.text)]
            return key is not None and test(key, key_of(literal, literal.kind))

        holders = self._graph.holders(attribute)
        return frozenset(each for each in holders if any(map(fits, self._graph.objects(each, attribute))))

    def _superlative(self, program: Superlative) -> frozenset[Term]:
        kind = self._ontology.kind_of(program.attribute)
        pairs = [
            (key, each)
            for each in self._given(program.of)
            if isinstance(each, str)
            for value in self._graph.objects(each, program.attribute)
            if (key := key_of(value, kind)) is not None
        ]
        if not pairs:
            return frozenset()
        keys = [key for key, _ in pairs]
        best = max(keys) if program.best == "ARGMAX" else min(keys)
        return frozenset(each for key, each in pairs if key == best)


def key_of(value: Term, kind: Kind) -> Key | None:
    """What a value is ordered by among those of a kind; None when it is not of it."""
    if not isinstance(value, Literal):
        return None
    if kind != "number":
        return value.text
    name, key = value.value
    return key if name == "number" else None


def _readable(term: Term) -> bool:
    return not isinstance(term, Literal) or not term.lang or term.lang.lower().split("-")[0] == "en"

"""The world in the words of the KG environment: triples, classes and properties."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

from schema import Domain, Measure, type_of
from schema import Literal as Number
from world import TOPIC, World

sys.path.append(str(Path(__file__).resolve().parents[3]))
from envhub.envs.kg.ontology import NAME, TYPE, Class, Property
from envhub.envs.kg.terms import Literal, Triple


def triples(world: World) -> Iterator[Triple]:
    for relation, subjects in world.objects.items():
        yield from (Triple(subject, relation, found) for subject, objects in subjects.items() for found in objects)
    for attribute, values in world.values.items():
        yield from (Triple(subject, attribute, literal(value)) for subject, value in values.items())
    for subject, types in world.types.items():
        yield from (Triple(subject, TYPE, name) for name in types)
    for subject, name in world.names.items():
        yield Triple(subject, NAME, Literal(name, lang="en"))


def literal(value: Number) -> Literal:
    """Raises ValueError for a number that has no short decimal form."""
    if isinstance(value, date):
        return Literal(value.isoformat(), "date")
    if isinstance(value, int):
        return Literal(str(value), "integer")
    text = format(Decimal(repr(value)), "f")
    return Literal(text.rstrip("0").rstrip(".") if "." in text else text, "decimal")


def classes(domains: Sequence[Domain]) -> tuple[Class, ...]:
    made = [Class(TOPIC)]
    for domain in domains:
        for kind in domain.kinds:
            parents = tuple(name for name in (kind.parent, kind.also) if name)
            made.append(Class(kind.name, parents or (TOPIC,)))
        made += [Class(mediator.name, (), True) for mediator in domain.mediators]
    return tuple(sorted(made, key=lambda each: each.id))


def properties(domains: Sequence[Domain]) -> tuple[Property, ...]:
    made: dict[str, Property] = {}
    for domain in domains:
        for link in domain.links:
            made[link.forward] = Property(link.forward, link.source, link.target, link.reverse)
            made[link.reverse] = Property(link.reverse, type_of(link.reverse), link.source, link.forward)
        for mediator in domain.mediators:
            for role in mediator.roles:
                made.setdefault(role.into, Property(role.into, type_of(role.into), mediator.name, role.out))
                made[role.out] = Property(role.out, mediator.name, role.target, role.into)
            made |= {measure.name: _attribute(measure) for measure in mediator.measures}
        made |= {measure.name: _attribute(measure) for measure in domain.measures}
    return tuple(made[name] for name in sorted(made))


def _attribute(measure: Measure) -> Property:
    return Property(measure.name, measure.source, measure.range)

"""Small random graphs over a fixed schema, and random programs that make sense for it."""

from __future__ import annotations

import random

from envhub.envs.kg.ontology import NAME, TYPE, Class, Ontology, Property
from envhub.envs.kg.programs import And, Compare, Count, Entity, Instances, Join, Order, Program, Superlative, Value
from envhub.envs.kg.terms import Literal, Triple

CLASSES = (
    Class("common.topic"),
    Class("film.work", ("common.topic",)),
    Class("film.film", ("film.work",)),
    Class("people.person", ("common.topic",)),
    Class("film.actor", ("people.person",)),
    Class("film.performance", mediator=True),
)
PROPERTIES = (
    Property("film.film.director", "film.film", "people.person", "people.person.directed"),
    Property("people.person.directed", "people.person", "film.film", "film.film.director"),
    Property("film.film.starring", "film.film", "film.performance"),
    Property("film.performance.actor", "film.performance", "film.actor"),
    Property("people.person.friend", "people.person", "people.person"),
    Property("film.film.length", "film.film", "type.int"),
    Property("film.film.score", "film.film", "type.float"),
    Property("film.film.released", "film.film", "type.datetime"),
    Property("people.person.born", "people.person", "type.datetime"),
    Property("people.person.motto", "people.person", "type.text"),
    Property(NAME, "common.topic", "type.text"),
)
ONTOLOGY = Ontology.of(CLASSES, PROPERTIES)
INSTANCES = {"film.film": "m.f", "people.person": "m.p", "film.actor": "g.a", "film.performance": "m.c"}
ATTRIBUTES = ("film.film.length", "film.film.score", "film.film.released", "people.person.born")
ORDERS: tuple[Order, ...] = ("lt", "le", "gt", "ge")


def number(rng: random.Random) -> Literal:
    text = rng.choice(["1", "2", "3", "10", "2.5", "0.5"])
    return Literal(text, "decimal" if "." in text else "integer")


def moment(rng: random.Random) -> Literal:
    text = rng.choice(["1990", "1990-05-01", "1990-05-02", "1991-01-01", "2001"])
    return Literal(text, "gYear" if len(text) == 4 else "date")


def value(rng: random.Random, of: str) -> Literal:
    if of == "type.datetime":
        return moment(rng)
    return number(rng) if of in ("type.int", "type.float") else Literal(rng.choice(["one", 'tw"o\\', "drei ü"]))


def graph(rng: random.Random, *, n_each: int = 6) -> list[Triple]:
    members = {name: [f"{prefix}{number}" for number in range(n_each)] for name, prefix in INSTANCES.items()}
    members["people.person"] = members["people.person"] + members["film.actor"]
    found = {Triple(each, TYPE, name) for name, all_of in members.items() for each in all_of}
    found |= {Triple(each, NAME, Literal(f"Name of {each}", lang="en")) for each in members["people.person"]}
    found |= {Triple(each, NAME, Literal(f"Name von {each}", lang="de")) for each in members["people.person"][:2]}
    for each in PROPERTIES:
        for holder in members.get(each.domain, ()):
            for _ in range(rng.choice([0, 1, 1, 2, 3])):
                target = rng.choice(members[each.range]) if each.range in members else value(rng, each.range)
                found.add(Triple(holder, each.id, target))
    return sorted(found, key=repr)


def program(rng: random.Random, depth: int = 3) -> Program:
    made = _set(rng, depth)
    return Count(made) if rng.random() < 0.2 else made


def _set(rng: random.Random, depth: int) -> Program:
    shape = rng.choice(["join", "join", "reverse", "and", "best", "compare", "value"])
    if depth == 0 or shape in ("join", "reverse"):
        relation = rng.choice([each.id for each in PROPERTIES])
        of = Entity(f"{rng.choice(list(INSTANCES.values()))}{rng.randrange(6)}") if depth == 0 else _inner(rng, depth)
        return Join(relation, of, inverse=shape != "reverse")
    if shape == "and":
        left, right = _inner(rng, depth), _inner(rng, depth)
        return And(left, right)
    if shape == "best":
        return Superlative(rng.choice(("ARGMAX", "ARGMIN")), _inner(rng, depth), rng.choice(ATTRIBUTES))
    attribute = rng.choice(ATTRIBUTES)
    literal = value(rng, ONTOLOGY.range_of(attribute))
    if shape == "compare":
        return Compare(rng.choice(ORDERS), attribute, literal)
    if rng.random() < 0.3:
        return Join("people.person.motto", Value(Literal(rng.choice(["one", 'tw"o\\', "drei ü"]))))
    return Join(attribute, Value(literal))


def _inner(rng: random.Random, depth: int) -> Program:
    return Instances(rng.choice(list(INSTANCES))) if rng.random() < 0.25 else _set(rng, depth - 1)

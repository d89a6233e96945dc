"""The schema of a knowledge graph: its classes and properties, and which properties the tools speak of.

Invariant: every property has one range. A property is an *attribute* when its values are ordered literals (numbers and
points in time), a *relation* when they are entities; the two sets never overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from envhub.core.types import JSON
from envhub.envs.kg.terms import Kind

NAME = "type.object.name"
TYPE = "type.object.type"
INT = "type.int"
TOPIC = "common.topic"
"""The class of every entity that has a name."""

LITERAL_RANGES: Mapping[str, Kind] = {
    INT: "number",
    "type.float": "number",
    "type.datetime": "time",
    "type.text": "text",
    "type.boolean": "text",
    "type.uri": "text",
    "type.rawstring": "text",
    "type.enumeration": "text",
}
"""Ranges whose values are literals."""


@dataclass(frozen=True, slots=True)
class Class:
    """``mediator`` marks a class whose instances only join others (a CVT: no name, no meaning alone)."""

    id: str
    parents: tuple[str, ...] = ()
    mediator: bool = False


@dataclass(frozen=True, slots=True)
class Property:
    """``reverse`` is the property that holds the other way round, when the graph has one."""

    id: str
    domain: str
    range: str
    reverse: str | None = None


@dataclass(frozen=True)
class Ontology:
    """``relations`` and ``attributes`` are what get_relations and get_attributes may show."""

    relations: frozenset[str]
    attributes: frozenset[str]
    ranges: Mapping[str, str]
    domains: Mapping[str, str]
    classes: Mapping[str, Class] = field(default_factory=dict)
    reverses: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(classes: Iterable[Class], properties: Iterable[Property]) -> Ontology:
        known = tuple(properties)
        return Ontology(
            relations=frozenset(each.id for each in known if each.range not in LITERAL_RANGES),
            attributes=frozenset(each.id for each in known if LITERAL_RANGES.get(each.range, "text") != "text"),
            ranges=MappingProxyType({each.id: each.range for each in known}),
            domains=MappingProxyType({each.id: each.domain for each in known}),
            classes=MappingProxyType({each.id: each for each in classes}),
            reverses=MappingProxyType({each.id: each.reverse for each in known if each.reverse}),
        )

    @cached_property
    def class_names(self) -> frozenset[str]:
        """Every class the schema speaks of."""
        used = {*self.domains.values(), *self.ranges.values()}
        return frozenset(self.classes) | frozenset(used - set(LITERAL_RANGES))

    def relations_of(self, name: str) -> frozenset[str]:
        """The relations that instances of a class may have."""
        if name == TOPIC:
            return self.relations
        return frozenset(each for each in self.relations if self.includes(name, self.domain_of(each)))

    def range_of(self, name: str) -> str:
        """The class of a property's values; ``common.topic`` when the schema does not say."""
        return self.ranges.get(name, TOPIC)

    def domain_of(self, name: str) -> str:
        """The class of what has a property; ``common.topic`` when the schema does not say."""
        return self.domains.get(name, TOPIC)

    def kind_of(self, attribute: str) -> Kind:
        """How values of a property are compared; ``number`` when the schema does not say."""
        return LITERAL_RANGES.get(self.ranges.get(attribute, INT), "text")

    def includes(self, general: str, special: str) -> bool:
        """Whether every instance of ``special`` is one of ``general``."""
        return general == special or general in self._ancestors.get(special, ())

    @cached_property
    def _ancestors(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}

        def visit(name: str) -> frozenset[str]:
            if name not in found:
                found[name] = frozenset()
                parents = self.classes[name].parents if name in self.classes else ()
                found[name] = frozenset(parents).union(*(visit(parent) for parent in parents))
            return found[name]

        for name in self.classes:
            visit(name)
        return found


def encode_class(each: Class) -> dict[str, JSON]:
    record: dict[str, JSON] = {"class": each.id}
    if each.parents:
        record["parents"] = list(each.parents)
    return record | ({"mediator": True} if each.mediator else {})


def encode_property(each: Property) -> dict[str, JSON]:
    record = {"property": each.id, "domain": each.domain, "range": each.range}
    return record | ({"reverse": each.reverse} if each.reverse else {})


def decode_schema(records: Iterable[Mapping[str, JSON]]) -> tuple[tuple[Class, ...], tuple[Property, ...]]:
    """Raises ValueError for a record that is neither a class nor a property, and for a property that comes twice."""
    classes: list[Class] = []
    properties: dict[str, Property] = {}
    for record in records:
        if "class" in record:
            classes.append(Class(record["class"], tuple(record.get("parents", ())), record.get("mediator", False)))
        elif "property" in record and record["property"] not in properties:
            name = record["property"]
            properties[name] = Property(name, record["domain"], record["range"], record.get("reverse"))
        else:
            raise ValueError(f"neither a class nor a new property: {dict(record)}")
    return tuple(classes), tuple(properties.values())

"""Programs to SPARQL 1.1. Every query selects one variable, ``?x``.

What is in a program is not among its own answers: a question's entities are left out of what a program gives, and of what
COUNT, ARGMAX and ARGMIN look at, but not of the sets that JOIN and AND are made of.

Invariant: equal programs give equal text; results have no order, whoever shows them sorts them. A set inside a program is a
sub-query without duplicates, so that a program costs at most about one pass over the edges of each of its relations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

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
from envhub.envs.kg.terms import Kind, Literal

NS = "http://rdf.freebase.com/ns/"
XSD = "http://www.w3.org/2001/XMLSchema#"
MAX_ROWS = 100_000

Ties = OneOf["all", "published"]
"""``all``: every entity whose value equals the best one. ``published`` is the query of the published environment: the value
that ORDER BY puts first, and every entity that has this very term, also one that the question names."""

_OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ENGLISH = "FILTER(!isLiteral(?x) || LANG(?x) = '' || LANGMATCHES(LANG(?x), 'en'))"


@dataclass(frozen=True, slots=True)
class Compiler:
    """``ontology`` says which attributes hold numbers and which hold points in time."""

    ontology: Ontology
    ties: Ties = "all"

    def answers(self, program: Program, *, max_rows: int = MAX_ROWS) -> str:
        """The query for what a program gives: at most one row more than ``max_rows``."""
        if isinstance(program, Count):
            return f"SELECT (COUNT(DISTINCT ?c) AS ?x) WHERE {{ {self._given(program.of, 'c', _Names())} }}"
        given = self._given(program, "x", _Names())
        return f"SELECT DISTINCT ?x WHERE {{ {given} {_ENGLISH} }} LIMIT {max_rows + 1}"

    def properties(self, program: Program) -> str:
        """The query for the properties of what a program gives; of the entity itself when it is one."""
        if isinstance(program, Entity):
            return f"SELECT DISTINCT ?x WHERE {{ {_iri(program.id)} ?x ?o }}"
        given = self._given(program, "s", _Names())
        return f"SELECT DISTINCT ?x WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ {given} }} }} ?s ?x ?o }}"

    def _given(self, program: Program, name: str, names: _Names) -> str:
        """``?name`` over what a program gives."""
        named = ", ".join(map(_iri, entities(program)))
        without = f" FILTER(?{name} NOT IN ({named}))" if named else ""
        return self._set(program, name, names) + without

    def _set(self, program: Program, name: str, names: _Names) -> str:
        match program:
            case Entity():
                return f"VALUES ?{name} {{ {_iri(program.id)} }}"
            case Instances():
                return f"?{name} {_iri(TYPE)} {_iri(program.of)} ."
            case Join():
                return self._join(program, name, names)
            case And():
                return self._and(program, name, names)
            case Superlative():
                return self._superlative(program, name, names)
            case Compare():
                held = names.fresh()
                test = _compare(f"?{held}", program.order, program.literal)
                return f"?{name} {_iri(program.attribute)} ?{held} . FILTER({test})"
        raise ValueError(f"no set of its own: {show(program)}")

    def _join(self, program: Join, name: str, names: _Names) -> str:
        relation = _iri(program.relation)
        if isinstance(program.of, Value):
            held = names.fresh()
            return f"?{name} {relation} ?{held} . FILTER({_equals(f'?{held}', program.of.literal)})"
        if isinstance(program.of, Entity):
            source, inner = _iri(program.of.id), ""
        else:
            step = names.fresh()
            source, inner = f"?{step}", self._subset(program.of, step, names) + " "
        edge = f"{source} {relation} ?{name} ." if program.inverse else f"?{name} {relation} {source} ."
        return inner + edge

    def _and(self, program: And, name: str, names: _Names) -> str:
        left, right = program.left, program.right
        if isinstance(left, Instances):
            left, right = right, left
        first = self._set(left, name, names) if isinstance(left, Instances) else self._subset(left, name, names)
        if isinstance(right, Instances):
            return f"{first} {self._set(right, name, names)}"
        return f"{first} {self._subset(right, name, names)}"

    def _superlative(self, program: Superlative, name: str, names: _Names) -> str:
        other, seen, held, best = names.fresh(), names.fresh(), names.fresh(), names.fresh()
        attribute = _iri(program.attribute)
        looked_at = f"{{ SELECT DISTINCT ?{other} WHERE {{ {self._given(program.of, other, names)} }} }}"
        pairs = f"{looked_at} ?{other} {attribute} ?{seen} ."
        if self.ties == "published":
            order = f"DESC(?{seen})" if program.best == "ARGMAX" else f"?{seen}"
            first = f"{{ SELECT ?{seen} WHERE {{ {pairs} }} ORDER BY {order} LIMIT 1 }}"
            return f"{first} {self._subset(program.of, name, names)} ?{name} {attribute} ?{seen} ."
        kind = self.ontology.kind_of(program.attribute)
        aggregate = "MAX" if program.best == "ARGMAX" else "MIN"
        keys = f"{pairs} FILTER({_comparable(f'?{seen}', kind)})"
        bound = f"{{ SELECT ({aggregate}({_key(f'?{seen}', kind)}) AS ?{best}) WHERE {{ {keys} }} }}"
        again = f"{{ SELECT DISTINCT ?{name} WHERE {{ {self._given(program.of, name, names)} }} }}"
        equal = f"FILTER({_comparable(f'?{held}', kind)} && {_key(f'?{held}', kind)} = ?{best})"
        return f"{bound} {again} ?{name} {attribute} ?{held} . {equal}"

    def _subset(self, program: Program, name: str, names: _Names) -> str:
        return f"{{ SELECT DISTINCT ?{name} WHERE {{ {self._set(program, name, names)} }} }}"


class _Names:
    """Variables of one query, no two alike."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = iter(range(1_000_000))

    def fresh(self) -> str:
        return f"v{next(self._numbers)}"


def _iri(name: str) -> str:
    return f"<{NS}{name}>"


def _comparable(variable: str, kind: Kind) -> str:
    return f"isNumeric({variable})" if kind == "number" else f"isLiteral({variable})"


def _key(variable: str, kind: Kind) -> str:
    """What values are ordered by: numbers by value, points in time and text by their text."""
    return variable if kind == "number" else f"STR({variable})"


def _compare(variable: str, order: str, literal: Literal) -> str:
    """A point in time is compared as far as the literal goes: all of 1990 is <= 1990."""
    operator = _OPERATORS[order]
    if literal.kind == "number":
        return f"isNumeric({variable}) && {variable} {operator} {_number(literal)}"
    text = _quoted(literal.text)
    return f"isLiteral({variable}) && SUBSTR(STR({variable}), 1, {len(literal.text)}) {operator} {text}"


def _equals(variable: str, literal: Literal) -> str:
    if literal.kind == "number":
        return f"isNumeric({variable}) && {variable} = {_number(literal)}"
    text = _quoted(literal.text)
    if literal.kind == "time":
        return f"isLiteral({variable}) && SUBSTR(STR({variable}), 1, {len(literal.text)}) = {text}"
    return f"isLiteral({variable}) && STR({variable}) = {text}"


def _number(literal: Literal) -> str:
    return f"{_quoted(literal.text)}^^<{XSD}{literal.type}>"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

"""Programs: the s-expressions that say what a variable is, with their text form and their types.

Grammar, as in the published data sets; ``REL`` and ``ATTR`` are properties, ``CLASS`` a class::

    SET := ID | CLASS                               a CLASS never alone
         | (JOIN REL SET)                           what has REL to one of SET
         | (JOIN ATTR LITERAL)                      what has ATTR equal to it
         | (JOIN (R REL) SET)                       what one of SET has as REL
         | (AND SET SET)
         | (ARGMAX SET ATTR) | (ARGMIN SET ATTR)    all of SET whose ATTR is greatest, least
         | (lt ATTR LITERAL) | (le ...) | (gt ...) | (ge ...)
         | (COUNT SET)                              outermost only
    LITERAL := "3"^^integer | "text" | 3^^http://www.w3.org/2001/XMLSchema#integer

Invariant: a program printed and parsed again is the same program. A program that exists is well formed; only ``type_of``
knows whether it makes sense for a schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import cast

from envhub.envs.kg.ontology import INT, LITERAL_RANGES, Ontology
from envhub.envs.kg.terms import ENTITY, IDENTIFIER, Literal, read_object, write_object

Best = OneOf["ARGMAX", "ARGMIN"]
Order = OneOf["lt", "le", "gt", "ge"]

MAX_DEPTH = 64
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TOKEN = re.compile(r'\s*(?:(?P<paren>[()])|(?P<atom>"(?:[^"\\]|\\.)*"[^\s()]*|[^\s()"]+))')
_PUBLISHED_LITERAL = re.compile(r"(?P<text>[^^]+)\^\^" + re.escape(_XSD) + r"(?P<type>[A-Za-z]+)")


class ProgramError(ValueError):
    """A text that is no program, or a program that makes no sense; the text says what is expected."""


@dataclass(frozen=True, slots=True)
class Entity:
    id: str


@dataclass(frozen=True, slots=True)
class Instances:
    """Every instance of a class."""

    of: str


@dataclass(frozen=True, slots=True)
class Value:
    literal: Literal


@dataclass(frozen=True, slots=True)
class Join:
    """``inverse`` follows the relation from ``of`` to its values: (JOIN (R relation) of)."""

    relation: str
    of: Program
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class And:
    left: Program
    right: Program


@dataclass(frozen=True, slots=True)
class Superlative:
    best: Best
    of: Program
    attribute: str


@dataclass(frozen=True, slots=True)
class Compare:
    order: Order
    attribute: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class Count:
    of: Program


Program = Entity | Instances | Value | Join | And | Superlative | Compare | Count


def parts(program: Program) -> tuple[Program, ...]:
    """The programs a program is made of, left to right."""
    match program:
        case Join() | Superlative() | Count():
            return (program.of,)
        case And():
            return program.left, program.right
    return ()


def walk(program: Program) -> Iterator[Program]:
    """The program and all it is made of."""
    yield program
    for part in parts(program):
        yield from walk(part)


def entities(program: Program) -> tuple[str, ...]:
    """The ids of entities in a program, sorted."""
    return tuple(sorted({each.id for each in walk(program) if isinstance(each, Entity)}))


def show(program: Program) -> str:
    """The s-expression."""
    match program:
        case Entity():
            return program.id
        case Instances():
            return program.of
        case Value():
            return write_object(program.literal)
        case Join():
            relation = f"(R {program.relation})" if program.inverse else program.relation
            return f"(JOIN {relation} {show(program.of)})"
        case And():
            return f"(AND {show(program.left)} {show(program.right)})"
        case Superlative():
            return f"({program.best} {show(program.of)} {program.attribute})"
        case Compare():
            return f"({program.order} {program.attribute} {write_object(program.literal)})"
        case Count():
            return f"(COUNT {show(program.of)})"


_Node = str | list["_Node"]


def parse(text: str) -> Program:
    """Raises ProgramError."""
    program = _build(_nest(text))
    if any(isinstance(each, Count) for part in parts(program) for each in walk(part)):
        raise ProgramError("COUNT must be outermost")
    if isinstance(program, Instances):
        raise ProgramError(f"a class alone is no program: {program.of}")
    for each in walk(program):
        if any(isinstance(part, Value) for part in parts(each)) and (not isinstance(each, Join) or each.inverse):
            raise ProgramError(f"a literal stands only in (JOIN ATTR LITERAL), not in {show(each)}")
    if isinstance(program, Value):
        raise ProgramError("a literal alone is no program")
    return program


def _nest(text: str) -> _Node:
    """The nested lists of an s-expression."""
    stack: list[list[_Node]] = [[]]
    position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ProgramError(f"cannot read {text[position : position + 20]!r}")
        position = found.end()
        if found["atom"] is not None:
            stack[-1].append(found["atom"])
        elif found["paren"] == "(":
            stack.append([])
            if len(stack) > MAX_DEPTH:
                raise ProgramError(f"nested deeper than {MAX_DEPTH}")
        elif len(stack) == 1:
            raise ProgramError("a ')' too many")
        else:
            done = stack.pop()
            stack[-1].append(done)
    if len(stack) > 1:
        raise ProgramError(f"{len(stack) - 1} ')' missing")
    if len(stack[0]) != 1:
        raise ProgramError("exactly one expression is expected")
    return stack[0][0]


def _build(node: _Node) -> Program:
    if isinstance(node, str):
        return _atom(node)
    name, *arguments = node or [""]
    if not isinstance(name, str) or name not in _FORMS:
        raise ProgramError(f"an expression starts with one of {', '.join(_FORMS)}, not {name!r}")
    n_wanted, form = _FORMS[name]
    if len(arguments) != n_wanted:
        raise ProgramError(f"{name} takes {n_wanted} arguments, not {len(arguments)}")
    return form(name, arguments)


def _atom(text: str) -> Program:
    if ENTITY.fullmatch(text):
        return Entity(text)
    if text.startswith('"') or "^^" in text:
        return Value(_literal(text))
    if IDENTIFIER.fullmatch(text):
        return Instances(text)
    raise ProgramError(f"{text!r} is neither an id nor a literal")


def _literal(node: _Node) -> Literal:
    if not isinstance(node, str):
        raise ProgramError("a literal is expected, not an expression")
    published = _PUBLISHED_LITERAL.fullmatch(node)
    try:
        term = Literal(published["text"].strip('"'), published["type"]) if published else read_object(node)
    except ValueError as error:
        raise ProgramError(str(error)) from error
    if isinstance(term, str):
        raise ProgramError(f"a literal is expected, not {term}")
    return term


def _property(node: _Node) -> str:
    if isinstance(node, str) and IDENTIFIER.fullmatch(node) and not ENTITY.fullmatch(node):
        return node
    raise ProgramError(f"a property is expected, not {node!r}")


def _join(_: str, arguments: list[_Node]) -> Program:
    relation, inner = arguments
    inverse = isinstance(relation, list)
    if isinstance(relation, list):
        if len(relation) != 2 or relation[0] != "R":
            raise ProgramError("JOIN takes a relation or (R relation)")
        relation = relation[1]
    return Join(_property(relation), _build(inner), inverse)


def _superlative(name: str, arguments: list[_Node]) -> Program:
    return Superlative(cast(Best, name), _build(arguments[0]), _property(arguments[1]))


def _compare(name: str, arguments: list[_Node]) -> Program:
    return Compare(cast(Order, name), _property(arguments[0]), _literal(arguments[1]))


_FORMS: Mapping[str, tuple[int, Callable[[str, list[_Node]], Program]]] = {
    "JOIN": (2, _join),
    "AND": (2, lambda _, arguments: And(_build(arguments[0]), _build(arguments[1]))),
    "ARGMAX": (2, _superlative),
    "ARGMIN": (2, _superlative),
    "lt": (2, _compare),
    "le": (2, _compare),
    "gt": (2, _compare),
    "ge": (2, _compare),
    "COUNT": (1, lambda _, arguments: Count(_build(arguments[0]))),
}


def type_of(program: Program, ontology: Ontology) -> str | None:
    """The class of what a program gives; None for a bare entity, whose class only the graph knows.

    Raises ProgramError for a property the schema does not have and for sets of different kinds put together.
    """
    match program:
        case Entity():
            return None
        case Instances():
            return program.of
        case Value():
            return {"number": "type.float", "time": "type.datetime", "text": "type.text"}[program.literal.kind]
        case Count():
            type_of(program.of, ontology)
            return INT
        case Join():
            return _type_of_join(program, ontology)
        case And():
            return common_type(type_of(program.left, ontology), type_of(program.right, ontology), ontology)
        case Superlative():
            found = type_of(program.of, ontology)
            if found in LITERAL_RANGES:
                raise ProgramError(f"{program.best} needs a set of entities, not of {found}")
            _known(program.attribute, ontology)
            return found
        case Compare():
            _known(program.attribute, ontology)
            kind = ontology.kind_of(program.attribute)
            if kind != program.literal.kind:
                raise ProgramError(f"{program.attribute} holds a {kind}, not a {program.literal.kind}")
            return ontology.domain_of(program.attribute)


def _type_of_join(program: Join, ontology: Ontology) -> str:
    _known(program.relation, ontology)
    inner = type_of(program.of, ontology)
    if program.inverse:
        if inner in LITERAL_RANGES:
            raise ProgramError(f"a {inner} has no {program.relation}")
        return ontology.range_of(program.relation)
    wanted = ontology.range_of(program.relation)
    if inner is not None and (inner in LITERAL_RANGES) != (wanted in LITERAL_RANGES):
        raise ProgramError(f"{program.relation} leads to {wanted}, not to {inner}")
    return ontology.domain_of(program.relation)


def _known(name: str, ontology: Ontology) -> None:
    if name not in ontology.ranges:
        raise ProgramError(f"the schema has no property {name}")


def common_type(left: str | None, right: str | None, ontology: Ontology) -> str | None:
    """The class of what is in both; the more special one when they are related, else the left one.

    Raises ProgramError when a literal type meets another type.
    """
    if left is None or right is None:
        return left or right
    if left != right and (left in LITERAL_RANGES or right in LITERAL_RANGES):
        raise ProgramError(f"no {left} is a {right}")
    return right if ontology.includes(left, right) else left

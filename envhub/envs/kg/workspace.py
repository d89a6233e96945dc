"""The variables of one episode: what the tools make of each other, without asking the graph.

Invariant: variables are numbered from 0 in the order they are made and never change. Each program is small enough to be
answered in reasonable time: at most ``MAX_SIZE`` parts, of which at most ``MAX_SUPERLATIVES`` are superlatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envhub.core.errors import ToolError
from envhub.envs.kg.ontology import INT, LITERAL_RANGES, Ontology
from envhub.envs.kg.programs import (
    And,
    Best,
    Count,
    Entity,
    Instances,
    Join,
    Program,
    ProgramError,
    Superlative,
    common_type,
    walk,
)
from envhub.envs.kg.terms import ENTITY

MAX_SIZE = 32
MAX_SUPERLATIVES = 4
MAX_VARIABLES = 200
_VARIABLE = re.compile(r"#(\d{1,9})", re.ASCII)
_CALL = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the data sets write it: ``get_neighbors(#0,people.person.nationality)``."""

    name: str
    arguments: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Call:
        """Raises ValueError."""
        found = _CALL.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a call")
        name = found[1]
        if name not in PARAMETERS:
            raise ValueError(f"{text!r} calls no tool; valid: {', '.join(PARAMETERS)}")
        wanted = len(PARAMETERS[name])
        arguments = tuple(part.strip() for part in found[2].rsplit(",", wanted - 1))
        if len(arguments) != wanted or not all(arguments):
            raise ValueError(f"{text!r} must have {wanted} arguments")
        return Call(name, arguments)

    @property
    def makes_variable(self) -> bool:
        return self.name not in ("get_relations", "get_attributes")


PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "get_relations": ("variable",),
    "get_neighbors": ("variable", "relation"),
    "intersection": ("variable1", "variable2"),
    "get_attributes": ("variable",),
    "argmax": ("variable", "attribute"),
    "argmin": ("variable", "attribute"),
    "count": ("variable",),
}
"""The tools and their parameters."""


@dataclass(frozen=True, slots=True)
class Variable:
    """``type`` is the class of what it holds; None for an entity of the question, whose class only the graph knows."""

    program: Program
    type: str | None


class Workspace:
    """``entities`` are the names an argument may use for an id. With ``exact_types`` only sets of the same class intersect."""

    def __init__(self, ontology: Ontology, entities: Mapping[str, str], *, exact_types: bool = False) -> None:
        self._ontology = ontology
        self._entities = entities
        self._exact_types = exact_types
        self._variables: list[Variable] = []

    def __len__(self) -> int:
        return len(self._variables)

    def variable(self, argument: str) -> Variable:
        """The variable ``#n`` means. Raises ToolError."""
        found = _VARIABLE.fullmatch(argument.strip())
        if found is None:
            raise ToolError(f"Error: {_short(argument)} is not a variable; variables are written #0, #1, ...")
        if int(found[1]) >= len(self._variables):
            last = len(self._variables) - 1
            valid = f"valid: #0 to #{last}" if last >= 0 else "there is none yet; get_neighbors makes the first"
            raise ToolError(f"Error: there is no variable {argument.strip()}; {valid}")
        return self._variables[int(found[1])]

    def source(self, argument: str) -> Variable:
        """What a variable, an id, a class or the name of an entity of the question means. Raises ToolError."""
        if argument.strip().startswith("#"):
            return self.variable(argument)
        name = self._entities.get(argument, argument).strip()
        if ENTITY.fullmatch(name):
            return Variable(Entity(name), None)
        if name in self._ontology.class_names:
            return Variable(Instances(name), name)
        raise ToolError(
            f"Error: {_short(argument)} is neither a variable (#0), an entity of the question nor an id (m.0abc)"
        )

    def neighbors(self, of: Variable, relation: str) -> Variable:
        """A new variable: what ``of`` has as ``relation``."""
        return self._add(Variable(Join(relation, of.program, inverse=True), self._ontology.range_of(relation)))

    def intersection(self, left: Variable, right: Variable) -> Variable:
        try:
            found = common_type(left.type, right.type, self._ontology)
        except ProgramError as error:
            raise ToolError(f"Error: the variables cannot be intersected: {error}") from None
        if self._exact_types and left.type != right.type:
            raise ToolError(
                f"Error: the variables must have the same type; one holds {left.type}, the other {right.type}"
            )
        return self._add(Variable(And(left.program, right.program), found))

    def superlative(self, best: Best, of: Variable, attribute: str) -> Variable:
        if of.type in LITERAL_RANGES:
            raise ToolError(f"Error: the variable holds {of.type}, which has no attributes")
        return self._add(Variable(Superlative(best, of.program, attribute), of.type))

    def count(self, of: Variable) -> Variable:
        return self._add(Variable(Count(of.program), INT))

    def _add(self, variable: Variable) -> Variable:
        made_of = list(walk(variable.program))
        if any(isinstance(each, Count) for each in made_of[1:]):
            raise ToolError("Error: a count is a number; it can only be the final answer")
        superlatives = sum(isinstance(each, Superlative) for each in made_of)
        if len(made_of) > MAX_SIZE or superlatives > MAX_SUPERLATIVES:
            raise ToolError(
                f"Error: that would be too complex; a variable is made of at most {MAX_SIZE} steps, "
                f"{MAX_SUPERLATIVES} of them argmax or argmin"
            )
        if len(self._variables) >= MAX_VARIABLES:
            raise ToolError(f"Error: at most {MAX_VARIABLES} variables can be made")
        self._variables.append(variable)
        return variable


def trace(calls: Sequence[Call], workspace: Workspace, ontology: Ontology) -> Iterable[str]:
    """What is wrong with a sequence of calls as far as the schema can tell; nothing when it makes sense."""
    for call in calls:
        try:
            _follow(call, workspace, ontology)
        except ToolError as error:
            yield f"{call.name}({', '.join(call.arguments)}): {error}"


def _follow(call: Call, workspace: Workspace, ontology: Ontology) -> None:
    match call.name, call.arguments:
        case (("get_relations" | "get_attributes"), (variable,)):
            workspace.source(variable)
        case "get_neighbors", (variable, relation):
            workspace.neighbors(workspace.source(variable), check_relation(relation, ontology))
        case "intersection", (left, right):
            workspace.intersection(workspace.variable(left), workspace.variable(right))
        case (("argmax" | "argmin"), (variable, attribute)):
            best: Best = "ARGMAX" if call.name == "argmax" else "ARGMIN"
            workspace.superlative(best, workspace.variable(variable), check_attribute(attribute, ontology))
        case "count", (variable,):
            workspace.count(workspace.variable(variable))


def check_relation(name: str, ontology: Ontology) -> str:
    """Raises ToolError for a name that is no relation of the schema."""
    if name in ontology.relations:
        return name
    hint = "; it is an attribute: use get_attributes, argmax or argmin" if name in ontology.attributes else ""
    raise ToolError(f"Error: {_short(name)} is not a relation{hint}. get_relations lists the relations of a variable")


def check_attribute(name: str, ontology: Ontology) -> str:
    """Raises ToolError for a name that is no attribute of the schema."""
    if name in ontology.attributes:
        return name
    hint = "; it is a relation: use get_neighbors" if name in ontology.relations else ""
    raise ToolError(
        f"Error: {_short(name)} is not an attribute{hint}. get_attributes lists the attributes of a variable"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")

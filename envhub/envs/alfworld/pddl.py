"""Official game files (``game.tw-pddl``) to games, and back.

Invariant: a file whose rules, texts, facts or goal are not exactly those the native engine plays is refused with
UnsupportedGameError; it is never played wrongly.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envhub.core.errors import TaskUnusableError
from envhub.envs.alfworld.game import Family, Game, Goal, Receptacle, Text, Thing, Trait
from envhub.envs.alfworld.tables import ACCEPTS

_RULES: Mapping[tuple[str, str], Text] = {
    (
        "6eca02b13b273d84ef7f20bb79d194d4e0542ba3127af5a257c0115ebb5c1930",
        "3c10efa9e045991aa5c0d9a9eb46a291bdd5d731c525bc83c72c69f0daf518e9",
    ): "2.1.1",
    (
        "54e29bce2933d7dc48c8665e02d86add1d4600082641fbf91807eeb151cb08fa",
        "01ce7383b840a4d7c9478d1b29e395f6de0498eb4b6f84ec2f813b62ae317360",
    ): "2.1.2",
    (
        "da18d44ab1bcf831f61e90b88a99ad5766d8bbb562b6f87839b4b6ace4f796fe",
        "5d472ef80356c57d102e0266b2236c1ca8c693b6387f852cff65e687c76b6660",
    ): "2.1.2",
}
"""SHA-256 of the normalised domain and grammar to the version that plays by them; the last is what alfworld 0.4.2 generates."""

_TRAITS: Mapping[str, Trait] = {
    "pickupable": Trait.PICKUPABLE,
    "isReceptacleObject": Trait.HOLDER,
    "cleanable": Trait.CLEANABLE,
    "heatable": Trait.HEATABLE,
    "coolable": Trait.COOLABLE,
    "toggleable": Trait.TOGGLEABLE,
    "sliceable": Trait.SLICEABLE,
    "isCool": Trait.COOL,
}
_THING_FACTS = frozenset({*_TRAITS, "objectType", "objectAtLocation", "inReceptacle", "inReceptacleObject"})
_FACTS = _THING_FACTS | {"receptacleType", "receptacleAtLocation", "openable", "canContain", "atLocation"}

_PLACE_GOAL = """(:goal (and (exists (?r - receptacle) (exists (?o - object) (and {conditions} ) ) ) ) )"""
_CHANGED = "({able} ?o) (objectType ?o {object}Type) (receptacleType ?r {target}Type) ({done} ?o) (inReceptacle ?o ?r)"
_GOALS: Mapping[Family, str] = {
    Family.PLACE: _PLACE_GOAL.format(
        conditions="(inReceptacle ?o ?r) (objectType ?o {object}Type) (receptacleType ?r {target}Type)"
    ),
    Family.CLEAN: _PLACE_GOAL.format(conditions=_CHANGED.replace("{able}", "cleanable").replace("{done}", "isClean")),
    Family.HEAT: _PLACE_GOAL.format(conditions=_CHANGED.replace("{able}", "heatable").replace("{done}", "isHot")),
    Family.COOL: _PLACE_GOAL.format(conditions=_CHANGED.replace("{able}", "coolable").replace("{done}", "isCool")),
    Family.TWO: "(:goal (and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {object}Type) "
    "(receptacleType ?r {target}Type) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) "
    "(objectType ?o2 {object}Type) (receptacleType ?r {target}Type) (inReceptacle ?o2 ?r) ) ) ) ) ) ) )",
    Family.LIGHT: "(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
    "(objectType ?ot {target}Type) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) "
    "(inReceptacle ?ot ?r) ) ) (exists (?o - object ?a - agent) (and (objectType ?o {object}Type) (holds ?a ?o) ) ) ) )",
}
_NAMED_IN_DOMAIN = frozenset({"Sink", "Knife", "ButterKnife"})
"""Kinds of things that the rules name, so that every problem must declare them."""

_COMMENT = re.compile(r";[^\n]*")
_FACT = re.compile(r"\(\s*([^()]*?)\s*\)")
_KIND = re.compile(r"\b([A-Za-z0-9]+)Type\)")
_SENTENCE = re.compile(r'"Your task is to: ([^"\n]*)"')
_SPECIAL = re.compile(r"[#\[\]{}|\\]")
_MANGLED = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))
_PLACE = "loc|"


class UnsupportedGameError(TaskUnusableError):
    """A game file that the native engine does not play; the TextWorld backend may."""


@dataclass(frozen=True, slots=True)
class GameFile:
    """What a ``game.tw-pddl`` holds. ``solvable`` is the file's word: whether the authors' expert solved it."""

    domain: str
    grammar: str
    problem: str
    walkthrough: tuple[str, ...]
    solvable: bool

    @staticmethod
    def of(text: str) -> GameFile:
        """Raises UnsupportedGameError."""
        try:
            record: Any = json.loads(text)
            return GameFile(
                record["pddl_domain"],
                record["grammar"],
                record["pddl_problem"],
                tuple(record.get("walkthrough") or ()),
                bool(record.get("solvable", False)),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UnsupportedGameError(f"not a game.tw-pddl file: {type(error).__name__}: {error}") from error


def mangle(identifier: str) -> str:
    """``Mug|+01.00|...`` as PDDL spells it: ``Mug_bar__plus_01_dot_00_bar_...``."""
    for word, sign in reversed(_MANGLED):
        identifier = identifier.replace(sign, word)
    return identifier


def unmangle(name: str) -> str:
    for word, sign in _MANGLED:
        name = name.replace(word, sign)
    return name


def text_version(domain: str, grammar: str) -> Text:
    """The version whose rules and texts these are. Raises UnsupportedGameError."""
    found = _RULES.get((_domain_digest(domain), _grammar_digest(grammar)))
    if found is None:
        raise UnsupportedGameError("the game has rules or texts other than those of ALFWorld 2.1.1 or 2.1.2")
    return found


def parse_game(file: GameFile, *, name: str) -> Game:
    """The game of an official file. Raises UnsupportedGameError."""
    version = text_version(file.domain, file.grammar)
    sentence = _SENTENCE.search(file.grammar)
    if sentence is None or _SPECIAL.search(sentence[1]):
        raise UnsupportedGameError("the task sentence holds signs that have a meaning in TextWorld's grammar")
    problem = _COMMENT.sub("", file.problem)
    head, _, rest = problem.partition("(:init")
    body, found, goal = rest.partition("(:goal")
    if not head or not found:
        raise UnsupportedGameError("the problem has no initial facts or no goal")
    facts = _facts(body)
    receptacles = _receptacles(facts)
    things = _things(facts, receptacles)
    if not receptacles or not things:
        raise UnsupportedGameError("the room is empty")
    _check_contents(facts, receptacles, things)
    starts = {_place(place) for _, place in facts["atLocation"]}
    if len(starts) != 1:
        raise UnsupportedGameError("the agent must be at exactly one place")
    return Game(
        id=name,
        task=sentence[1],
        goal=_goal("(:goal" + goal),
        start=starts.pop(),
        receptacles=receptacles,
        things=things,
        walkthrough=file.walkthrough,
        text=version,
    )


def problem_text(game: Game) -> str:
    """The PDDL problem of a game: parsed, it gives the same game again."""
    kinds = {each.kind for each in game.things if each.kind is not None} | _NAMED_IN_DOMAIN
    places = {
        game.start,
        *(each.place for each in game.receptacles),
        *(at for each in game.things for at in each.places),
    }
    declared = {
        "agent": ["agent1"],
        "object": [mangle(each.id) for each in game.things],
        "otype": sorted(f"{kind}Type" for kind in kinds | {game.goal.object} if kind not in ACCEPTS),
        "rtype": sorted(f"{kind}Type" for kind in ACCEPTS),
        "receptacle": [mangle(each.id) for each in game.receptacles],
        "location": sorted(mangle(_PLACE + place) for place in places),
    }
    objects = "\n".join(f"  {name} - {sort}" for sort, names in declared.items() for name in names)
    facts = "\n".join(f"  ({' '.join(fact)})" for fact in _statements(game))
    goal = _GOALS[game.goal.family].format(object=game.goal.object, target=game.goal.target)
    return f"(define (problem plan)\n(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n{facts}\n)\n{goal}\n)\n"


_Facts = Mapping[str, list[tuple[str, ...]]]


def _statements(game: Game) -> Iterator[tuple[str, ...]]:
    """The facts at the start."""
    yield "atLocation", "agent1", mangle(_PLACE + game.start)
    for receptacle in game.receptacles:
        name = mangle(receptacle.id)
        yield "receptacleType", name, f"{receptacle.kind}Type"
        yield "receptacleAtLocation", name, mangle(_PLACE + receptacle.place)
        if receptacle.openable:
            yield "openable", name
    words = {trait: predicate for predicate, trait in _TRAITS.items()}
    for thing in game.things:
        name = mangle(thing.id)
        if thing.kind is not None:
            yield "objectType", name, f"{thing.kind}Type"
        yield from (("objectAtLocation", name, mangle(_PLACE + place)) for place in thing.places)
        yield from (("inReceptacle", name, mangle(each)) for each in thing.receptacles)
        yield from (("inReceptacleObject", name, mangle(each)) for each in thing.holders)
        yield from ((words[trait], name) for trait in sorted(thing.traits))
    kinds = {each.kind for each in game.things if each.kind is not None}
    for kind in sorted({each.kind for each in game.receptacles}):
        yield from (("canContain", f"{kind}Type", f"{each}Type") for each in sorted(ACCEPTS[kind] & kinds))


def _domain_digest(domain: str) -> str:
    return _digest(" ".join(_COMMENT.sub("", domain).lower().split()))


def _grammar_digest(grammar: str) -> str:
    lines = _SENTENCE.sub('"Your task is to: *"', grammar, count=1).strip().split("\n")
    return _digest("\n".join(line.rstrip() for line in lines))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _facts(body: str) -> _Facts:
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for fact in dict.fromkeys(_FACT.findall(body)):
        predicate, *arguments = fact.split()
        if predicate not in _FACTS or len(arguments) != (1 if predicate in _TRAITS or predicate == "openable" else 2):
            raise UnsupportedGameError(f"the game starts with the fact ({fact[:80]}), which the rules known do not use")
        found[predicate].append(tuple(arguments))
    return found


def _receptacles(facts: _Facts) -> tuple[Receptacle, ...]:
    kinds, places = dict(_pairs(facts["receptacleType"])), dict(_pairs(facts["receptacleAtLocation"]))
    openable = {name for (name,) in facts["openable"]}
    if not (len(facts["receptacleType"]) == len(kinds) and len(facts["receptacleAtLocation"]) == len(places)):
        raise UnsupportedGameError("a receptacle has two kinds or two places")
    if kinds.keys() != places.keys() or not openable <= kinds.keys():
        raise UnsupportedGameError("a receptacle has no kind or no place")
    return tuple(
        Receptacle(_identifier(name), _kind(kind), _place(places[name]), name in openable)
        for name, kind in sorted(kinds.items())
    )


def _things(facts: _Facts, receptacles: tuple[Receptacle, ...]) -> tuple[Thing, ...]:
    kinds = dict(_pairs(facts["objectType"]))
    if len(kinds) != len(facts["objectType"]):
        raise UnsupportedGameError("a thing has two kinds")
    traits: dict[str, set[Trait]] = defaultdict(set)
    for predicate, trait in _TRAITS.items():
        for (name,) in facts[predicate]:
            traits[name].add(trait)
    near, inside, holders = (
        _grouped(facts[each]) for each in ("objectAtLocation", "inReceptacle", "inReceptacleObject")
    )
    names = {arguments[0] for predicate in _THING_FACTS for arguments in facts[predicate]}
    names |= {outer for _, outer in facts["inReceptacleObject"]}
    known = {each.id for each in receptacles}
    spelled = [name.lower() for name in (*names, *map(mangle, known))]
    if len(set(spelled)) != len(spelled):
        raise UnsupportedGameError("two identifiers differ in case alone, or one is both a thing and a receptacle")
    if not {unmangle(name) for _, name in facts["inReceptacle"]} <= known:
        raise UnsupportedGameError("a thing lies in a receptacle that has no place")
    return tuple(
        Thing(
            id=_identifier(name),
            kind=_kind(kinds[name]) if name in kinds else None,
            places=tuple(sorted(map(_place, near[name]))),
            receptacles=tuple(sorted(map(_identifier, inside[name]))),
            traits=frozenset(traits[name]),
            holders=tuple(sorted(map(_identifier, holders[name]))),
        )
        for name in sorted(names)
    )


def _check_contents(facts: _Facts, receptacles: tuple[Receptacle, ...], things: tuple[Thing, ...]) -> None:
    stated = {(_kind(receptacle), _kind(thing)) for receptacle, thing in facts["canContain"]}
    kinds = {each.kind for each in things if each.kind is not None}
    for receptacle in {each.kind for each in receptacles}:
        if receptacle not in ACCEPTS:
            raise UnsupportedGameError(f"no rule is known for a receptacle of kind {receptacle}")
        if {kind for kind in kinds if (receptacle, kind) in stated} != ACCEPTS[receptacle] & kinds:
            raise UnsupportedGameError(f"the game's {receptacle} does not take the things it takes in the rules known")


def _goal(text: str) -> Goal:
    tokens = _tokens(text)
    kinds = _KIND.findall(text)
    for family, form in _GOALS.items():
        for first, second in {(kind, other) for kind in kinds for other in kinds}:
            wanted = _tokens(form.format(object=first, target=second))
            if tokens[: len(wanted)] == wanted and set(tokens[len(wanted) :]) <= {")"}:
                return Goal(family, first, second)
    raise UnsupportedGameError("the goal is none of the six official task families")


def _tokens(text: str) -> list[str]:
    return text.replace("(", " ( ").replace(")", " ) ").split()


def _grouped(pairs: Iterable[tuple[str, ...]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for first, second in pairs:
        found[first].append(second)
    return found


def _pairs(facts: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    return ((first, second) for first, second in facts)


def _kind(type_name: str) -> str:
    if not type_name.endswith("Type"):
        raise UnsupportedGameError(f"the type {type_name!r} has no official name")
    return type_name.removesuffix("Type")


def _identifier(name: str) -> str:
    identifier = unmangle(name)
    if mangle(identifier) != name or "|" not in identifier:
        raise UnsupportedGameError(f"{name[:80]!r} is not an official identifier")
    return identifier


def _place(name: str) -> str:
    identifier = _identifier(name)
    if not identifier.startswith(_PLACE):
        raise UnsupportedGameError(f"{name[:80]!r} is not an official place")
    return identifier.removeprefix(_PLACE)

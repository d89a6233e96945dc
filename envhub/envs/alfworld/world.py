"""A game made ready to be played: everything that never changes during play, under small numbers.

Receptacles, things and places are numbered from 0 in the order of their identifiers, which is the order of every text. A set
of things or receptacles is an integer, bit n standing for number n. Invariant: immutable, and shared by any number of plays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from envhub.envs.alfworld.game import Game, Text, Trait
from envhub.envs.alfworld.pddl import mangle
from envhub.envs.alfworld.tables import ACCEPTS
from envhub.envs.alfworld.wording import WORDINGS, Wording, numbered

NOBODY = -1
"""The number of no thing."""


class Verb(StrEnum):
    LOOK = "look"
    INVENTORY = "inventory"
    HELP = "help"
    GO_TO = "go to"
    OPEN = "open"
    CLOSE = "close"
    TAKE = "take"
    PUT = "put"
    EXAMINE_RECEPTACLE = "examine receptacle"
    EXAMINE_THING = "examine thing"
    USE = "use"
    CLEAN = "clean"
    HEAT = "heat"
    COOL = "cool"
    SLICE = "slice"


@dataclass(frozen=True, slots=True)
class Action:
    """What a command does. ``thing`` and ``receptacle`` are numbers; ``tool`` is the knife that slices."""

    verb: Verb
    thing: int = NOBODY
    receptacle: int = NOBODY
    tool: int = NOBODY


@dataclass(frozen=True, slots=True)
class Journey:
    command: str
    action: Action
    place: int


@dataclass(frozen=True, slots=True)
class GoalSets:
    """``objects`` are the things of the kind sought; ``receptacles`` those of the target kind; ``lamps`` the lamps to look by."""

    objects: int
    receptacles: tuple[int, ...]
    lamps: int


@dataclass(frozen=True, slots=True)
class World:
    """``accepts[r]`` are the things receptacle r takes; ``held_in[t]`` the things in thing t; ``traits`` sets of things.

    ``contents``, ``near`` and ``start`` are how the game begins: things by receptacle, places by thing, the agent's place.
    """

    game: Game
    wording: Wording
    receptacles: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]
    place_of: tuple[int, ...]
    at_place: tuple[tuple[int, ...], ...]
    openable: int
    accepts: tuple[int, ...]
    works_as: Mapping[Verb, int]
    held_in: tuple[tuple[int, ...], ...]
    traits: Mapping[Trait, int]
    knives: int
    goal: GoalSets
    journeys: tuple[Journey, ...]
    general: Mapping[str, Action]
    start: int
    contents: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]


_APPLIANCES: Mapping[Verb, str] = {Verb.CLEAN: "SinkBasin", Verb.HEAT: "Microwave", Verb.COOL: "Fridge"}
_KNIVES = frozenset({"Knife", "ButterKnife"})
_PLACE = "loc|"


def build(game: Game, text: Text | None = None) -> World:
    """The world of a game, in its own wording or another one."""
    wording = WORDINGS[text or game.text]
    receptacles = sorted(game.receptacles, key=lambda each: _spelling(each.id))
    things = sorted(game.things, key=lambda each: _spelling(each.id))
    places = sorted(
        {game.start, *(each.place for each in receptacles), *(place for each in things for place in each.places)},
        key=_place_spelling,
    )
    names = numbered(
        [
            *(_spelling(each.id) for each in receptacles),
            *(_spelling(each.id) for each in things),
            *(_place_spelling(place) for place in places),
        ]
    )
    number_of_place = {place: number for number, place in enumerate(places)}
    number_of_receptacle = {each.id: number for number, each in enumerate(receptacles)}
    number_of_thing = {each.id: number for number, each in enumerate(things)}
    receptacle_names = tuple(names[_spelling(each.id)] for each in receptacles)
    place_of = tuple(number_of_place[each.place] for each in receptacles)

    at_place: list[list[int]] = [[] for _ in places]
    for number, place in enumerate(place_of):
        at_place[place].append(number)
    contents: list[list[int]] = [[] for _ in receptacles]
    held_in: list[list[int]] = [[] for _ in things]
    for number, thing in enumerate(things):
        for name in thing.receptacles:
            contents[number_of_receptacle[name]].append(number)
        for name in thing.holders:
            held_in[number_of_thing[name]].append(number)

    return World(
        game=game,
        wording=wording,
        receptacles=receptacle_names,
        things=tuple(names[_spelling(each.id)] for each in things),
        places=tuple(names[_place_spelling(place)] for place in places),
        place_of=place_of,
        at_place=tuple(map(tuple, at_place)),
        openable=_members(each.openable for each in receptacles),
        accepts=tuple(_members(thing.kind in ACCEPTS[each.kind] for thing in things) for each in receptacles),
        works_as={verb: _members(each.kind == kind for each in receptacles) for verb, kind in _APPLIANCES.items()},
        held_in=tuple(map(tuple, held_in)),
        traits={trait: _members(trait in each.traits for each in things) for trait in Trait},
        knives=_members(each.kind in _KNIVES for each in things),
        goal=GoalSets(
            objects=_members(each.kind == game.goal.object for each in things),
            receptacles=tuple(number for number, each in enumerate(receptacles) if each.kind == game.goal.target),
            lamps=_members(each.kind == game.goal.target and Trait.TOGGLEABLE in each.traits for each in things),
        ),
        journeys=tuple(
            Journey(f"go to {name}", Action(Verb.GO_TO, receptacle=number), place_of[number])
            for number, name in enumerate(receptacle_names)
        ),
        general={
            verb.value: Action(verb)
            for verb in (Verb.LOOK, Verb.INVENTORY, Verb.HELP)
            if verb is not Verb.HELP or wording.help is not None
        },
        start=number_of_place[game.start],
        contents=tuple(map(tuple, contents)),
        near=tuple(tuple(sorted(number_of_place[place] for place in each.places)) for each in things),
    )


def _spelling(identifier: str) -> str:
    return mangle(identifier).lower()


def _place_spelling(place: str) -> str:
    return _spelling(_PLACE + place)


def _members(belongs: Iterable[bool]) -> int:
    return sum(1 << number for number, member in enumerate(belongs) if member)

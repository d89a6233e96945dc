"""What a household game is: records of a room, its things and the goal, and the compact form in which games are stored.

Invariant: ``decode(encode(game)) == game`` for every game; a record keeps the identifiers and facts of the official game file,
so that the numbers of names ("mug 2") and every later text come out the same.

Compact form: one JSON object, places, receptacles and things being referred to by position. ``or`` marks the shorthands: a
list of one number is written as that number, and a kind is left out when it is the one the identifier tells.

::

    {"id": "pick_and_place_simple-Mug-None-Shelf-1/trial_1",   any name that is unique in its split
     "text": "2.1.2",                                          wording the game was written in
     "task": "put a mug in shelf.",                            the sentence after "Your task is to: "
     "goal": [family, object kind, target kind],
     "places": ["-9|-3|2|45", ...],                            stand points, as in "loc|-9|-3|2|45"
     "start": 0,                                               place of the agent
     "receptacles": [[id, place, openable 0/1], ...]           and a fourth element, the kind, or left out
     "things": [[id, places, receptacles, traits, holders], ...]   and a sixth element, the kind, or left out; see Thing
     "walkthrough": ["go to shelf 1", ...]}                    commands that win
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, cast, get_args

from envhub.core.types import JSON

Text = Literal["2.1.1", "2.1.2"]
"""Wordings by the version of the official data; the package alfworld 0.4.2 itself writes 2.1.2."""

TEXTS: tuple[Text, ...] = get_args(Text)


class Family(StrEnum):
    """The six official task families, under their official names."""

    PLACE = "pick_and_place_simple"
    LIGHT = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    TWO = "pick_two_obj_and_place"


class Trait(StrEnum):
    """What can be done with a thing, or what it is at the start; the values are the letters of the compact form."""

    PICKUPABLE = "p"
    HOLDER = "r"
    """Others can lie in it (a bowl, a pot); examining it lists them."""
    CLEANABLE = "c"
    HEATABLE = "h"
    COOLABLE = "k"
    TOGGLEABLE = "t"
    SLICEABLE = "s"
    COOL = "i"
    """It is cool from the start."""


@dataclass(frozen=True, slots=True)
class Goal:
    """``target`` is the kind of receptacle to put the object in; in the family LIGHT, the kind of lamp to look by."""

    family: Family
    object: str
    target: str


@dataclass(frozen=True, slots=True)
class Receptacle:
    """``id`` is the official identifier, e.g. ``Cabinet|+00.33|+00.51|-02.02``; ``place`` a stand point like ``0|-7|1|60``."""

    id: str
    kind: str
    place: str
    openable: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """Anything that is not a receptacle, whether it can be taken or not.

    ``kind`` is None when the official file gives it no type. ``places`` are the stand points it is near to: mostly one.
    ``receptacles`` are the identifiers of those it lies in, ``holders`` those of the things it lies in.
    """

    id: str
    kind: str | None
    places: tuple[str, ...] = ()
    receptacles: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Game:
    """One game; order of receptacles and things carries no meaning. ``start`` is the agent's first stand point."""

    id: str
    task: str
    goal: Goal
    start: str
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    walkthrough: tuple[str, ...] = ()
    text: Text = "2.1.2"


class GameFormatError(ValueError):
    """A compact game that does not follow the form."""


def kind_told_by(identifier: str) -> str:
    """``Mug|+01.00|...`` -> ``Mug``; ``Sink|...|SinkBasin`` -> ``SinkBasin``."""
    parts = identifier.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def encode(game: Game) -> dict[str, JSON]:
    """The compact form of a game, ready for JSON."""
    places = sorted(
        {
            game.start,
            *(each.place for each in game.receptacles),
            *(place for each in game.things for place in each.places),
        }
    )
    place_at = {place: number for number, place in enumerate(places)}
    receptacle_at = {each.id: number for number, each in enumerate(game.receptacles)}
    thing_at = {each.id: number for number, each in enumerate(game.things)}
    return {
        "id": game.id,
        "text": game.text,
        "task": game.task,
        "goal": [game.goal.family.value, game.goal.object, game.goal.target],
        "places": places,
        "start": place_at[game.start],
        "receptacles": [
            [each.id, place_at[each.place], int(each.openable), *_kind_unless_told(each.id, each.kind)]
            for each in game.receptacles
        ],
        "things": [
            [
                each.id,
                _pack([place_at[place] for place in each.places]),
                _pack([receptacle_at[name] for name in each.receptacles]),
                "".join(sorted(each.traits)),
                _pack([thing_at[name] for name in each.holders]),
                *_kind_unless_told(each.id, each.kind),
            ]
            for each in game.things
        ],
        "walkthrough": list(game.walkthrough),
    }


def decode(record: Mapping[str, JSON]) -> Game:
    """The game of a compact form. Raises GameFormatError."""
    try:
        return _decode(record)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise GameFormatError(f"not a compact game: {type(error).__name__}: {error}") from error


def _decode(record: Mapping[str, JSON]) -> Game:
    places: Sequence[str] = record["places"]
    receptacle_ids = [row[0] for row in record["receptacles"]]
    thing_ids = [row[0] for row in record["things"]]
    if record["text"] not in TEXTS:
        raise ValueError(f"text version {record['text']!r}; valid: {', '.join(TEXTS)}")
    if not receptacle_ids or not thing_ids:
        raise ValueError("a game needs receptacles and things")
    if len({name.lower() for name in (*receptacle_ids, *thing_ids)}) < len(receptacle_ids) + len(thing_ids):
        raise ValueError("two receptacles or things have one identifier")
    family, kind, target = record["goal"]
    things = tuple(
        Thing(
            identifier,
            kind[0] if kind else kind_told_by(identifier),
            tuple(places[number] for number in _unpack(near)),
            tuple(receptacle_ids[number] for number in _unpack(inside)),
            frozenset(map(Trait, traits)),
            tuple(thing_ids[number] for number in _unpack(holders)),
        )
        for identifier, near, inside, traits, holders, *kind in record["things"]
    )
    held_in = {holder for each in things for holder in each.holders}
    for each in things:
        if each == Thing(each.id, None) and each.id not in held_in:
            raise ValueError(f"nothing is said of {each.id}, so TextWorld would not know that it exists")
    return Game(
        id=record["id"],
        task=record["task"],
        goal=Goal(Family(family), kind, target),
        start=places[record["start"]],
        receptacles=tuple(
            Receptacle(identifier, kind[0] if kind else kind_told_by(identifier), places[place], bool(openable))
            for identifier, place, openable, *kind in record["receptacles"]
        ),
        things=things,
        walkthrough=tuple(record["walkthrough"]),
        text=cast(Text, record["text"]),
    )


def _kind_unless_told(identifier: str, kind: str | None) -> list[str | None]:
    return [] if kind == kind_told_by(identifier) else [kind]


def _pack(numbers: list[int]) -> JSON:
    return numbers[0] if len(numbers) == 1 else numbers


def _unpack(packed: JSON) -> Sequence[int]:
    return [packed] if isinstance(packed, int) else packed

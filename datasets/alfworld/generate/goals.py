"""What a game can ask for: the six families, the pairs of thing and receptacle that suit a room, and the wording.

Invariant: a goal from here can be reached in its room once enough of the wanted things lie in receptacles, and asks for a
change that no generated room starts with.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rooms import Kind, Room, RoomType, kinds

from envhub.envs.alfworld.game import Family, Goal, Trait
from envhub.envs.alfworld.tables import ACCEPTS

LAMP: Final = "DeskLamp"


@dataclass(frozen=True, slots=True)
class Rules:
    """What one family allows. ``changes_at`` is the receptacle that cleans, heats or cools; nothing is to be put there."""

    templates: tuple[str, ...]
    rooms: Mapping[RoomType, int]
    """Share of the room types among the games of the family."""
    trait: Trait = Trait.PICKUPABLE
    changes_at: str | None = None
    n_wanted: int = 1


_ANYWHERE: Mapping[RoomType, int] = {"kitchen": 12, "living room": 27, "bedroom": 30, "bathroom": 31}
RULES: Mapping[Family, Rules] = {
    Family.PLACE: Rules(("put a {obj} in {recep}.", "put some {obj} on {recep}."), _ANYWHERE),
    Family.LIGHT: Rules(
        ("look at {obj} under the {recep}.", "examine the {obj} with the {recep}."), {"bedroom": 84, "living room": 16}
    ),
    Family.CLEAN: Rules(
        ("put a clean {obj} in {recep}.", "clean some {obj} and put it in {recep}."),
        {"kitchen": 77, "bathroom": 23},
        Trait.CLEANABLE,
        "SinkBasin",
    ),
    Family.HEAT: Rules(
        ("put a hot {obj} in {recep}.", "heat some {obj} and put it in {recep}."),
        {"kitchen": 1},
        Trait.HEATABLE,
        "Microwave",
    ),
    Family.COOL: Rules(
        ("put a cool {obj} in {recep}.", "cool some {obj} and put it in {recep}."),
        {"kitchen": 1},
        Trait.COOLABLE,
        "Fridge",
    ),
    Family.TWO: Rules(("put two {obj} in {recep}.", "find two {obj} and put them in {recep}."), _ANYWHERE, n_wanted=2),
}
NO_TARGETS: Final = frozenset(
    {"BathtubBasin", "HandTowelHolder", "LaundryHamper", "SinkBasin", "TVStand", "TowelHolder"}
)
"""Kinds of receptacles that no official game asks to put things in."""


def goals(family: Family, room: Room) -> tuple[Goal, ...]:
    """Every goal of the family that suits the room, in a fixed order."""
    rules = RULES[family]
    if room.type not in rules.rooms or (rules.changes_at and rules.changes_at not in room.furniture_kinds):
        return ()
    wanted = [kind for name in room.kinds if rules.trait in (kind := kinds()[name]).traits and _found(kind, room)]
    if family is Family.LIGHT:
        return tuple(Goal(family, kind.name, LAMP) for kind in wanted) if room.has_lamp(LAMP) else ()
    targets = sorted(room.furniture_kinds - NO_TARGETS - {rules.changes_at})
    return tuple(
        Goal(family, kind.name, target)
        for kind in wanted
        for target in targets
        if kind.name in ACCEPTS[target] and _found(kind, room, but=target)
    )


def task_text(goal: Goal, rng: random.Random) -> str:
    """The sentence of the goal in one of the official wordings, with the official class names and articles."""
    return rng.choice(RULES[goal.family].templates).format(obj=goal.object.lower(), recep=goal.target.lower())


def _found(kind: Kind, room: Room, *, but: str | None = None) -> bool:
    """Whether things of the kind lie in receptacles of the room, other than of the kind ``but``."""
    return bool((room.furniture_kinds & kind.where.keys()) - {but})

"""The rooms and the kinds of things games are made of, read from ``scenes.jsonl`` and ``things.jsonl``.

Invariant: what is read here is the same for every game of a scene; only the things that can be carried differ between games.

::

    scenes.jsonl   {"scene": 10, "receptacles": [[kind, place, openable], ...], "fixed": [[kind, place, receptacle?], ...],
                    "kinds": [kind, ...]}       a place is a number; a fixed thing may lie in a receptacle, given by position
    things.jsonl   {"kind": "Mug", "traits": "prchk", "copies": [36, 35, 29], "where": {"CounterTop": 25, ...}}
                   copies: per cent of rooms with one, two, three of it; where: per cent found in that kind of receptacle,
                   or on the floor
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
HELD_OUT_SCENES = frozenset({10, 219, 308, 424})
FLOOR = "floor"

RoomType = Literal["kitchen", "living room", "bedroom", "bathroom"]
_ROOM_TYPES: Mapping[int, RoomType] = {0: "kitchen", 2: "living room", 3: "bedroom", 4: "bathroom"}


@dataclass(frozen=True, slots=True)
class Furniture:
    """A receptacle of a room; ``place`` is where one stands to use it, shared by those that are reached together."""

    kind: str
    place: int
    openable: bool


@dataclass(frozen=True, slots=True)
class Fixture:
    """A thing that stays where it is; ``inside`` is the position of its receptacle in the room, if it is in one."""

    kind: str
    place: int
    inside: int | None


@dataclass(frozen=True, slots=True)
class Room:
    scene: int
    furniture: tuple[Furniture, ...]
    fixtures: tuple[Fixture, ...]
    kinds: tuple[str, ...]
    """The kinds of things that can be carried and are in every game of the room."""

    @property
    def type(self) -> RoomType:
        return _ROOM_TYPES[self.scene // 100]

    @property
    def furniture_kinds(self) -> frozenset[str]:
        return frozenset(each.kind for each in self.furniture)

    def has_lamp(self, kind: str) -> bool:
        """Whether a lamp of the kind can be switched on: one must lie in a receptacle for that."""
        return any(each.kind == kind and each.inside is not None for each in self.fixtures)


@dataclass(frozen=True, slots=True)
class Kind:
    """What is true of all things of a kind; ``where`` weighs kinds of receptacles and FLOOR."""

    name: str
    traits: str
    copies: tuple[int, ...]
    where: Mapping[str, int]


@cache
def rooms() -> tuple[Room, ...]:
    """Every room, by scene number."""
    return tuple(_room(json.loads(line)) for line in (HERE / "scenes.jsonl").read_text("utf-8").splitlines())


@cache
def kinds() -> Mapping[str, Kind]:
    lines = (HERE / "things.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {each["kind"]: Kind(each["kind"], each["traits"], tuple(each["copies"]), each["where"]) for each in records}


def _room(raw: Mapping[str, Any]) -> Room:
    return Room(
        scene=raw["scene"],
        furniture=tuple(Furniture(kind, place, bool(openable)) for kind, place, openable in raw["receptacles"]),
        fixtures=tuple(Fixture(kind, place, inside[0] if inside else None) for kind, place, *inside in raw["fixed"]),
        kinds=tuple(raw["kinds"]),
    )

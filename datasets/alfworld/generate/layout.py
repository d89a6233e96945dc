"""Fills a room with things for a goal, so that the goal can be reached and is not reached yet.

Invariant: enough of the wanted things lie where they can be taken; none lies where it is to be put, unless it must be
cleaned, heated or cooled first; a wanted thing is never cool from the start when it must be cooled.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

from goals import RULES
from rooms import FLOOR, Fixture, Kind, Room, kinds

from envhub.envs.alfworld.game import Family, Game, Goal, Receptacle, Thing, Trait

_SHARE_BY_COPIES = (37, 29, 21, 13)
"""Per cent of the games in which one, two, three and four of the wanted things are placed."""
_ROOM_FOR: Mapping[str, int] = {
    "CoffeeMachine": 1,
    "HandTowelHolder": 1,
    "StoveBurner": 1,
    "ToiletPaperHanger": 1,
    "TowelHolder": 1,
    "Microwave": 3,
    "Safe": 3,
    "ArmChair": 4,
    "Cabinet": 4,
    "Drawer": 4,
    "GarbageCan": 4,
    "BathtubBasin": 5,
    "Toilet": 5,
    "Shelf": 6,
    "SinkBasin": 7,
    "Bed": 8,
    "Fridge": 10,
    "CounterTop": 14,
    "DiningTable": 18,
}
_ROOM_FOR_OTHERS = 10
_LAMP_TRAITS: Mapping[str, frozenset[Trait]] = {
    "DeskLamp": frozenset({Trait.TOGGLEABLE}),
    "FloorLamp": frozenset({Trait.TOGGLEABLE}),
}


def furnish(room: Room, goal: Goal, rng: random.Random, *, name: str, task: str) -> Game | None:
    """A game without a walkthrough, or None when this draw put too few of the wanted things in reach."""
    filling = _Filling(room, goal, rng)
    things = [*filling.fixtures(), *filling.wanted(), *filling.others()]
    if filling.n_wanted < RULES[goal.family].n_wanted:
        return None
    start = filling.free_place()
    return Game(
        id=name, task=task, goal=goal, start=start, receptacles=filling.receptacles, things=tuple(things), text="2.1.2"
    )


class _Filling:
    """One room on its way to becoming a game."""

    def __init__(self, room: Room, goal: Goal, rng: random.Random) -> None:
        self._room = room
        self._goal = goal
        self._rng = rng
        self._load: Counter[str] = Counter()
        self._count: Counter[str] = Counter()
        places = [each.place for each in room.furniture] + [each.place for each in room.fixtures]
        self._next_place = 1 + max(places)
        self.n_wanted = 0
        self.receptacles = tuple(self._receptacles())

    def _receptacles(self) -> Iterator[Receptacle]:
        for each in self._room.furniture:
            name = self._name(each.kind)
            yield Receptacle(name, each.kind, _stand_point(each.place), each.openable)

    def fixtures(self) -> Iterator[Thing]:
        for each in self._room.fixtures:
            inside = self.receptacles[each.inside].id if each.inside is not None else None
            if inside:
                self._load[inside] += 1
            yield self._fixture(each, inside)

    def _fixture(self, each: Fixture, inside: str | None) -> Thing:
        return Thing(
            self._name(each.kind),
            each.kind,
            (_stand_point(each.place),),
            (inside,) if inside else (),
            _LAMP_TRAITS.get(each.kind, frozenset()),
        )

    def wanted(self) -> Iterator[Thing]:
        """The things that the goal asks for; those that find no place are left out."""
        goal, kind = self._goal, kinds()[self._goal.object]
        avoid = {FLOOR}
        if goal.family in (Family.PLACE, Family.TWO):
            avoid.add(goal.target)
        if goal.family is Family.COOL:
            avoid.add("Fridge")
        copies = range(RULES[goal.family].n_wanted, 1 + len(_SHARE_BY_COPIES))
        for _ in range(self._rng.choices(copies, [_SHARE_BY_COPIES[number - 1] for number in copies])[0]):
            receptacle = self._choose(kind, avoid)
            if receptacle is not None:
                self.n_wanted += 1
                cool = receptacle.kind == "Fridge" and Trait.COOLABLE in kind.traits
                yield self._thing(kind, receptacle, cool=cool)

    def others(self) -> Iterator[Thing]:
        for name in self._room.kinds:
            if name != self._goal.object:
                kind = kinds()[name]
                n_copies = self._rng.choices(range(1, 1 + len(kind.copies)), kind.copies)[0]
                for _ in range(n_copies):
                    yield self._thing(kind, self._choose(kind, set()), cool=False)

    def _choose(self, kind: Kind, avoid: set[str]) -> Receptacle | None:
        """A receptacle with room left, by the weights of the kind; None for the floor."""
        free: dict[str, list[Receptacle]] = {FLOOR: []}
        for each in self.receptacles:
            if self._load[each.id] < _ROOM_FOR.get(each.kind, _ROOM_FOR_OTHERS):
                free.setdefault(each.kind, []).append(each)
        places = [name for name in kind.where if name in free and name not in avoid]
        if not places:
            return None
        chosen = self._rng.choices(places, [kind.where[name] for name in places])[0]
        return self._rng.choice(free[chosen]) if free[chosen] else None

    def _thing(self, kind: Kind, receptacle: Receptacle | None, *, cool: bool) -> Thing:
        traits = frozenset(Trait(letter) for letter in kind.traits) | ({Trait.COOL} if cool else set())
        if receptacle is None:
            return Thing(self._name(kind.name), kind.name, (self.free_place(),), (), traits)
        self._load[receptacle.id] += 1
        return Thing(self._name(kind.name), kind.name, (receptacle.place,), (receptacle.id,), traits)

    def _name(self, kind: str) -> str:
        """An identifier; its number decides, from the highest down, how the thing is called in the game."""
        base = kind.removesuffix("Basin")
        self._count[kind] += 1
        return f"{base}|{self._count[kind]:02d}" + (f"|{kind}" if base != kind else "")

    def free_place(self) -> str:
        """A stand point that no receptacle has."""
        self._next_place += 1
        return _stand_point(self._next_place - 1)


def _stand_point(number: int) -> str:
    return f"{number}|0|0|0"


def arrangement(game: Game) -> tuple[str, ...]:
    """The scene and what lies where in it, whatever the things are numbered and whatever the goal is."""
    scene = game.id.split("/")[0].rsplit("-", 1)[1]
    return (scene, *sorted(f"{each.kind} {each.receptacles}" for each in game.things))

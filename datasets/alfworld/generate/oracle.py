"""Solves a generated game with full knowledge of where everything is, and proves it by playing.

Invariant: the walkthrough of a game that leaves here wins in the engine with its last command and not before, and no single
command wins. The plan is the shortest of its form (fetch, change, carry), for every choice of things and receptacles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from envhub.envs.alfworld import engine
from envhub.envs.alfworld.game import Family, Game, Trait
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.world import Verb, World, build

_CHANGES = {Family.CLEAN: Verb.CLEAN, Family.HEAT: Verb.HEAT, Family.COOL: Verb.COOL}


def with_walkthrough(game: Game) -> Game:
    """The game with a proven walkthrough. Raises RuntimeError when it is unsound."""
    world = build(game)
    play = Play(world)
    if any(engine.won(world, engine.apply(world, play.state, action)) for action in play.actions.values()):
        raise RuntimeError(f"{game.id} is won by a single command")
    walkthrough = min(_plans(world), key=lambda commands: (len(commands), commands), default=())
    for command in walkthrough:
        if play.won or not play.step(command):
            raise RuntimeError(f"{game.id}: {command!r} comes too late or is not admissible")
    if not play.won:
        raise RuntimeError(f"{game.id} is not won by {walkthrough}")
    return replace(game, walkthrough=tuple(walkthrough))


def _plans(world: World) -> Iterator[Sequence[str]]:
    family = world.game.goal.family
    found = list(_takeable(world))
    if family is Family.LIGHT:
        yield from (_look(world, item, lamp) for item in found for lamp in _lamps(world))
    elif family is Family.TWO:
        yield from (_carry(world, pair, to) for pair in permutations(found, 2) for to in world.goal.receptacles)
    else:
        changes = _changes(world)
        yield from (_carry(world, [item], to, at) for item in found for to in world.goal.receptacles for at in changes)


_Item = tuple[int, int]
"""A thing and the receptacle it lies in, by number."""


def _takeable(world: World) -> Iterator[_Item]:
    wanted = world.goal.objects & world.traits[Trait.PICKUPABLE]
    return ((thing, at) for at, things in enumerate(world.contents) for thing in things if wanted >> thing & 1)


def _lamps(world: World) -> Iterator[_Item]:
    return (
        (thing, at) for at, things in enumerate(world.contents) for thing in things if world.goal.lamps >> thing & 1
    )


def _changes(world: World) -> list[int | None]:
    """The receptacles that clean, heat or cool as the goal wants; just None when nothing is to be changed."""
    verb = _CHANGES.get(world.game.goal.family)
    if verb is None:
        return [None]
    return [number for number in range(len(world.receptacles)) if world.works_as[verb] >> number & 1]


def _look(world: World, item: _Item, lamp: _Item) -> Sequence[str]:
    walk = _Walk(world)
    walk.take(item)
    walk.go(lamp[1])
    return [*walk.commands, f"use {world.things[lamp[0]]}"]


def _carry(world: World, items: Sequence[_Item], to: int, change_at: int | None = None) -> Sequence[str]:
    walk = _Walk(world)
    for item in items:
        name = world.things[item[0]]
        walk.take(item)
        if change_at is not None:
            walk.go(change_at)
            verb = _CHANGES[world.game.goal.family].value
            walk.commands.append(f"{verb} {name} with {world.receptacles[change_at]}")
        walk.go(to)
        walk.open(to)
        walk.commands.append(world.wording.put.format(name, world.receptacles[to]))
    return walk.commands


class _Walk:
    """Commands that lead from one receptacle to the next, with what is needed to reach into each."""

    def __init__(self, world: World) -> None:
        self.commands: list[str] = []
        self._world = world
        self._place = world.start
        self._closed = world.openable

    def take(self, item: _Item) -> None:
        thing, at = item
        self.go(at)
        self.open(at)
        self.commands.append(f"take {self._world.things[thing]} from {self._world.receptacles[at]}")

    def go(self, receptacle: int) -> None:
        if self._place != self._world.place_of[receptacle]:
            self._place = self._world.place_of[receptacle]
            self.commands.append(f"go to {self._world.receptacles[receptacle]}")

    def open(self, receptacle: int) -> None:
        if self._closed >> receptacle & 1:
            self._closed &= ~(1 << receptacle)
            self.commands.append(f"open {self._world.receptacles[receptacle]}")

"""Players with a purpose: they bring about the states that random players hardly ever reach.

A mission reads a native play to choose its next command; whoever runs it carries out every command it yields.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from envhub.envs.alfworld.expert import members
from envhub.envs.alfworld.game import Trait
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.world import NOBODY, Verb

Commands = Iterator[str]


def cutting(play: Play, rng: random.Random) -> Commands:
    """Slice something, now and again where it no longer or not yet is, then cook and clean it."""
    world = play.world
    knives = [knife for knife in members(world.knives) if _receptacle_of(play, knife) is not None]
    victims = [each for each in members(world.traits[Trait.SLICEABLE]) if play.state.near[each]]
    if not knives or not victims:
        return
    victim = rng.choice(victims)
    if rng.random() < 0.5:
        yield from _fetch(play, victim)
        yield from _deliver(play, rng)
    yield from _fetch(play, rng.choice(knives))
    for place in rng.sample(play.state.near[victim], len(play.state.near[victim])):
        if world.at_place[place]:
            yield f"go to {world.receptacles[world.at_place[place][0]]}"
            yield f"slice {world.things[victim]} with {world.things[play.state.held]}"
    yield from _deliver(play, rng)
    yield from _fetch(play, victim)
    yield f"examine {world.things[victim]}"
    yield from _treated(play, rng)


def treating(play: Play, rng: random.Random) -> Commands:
    """Clean, heat and cool something in some order, and look at it each time."""
    traits = play.world.traits
    able = traits[Trait.CLEANABLE] | traits[Trait.HEATABLE] | traits[Trait.COOLABLE] | traits[Trait.HOLDER]
    found = [each for each in members(able) if _receptacle_of(play, each) is not None]
    if found:
        yield from _fetch(play, rng.choice(found))
        yield from _treated(play, rng)


def shifting(play: Play, rng: random.Random) -> Commands:
    """Move things between receptacles, most of all those of one place, and look around."""
    world = play.world
    crowded = [each for place in world.at_place if len(place) > 1 for each in place]
    for _ in range(3):
        sources = [number for number in crowded or range(len(world.receptacles)) if play.state.contents[number]]
        if not sources:
            return
        source = rng.choice(sources)
        yield from _reach(play, source)
        yield f"take {world.things[rng.choice(play.state.contents[source])]} from {world.receptacles[source]}"
        yield "look"
        neighbours = [each for each in world.at_place[play.state.place] if play.state.held != NOBODY]
        for neighbour in rng.sample(neighbours, len(neighbours)):
            yield f"open {world.receptacles[neighbour]}"
            yield world.wording.put.format(world.things[play.state.held], world.receptacles[neighbour])
            if play.state.held == NOBODY:
                break
        if play.state.held != NOBODY:
            yield from _deliver(play, rng)
        yield "look"


def lighting(play: Play, rng: random.Random) -> Commands:
    """Use every lamp, with open and closed doors, and try to take it."""
    world = play.world
    for lamp in members(world.traits[Trait.TOGGLEABLE]):
        receptacle = _receptacle_of(play, lamp)
        if receptacle is not None:
            yield f"go to {world.receptacles[receptacle]}"
            yield f"use {world.things[lamp]}"
            yield f"examine {world.things[lamp]}"
            yield f"take {world.things[lamp]} from {world.receptacles[receptacle]}"
            yield f"use {world.things[lamp]}"


MISSIONS: Sequence[Callable[[Play, random.Random], Commands]] = (cutting, treating, shifting, lighting)


def _treated(play: Play, rng: random.Random) -> Commands:
    world, held = play.world, play.state.held
    if held == NOBODY:
        return
    for verb in rng.sample((Verb.CLEAN, Verb.HEAT, Verb.COOL, Verb.CLEAN), 4):
        appliances = list(members(world.works_as[verb]))
        if appliances:
            appliance = rng.choice(appliances)
            yield f"go to {world.receptacles[appliance]}"
            yield f"{verb} {world.things[held]} with {world.receptacles[appliance]}"
            yield f"examine {world.things[held]}"
    yield from _deliver(play, rng)


def _fetch(play: Play, thing: int) -> Commands:
    receptacle = _receptacle_of(play, thing)
    if receptacle is not None:
        yield from _reach(play, receptacle)
        yield f"take {play.world.things[thing]} from {play.world.receptacles[receptacle]}"


def _deliver(play: Play, rng: random.Random) -> Commands:
    world, held = play.world, play.state.held
    fitting = [number for number, accepted in enumerate(world.accepts) if held != NOBODY and accepted >> held & 1]
    if fitting:
        receptacle = rng.choice(fitting)
        yield from _reach(play, receptacle)
        yield world.wording.put.format(world.things[held], world.receptacles[receptacle])


def _reach(play: Play, receptacle: int) -> Commands:
    name = play.world.receptacles[receptacle]
    if play.world.place_of[receptacle] != play.state.place:
        yield f"go to {name}"
    if f"open {name}" in play.actions:
        yield f"open {name}"


def _receptacle_of(play: Play, thing: int) -> int | None:
    return next((number for number, inside in enumerate(play.state.contents) if thing in inside), None)

"""The rules of the game: which commands a state admits, what they change and what the player reads.

Invariant: observation, admissible commands and ``won`` are those of TextWorld playing the official game file. A state is
immutable: a snapshot is a reference, and going back or branching off costs nothing.

Some rules surprise, and are kept because the official game has them: an object can be examined only while it is held; looking
around before the first move shows nothing; cleaning, heating and cooling need the appliance at hand, not open; a lamp in a
closed receptacle can be used, and use never turns it off; slicing asks where the object is, not whether its receptacle is
open, and things count as being where they were first put down as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envhub.envs.alfworld.game import Family, Trait
from envhub.envs.alfworld.wording import BANNER, NOTHING_HAPPENS, TASK, enumeration, listing
from envhub.envs.alfworld.world import NOBODY, Action, Verb, World

CHANGEABLE: Mapping[Verb, Trait] = {
    Verb.CLEAN: Trait.CLEANABLE,
    Verb.HEAT: Trait.HEATABLE,
    Verb.COOL: Trait.COOLABLE,
}
"""What an appliance does, and what a thing must be for it."""


@dataclass(frozen=True, slots=True)
class State:
    """All that changes. ``removed`` holds (thing, receptacle) for each thing taken out and not put back there.

    ``contents[r]`` are the things in receptacle r, ascending; ``near[t]`` the places thing t counts as being at. ``opened``
    is a set of receptacles; ``clean``, ``hot``, ``cool``, ``sliced`` and ``used`` are sets of things.
    """

    place: int
    held: int
    contents: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, ...], ...]
    removed: frozenset[tuple[int, int]]
    opened: int
    clean: int
    hot: int
    cool: int
    sliced: int
    used: int


def start(world: World) -> State:
    return State(
        place=world.start,
        held=NOBODY,
        contents=world.contents,
        near=world.near,
        removed=frozenset(),
        opened=0,
        clean=0,
        hot=0,
        cool=world.traits[Trait.COOL],
        sliced=0,
        used=0,
    )


def actions(world: World, state: State) -> dict[str, Action]:
    """The admissible commands, in no particular order, each with what it does."""
    found = dict(world.general)
    for journey in world.journeys:
        if journey.place != state.place:
            found[journey.command] = journey.action
    for action in _handling(world, state):
        found[command(world, action)] = action
    return found


def command(world: World, action: Action) -> str:
    """How an action is spelled."""
    thing, receptacle = world.things[action.thing], world.receptacles[action.receptacle]
    match action.verb:
        case Verb.GO_TO | Verb.OPEN | Verb.CLOSE:
            return f"{action.verb.value} {receptacle}"
        case Verb.TAKE:
            return f"take {thing} from {receptacle}"
        case Verb.PUT:
            return world.wording.put.format(thing, receptacle)
        case Verb.USE:
            return f"use {thing}"
        case Verb.CLEAN | Verb.HEAT | Verb.COOL:
            return f"{action.verb.value} {thing} with {receptacle}"
        case Verb.SLICE:
            return f"slice {thing} with {world.things[action.tool]}"
        case Verb.EXAMINE_RECEPTACLE:
            return f"examine {receptacle}"
        case Verb.EXAMINE_THING:
            return f"examine {thing}"
        case Verb.LOOK | Verb.INVENTORY | Verb.HELP:
            return action.verb.value


def apply(world: World, state: State, action: Action) -> State:
    """The state after an admissible action."""
    thing, receptacle = action.thing, action.receptacle
    match action.verb:
        case Verb.GO_TO:
            return replace(state, place=world.place_of[receptacle])
        case Verb.OPEN:
            return replace(state, opened=state.opened | 1 << receptacle)
        case Verb.CLOSE:
            return replace(state, opened=state.opened & ~(1 << receptacle))
        case Verb.TAKE:
            return _taken(state, thing, receptacle)
        case Verb.PUT:
            return _put(state, thing, receptacle)
        case Verb.USE:
            return replace(state, used=state.used | 1 << thing)
        case Verb.CLEAN:
            return replace(state, clean=state.clean | 1 << thing)
        case Verb.HEAT:
            return replace(state, hot=state.hot | 1 << thing, cool=state.cool & ~(1 << thing))
        case Verb.COOL:
            return replace(state, cool=state.cool | 1 << thing, hot=state.hot & ~(1 << thing))
        case Verb.SLICE:
            return replace(state, sliced=state.sliced | 1 << thing)
        case _:
            return state


def won(world: World, state: State) -> bool:
    """Whether the goal holds."""
    if world.game.goal.family is Family.LIGHT:
        in_hand = state.held != NOBODY and bool(world.goal.objects >> state.held & 1)
        return in_hand and lit(world, state)
    wanted, needed = fulfilled(world, state), n_needed(world)
    return any(placed(state, receptacle, wanted) >= needed for receptacle in world.goal.receptacles)


def fulfilled(world: World, state: State) -> int:
    """The objects sought that are as the goal asks: clean, hot, cool, or anyhow."""
    family, wanted = world.game.goal.family, world.goal.objects
    if family is Family.CLEAN:
        return wanted & state.clean & world.traits[Trait.CLEANABLE]
    if family is Family.HEAT:
        return wanted & state.hot & world.traits[Trait.HEATABLE]
    if family is Family.COOL:
        return wanted & state.cool & world.traits[Trait.COOLABLE]
    return wanted


def n_needed(world: World) -> int:
    """How many objects must lie in one receptacle."""
    return 2 if world.game.goal.family is Family.TWO else 1


def placed(state: State, receptacle: int, wanted: int) -> int:
    """How many of the things ``wanted`` (a set) lie in the receptacle."""
    return sum(wanted >> thing & 1 for thing in state.contents[receptacle])


def lit(world: World, state: State) -> bool:
    """Whether a lamp of the goal that was used is at the agent's place."""
    lamps = world.goal.lamps & state.used
    return any(placed(state, receptacle, lamps) for receptacle in world.at_place[state.place])


def reachable(world: World, state: State, receptacle: int) -> bool:
    """Whether things can be put into and taken out of the receptacle by one who stands at it."""
    return not world.openable >> receptacle & 1 or bool(state.opened >> receptacle & 1)


def intro(world: World, state: State) -> str:
    """What a player reads before the first move."""
    beside_something = world.at_place[state.place]
    seen = _look(world, state) if beside_something else _middle_of_room(world.receptacles)
    return f"{BANNER}\n\n{seen}\n\n{TASK}{world.game.task}"


def feedback(world: World, state: State, action: Action | None) -> str:
    """What a player reads after an action that led to ``state``; None stands for a command that is not admissible."""
    if action is None:
        return NOTHING_HAPPENS
    thing = world.things[action.thing]
    receptacle = world.receptacles[action.receptacle]
    match action.verb:
        case Verb.GO_TO:
            by_place = world.wording.arrival == "place"
            target = world.places[state.place] if by_place else receptacle
            return f"You arrive at {target}. {_inspect(world, state, action.receptacle)}"
        case Verb.OPEN:
            return f"You open the {receptacle}. {_inspect(world, state, action.receptacle)}"
        case Verb.CLOSE:
            return f"You close the {receptacle}."
        case Verb.TAKE:
            return f"You pick up the {thing} from the {receptacle}."
        case Verb.PUT:
            return world.wording.was_put.format(thing, receptacle)
        case Verb.USE:
            return f"You turn on the {thing}."
        case Verb.CLEAN | Verb.HEAT | Verb.COOL:
            return f"You {action.verb} the {thing} using the {receptacle}."
        case Verb.SLICE:
            return f"You sliced the {thing} with the {world.things[action.tool]}."
        case Verb.EXAMINE_RECEPTACLE:
            return _inspect(world, state, action.receptacle)
        case Verb.EXAMINE_THING:
            return _examine(world, state, action.thing)
        case Verb.INVENTORY:
            return "You are not carrying anything." if state.held == NOBODY else _carrying(world, state)
        case Verb.LOOK:
            return _look(world, state)
        case Verb.HELP:
            return world.wording.help or NOTHING_HAPPENS


def _handling(world: World, state: State) -> Iterator[Action]:
    """All admissible actions but going elsewhere and those that are always admissible."""
    held = state.held
    if held != NOBODY:
        yield Action(Verb.EXAMINE_THING, held)
        if world.knives >> held & 1:
            yield from _slicing(world, state)
    for receptacle in world.at_place[state.place]:
        yield Action(Verb.EXAMINE_RECEPTACLE, receptacle=receptacle)
        if world.openable >> receptacle & 1:
            yield Action(Verb.CLOSE if state.opened >> receptacle & 1 else Verb.OPEN, receptacle=receptacle)
        usable = world.traits[Trait.TOGGLEABLE]
        yield from (Action(Verb.USE, thing) for thing in state.contents[receptacle] if usable >> thing & 1)
        if held != NOBODY:
            yield from _with_held(world, state, receptacle)
        elif reachable(world, state, receptacle):
            takeable = world.traits[Trait.PICKUPABLE]
            for thing in state.contents[receptacle]:
                if takeable >> thing & 1:
                    yield Action(Verb.TAKE, thing, receptacle)


def _with_held(world: World, state: State, receptacle: int) -> Iterator[Action]:
    held = state.held
    if world.accepts[receptacle] >> held & 1 and reachable(world, state, receptacle):
        yield Action(Verb.PUT, held, receptacle)
    for verb, trait in CHANGEABLE.items():
        if world.works_as[verb] >> receptacle & 1 and world.traits[trait] >> held & 1:
            yield Action(verb, held, receptacle)


def _slicing(world: World, state: State) -> Iterator[Action]:
    sliceable = world.traits[Trait.SLICEABLE]
    for thing, places in enumerate(state.near):
        if sliceable >> thing & 1 and state.place in places:
            yield Action(Verb.SLICE, thing, tool=state.held)


def _taken(state: State, thing: int, receptacle: int) -> State:
    rest = tuple(each for each in state.contents[receptacle] if each != thing)
    places = tuple(place for place in state.near[thing] if place != state.place)
    return replace(
        state,
        held=thing,
        contents=_with(state.contents, receptacle, rest),
        near=_with(state.near, thing, places),
        removed=state.removed | {(thing, receptacle)},
    )


def _put(state: State, thing: int, receptacle: int) -> State:
    return replace(
        state,
        held=NOBODY,
        contents=_with(state.contents, receptacle, tuple(sorted({*state.contents[receptacle], thing}))),
        near=_with(state.near, thing, tuple(sorted({*state.near[thing], state.place}))),
        removed=state.removed - {(thing, receptacle)},
    )


def _with(rows: tuple[tuple[int, ...], ...], number: int, row: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*rows[:number], row, *rows[number + 1 :])


def _look(world: World, state: State) -> str:
    here = world.at_place[state.place]
    if not here:
        return _middle_of_room(())
    facing = enumeration([world.receptacles[each] for each in here])
    beside = [
        world.things[thing]
        for thing, places in enumerate(state.near)
        if state.place in places
        for receptacle in here
        if (thing, receptacle) in state.removed
    ]
    return f"You are facing the {facing}. Next to it, you see {listing(beside)}."


def _middle_of_room(receptacles: Sequence[str]) -> str:
    return f"You are in the middle of a room. Looking quickly around you, you see {listing(receptacles)}."


def _inspect(world: World, state: State, receptacle: int) -> str:
    name = world.receptacles[receptacle]
    if not reachable(world, state, receptacle):
        return f"The {name} is closed."
    inside = listing([world.things[thing] for thing in state.contents[receptacle]])
    if world.openable >> receptacle & 1:
        return f"The {name} is open. In it, you see {inside}."
    return f"On the {name}, you see {inside}."


def _examine(world: World, state: State, thing: int) -> str:
    name = world.things[thing]
    if world.traits[Trait.HOLDER] >> thing & 1:
        inside = listing([world.things[each] for each in world.held_in[thing]])
        return f"This is a normal {name}. In it, you see {inside}."
    clean, sliced = state.clean >> thing & 1, state.sliced >> thing & 1
    warmth = "hot" if state.hot >> thing & 1 else "cool" if state.cool >> thing & 1 else ""
    qualities = " and ".join(filter(None, (warmth, "clean" if clean else "")))
    if qualities:
        cold = qualities == "cool" and not sliced
        return f"This is a {'cold' if cold else qualities} {'sliced ' if sliced else ''}{name}."
    if world.traits[Trait.TOGGLEABLE] & state.used & 1 << thing:
        return f"This {name} is on."
    return f"This is a sliced {name}." if sliced else f"There's nothing special about {name}."


def _carrying(world: World, state: State) -> str:
    return f"You are carrying: {listing([world.things[state.held]])}."

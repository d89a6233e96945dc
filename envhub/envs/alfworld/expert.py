"""The expert: commands that win from any state, as few as a direct route needs.

It knows where everything lies, tries every object with every receptacle that would do, and plays each route by the engine's
rules. Invariant: a plan that is returned has been played and wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from envhub.envs.alfworld import engine
from envhub.envs.alfworld.engine import CHANGEABLE, State
from envhub.envs.alfworld.game import Family, Trait
from envhub.envs.alfworld.world import NOBODY, Action, Verb, World

_CHANGES: Mapping[Family, Verb] = {Family.CLEAN: Verb.CLEAN, Family.HEAT: Verb.HEAT, Family.COOL: Verb.COOL}


def plan(world: World, state: State | None = None) -> tuple[str, ...] | None:
    """The commands of the shortest route found, empty when the goal already holds; None when there is no route."""
    state = engine.start(world) if state is None else state
    if engine.won(world, state):
        return ()
    routes = _light_routes(world, state) if world.game.goal.family is Family.LIGHT else _place_routes(world, state)
    wins = [tuple(route.commands) for route in routes if route.won]
    return min(wins, key=lambda commands: len(commands)) if wins else None


class _Route:
    """One attempt. A step that the rules do not admit makes it ``failed``, and nothing more is done; ``won`` ends it too."""

    def __init__(self, world: World, state: State) -> None:
        self.world = world
        self.state = state
        self.commands: list[str] = []
        self.failed = False
        self.won = False

    def fetch(self, thing: int) -> None:
        """Have the thing in hand."""
        if self.state.held == thing:
            return
        if self.state.held != NOBODY:
            self._put_down()
        found = [number for number, inside in enumerate(self.state.contents) if thing in inside]
        if not found or not self.world.traits[Trait.PICKUPABLE] >> thing & 1:
            self.failed = True
            return
        source = min(found, key=self._effort)
        self.reach(source)
        self._do(Action(Verb.TAKE, thing, source))

    def change(self, thing: int, verb: Verb) -> None:
        """Clean, heat or cool the thing in hand, unless it already is."""
        done = {Verb.CLEAN: self.state.clean, Verb.HEAT: self.state.hot, Verb.COOL: self.state.cool}[verb]
        if done >> thing & 1:
            return
        appliances = list(members(self.world.works_as[verb]))
        if not appliances or not self.world.traits[CHANGEABLE[verb]] >> thing & 1:
            self.failed = True
            return
        appliance = min(appliances, key=self._distance)
        self.approach(appliance)
        self._do(Action(verb, thing, appliance))

    def deliver(self, thing: int, receptacle: int) -> None:
        if not self.world.accepts[receptacle] >> thing & 1:
            self.failed = True
            return
        self.reach(receptacle)
        self._do(Action(Verb.PUT, thing, receptacle))

    def use(self, lamp: int) -> None:
        if not self.state.used >> lamp & 1:
            self._do(Action(Verb.USE, lamp))

    def approach(self, receptacle: int) -> None:
        """Stand at the receptacle."""
        if self._distance(receptacle):
            self._do(Action(Verb.GO_TO, receptacle=receptacle))

    def reach(self, receptacle: int) -> None:
        """Stand at the receptacle, open."""
        self.approach(receptacle)
        if not engine.reachable(self.world, self.state, receptacle):
            self._do(Action(Verb.OPEN, receptacle=receptacle))

    def _put_down(self) -> None:
        held = self.state.held
        fitting = [number for number, accepted in enumerate(self.world.accepts) if accepted >> held & 1]
        if fitting:
            self.deliver(held, min(fitting, key=self._effort))
        else:
            self.failed = True

    def _distance(self, receptacle: int) -> int:
        return int(self.world.place_of[receptacle] != self.state.place)

    def _effort(self, receptacle: int) -> int:
        return self._distance(receptacle) + (not engine.reachable(self.world, self.state, receptacle))

    def _do(self, action: Action) -> None:
        if self.failed or self.won:
            return
        command = engine.command(self.world, action)
        if command not in engine.actions(self.world, self.state):
            self.failed = True
            return
        self.commands.append(command)
        self.state = engine.apply(self.world, self.state, action)
        self.won = engine.won(self.world, self.state)


def _light_routes(world: World, state: State) -> Iterator[_Route]:
    lamps = [
        (lamp, receptacle)
        for lamp in members(world.goal.lamps)
        for receptacle, inside in enumerate(state.contents)
        if lamp in inside
    ]
    for thing in _candidates(world, state):
        for lamp, receptacle in lamps:
            route = _Route(world, state)
            route.fetch(thing)
            route.approach(receptacle)
            route.use(lamp)
            yield route


def _place_routes(world: World, state: State) -> Iterator[_Route]:
    n_needed = 2 if world.game.goal.family is Family.TWO else 1
    verb = _CHANGES.get(world.game.goal.family)
    for things in combinations(_candidates(world, state), n_needed):
        for receptacle in world.goal.receptacles:
            yield _place_route(_Route(world, state), _held_first(things, state), receptacle, verb)


def _place_route(route: _Route, things: Sequence[int], receptacle: int, verb: Verb | None) -> _Route:
    for thing in things:
        if verb is None and thing in route.state.contents[receptacle]:
            continue
        route.fetch(thing)
        if verb is not None:
            route.change(thing, verb)
        route.deliver(thing, receptacle)
    return route


def _candidates(world: World, state: State) -> list[int]:
    """The things sought that are in hand or in a receptacle."""
    placed = {thing for inside in state.contents for thing in inside}
    return [thing for thing in members(world.goal.objects) if thing == state.held or thing in placed]


def _held_first(things: Iterable[int], state: State) -> list[int]:
    return sorted(things, key=lambda thing: thing != state.held)


def members(numbers: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    return (number for number in range(numbers.bit_length()) if numbers >> number & 1)

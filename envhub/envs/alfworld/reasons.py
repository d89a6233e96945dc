"""Why nothing happened: one sentence about a command that is not admissible.

Invariant: a reason tells nothing that the player could not see by standing there; what is in a closed receptacle stays hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envhub.envs.alfworld import engine
from envhub.envs.alfworld.engine import CHANGEABLE, State
from envhub.envs.alfworld.matching import matched, normalised
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.world import NOBODY, Verb, World

_NO_NAMES = "Name things and receptacles with their numbers, as in: take mug 1 from desk 1."
_APPLIANCE = {Verb.CLEAN: "a sinkbasin", Verb.HEAT: "a microwave", Verb.COOL: "a fridge"}


def why_not(written: str, play: Play) -> str:
    """The reason why a command that is not admissible does nothing."""
    if meant := matched(written, play.actions, "normalised", put=play.world.wording.put):
        return f"Write it exactly so: {meant}"
    command = normalised(written)
    for pattern, explain in _FORMS.items():
        if found := re.fullmatch(pattern, command):
            return explain(_Scene(play.world, play.state), *found.groups())
    verbs = ", ".join(("go to", "open", "close", "take", "put", "use", "clean", "heat", "cool", "slice", "examine"))
    return f"There is no such command. Commands begin with: {verbs}, look, inventory."


class _Scene:
    """What the player can see; each method answers for one form of command."""

    def __init__(self, world: World, state: State) -> None:
        self._world = world
        self._state = state

    def go_to(self, name: str) -> str:
        return self._no_receptacle(name) or f"You are already at {name}."

    def open(self, name: str) -> str:
        return self._away(name) or self._not_openable(name) or f"The {name} is already open."

    def close(self, name: str) -> str:
        return self._away(name) or self._not_openable(name) or f"The {name} is already closed."

    def take(self, thing: str, name: str) -> str:
        if self._state.held != NOBODY:
            return f"You are carrying {self._held}; you can carry one thing only."
        if reason := self._away(name) or self._shut(name):
            return reason
        if not self._lies_in(thing, name):
            return f"There is no {thing} in or on {name}."
        return f"The {thing} cannot be taken."

    def put(self, thing: str, name: str) -> str:
        if reason := self._not_carrying(thing) or self._away(name) or self._shut(name):
            return reason
        return f"The {thing} cannot be put in or on {name}."

    def change(self, verb: str, thing: str, name: str) -> str:
        if reason := self._not_carrying(thing) or self._away(name):
            return reason
        kind = Verb(verb)
        if not self._world.traits[CHANGEABLE[kind]] >> self._state.held & 1:
            return f"You cannot {verb} the {thing}."
        return f"To {verb} something you need {_APPLIANCE[kind]}."

    def use(self, thing: str) -> str:
        here = self._world.at_place[self._state.place]
        if any(self._lies_in(thing, self._world.receptacles[each]) for each in here):
            return f"The {thing} cannot be switched on."
        return f"There is no {thing} at hand."

    def slice(self, _: str, knife: str) -> str:
        if reason := self._not_carrying(knife):
            return reason
        if not self._world.knives >> self._state.held & 1:
            return f"The {knife} cannot cut."
        return "There is nothing of that name here that can be sliced."

    def examine(self, name: str) -> str:
        if name in self._world.receptacles:
            return self._away(name)
        return "Only a receptacle you stand at, or the thing you carry, can be examined."

    def unnumbered(self, *_: str) -> str:
        return _NO_NAMES

    @property
    def _held(self) -> str:
        return self._world.things[self._state.held]

    def _no_receptacle(self, name: str) -> str:
        return "" if name in self._world.receptacles else f"There is no receptacle named {name}."

    def _away(self, name: str) -> str:
        if reason := self._no_receptacle(name):
            return reason
        number = self._world.receptacles.index(name)
        at_it = self._world.place_of[number] == self._state.place
        return "" if at_it else f"You are not at {name}; go to {name} first."

    def _not_openable(self, name: str) -> str:
        number = self._world.receptacles.index(name)
        return "" if self._world.openable >> number & 1 else f"The {name} cannot be opened or closed."

    def _shut(self, name: str) -> str:
        number = self._world.receptacles.index(name)
        is_open = engine.reachable(self._world, self._state, number)
        return "" if is_open else f"The {name} is closed; open {name} first."

    def _not_carrying(self, thing: str) -> str:
        if self._state.held == NOBODY:
            return "You are not carrying anything."
        return "" if self._held == thing else f"You are not carrying {thing} but {self._held}."

    def _lies_in(self, thing: str, name: str) -> bool:
        number = self._world.receptacles.index(name)
        visible = engine.reachable(self._world, self._state, number)
        return visible and any(self._world.things[each] == thing for each in self._state.contents[number])


_NAME = r"([a-z]+ \d+)"
_INTO = "(?:in/on|into|onto|in|on|to)"
_FORMS: Mapping[str, Callable[..., str]] = {
    f"go to {_NAME}": _Scene.go_to,
    f"open {_NAME}": _Scene.open,
    f"close {_NAME}": _Scene.close,
    f"take {_NAME} from {_NAME}": _Scene.take,
    f"(?:put|move) {_NAME} {_INTO} {_NAME}": _Scene.put,
    f"(clean|heat|cool) {_NAME} with {_NAME}": _Scene.change,
    f"use {_NAME}": _Scene.use,
    f"slice {_NAME} with {_NAME}": _Scene.slice,
    f"examine {_NAME}": _Scene.examine,
    r"(?:go to|open|close|take|put|move|clean|heat|cool|use|slice|examine)(?: .*)?": _Scene.unnumbered,
}

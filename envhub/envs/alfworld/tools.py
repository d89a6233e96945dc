"""The two sets of tools an agent may get: one tool that takes any action as text, or one tool for each verb.

Invariant: a verb's tool does what its action as text does; both go through the same function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from envhub.envs.toolkit import Outcome, ToolEpisode, TurnLimits, tool

Act = Callable[[str], Awaitable[Outcome]]
"""Carries out an action that is given as text."""

Thing = Annotated[str, "An object with its number, such as: mug 1"]
Place = Annotated[str, "A receptacle with its number, such as: shelf 1"]


class Tools(ToolEpisode):
    """A message runs one action; further calls in it are told so."""

    turn_limits = TurnLimits(max_calls=1)

    def __init__(self, act: Act, *, put: str) -> None:
        """``put`` is how the game spells putting."""
        self._act = act
        self._put = put


class ActionTool(Tools):
    """One tool that takes any action as text."""

    @tool
    async def take_action(self, action: Annotated[str, "The action, such as: go to shelf 1"]) -> Outcome:
        """Carry out one action in the household."""
        return await self._act(action)


class VerbTools(Tools):
    """One tool for each verb; the same actions as by text."""

    @tool
    async def go_to(self, receptacle: Place) -> Outcome:
        """Go to a receptacle."""
        return await self._act(f"go to {receptacle}")

    @tool
    async def open(self, receptacle: Place) -> Outcome:
        """Open a receptacle you are at."""
        return await self._act(f"open {receptacle}")

    @tool
    async def close(self, receptacle: Place) -> Outcome:
        """Close a receptacle you are at."""
        return await self._act(f"close {receptacle}")

    @tool
    async def take(self, object: Thing, receptacle: Place) -> Outcome:
        """Take an object from a receptacle you are at."""
        return await self._act(f"take {object} from {receptacle}")

    @tool
    async def put(self, object: Thing, receptacle: Place) -> Outcome:
        """Put the object you carry into or onto a receptacle you are at."""
        return await self._act(self._put.format(object, receptacle))

    @tool
    async def use(self, object: Thing) -> Outcome:
        """Switch on a lamp."""
        return await self._act(f"use {object}")

    @tool
    async def clean(self, object: Thing, receptacle: Place) -> Outcome:
        """Clean the object you carry at a sinkbasin."""
        return await self._act(f"clean {object} with {receptacle}")

    @tool
    async def heat(self, object: Thing, receptacle: Place) -> Outcome:
        """Heat the object you carry with a microwave."""
        return await self._act(f"heat {object} with {receptacle}")

    @tool
    async def cool(self, object: Thing, receptacle: Place) -> Outcome:
        """Cool the object you carry with a fridge."""
        return await self._act(f"cool {object} with {receptacle}")

    @tool
    async def slice(self, object: Thing, knife: Annotated[str, "The knife you carry, such as: knife 1"]) -> Outcome:
        """Slice an object with the knife you carry."""
        return await self._act(f"slice {object} with {knife}")

    @tool
    async def examine(self, target: Annotated[str, "A receptacle you are at, or the object you carry."]) -> Outcome:
        """Look closely at a receptacle or at the object you carry."""
        return await self._act(f"examine {target}")

    @tool
    async def look(self) -> Outcome:
        """Look around where you are."""
        return await self._act("look")

    @tool
    async def inventory(self) -> Outcome:
        """See what you carry."""
        return await self._act("inventory")

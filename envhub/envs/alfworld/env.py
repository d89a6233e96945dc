"""The ALFWorld environment: a household task in text, played natively or by the real packages.

Invariant: an episode owns its play and shares nothing that changes; whatever an agent sends is carried out as written or not
at all, unless the grading mode ``agentbench`` is asked for. A win earns 1, whatever went before it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from envhub.core.errors import InvalidRequestError
from envhub.core.protocols import Script
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StepResult, StopReason, TaskRef
from envhub.envs.alfworld import official, prompts, tasks
from envhub.envs.alfworld.exploits import EXPLOITS
from envhub.envs.alfworld.game import Game, Text
from envhub.envs.alfworld.options import OPTIONS, Options
from envhub.envs.alfworld.pddl import UnsupportedGameError
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.players import NativePlayer, Player
from envhub.envs.alfworld.tasks import TaskSet
from envhub.envs.alfworld.textworld_backend import POSED_TEXT, StagePool
from envhub.envs.alfworld.world import World, build
from envhub.envs.datasets import dataset_dir
from envhub.envs.toolkit import End, Outcome, ToolEpisode, TurnLimits, tool

NAME = "alfworld"
VERSION = "1"
MAX_TURNS = 20
BACKENDS = ("native", "textworld", "auto")
_N_WORLDS = 512
_N_REPEATS = 3
"""AgentBench ends an episode at so many equal actions in a row, once more than so many were made."""


class AlfworldEpisode(ToolEpisode):
    """What both sets of tools share. ``family`` is None when the game is not known natively."""

    turn_limits = TurnLimits(max_calls=1)

    def __init__(self, player: Player, options: Options, *, family: str | None) -> None:
        self.player = player
        self._options = options
        self._family = family
        self._written: list[str] = []
        self._executed: str | None = None

    async def reset(self) -> Observation:
        system = prompts.SYSTEM_AGENTBENCH if self._options.published else prompts.SYSTEM
        shown = self.player.admissible if self._options.admissible != "never" else None
        task = prompts.first_message(self.player.observation, shown, published=self._options.published)
        return Observation((Message.system(system), Message.user(task)), self.tools, self._info())

    async def step(self, message: Message) -> StepResult:
        self._executed = None
        result = await super().step(message)
        return replace(result, info={**result.info, **self._info()})

    async def act(self, written: str) -> Outcome:
        """Carry out one action and tell what the agent sees; a win ends the episode."""
        self._written.append(written)
        self._executed = await self.player.step(written, self._options.matching)
        seen = self.player.observation
        if self._executed is None and self._options.reasons and (reason := self.player.reason(written)):
            seen = f"{seen} {reason}"
        shown = self.player.admissible if self._options.admissible == "always" else None
        if self.player.won:
            return End(1.0, prompts.observation(seen, None, published=self._options.published))
        text = prompts.observation(seen, shown, published=self._options.published)
        if self._options.published and self._repeats():
            return End(0.0, text, StopReason.INVALID_ACTION)
        return text

    async def close(self) -> None:
        await self.player.close()

    def _repeats(self) -> bool:
        return len(self._written) > _N_REPEATS and len(set(self._written[-_N_REPEATS:])) == 1

    def _info(self) -> Mapping[str, JSON]:
        return {
            "won": self.player.won,
            "family": self._family,
            "subgoals": self.player.progress(),
            "executed": self._executed,
            "n_actions": len(self._written),
        }


class ActionEpisode(AlfworldEpisode):
    """One tool that takes any action as text."""

    @tool
    async def take_action(self, action: Annotated[str, "The action, such as: go to shelf 1"]) -> Outcome:
        """Carry out one action in the household."""
        return await self.act(action)


Thing = Annotated[str, "An object with its number, such as: mug 1"]
Place = Annotated[str, "A receptacle with its number, such as: shelf 1"]


class VerbsEpisode(AlfworldEpisode):
    """One tool for each verb; the same actions as by text."""

    @tool
    async def go_to(self, receptacle: Place) -> Outcome:
        """Go to a receptacle."""
        return await self.act(f"go to {receptacle}")

    @tool
    async def open(self, receptacle: Place) -> Outcome:
        """Open a receptacle you are at."""
        return await self.act(f"open {receptacle}")

    @tool
    async def close_receptacle(self, receptacle: Place) -> Outcome:
        """Close a receptacle you are at."""
        return await self.act(f"close {receptacle}")

    @tool
    async def take(self, object: Thing, receptacle: Place) -> Outcome:
        """Take an object from a receptacle you are at."""
        return await self.act(f"take {object} from {receptacle}")

    @tool
    async def put(self, object: Thing, receptacle: Place) -> Outcome:
        """Put the object you carry into or onto a receptacle you are at."""
        return await self.act(f"put {object} in/on {receptacle}")

    @tool
    async def use(self, object: Thing) -> Outcome:
        """Switch on a lamp."""
        return await self.act(f"use {object}")

    @tool
    async def clean(self, object: Thing, receptacle: Place) -> Outcome:
        """Clean the object you carry at a sinkbasin."""
        return await self.act(f"clean {object} with {receptacle}")

    @tool
    async def heat(self, object: Thing, receptacle: Place) -> Outcome:
        """Heat the object you carry with a microwave."""
        return await self.act(f"heat {object} with {receptacle}")

    @tool
    async def cool(self, object: Thing, receptacle: Place) -> Outcome:
        """Cool the object you carry with a fridge."""
        return await self.act(f"cool {object} with {receptacle}")

    @tool
    async def slice(self, object: Thing, knife: Annotated[str, "The knife you carry, such as: knife 1"]) -> Outcome:
        """Slice an object with the knife you carry."""
        return await self.act(f"slice {object} with {knife}")

    @tool
    async def examine(self, target: Annotated[str, "A receptacle you are at, or the object you carry."]) -> Outcome:
        """Look closely at a receptacle or at the object you carry."""
        return await self.act(f"examine {target}")

    @tool
    async def look(self) -> Outcome:
        """Look around where you are."""
        return await self.act("look")

    @tool
    async def inventory(self) -> Outcome:
        """See what you carry."""
        return await self.act("inventory")

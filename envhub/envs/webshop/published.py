"""The published text interface: actions as ``search[...]`` and ``click[...]``, history in the observation.

Invariant: for the same catalogue and goal, observations, available actions, rewards and ends equal the original's, quirks of
its action syntax included: what does not match the pattern, or cannot be clicked, changes nothing and earns 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from envhub.core.types import JSON
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.pages import Page, State
from envhub.envs.webshop.shop import Move, ObservationMode, Shop

_ACTION = re.compile(r"(.+)\[(.+)\]")


def parse_action(action: str) -> tuple[str, str | None]:
    """Name and argument. Greedy, as published: text after the last ``]`` is ignored, and an argument cannot hold a ``[``."""
    found = _ACTION.match(action)
    return (found[1], found[2]) if found else (action, None)


@dataclass(frozen=True, slots=True)
class PublishedStep:
    observation: str
    reward: float
    done: bool


class TextEpisode:
    """One session played through strings; ``n_past_*`` put that many earlier observations and actions before each one."""

    def __init__(
        self,
        shop: Shop,
        goal: Goal,
        *,
        mode: ObservationMode = "text",
        n_past_observations: int = 0,
        n_past_actions: int = 0,
    ) -> None:
        self._shop = shop
        self._mode: ObservationMode = mode
        self._n_past_observations = n_past_observations
        self._n_past_actions = n_past_actions
        self.state: State = shop.enter(goal)
        self._observations = [self.page]
        self._actions: list[str] = []

    @property
    def page(self) -> str:
        """The page without its history: the first observation."""
        return self._shop.observe(self.state, self._mode)

    @property
    def available_actions(self) -> dict[str, JSON]:
        return {
            "has_search_bar": self.state.page is Page.SEARCH,
            "clickables": list(self._shop.clickables(self.state)),
        }

    def step(self, action: str) -> PublishedStep:
        move = self._move(action)
        self.state = move.state
        self._actions = [*self._actions, action][-self._n_past_actions :] if self._n_past_actions else []
        page = self.page
        observation = " [SEP] ".join((*reversed(list(self._history())), page))
        kept = [*self._observations, page]
        self._observations = kept[-self._n_past_observations :] if self._n_past_observations else []
        return PublishedStep(observation, move.reward, move.bought)

    def _move(self, action: str) -> Move:
        name, argument = parse_action(action)
        match name:
            case "search" if argument:
                return self._shop.search(self.state, argument)
            case "click" if argument:
                return self._shop.click(self.state, argument)
            case _:
                return Move(self.state, problem="An action is search[keywords] or click[value].")

    def _history(self) -> list[str]:
        """Latest first: each action before the observation it was taken on."""
        past: list[str] = []
        actions = list(islice(reversed(self._actions), self._n_past_actions))
        observations = list(islice(reversed(self._observations), self._n_past_observations))
        for back in range(max(len(actions), len(observations))):
            past += actions[back : back + 1] + observations[back : back + 1]
        return past

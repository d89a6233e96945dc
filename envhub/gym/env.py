"""The hub's environments as Gymnasium environments: one conversation is one episode.

Invariant: ``terminated`` and ``truncated`` are the hub's own; a failure of the hub raises and never becomes a reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from envhub.core.errors import InvalidRequestError
from envhub.core.protocols import Environment
from envhub.core.types import JSON
from envhub.gym.records import Action, Record
from envhub.gym.seats import Seats, Source
from envhub.gym.spaces import action_space, observation_space

RENDER = {"render_modes": ["ansi"], "render_fps": 1}


class HubEnv(gymnasium.Env[Record, Action]):
    """Play the tasks of one split.

    An action is what an assistant says, an observation the whole conversation so far (see ``envhub.gym.spaces``); ``step``
    also takes a ``Message``. ``reset(options={"task": i})`` chooses the task, otherwise ``np_random`` draws it. Without
    ``url`` the hub runs in this process. Raises EpisodeError when an episode broke: reset and play on.
    """

    metadata: dict[str, Any] = RENDER

    def __init__(
        self,
        environment: str | Environment,
        split: str = "train",
        *,
        url: str | None = None,
        key: str | None = None,
        options: Mapping[str, JSON] | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        checked_render_mode(render_mode)
        self.render_mode = render_mode
        self.action_space = action_space()
        self.observation_space = observation_space()
        self._seats = Seats(Source(environment, split, url, key), with_max_turns(options, max_turns), 1)
        self._player = self._seats.players[0]

    @property
    def session_id(self) -> str | None:
        """The live session, for logs and for looking it up at the hub."""
        session = self._player.session
        return session.id if session else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Record, Record]:
        super().reset(seed=seed)
        task = task_of(options)
        return self._seats.run(self._player.reset(self.np_random, task))

    def step(self, action: Action) -> tuple[Record, float, bool, bool, Record]:
        return self._seats.run(self._player.step(action))

    def render(self) -> str | None:
        """The conversation so far, in mode ``ansi``."""
        return self._player.transcript() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Give the session back. Idempotent."""
        self._seats.close()


def checked_render_mode(mode: str | None) -> None:
    if mode not in (None, *RENDER["render_modes"]):  # type: ignore[misc]
        raise ValueError(f"render_mode must be None or 'ansi', not {mode!r}")


def with_max_turns(options: Mapping[str, JSON] | None, max_turns: int | None) -> Mapping[str, JSON]:
    return dict(options or {}) if max_turns is None else {**(options or {}), "max_turns": max_turns}


def task_of(options: Mapping[str, Any] | None) -> int | None:
    """The task asked for at a reset. Raises InvalidRequestError for an option that does not exist."""
    unknown = set(options or {}) - {"task"}
    if unknown:
        raise InvalidRequestError(f"unknown reset options {sorted(unknown)}; valid: task")
    task = (options or {}).get("task")
    return None if task is None else int(task)

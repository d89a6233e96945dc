"""One seat at the hub: plays one episode after another, each in a session of its own.

Invariant: a seat holds at most one live session; a failure of the hub raises and leaves the seat in need of a reset, never
with a reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np
from gymnasium.error import ResetNeeded

from envhub.client.hub import Hub, HubSession
from envhub.core.errors import TaskNotFoundError, TaskUnusableError
from envhub.core.types import JSON, Message
from envhub.gym.records import Action, Record, message_of, observation_of, tools_json, transcript

_MAX_DRAWS = 100
_MAX_SEED = 2**63 - 1

Reset: TypeAlias = tuple[Record, Record]
"""Observation and info."""

Step: TypeAlias = tuple[Record, float, bool, bool, Record]
"""Observation, reward, terminated, truncated and info."""


@dataclass(frozen=True, slots=True)
class Game:
    """What a seat plays. ``n_tasks`` is the size of the split."""

    environment: str
    split: str
    n_tasks: int
    options: Mapping[str, JSON] = field(default_factory=dict)
    lease_s: float = 300.0


class Player:
    """See the module. Every method runs on the loop of ``hub``; whoever makes a player closes it."""

    def __init__(self, hub: Hub, game: Game) -> None:
        self._hub = hub
        self._game = game
        self._session: HubSession | None = None
        self._messages: tuple[Message, ...] = ()
        self._tools = ""
        self._ready = False

    @property
    def session(self) -> HubSession | None:
        """The live session, if there is one."""
        return self._session if self._session is not None and not self._session.done else None

    def observation(self) -> Record:
        """The conversation so far; empty before the first reset."""
        return observation_of(self._messages, self._tools)

    def transcript(self) -> str:
        return transcript(self._messages)

    async def reset(self, rng: np.random.Generator, task: int | None = None) -> Reset:
        """Cancel what is still live and start an episode; the task, unless given, and the seed are drawn from ``rng``.

        A drawn task that cannot be played is passed over.
        """
        await self.close()
        for _ in range(_MAX_DRAWS):
            drawn, seed = int(rng.integers(self._game.n_tasks)), int(rng.integers(_MAX_SEED))
            try:
                return await self._start(drawn if task is None else task, seed)
            except TaskUnusableError:
                if task is not None:
                    raise
        raise TaskNotFoundError(f"{_MAX_DRAWS} tasks drawn from {self._game.split!r} cannot be played")

    def check(self, action: Action) -> None:
        """Raises ResetNeeded or InvalidAction when ``step`` would."""
        self._checked(action)

    async def step(self, action: Action) -> Step:
        """Say something. Raises ResetNeeded, InvalidAction and whatever the hub raises; after the latter, reset."""
        session, message = self._checked(action)
        self._ready = False
        result = await session.interact(message)
        self._messages += (message, *result.messages)
        info = {**self._info(session), "turn": session.turn, "stop_reason": None, "metrics": dict(result.info)}
        if result.done:
            info["stop_reason"] = str(result.stop_reason)
        self._ready = not result.done
        return self.observation(), result.reward, result.terminated, result.truncated, info

    async def close(self) -> None:
        """Cancel the live session, if any. Idempotent."""
        session, self._session, self._ready = self._session, None, False
        if session is not None:
            await session.cancel()

    def _checked(self, action: Action) -> tuple[HubSession, Message]:
        if self._session is None or not self._ready:
            raise ResetNeeded("call reset: there is no episode under way")
        return self._session, message_of(action, self._session.turn)

    async def _start(self, task: int, seed: int) -> Reset:
        game = self._game
        session = self._hub.session(
            game.environment, game.split, task, seed=seed, lease_s=game.lease_s, options=game.options
        )
        observation = await session.start()
        self._session, self._ready = session, True
        self._messages = observation.messages
        tools = tools_json(observation.tools)
        self._tools = msgspec.json.encode(tools).decode()
        info = {
            **self._info(session),
            "session_id": session.id,
            "seed": session.seed,
            "max_turns": session.max_turns,
            "tools": tools,
            "metrics": dict(observation.info),
        }
        return self.observation(), info

    @staticmethod
    def _info(session: HubSession) -> Record:
        return {"task": session.task.index, "identity": session.identity.digest}

# mypy: disable-error-code="import-not-found,misc"
"""The counter as an OpenEnv environment with its server: ``openenv_counter.py PORT [coroutine]``.

OpenEnv calls a plain ``step`` in a thread of the session, and a ``step_async`` on its event loop.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class AddAction(Action):
    a: float
    b: float


class TextObservation(Observation):
    text: str


class CounterEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> TextObservation:
        self._state = State(episode_id=episode_id, step_count=0)
        return TextObservation(text="Add numbers.", reward=0.0)

    def step(self, action: AddAction, timeout_s: float | None = None, **kwargs: Any) -> TextObservation:
        self._state.step_count += 1
        return TextObservation(text=f"{action.a + action.b:g}", reward=0.0)

    @property
    def state(self) -> State:
        return self._state


class CoroutineCounterEnvironment(CounterEnvironment):
    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> TextObservation:
        return self.reset(seed, episode_id)

    async def step_async(self, action: AddAction, timeout_s: float | None = None, **kwargs: Any) -> TextObservation:
        return self.step(action)


if __name__ == "__main__":
    environment = CoroutineCounterEnvironment if "coroutine" in sys.argv[2:] else CounterEnvironment
    app = create_app(environment, AddAction, TextObservation, env_name="counter", max_concurrent_envs=256)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]))

# mypy: disable-error-code="import-not-found,misc"
"""Plays the counter over OpenEnv's own websocket client, one client for each session: ``openenv_client.py URL``."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import State
from openenv_counter import AddAction, TextObservation
from rounds import MakeSession, serve


class CounterEnv(EnvClient[AddAction, TextObservation, State]):
    def _step_payload(self, action: AddAction) -> dict[str, Any]:
        return {"a": action.a, "b": action.b}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextObservation]:
        observation = TextObservation(text=payload["observation"]["text"], reward=payload["reward"])
        return StepResult(observation=observation, reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class EnvSession:
    def __init__(self, url: str) -> None:
        self._env = CounterEnv(base_url=url, connect_timeout_s=60)

    async def start(self) -> None:
        await self._env.connect()
        await self._env.reset()

    async def add(self, a: int, b: int) -> str:
        result = await self._env.step(AddAction(a=a, b=b))
        return str(result.observation.text)

    async def end(self) -> None:
        await self._env.close()


@asynccontextmanager
async def connect() -> AsyncIterator[MakeSession]:
    yield lambda: EnvSession(sys.argv[1])


if __name__ == "__main__":
    serve(connect)

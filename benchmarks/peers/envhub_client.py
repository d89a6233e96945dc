"""Plays the calculator on an envhub controller: ``envhub_client.py URL``."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from rounds import MakeSession, serve

from envhub.client import Hub
from envhub.core.types import Message, ToolCall


class CalculatorSession:
    def __init__(self, hub: Hub, index: int) -> None:
        self._session = hub.session("calculator", "train", index)

    async def start(self) -> None:
        await self._session.start()

    async def add(self, a: int, b: int) -> str:
        result = await self._session.interact(Message.assistant(None, ToolCall("1", "add", f'{{"a": {a}, "b": {b}}}')))
        return result.messages[0].content or ""

    async def end(self) -> None:
        await self._session.cancel()


@asynccontextmanager
async def connect() -> AsyncIterator[MakeSession]:
    numbers = count()
    async with Hub(sys.argv[1]) as hub:
        yield lambda: CalculatorSession(hub, next(numbers) % 1000)


if __name__ == "__main__":
    serve(connect)

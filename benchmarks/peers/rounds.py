"""The client side of one subject: plays a round of sessions for each line of input, and answers with what it timed.

Standard library only (uvloop where installed): it runs in the environment of whichever subject it is the client of.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Session(Protocol):
    """One episode at a server; adding is its only step."""

    async def start(self) -> None: ...

    async def add(self, a: int, b: int) -> str:
        """The sum as the environment's text."""
        ...

    async def end(self) -> None: ...


MakeSession = Callable[[], Session]


async def play(session: Session, n_steps: int, starts: list[float], steps: list[float]) -> None:
    began = time.perf_counter()
    await session.start()
    starts.append(time.perf_counter() - began)
    for _ in range(n_steps):
        began = time.perf_counter()
        total = await session.add(1, 2)
        steps.append(time.perf_counter() - began)
        if total != "3":
            raise ValueError(f"1 + 2 = {total!r}")
    await session.end()


async def play_round(make: MakeSession, concurrency: int, sessions: int, n_steps: int) -> dict[str, Any]:
    starts: list[float] = []
    steps: list[float] = []
    lost: list[str] = []
    left = iter(range(sessions))

    async def player() -> None:
        for _ in left:
            try:
                await play(make(), n_steps, starts, steps)
            except Exception as error:
                lost.append(repr(error))

    began = time.perf_counter()
    await asyncio.gather(*(player() for _ in range(concurrency)))
    return {"wall_s": time.perf_counter() - began, "starts": starts, "steps": steps, "lost": lost}


async def _serve(connect: Callable[[], AbstractAsyncContextManager[MakeSession]]) -> None:
    async with connect() as make:
        print(json.dumps("ready"), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await play_round(make, **json.loads(line))), flush=True)


def serve(connect: Callable[[], AbstractAsyncContextManager[MakeSession]]) -> None:
    """Play a round for each line of JSON on standard input, until it ends."""
    _run(_serve(connect))


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)

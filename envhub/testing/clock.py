"""A clock that tests move by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class FakeClock:
    """Time stands still until ``advance``; sleepers wake in order of their deadlines."""

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return 1_700_000_000.0 + self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking sleepers on the way and letting them run."""
        until = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            deadline, _, woken = heapq.heappop(self._sleepers)
            self._now = max(self._now, deadline)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self._now = until
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(rounds):
        await asyncio.sleep(0)

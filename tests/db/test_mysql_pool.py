"""The pool of ready databases: every item goes to one taker, whoever gives up, fails or closes."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from envhub.core.errors import ShuttingDownError
from envhub.envs.db.mysql.pool import ReadyPool

pytestmark = pytest.mark.timeout(10)


class Factory:
    """Makes 1, 2, 3, ... when told to."""

    def __init__(self) -> None:
        self.allowed = asyncio.Semaphore(0)
        self.n_making = 0
        self.n_making_max = 0
        self.failures: list[Exception] = []
        self._numbers = count(1)

    async def __call__(self) -> int:
        self.n_making += 1
        self.n_making_max = max(self.n_making_max, self.n_making)
        try:
            await self.allowed.acquire()
        finally:
            self.n_making -= 1
        if self.failures:
            raise self.failures.pop()
        return next(self._numbers)

    def allow(self, n: int) -> None:
        for _ in range(n):
            self.allowed.release()


async def breathe() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_every_item_is_taken_once_and_making_is_bounded() -> None:
    factory = Factory()
    pool = ReadyPool(factory, minimum=2, maximum=5, parallel=3)
    factory.allow(1000)
    taken = await asyncio.gather(*(pool.take() for _ in range(50)))
    left = await pool.close()
    assert len({*taken, *left}) == 50 + len(left)
    assert factory.n_making_max <= 3
    assert len(left) <= 5 + 3


async def test_a_taker_who_gives_up_leaves_the_item_to_the_next() -> None:
    factory = Factory()
    pool = ReadyPool(factory, minimum=0, maximum=0)
    first = asyncio.create_task(pool.take())
    await breathe()
    first.cancel()
    await asyncio.wait((first,))
    factory.allow(1)
    await breathe()
    assert pool.n_ready == 1
    assert await pool.take() == 1


@pytest.mark.parametrize("n_steps", range(8))
async def test_a_taker_cancelled_around_the_delivery_loses_nothing(n_steps: int) -> None:
    factory = Factory()
    pool = ReadyPool(factory, minimum=0, maximum=0)
    taker = asyncio.create_task(pool.take())
    await breathe()
    factory.allow(1)
    for _ in range(n_steps):
        await asyncio.sleep(0)
    taker.cancel()
    await asyncio.wait((taker,))
    left = await pool.close()
    assert left == ([1] if taker.cancelled() else [])


async def test_a_failure_reaches_one_taker_and_the_pool_goes_on() -> None:
    factory = Factory()
    factory.failures.append(OSError("no server"))
    pool = ReadyPool(factory, minimum=0, maximum=0)
    factory.allow(10)
    results = await asyncio.gather(pool.take(), pool.take(), pool.take(), return_exceptions=True)
    assert sorted(str(result) for result in results) == ["1", "2", "no server"]


async def test_a_failure_with_nobody_waiting_is_not_repeated_at_once() -> None:
    factory = Factory()
    factory.failures.extend([OSError("no server")] * 100)
    pool = ReadyPool(factory, minimum=1, maximum=1)
    factory.allow(100)
    pool.fill()
    await breathe()
    assert len(factory.failures) == 99
    assert await pool.close() == []


async def test_it_keeps_more_ready_after_a_rush_and_forgets_it_again() -> None:
    factory = Factory()
    factory.allow(1000)
    pool = ReadyPool(factory, minimum=1, maximum=8)
    await asyncio.gather(*(pool.take() for _ in range(5)))
    await breathe()
    assert pool.n_ready == 8
    for _ in range(20):
        pool.shrink()
    for _ in range(8):
        await pool.take()
    await breathe()
    assert pool.n_ready == 1


async def test_closing_turns_takers_away_and_returns_what_was_being_made() -> None:
    factory = Factory()
    pool = ReadyPool(factory, minimum=0, maximum=0)
    taker = asyncio.create_task(pool.take())
    await breathe()
    closing = asyncio.create_task(pool.close())
    await breathe()
    factory.allow(1)
    assert await closing == [1]
    with pytest.raises(ShuttingDownError):
        await taker
    with pytest.raises(ShuttingDownError):
        await pool.take()

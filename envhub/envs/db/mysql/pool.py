"""A pool of things that are slow to make and used once.

Invariant: everything made is handed out exactly once or disposed of; a caller who gives up leaves what it waited for to
the next one; at most ``parallel`` are being made at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from envhub.core.errors import ShuttingDownError

T = TypeVar("T")
log = logging.getLogger(__name__)


class ReadyPool(Generic[T]):
    """Keeps between ``minimum`` and ``maximum`` items ready; the more often it runs dry, the more it keeps."""

    def __init__(self, make: Callable[[], Awaitable[T]], *, minimum: int, maximum: int, parallel: int = 4) -> None:
        self._make = make
        self._minimum = minimum
        self._maximum = max(minimum, maximum)
        self._parallel = parallel
        self._target = minimum
        self._ready: deque[T] = deque()
        self._waiters: deque[asyncio.Future[T]] = deque()
        self._makers: set[asyncio.Task[bool]] = set()
        self._closed = False

    @property
    def n_ready(self) -> int:
        return len(self._ready)

    async def take(self) -> T:
        """A ready item, or the next one made. Raises what making it raised."""
        if self._closed:
            raise ShuttingDownError("the database driver is closing")
        if self._ready:
            item = self._ready.popleft()
            self.fill()
            return item
        self._target = min(self._maximum, max(self._target, 1) * 2)
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.fill()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())
            raise

    def fill(self) -> None:
        """Start making what is missing."""
        self._waiters = deque(waiter for waiter in self._waiters if not waiter.done())
        wanted = self._target + len(self._waiters) - len(self._ready) - len(self._makers)
        for _ in range(min(wanted, self._parallel - len(self._makers)) if not self._closed else 0):
            maker = asyncio.create_task(self._make_one())
            self._makers.add(maker)
            maker.add_done_callback(self._made)

    def shrink(self) -> None:
        """Called now and then: forget a past rush step by step."""
        self._target = max(self._minimum, self._target - 1)

    async def close(self) -> list[T]:
        """Turn everybody away and let what is being made finish; returns what nobody took."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(ShuttingDownError("the database driver is closing"))
        while self._makers:
            await asyncio.wait(set(self._makers))
        left = list(self._ready)
        self._ready.clear()
        return left

    async def _make_one(self) -> bool:
        try:
            self._offer(await self._make())
        except Exception as error:  # boundary: the waiter gets it; the pool itself must live on
            self._fail_one(error)
            return False
        return True

    def _made(self, maker: asyncio.Task[bool]) -> None:
        """Go on while it works or somebody waits; after a failure with nobody waiting the next ``fill`` tries again."""
        self._makers.discard(maker)
        if not maker.cancelled() and (maker.result() or self._waiters):
            self.fill()

    def _offer(self, item: T) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(item)
                return
        self._ready.append(item)

    def _fail_one(self, error: Exception) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                return
        log.warning("could not make a database ready: %s", error)

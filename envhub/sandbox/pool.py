"""Warm pool: sandboxes that are started before they are asked for.

Invariant: every sandbox the pool starts is handed out once, to one caller who then owns it, or is closed by the pool; starts and
closes run in tasks of the pool, so that a caller who goes away leaves nothing behind. At most ``max_starts`` start at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError, EpisodeError, RequestError, ShuttingDownError, UnavailableError
from envhub.core.sandbox import CommandStatus, Sandbox, SandboxDriver, SandboxSpec

log = logging.getLogger(__name__)

HEALTH_TIMEOUT_S = 2.0
CHECK_S = 10.0
"""How often the pool looks whether what waits still works; nobody who asks for a sandbox waits for that."""
REFILL_AFTER_S = 0.02
"""What was taken is replaced a moment later: the first command of who took it goes first."""
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0


@runtime_checkable
class Watched(Protocol):
    """A sandbox of which it costs nothing to tell whether it is still there."""

    @property
    def alive(self) -> bool: ...


class WarmPool:
    """Keeps up to ``size`` sandboxes ready of every spec that was asked for within the last ``ttl_s``."""

    def __init__(
        self, driver: SandboxDriver, *, clock: Clock, size: int = 4, max_starts: int | None = None, ttl_s: float = 600.0
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._size = size
        self._max_starts = max_starts or os.cpu_count() or 1
        self._ttl_s = ttl_s
        self._shelves: dict[Hashable, _Shelf] = {}
        self._starts: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.Task[None]] = set()
        self._closes: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    def warm(self, spec: SandboxSpec) -> None:
        """Start filling for a spec that nobody has asked for yet."""
        if self._closing is None:
            self._shelf(spec)
            self._pump()

    async def acquire(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox nobody has used, which worked when last looked at; the caller closes it.

        Raises UnavailableError (starts fail: try again after ``retry_after_s``), ShuttingDownError, and what the caller did
        wrong as the driver says it.
        """
        shelf = self._shelf(spec)
        if self._closing is not None:
            raise ShuttingDownError("the sandbox pool is closed")
        while shelf.ready:
            sandbox = shelf.ready.popleft().sandbox
            self._own(self._timers, self._pause(REFILL_AFTER_S))
            if not isinstance(sandbox, Watched) or sandbox.alive:
                return sandbox
            log.warning("a warm sandbox has ended")
            self._discard(sandbox)
        return await self._started(shelf)

    def n_ready(self, spec: SandboxSpec) -> int:
        shelf = self._shelves.get(_key(spec))
        return len(shelf.ready) if shelf else 0

    async def close(self) -> None:
        """Close what nobody has taken. Idempotent; goes on when the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for task in self._starts | self._timers:
            task.cancel()
        for shelf in self._shelves.values():
            for waiter in shelf.waiters:
                if not waiter.done():
                    waiter.set_exception(ShuttingDownError("the sandbox pool is closed"))
            for ready in shelf.ready:
                self._discard(ready.sandbox)
            shelf.ready.clear()
        while pending := self._starts | self._timers | self._closes:
            await asyncio.gather(*pending, return_exceptions=True)

    async def _started(self, shelf: _Shelf) -> Sandbox:
        wait_s = shelf.retry_at - self._clock.now()
        if wait_s > 0:
            raise UnavailableError(f"sandboxes do not start: {shelf.last_error}", retry_after_s=wait_s)
        waiter: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        shelf.waiters.append(waiter)
        self._pump()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._put(shelf, waiter.result())
            raise
        finally:
            if waiter in shelf.waiters:
                shelf.waiters.remove(waiter)

    def _shelf(self, spec: SandboxSpec) -> _Shelf:
        shelf = self._shelves.setdefault(_key(spec), _Shelf(spec))
        shelf.used_at = self._clock.now()
        return shelf

    def _pump(self) -> None:
        """Begin as many starts as are wanted and allowed, those with a caller waiting first."""
        if self._closing is not None:
            return
        for keep in (0, self._size):
            for shelf in self._shelves.values():
                while len(self._starts) < self._max_starts and self._wants(shelf, keep):
                    shelf.n_starting += 1
                    self._own(self._starts, self._start(shelf))

    def _wants(self, shelf: _Shelf, keep: int) -> bool:
        if self._clock.now() < shelf.retry_at:
            return False
        return shelf.n_starting + len(shelf.ready) < keep + len(shelf.waiters)

    async def _start(self, shelf: _Shelf) -> None:
        try:
            sandbox = await self._driver.start(shelf.spec)
        except Exception as error:  # boundary: any failure of a driver is told to whoever waits, and backs off
            self._failed(shelf, error)
        else:
            shelf.n_failures = 0
            self._put(shelf, sandbox)
        finally:
            shelf.n_starting -= 1

    def _put(self, shelf: _Shelf, sandbox: Sandbox, *, since: float | None = None) -> None:
        """Hand a sandbox that nobody has used to the first who waits, or keep it ready."""
        while shelf.waiters and self._closing is None:
            waiter = shelf.waiters.popleft()
            if not waiter.done():
                waiter.set_result(sandbox)
                return
        forgotten = self._shelves.get(_key(shelf.spec)) is not shelf
        if forgotten or self._closing is not None or len(shelf.ready) >= self._size:
            self._discard(sandbox)
            return
        shelf.ready.append(_Ready(sandbox, self._clock.now() if since is None else since))
        if not shelf.tended:
            shelf.tended = True
            self._own(self._timers, self._tend(shelf))

    def _failed(self, shelf: _Shelf, error: Exception) -> None:
        shelf.n_failures += 1
        shelf.last_error = error
        delay_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (shelf.n_failures - 1))
        shelf.retry_at = self._clock.now() + delay_s
        log.warning(
            "a sandbox did not start", extra={"image": shelf.spec.image, "retry_s": delay_s, "reason": repr(error)}
        )
        waiters, shelf.waiters = shelf.waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(_told(error, delay_s))
        self._own(self._timers, self._pause(delay_s))

    async def _pause(self, delay_s: float) -> None:
        """Once it is over, starts begin again."""
        await self._clock.sleep(delay_s)

    async def _tend(self, shelf: _Shelf) -> None:
        """Close what has waited for too long or does not work; it is replaced while the spec is still asked for."""
        try:
            while shelf.ready:
                await self._clock.sleep(min(CHECK_S, self._ttl_s))
                limit = self._clock.now() - self._ttl_s
                if shelf.used_at <= limit and not shelf.waiters and shelf.n_starting == 0:
                    self._shelves.pop(_key(shelf.spec), None)
                    limit = self._clock.now()
                for _ in range(len(shelf.ready)):
                    if shelf.ready:
                        await self._look_at(shelf, shelf.ready.popleft(), limit)
                self._pump()
        finally:
            shelf.tended = False

    async def _look_at(self, shelf: _Shelf, ready: _Ready, limit: float) -> None:
        """While it is looked at, it counts as one on its way."""
        if ready.since <= limit:
            self._discard(ready.sandbox)
            return
        shelf.n_starting += 1
        try:
            healthy = await self._is_healthy(ready.sandbox)
        finally:
            shelf.n_starting -= 1
        if healthy:
            self._put(shelf, ready.sandbox, since=ready.since)

    async def _is_healthy(self, sandbox: Sandbox) -> bool:
        try:
            result = await sandbox.run(":", timeout_s=HEALTH_TIMEOUT_S, max_bytes=1024)
        except EpisodeError as error:
            log.warning("a warm sandbox was not usable", extra={"reason": str(error)})
            self._discard(sandbox)
            return False
        except BaseException:
            self._discard(sandbox)
            raise
        healthy = result.status is CommandStatus.OK and result.exit_code == 0 and self._closing is None
        if not healthy:
            self._discard(sandbox)
        return healthy

    def _discard(self, sandbox: Sandbox) -> None:
        self._own(self._closes, _closed(sandbox))

    def _own(self, tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(lambda done: self._finished(tasks, done))

    def _finished(self, tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the sandbox pool failed", exc_info=error)
        self._pump()


@dataclass(slots=True)
class _Ready:
    sandbox: Sandbox
    since: float


@dataclass(slots=True, eq=False)
class _Shelf:
    """What is ready, on its way, and waited for of one spec."""

    spec: SandboxSpec
    ready: deque[_Ready] = field(default_factory=deque)
    waiters: deque[asyncio.Future[Sandbox]] = field(default_factory=deque)
    n_starting: int = 0
    n_failures: int = 0
    last_error: Exception | None = None
    retry_at: float = 0.0
    used_at: float = 0.0
    tended: bool = False


def _key(spec: SandboxSpec) -> Hashable:
    return spec.image, spec.limits, spec.cwd, tuple(sorted(spec.environment.items()))


def _told(error: Exception, delay_s: float) -> EnvhubError:
    """What a caller is told of a start that failed."""
    if isinstance(error, (RequestError, UnavailableError)):
        return type(error)(error.message, **error.details)
    told = UnavailableError(f"a sandbox did not start: {error}", retry_after_s=delay_s)
    told.__cause__ = error
    return told


async def _closed(sandbox: Sandbox) -> None:
    try:
        await sandbox.close()
    except Exception:  # boundary: the driver's own close and sweep are left to find it
        log.warning("a sandbox of the pool did not close", exc_info=True)

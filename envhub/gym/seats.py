"""Seats at a hub for code that blocks: players on a shared loop, kept alive while nobody steps them.

Invariant: every environment object of a process that plays at the same hub shares one connection to it; closing, forgetting
or leaving the process gives the sessions back, and the last to go closes the hub.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from envhub.client.hub import Hub
from envhub.client.sync import LoopThread
from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EnvhubError, TaskNotFoundError
from envhub.core.protocols import Environment
from envhub.core.types import JSON
from envhub.gym.embedded import hub_of
from envhub.gym.player import Game, Player

T = TypeVar("T")

_LEASE_S = 300.0
_RENEW_EVERY_S = _LEASE_S / 4
_LEAVE_LIMIT_S = 15.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where tasks come from: a split of an environment at ``url``, or in this process when that is None."""

    environment: str | Environment
    split: str
    url: str | None = None
    key: str | None = None

    @property
    def name(self) -> str:
        return self.environment if isinstance(self.environment, str) else self.environment.info().name


class Seats:
    """``n`` players of one split. Raises TaskNotFoundError for a split that does not exist or is empty."""

    def __init__(self, source: Source, options: Mapping[str, JSON], n: int, clock: Clock = SystemClock()) -> None:  # noqa: B008
        self._shared = _acquire(source)
        try:
            info = self._shared.loop.run(self._shared.hub.info(source.name))
            n_tasks = info.splits.get(source.split, 0)
            if not n_tasks:
                valid = ", ".join(split for split, size in info.splits.items() if size)
                raise TaskNotFoundError(f"{source.name} has no tasks in split {source.split!r}; valid: {valid}")
        except BaseException:
            _release(self._shared)
            raise
        game = Game(source.name, source.split, n_tasks, options, _LEASE_S)
        self.players = tuple(Player(self._shared.hub, game) for _ in range(n))
        keeping = self._shared.loop.run(_started(_keep_alive(self.players, clock)))
        self._forgotten = weakref.finalize(self, _leave_elsewhere, self._shared, self.players, keeping)
        self._forgotten.atexit = False
        _all.add(self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the players' loop and wait for it."""
        if not self._forgotten.alive:
            work.close()
            raise RuntimeError("the environment is closed")
        return self._shared.loop.run(work)

    def close(self) -> None:
        """Give every session back. Idempotent."""
        if (owned := self._forgotten.detach()) is not None:
            _leave(*owned[2])


# --- the shared hub -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _SharedHub:
    address: tuple[object, ...]
    loop: LoopThread
    hub: Hub
    stack: AsyncExitStack
    users: int = 0


_lock = threading.Lock()
_hubs: dict[tuple[object, ...], _SharedHub] = {}


def _acquire(source: Source) -> _SharedHub:
    """The hub of a source, opened by its first user. A forked child, whose parent's loop did not come along, opens its own."""
    own = source.environment if isinstance(source.environment, str) else id(source.environment)
    address = (os.getpid(), source.url, source.key) if source.url else (os.getpid(), own)
    with _lock:
        shared = _hubs.get(address)
        if shared is None:
            shared = _hubs[address] = _open(address, source)
        shared.users += 1
        return shared


def _open(address: tuple[object, ...], source: Source) -> _SharedHub:
    loop = LoopThread()
    stack = AsyncExitStack()
    try:
        hub = loop.run(_entered(stack, source))
    except BaseException:
        loop.close()
        raise
    return _SharedHub(address, loop, hub, stack)


async def _entered(stack: AsyncExitStack, source: Source) -> Hub:
    if source.url is None:
        return await stack.enter_async_context(hub_of(source.environment))

    return await stack.enter_async_context(Hub(source.url, key=source.key))


def _release(shared: _SharedHub) -> None:
    with _lock:
        shared.users -= 1
        if shared.users:
            return
        del _hubs[shared.address]
    try:
        shared.loop.run(shared.stack.aclose())
    finally:
        shared.loop.close()


# --- the players' life ----------------------------------------------------------------------------------------------


async def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def _keep_alive(players: Sequence[Player], clock: Clock) -> None:
    while True:
        await clock.sleep(_RENEW_EVERY_S)
        for player in players:
            if (session := player.session) is not None:
                try:
                    await session.renew()
                except EnvhubError:
                    continue  # the next step tells what became of it


def _leave(shared: _SharedHub, players: Sequence[Player], keeping: asyncio.Task[None]) -> None:
    if os.getpid() != shared.address[0]:
        return  # a forked child's copy; the sessions are its parent's
    try:
        shared.loop.run(_vacate(players, keeping))
    finally:
        _release(shared)


def _leave_elsewhere(*owned: Any) -> None:
    """For the garbage collector, which may run on any thread and must not wait."""
    threading.Thread(target=_leave, args=owned, daemon=True).start()


async def _vacate(players: Sequence[Player], keeping: asyncio.Task[None]) -> None:
    keeping.cancel()
    with suppress(TimeoutError):  # the leases run out by themselves
        async with asyncio.timeout(_LEAVE_LIMIT_S):
            await asyncio.gather(*(player.close() for player in players))


_all: weakref.WeakSet[Seats] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    for seats in list(_all):
        with suppress(Exception):  # boundary: the process ends; what is left runs out with its lease
            seats.close()

"""The workers of one environment on a cluster: as many as the policy wants, each replaced when it is lost.

Invariants: a worker with live sessions is stopped only with the hub; whatever was placed is stopped when the fleet is closed; a
worker that the cluster has lost is given up by the controller too, so that its sessions are answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from envhub.cluster.place import Cluster, Order, PlacedWorker, WorkerGoneError
from envhub.cluster.scaling import Limits, Load, State, Trend, decide
from envhub.config import ConfigError
from envhub.controller.service import ControllerService
from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError

log = logging.getLogger(__name__)

TICK_S = 0.5
_SAY_AFTER_S = 10.0
_SAY_EVERY_S = 60.0
_LINK_WITHIN_S = 60.0
_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0
_TRIES = 3
_STOP_MARGIN_S = 10.0
_TAKE_LEAVE_S = 5.0


class PlacementError(ConfigError):
    """No worker of an environment could be brought up; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``order``: what every worker of ``environment`` is; its name and worker id are drawn."""

    environment: str
    order: Order
    limits: Limits
    place_within_s: float


@dataclass(eq=False, slots=True)
class _Member:
    id: str
    placed: PlacedWorker
    since: float
    node: str | None = None
    linked: bool = False
    draining: bool = False
    leaving: bool = False
    said_at: float = 0.0


class Fleet:
    """See the module."""

    def __init__(
        self, plan: Plan, *, cluster: Cluster, controller: ControllerService, clock: Clock, new_id: Callable[[], str]
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._controller = controller
        self._clock = clock
        self._new_id = new_id
        self._members: dict[str, _Member] = {}
        self._trend = Trend()
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = clock.now()
        self._proven = False
        self._n_failures = 0
        self._place_from = 0.0
        self._last_end = ""

    async def run(self) -> None:
        """Keep the workers until cancelled. Raises PlacementError when not even the first comes up."""
        while True:
            await self.tick()
            await self._clock.sleep(TICK_S)

    async def close(self) -> None:
        """Stop every worker and wait for that."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        members, self._members = list(self._members.values()), {}
        await asyncio.gather(*(self._end(member) for member in members))

    async def tick(self) -> None:
        """One look at the workers, and what follows from it. Raises PlacementError."""
        now = self._clock.now()
        loads = [self._load(member) for member in self._members.values()]
        waiting = self._controller.workers.n_waiting(self._plan.environment)
        decision, self._trend = decide(self._plan.limits, loads, self._trend, n_waiting=waiting, now=now)
        if now >= self._place_from:
            for _ in range(decision.n_add):
                self._place()
        for worker_id in decision.drain:
            self._drain(self._members[worker_id])
        for worker_id in decision.stop:
            self._stop(self._members[worker_id], "it is not needed")
        await self._look_after(now)

    # --- what there is ----------------------------------------------------------------------------------------------

    def _load(self, member: _Member) -> Load:
        worker = self._controller.workers.get(member.id)
        if member.leaving:
            return Load(member.id, State.LEAVING)
        if worker is None and not member.linked:
            return Load(member.id, State.PLACING)
        if worker is None:
            self._stop(member, "the controller has lost it")
            return Load(member.id, State.LEAVING)
        if not member.linked:
            member.linked = self._proven = True
            self._n_failures = 0
        taken = len(worker.sessions) + worker.reserved
        if member.draining:  # until the worker itself says so, it may still be given sessions
            return Load(member.id, State.DRAINING, taken) if worker.draining else Load(member.id, State.LEAVING, taken)
        return Load(member.id, State.READY if worker.outbox is not None else State.AWAY, taken)

    # --- what is done -----------------------------------------------------------------------------------------------

    def _place(self) -> None:
        worker_id = self._new_id()
        name = f"{self._plan.environment}-{worker_id}"
        order = self._plan.order
        settings = msgspec.structs.replace(order.settings, worker_id=worker_id)
        placed = self._cluster.place(replace(order, name=name, settings=settings))
        member = self._members[worker_id] = _Member(worker_id, placed, self._clock.now())
        self._spawn(self._live(member))

    async def _live(self, member: _Member) -> None:
        try:
            member.node = await member.placed.started()
            log.info("worker %s of %s runs on node %s", member.id, self._plan.environment, member.node)
            reason = await member.placed.ended()
        except WorkerGoneError as error:
            reason = str(error)
        if self._members.get(member.id) is member:
            del self._members[member.id]
        if not member.leaving:
            self._note_end(member, reason)
        await self._clock.sleep(self._plan.order.settings.drain_s + _TAKE_LEAVE_S)
        self._controller.workers.lose(member.id, f"worker {member.id} is gone: {reason}")

    def _note_end(self, member: _Member, reason: str) -> None:
        self._last_end = reason
        where = f" on node {member.node}" if member.node else ""
        log.warning("worker %s of %s%s ended: %s", member.id, self._plan.environment, where, reason)
        delay = min(_FIRST_RETRY_S * 2**self._n_failures, _LAST_RETRY_S)
        self._n_failures += not member.linked
        self._place_from = self._clock.now() + delay

    def _drain(self, member: _Member) -> None:
        member.draining = True
        log.info("worker %s of %s is not needed and drains", member.id, self._plan.environment)
        self._spawn(self._ask_to_drain(member))

    async def _ask_to_drain(self, member: _Member) -> None:
        try:
            await self._controller.drain(member.id)
        except EnvhubError as error:
            log.debug("worker %s was not drained: %s", member.id, error)

    def _stop(self, member: _Member, why: str) -> None:
        member.leaving = True
        log.info("worker %s of %s is stopped: %s", member.id, self._plan.environment, why)
        self._spawn(self._end(member))

    async def _end(self, member: _Member) -> None:
        member.leaving = True
        await member.placed.stop(self._plan.order.settings.drain_s + _STOP_MARGIN_S)
        self._members.pop(member.id, None)

    # --- what is said -----------------------------------------------------------------------------------------------

    async def _look_after(self, now: float) -> None:
        environment = self._plan.environment
        if not self._proven and self._n_failures >= _TRIES:
            raise PlacementError(f"no worker of {environment} came up in {_TRIES} tries: {self._last_end}")
        overdue = not self._proven and now - self._began >= self._plan.place_within_s
        for member in list(self._members.values()):
            if member.linked or member.leaving or (now - member.since < _SAY_AFTER_S and not overdue):
                continue
            if member.node is None:
                await self._say_shortage(
                    member, now, fatal=overdue and all(m.node is None for m in self._members.values())
                )
            elif now - member.since >= _LINK_WITHIN_S:
                self._say(
                    member,
                    now,
                    f"runs on node {member.node} but has not linked to {self._url}: is it reachable from there?",
                )

    async def _say_shortage(self, member: _Member, now: float, *, fatal: bool) -> None:
        if not fatal and now - member.said_at < _SAY_EVERY_S and member.said_at:
            return
        why = await self._cluster.shortage(self._plan.order.resources)
        if fatal:
            raise PlacementError(f"no worker of {self._plan.environment} could be placed on the cluster: {why}")
        self._say(member, now, f"waits for a node: {why}")

    def _say(self, member: _Member, now: float, text: str) -> None:
        if not member.said_at or now - member.said_at >= _SAY_EVERY_S:
            member.said_at = now
            log.warning("worker %s of %s %s", member.id, self._plan.environment, text)

    @property
    def _url(self) -> str:
        return ", ".join(self._plan.order.settings.controllers)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

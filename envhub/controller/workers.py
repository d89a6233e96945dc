"""The workers a controller knows, their slots, and who waits for one.

Invariants: slots promised (live sessions plus reservations) never exceed a worker's capacity; a reservation is given back
exactly once; waiting starts are served in turn, one client after the other, and each at most until its deadline; a call to a
worker is answered, called again after a reconnect, or failed when the worker is given up.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from envhub import wire
from envhub.controller.placement import choose
from envhub.core.clock import Clock
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    NoCapacityError,
    SessionLostError,
    ShuttingDownError,
    WorkerUnreachableError,
)
from envhub.core.types import EnvironmentInfo
from envhub.link.frames import (
    Bye,
    Call,
    Closed,
    Draining,
    Failed,
    Finished,
    Frame,
    Hello,
    Opened,
    Outbox,
    Reply,
    SessionNote,
    Stored,
)

log = logging.getLogger(__name__)

TICK_S = 1.0
_UNWANTED = b'{"reason": "a twin of a session that was started again"}'


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """A worker without a link is given up ``lost_after_s`` after its last sign of life; with heartbeats but no link (its loop is
    busy) after ``stalled_after_s``; linked but silent it gets no new sessions after ``silent_after_s`` and is given up after
    ``stalled_after_s``."""

    heartbeat_s: float = 2.0
    lost_after_s: float = 6.0
    stalled_after_s: float = 120.0
    silent_after_s: float = 30.0
    recovery_s: float = 10.0


@dataclass(slots=True)
class _Pending:
    future: asyncio.Future[Reply]
    call: Call


class Worker:
    """One worker, linked or expected back."""

    def __init__(self, hello: Hello, *, now: float) -> None:
        self.id = hello.worker_id
        self.heard_at = now
        self.unlinked_at: float | None = None
        self.reserved = 0
        self.silent = False
        self.lost = False
        self.outbox: Outbox | None = None
        self.pending: dict[int, _Pending] = {}
        self.sessions: dict[str, SessionNote] = {}
        self.update(hello)

    def update(self, hello: Hello) -> None:
        """Raises msgspec.ValidationError, and then changes nothing."""
        infos = [wire.info_from_json(info) for info in hello.environments]
        self.infos = {info.name: info for info in infos}
        self.hello = hello
        self.capacity = hello.capacity
        self.draining = hello.draining
        self.failures = hello.failures

    @property
    def free(self) -> int:
        return self.capacity - len(self.sessions) - self.reserved

    @property
    def state(self) -> str:
        if self.lost:
            return "lost"
        if self.outbox is None:
            return "unlinked"
        return "draining" if self.draining else ("silent" if self.silent else "ready")

    def serves(self, environment: str) -> bool:
        return self.state == "ready" and environment in self.infos

    def to_json(self, now: float) -> dict[str, object]:
        return {
            "id": self.id,
            "state": self.state,
            "version": self.hello.version,
            "capacity": self.capacity,
            "sessions": len(self.sessions),
            "starting": self.reserved,
            "environments": sorted(self.infos),
            "labels": self.hello.labels,
            "failures": self.failures,
            "heard_s_ago": round(now - self.heard_at, 3),
        }


class _Line:
    """Starts waiting for one environment: one queue per client, clients in turn."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[_Ticket]] = OrderedDict()

    def join(self, client: str, ticket: _Ticket) -> None:
        self._queues.setdefault(client, deque()).append(ticket)

    def next_for(self, worker: Worker) -> _Ticket | None:
        """Take the next ticket that ``worker`` may serve; its client goes to the back."""
        for client, queue in list(self._queues.items()):
            for ticket in queue:
                if worker.id not in ticket.excluded:
                    self._remove(client, ticket)
                    if client in self._queues:
                        self._queues.move_to_end(client)
                    return ticket
        return None

    def leave(self, client: str, ticket: _Ticket) -> None:
        if client in self._queues and ticket in self._queues[client]:
            self._remove(client, ticket)

    @property
    def busy(self) -> bool:
        return bool(self._queues)

    def tickets(self) -> list[_Ticket]:
        return [ticket for queue in self._queues.values() for ticket in queue]

    def _remove(self, client: str, ticket: _Ticket) -> None:
        self._queues[client].remove(ticket)
        if not self._queues[client]:
            del self._queues[client]


@dataclass(eq=False, slots=True)
class _Ticket:
    granted: asyncio.Future[Worker]
    excluded: Collection[str]
    deadline: float


class WorkerTakenError(Exception):
    """Another process is linked under the same worker id."""


class Workers:
    """See the module."""

    def __init__(
        self,
        *,
        clock: Clock,
        settings: LivenessSettings,
        on_finished: Callable[[wire.EpisodeRecord, Callable[[], None]], None],
        on_lost: Callable[[Worker, Sequence[SessionNote], str], None],
        on_sessions: Callable[[Worker, Iterable[SessionNote]], list[str]],
    ) -> None:
        self._clock = clock
        self.settings = settings
        self._on_finished = on_finished
        self._on_lost = on_lost
        self._on_sessions = on_sessions
        self._workers: dict[str, Worker] = {}
        self._lines: dict[str, _Line] = {}
        self._known_names: set[str] = set()
        self._call_ids = itertools.count(secrets.randbits(48))
        self._arrivals = asyncio.Event()
        self._ticked_at = self._started_at = clock.now()
        self._closing = False
        self._on_shut_down: list[Callable[[], None]] = []
        self.instance = secrets.token_hex(8)

    # --- looking around ---------------------------------------------------------------------------------------------

    def all(self) -> list[Worker]:
        return list(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        return self._workers.get(worker_id)

    def environments(self) -> dict[str, EnvironmentInfo]:
        """What can be played, by name; the first worker's word counts."""
        found: dict[str, EnvironmentInfo] = {}
        for worker in self._workers.values():
            for name, info in worker.infos.items():
                found.setdefault(name, info)
        return dict(sorted(found.items()))

    def n_waiting(self, environment: str) -> int:
        return len(self._lines[environment].tickets()) if environment in self._lines else 0

    async def expect(self, worker_id: str) -> Worker | None:
        """The worker, waiting for it while this controller is young enough to be still collecting its workers."""
        until = self._started_at + self.settings.recovery_s
        while (worker := self._workers.get(worker_id)) is None and self._clock.now() < until and not self._closing:
            await self._next_arrival(until - self._clock.now())
        return worker

    # --- slots ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def reserve(
        self, environment: str, *, wait_s: float, client: str, excluded: Collection[str] = ()
    ) -> AsyncIterator[Worker]:
        """Hold one slot of a worker that serves ``environment``; waits in line for one.

        Raises NoCapacityError at the deadline, EnvironmentNotFoundError, ShuttingDownError.
        """
        worker = await self._slot(environment, self._clock.now() + wait_s, client, excluded)
        try:
            yield worker
        finally:
            worker.reserved -= 1
            self._serve_waiting(worker)

    async def _slot(self, environment: str, deadline: float, client: str, excluded: Collection[str]) -> Worker:
        if self._closing:
            raise ShuttingDownError("the controller is shutting down")
        await self._known(environment, deadline)
        line = self._lines.setdefault(environment, _Line())
        if not line.busy:
            ready = (each for each in self._workers.values() if each.serves(environment) and each.id not in excluded)
            worker = choose(ready)
            if worker is not None:
                worker.reserved += 1
                return worker
        if self._clock.now() >= deadline:
            raise self._full(environment, f"every worker of {environment!r} is full")
        ticket = _Ticket(asyncio.get_running_loop().create_future(), excluded, deadline)
        line.join(client, ticket)
        for worker in self._workers.values():
            self._serve_waiting(worker)
        try:
            return await ticket.granted
        except asyncio.CancelledError:
            if ticket.granted.done() and not ticket.granted.cancelled() and ticket.granted.exception() is None:
                granted = ticket.granted.result()
                granted.reserved -= 1
                self._serve_waiting(granted)
            raise
        finally:
            line.leave(client, ticket)

    async def _known(self, environment: str, deadline: float) -> None:
        """Wait for a first worker of ``environment`` only while workers may still be coming up."""
        young_until = min(deadline, self._started_at + self.settings.recovery_s)
        while environment not in self.environments():
            left = young_until - self._clock.now()
            awaited = not self._workers or environment in self._known_names
            if left <= 0 and not awaited:
                valid = ", ".join(self.environments())
                raise EnvironmentNotFoundError(f"no environment is named {environment!r}; valid: {valid}")
            if awaited:
                left = deadline - self._clock.now()
            if self._closing:
                raise ShuttingDownError("the controller is shutting down")
            if left <= 0:
                message = f"no worker that serves {environment!r} is linked now"
                raise NoCapacityError(message, retry_after_s=2.0, n_workers=0)
            await self._next_arrival(left)

    def _full(self, environment: str, message: str) -> NoCapacityError:
        """With ``n_workers``, those that serve it now: with none there is nothing to wait for."""
        n_workers = sum(each.serves(environment) for each in self._workers.values())
        return NoCapacityError(message, retry_after_s=1.0, n_workers=n_workers)

    def _serve_waiting(self, worker: Worker) -> None:
        while worker.state == "ready" and worker.free > 0:
            ticket = self._next_ticket(worker)
            if ticket is None:
                return
            if not ticket.granted.done():
                worker.reserved += 1
                ticket.granted.set_result(worker)

    def _next_ticket(self, worker: Worker) -> _Ticket | None:
        for name in [name for name, line in self._lines.items() if line.busy and name in worker.infos]:
            ticket = self._lines[name].next_for(worker)
            if ticket is not None:
                self._lines[name] = self._lines.pop(name)  # the other environments come first next time
                return ticket
        return None

    # --- calls ------------------------------------------------------------------------------------------------------

    async def call(self, worker: Worker, op: str, session: str, body: bytes) -> Reply:
        """Run ``op`` on a worker.

        Raises SessionLostError, or WorkerUnreachableError for a start, when it is given up; ShuttingDownError.
        """
        if self._closing:
            raise ShuttingDownError("the controller is shutting down")
        if worker.lost:
            raise _gone(op, f"worker {worker.id} is gone, and its sessions with it")
        call = Call(next(self._call_ids), op, session, body)
        pending = _Pending(asyncio.get_running_loop().create_future(), call)
        worker.pending[call.id] = pending
        if worker.outbox is not None:
            worker.outbox.put(call)
        try:
            return await pending.future
        finally:
            worker.pending.pop(call.id, None)

    def end(self, worker: Worker, session_ids: Iterable[str]) -> None:
        """Have a worker end sessions that nobody will ask for; its answers are not awaited."""
        for session_id in session_ids:
            if worker.outbox is not None:
                worker.outbox.put(Call(next(self._call_ids), "cancel", session_id, _UNWANTED))

    # --- links ------------------------------------------------------------------------------------------------------

    def attach(self, hello: Hello, outbox: Outbox) -> tuple[Worker, list[str]]:
        """A worker has linked, for the first time or again. Returns it and the sessions it must end.

        Raises WorkerTakenError, msgspec.ValidationError.
        """
        now = self._clock.now()
        worker = self._workers.get(hello.worker_id)
        if worker is not None and worker.hello.incarnation != hello.incarnation:
            if worker.outbox is not None and not worker.silent:
                raise WorkerTakenError(f"a worker named {worker.id} is linked already; give each its own id")
            self._give_up(worker, f"worker {worker.id} was started again")
            worker = None
        if worker is None:
            worker = self._workers[hello.worker_id] = Worker(hello, now=now)
            log.info("worker %s joined with %d slots", worker.id, worker.capacity)
        else:
            worker.update(hello)
            if worker.outbox is not None:
                worker.outbox.close()
        self._known_names.update(worker.infos)
        worker.outbox, worker.unlinked_at, worker.heard_at, worker.silent = outbox, None, now, False
        gone = set(worker.sessions) - {note.session_id for note in hello.sessions}
        worker.sessions = {note.session_id: note for note in hello.sessions}
        if gone:
            log.info("worker %s ended %d sessions while it was not linked", worker.id, len(gone))
        cancel = self._on_sessions(worker, hello.sessions)
        for session_id in cancel:
            worker.sessions.pop(session_id, None)
        return worker, cancel

    def attached(self, worker: Worker) -> None:
        """The welcome is queued: repeat what was not answered, and open the doors."""
        if worker.outbox is None:
            return
        for pending in worker.pending.values():
            worker.outbox.put(pending.call)
        self._announce_arrival()
        self._serve_waiting(worker)

    def receive(self, worker: Worker, frames: Sequence[Frame]) -> None:
        worker.heard_at = self._clock.now()
        for frame in frames:
            if isinstance(frame, Reply):
                pending = worker.pending.get(frame.id)
                if pending is not None and not pending.future.done():
                    pending.future.set_result(frame)
            elif isinstance(frame, Opened):
                worker.sessions[frame.note.session_id] = frame.note
                self.end(worker, self._on_sessions(worker, [frame.note]))
            elif isinstance(frame, Closed):
                worker.sessions.pop(frame.session_id, None)
                self._serve_waiting(worker)
            elif isinstance(frame, Finished):
                session_id = frame.record.session_id
                self._on_finished(frame.record, lambda kept=session_id: self._stored(worker, kept))  # type: ignore[misc]
            elif isinstance(frame, Draining):
                worker.draining = frame.draining
                self._serve_waiting(worker)
            elif isinstance(frame, Failed):
                worker.failures = frame.failures
            elif isinstance(frame, Bye):
                self._give_up(worker, f"worker {worker.id} shut down: {frame.reason}")

    def detach(self, worker: Worker, outbox: Outbox) -> None:
        """That connection is gone; a newer one of the same worker is not touched."""
        if worker.outbox is outbox:
            worker.outbox, worker.unlinked_at = None, self._clock.now()
            log.info("worker %s lost its link", worker.id)

    def heartbeat(self, worker_id: str) -> bool:
        """Note a sign of life; False when there is no link to that worker."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return False
        worker.heard_at = self._clock.now()
        self._hush(worker, silent=False)
        return worker.outbox is not None

    def _hush(self, worker: Worker, *, silent: bool) -> None:
        worker.silent, before = silent, worker.silent
        if before and not silent:
            self._serve_waiting(worker)

    def _stored(self, worker: Worker, session_id: str) -> None:
        if worker.outbox is not None:
            worker.outbox.put(Stored(session_id))

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Judge the workers and the waiting. Called every TICK_S; a pass after a stall of our own judges nobody."""
        now = self._clock.now()
        stalled = now - self._ticked_at > TICK_S + 2 * self.settings.heartbeat_s
        self._ticked_at = now
        for environment, line in self._lines.items():
            for ticket in line.tickets():
                if now >= ticket.deadline and not ticket.granted.done():
                    ticket.granted.set_exception(self._full(environment, "no slot became free in time"))
        if stalled:
            for worker in self._workers.values():
                worker.heard_at = now
                worker.unlinked_at = now if worker.unlinked_at is not None else None
            return
        for worker in list(self._workers.values()):
            self._hush(worker, silent=now - worker.heard_at > self.settings.silent_after_s)
            if worker.unlinked_at is None:
                silent_s = now - worker.heard_at
                if silent_s > self.settings.stalled_after_s:
                    self._give_up(worker, f"worker {worker.id} has been silent for {silent_s:.0f} s")
                continue
            quiet_s, unlinked_s = now - max(worker.heard_at, worker.unlinked_at), now - worker.unlinked_at
            if quiet_s > self.settings.lost_after_s or unlinked_s > self.settings.stalled_after_s:
                self._give_up(worker, f"worker {worker.id} has been gone for {unlinked_s:.0f} s")

    def lose(self, worker_id: str, reason: str) -> None:
        """Give up a worker of which whoever started it knows that it is gone; harmless when it has left already."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            self._give_up(worker, reason)

    def on_shut_down(self, call: Callable[[], None]) -> None:
        """Have ``call`` answer those who wait elsewhere."""
        self._on_shut_down.append(call)

    def shut_down(self) -> None:
        """Answer everyone who waits."""
        self._closing = True
        for call in self._on_shut_down:
            call()
        error = ShuttingDownError("the controller is shutting down")
        for line in self._lines.values():
            for ticket in line.tickets():
                if not ticket.granted.done():
                    ticket.granted.set_exception(error)
        for worker in self._workers.values():
            for pending in worker.pending.values():
                if not pending.future.done():
                    pending.future.set_exception(error)
        self._announce_arrival()

    def _give_up(self, worker: Worker, reason: str) -> None:
        worker.lost = True
        self._workers.pop(worker.id, None)
        notes = list(worker.sessions.values())
        worker.sessions = {}
        (log.warning if notes else log.info)("%s; %d sessions lost", reason, len(notes))
        for pending in worker.pending.values():
            if not pending.future.done():
                pending.future.set_exception(_gone(pending.call.op, reason))
        if worker.outbox is not None:
            worker.outbox.close()
        self._on_lost(worker, notes, reason)

    def _announce_arrival(self) -> None:
        self._arrivals.set()
        self._arrivals = asyncio.Event()

    async def _next_arrival(self, limit_s: float) -> None:
        arrival = asyncio.ensure_future(self._arrivals.wait())
        limit = asyncio.ensure_future(self._clock.sleep(max(0.01, limit_s)))
        try:
            await asyncio.wait({arrival, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            limit.cancel()


def _gone(op: str, reason: str) -> EnvhubError:
    return WorkerUnreachableError(reason) if op == "start" else SessionLostError(reason)

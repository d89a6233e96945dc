"""What the controller does for its clients: start, route, list. No HTTP here.

Invariants: a start with a request key makes one session however often it is sent; a session's call goes to the worker its id
names; a session whose worker is gone gets one typed answer, SessionLostError, for an hour.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from envhub import wire
from envhub.controller.workers import TICK_S, LivenessSettings, Worker, Workers
from envhub.core.clock import Clock
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    EpisodeError,
    InvalidRequestError,
    NoCapacityError,
    SessionEndedError,
    SessionLostError,
    SessionNotFoundError,
    ShuttingDownError,
    UnavailableError,
    from_code,
)
from envhub.core.types import EnvironmentInfo
from envhub.link.frames import SessionNote

log = logging.getLogger(__name__)

_FORK_KEY = "fork:"
"""Begins the keys by which forks are known, so that they are never those of a start."""

_SESSION_ID = re.compile(r"(w[a-z0-9]{4,32})\.[A-Za-z0-9_-]{16}")
_REMEMBER_S = 3600.0
_REMEMBER_MOST = 100_000
_RETRY_PLACE_S = 0.5
_RETRY_REFUSAL_S = 5.0
_ABANDONED_START_S = 15.0
_CLIENT_LEFT = b'{"reason": "the client left during the start"}'


class Archive(Protocol):
    """Where finished episodes go."""

    def submit(self, record: wire.EpisodeRecord, on_stored: Callable[[], None]) -> None:
        """Keep a record; ``on_stored`` is called in the event loop once it is safe."""

    async def get(self, session_id: str) -> wire.EpisodeRecord | None: ...

    @property
    def n_pending(self) -> int:
        """Records taken and not yet safe."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Keyed:
    """A start known by its request key: under way (``task``) or done (``session_id``).

    ``seen``: sessions of that key that opened while it was under way; all but the one that was answered are twins. A start
    whose client left makes no claim: the client may be asking another controller, which ends the twins then.
    """

    fingerprint: bytes | None
    at: float
    session_id: str | None = None
    task: asyncio.Task[Answered] | None = None
    seen: list[tuple[Worker, str]] = field(default_factory=list)
    waiters: int = 0
    delivered: bool = False


@dataclass(frozen=True, slots=True)
class _Lost:
    at: float
    note: SessionNote
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    body: bytes


class _SessionId(msgspec.Struct):
    session_id: str


class ControllerService:
    """See the module."""

    def __init__(self, *, clock: Clock, archive: Archive, liveness: LivenessSettings = LivenessSettings()) -> None:  # noqa: B008
        self._clock = clock
        self._archive = archive
        self.workers = Workers(
            clock=clock,
            settings=liveness,
            on_finished=self._on_finished,
            on_lost=self._on_lost,
            on_sessions=self._on_sessions,
        )
        self.failures: list[str] = []
        self._keyed: OrderedDict[str, _Keyed] = OrderedDict()
        self._lost: OrderedDict[str, _Lost] = OrderedDict()
        self._background: set[asyncio.Task[None]] = set()
        self._counted: OrderedDict[str, float] = OrderedDict()
        self._count: Callable[[str, str], None] = lambda environment, outcome: None

    # --- start ------------------------------------------------------------------------------------------------------

    async def start(self, body: bytes) -> Answered:
        """Start a session; cancelling the call ends what it started, unless it carries a request key.

        Starts that wait for a slot are served in turn by run, which is what the tag ``run`` names.
        """
        request = wire.loads(body, wire.StartRequest)
        if request.request_key is not None and request.request_key.startswith(_FORK_KEY):
            raise InvalidRequestError(f"request_key must not begin with {_FORK_KEY!r}")
        if request.request_key is None:
            return await self._place(request, body)
        key = request.request_key
        return await self._once(key, "start", body, lambda: self._place(request, body), given=key)

    async def fork(self, session_id: str, body: bytes) -> Answered:
        """Double a session on its worker; cancelling the call ends what it made, unless it carries a request key."""
        request = wire.loads(body, wire.ForkRequest)
        worker = await self._worker_of(session_id)
        key = None if request.request_key is None else f"{_FORK_KEY}{session_id}:{request.request_key}"
        call = wire.dumps(wire.ForkCall(session_id, request.turn, request.lease_s, request.tags, key))
        if key is None:
            return await self._make_on(worker, "fork", call)
        given = request.request_key or ""
        return await self._once(key, "fork", call, lambda: self._make_on(worker, "fork", call), given=given)

    async def _once(
        self, key: str, op: str, body: bytes, make: Callable[[], Coroutine[Any, Any, Answered]], *, given: str
    ) -> Answered:
        """The session that ``make`` makes, however often and on however many connections it is asked for. ``given``: the key in
        the client's words."""
        fingerprint = hashlib.sha256(body).digest()
        known = self._keyed.get(key)
        if known is not None and known.fingerprint not in (None, fingerprint):
            raise InvalidRequestError(f"request_key {given!r} was used for a different {op}")
        if known is not None and known.session_id is not None:
            known.delivered = True
            try:
                return await self.call(known.session_id, op, body)
            except SessionLostError:  # whoever repeats a start has not seen its session: it gets another one
                if self._keyed.get(key) is known:
                    del self._keyed[key]
                return await self._once(key, op, body, make, given=given)
        if known is None or known.task is None:
            task = asyncio.create_task(make())
            known = self._keyed[key] = _Keyed(fingerprint, self._clock.now(), task=task)
            task.add_done_callback(lambda done: self._keyed_done(key, done))
        starting = known.task
        assert starting is not None
        known.waiters += 1
        try:
            answer = await asyncio.shield(starting)
            known.delivered = True
            return answer
        except asyncio.CancelledError:
            if starting.cancelled():
                raise UnavailableError(f"the {op} was given up; ask again") from None
            if known.waiters == 1:
                self._spawn(self._give_up_start(known))
            raise
        finally:
            known.waiters -= 1

    async def cancel_start(self, key: str) -> Answered:
        """End what the start with this request key made or is about to make; harmless when there is nothing."""
        known = self._keyed.get(key)
        if known is not None and known.task is not None:
            known.task.cancel()
            await asyncio.wait({known.task})
        if known is not None and known.session_id is not None:  # it may have been made before it could be given up
            return await self.call(known.session_id, "cancel", _CLIENT_LEFT)
        return Answered(200, wire.dumps({"request_key": key, "state": "ended"}))

    async def _give_up_start(self, known: _Keyed) -> None:
        """Its client left; unless somebody asks again soon, end what it started."""
        await self._clock.sleep(_ABANDONED_START_S)
        if known.waiters or known.delivered:
            return
        if known.task is not None:
            known.task.cancel()
            await asyncio.wait({known.task})
        if known.session_id is not None and (worker := self.workers.get(known.session_id.partition(".")[0])):
            await self._forget(worker, known.session_id, "give_up", _CLIENT_LEFT)

    def _keyed_done(self, key: str, task: asyncio.Task[Answered]) -> None:
        entry = self._keyed[key]
        entry.task = None
        if task.cancelled() or task.exception() is not None or task.result().status != 200:
            del self._keyed[key]
        else:
            entry.session_id = msgspec.json.decode(task.result().body, type=_SessionId).session_id
        for worker, session_id in entry.seen:
            if entry.waiters and session_id != entry.session_id:
                self.workers.end(worker, [session_id])
        entry.seen.clear()

    async def _place(self, request: wire.StartRequest, body: bytes) -> Answered:
        deadline = self._clock.now() + request.wait_s
        client = request.tags.get("run", "")
        refused: dict[str, bytes] = {}
        while True:
            left = max(0.0, deadline - self._clock.now())
            wait_s = min(left, _RETRY_REFUSAL_S) if refused else left
            try:
                async with self.workers.reserve(
                    request.environment, wait_s=wait_s, client=client, excluded=frozenset(refused)
                ) as worker:
                    answer = await self._make_on(worker, "start", body)
            except NoCapacityError as error:
                if not refused or left <= wait_s:
                    raise self._last_refusal(refused) or error from None
                refused.clear()
                continue
            except ShuttingDownError:
                raise
            except UnavailableError as error:
                answer = Answered(error.status, wire.error_body(error))
            if answer.status != 503 or self._clock.now() >= deadline:
                return answer
            refused[worker.id] = answer.body
            if self._all_refused(request.environment, refused):
                await self._clock.sleep(_RETRY_PLACE_S)
                refused.clear()

    async def _make_on(self, worker: Worker, op: str, body: bytes) -> Answered:
        session_id = f"{worker.id}.{secrets.token_urlsafe(12)}"
        try:
            reply = await self.workers.call(worker, op, session_id, body)
        except asyncio.CancelledError:
            self._spawn(self._forget(worker, session_id, "give_up", _CLIENT_LEFT))
            raise
        return Answered(reply.status, reply.body)

    def _all_refused(self, environment: str, refused: Collection[str]) -> bool:
        return all(each.id in refused for each in self.workers.all() if each.serves(environment))

    @staticmethod
    def _last_refusal(refused: dict[str, bytes]) -> EnvhubError | None:
        return wire.error_from_body(503, next(reversed(refused.values()))) if refused else None

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def call(self, session_id: str, op: str, body: bytes) -> Answered:
        """Pass a call on to the session's worker. Raises SessionNotFoundError, SessionEndedError, SessionLostError."""
        worker = await self._worker_of(session_id)
        reply = await self.workers.call(worker, op, session_id, body)
        if reply.status == 404 and (record := await self._archive.get(session_id)) is not None:
            raise _error_of(record)
        return Answered(reply.status, reply.body)

    def detach(self, session_id: str) -> None:
        """Tell the worker that the client left in the middle of a call."""
        worker = self.workers.get(session_id.partition(".")[0])
        if worker is not None:
            self._spawn(self._forget(worker, session_id, "detach", b""))

    async def describe(self, session_id: str) -> Answered:
        """State of a live, ended, failed or lost session."""
        if session_id in self._lost:
            return Answered(200, wire.dumps(self._lost_state(session_id)))
        try:
            return await self.call(session_id, "describe", b"")
        except (SessionEndedError, EpisodeError):
            record = await self._archived(session_id)
            if record is None:
                raise
            return Answered(200, wire.dumps(_state_of(record)))

    async def trace(self, session_id: str) -> Answered:
        """The trace of a live session from its worker, of a finished one from the archive."""
        record = await self._archived(session_id)
        if record is None:
            try:
                return await self.call(session_id, "trace", b"")
            except (SessionEndedError, EpisodeError):
                record = await self._archived(session_id)
                if record is None:
                    raise
        return Answered(200, record.trace)

    def sessions(self, environment: str | None, tag: tuple[str, str] | None, limit: int) -> list[wire.SessionState]:
        """Live sessions, oldest first."""
        found = [
            (note, worker.id)
            for worker in self.workers.all()
            for note in worker.sessions.values()
            if environment in (None, note.environment) and (tag is None or note.tags.get(tag[0]) == tag[1])
        ]
        found.sort(key=lambda each: (each[0].started_at, each[0].session_id))
        return [_live_state(note, worker_id) for note, worker_id in found[:limit]]

    async def _worker_of(self, session_id: str) -> Worker:
        worker_id = _worker_id(session_id)
        if session_id in self._lost:
            raise SessionLostError(self._lost[session_id].reason)
        worker = await self.workers.expect(worker_id)
        if worker is not None:
            return worker
        record = await self._archive.get(session_id)
        if record is not None:
            raise _error_of(record)
        raise SessionLostError(f"worker {worker_id} is not linked to this controller, and its sessions are lost")

    async def _archived(self, session_id: str) -> wire.EpisodeRecord | None:
        """The stored record. Raises SessionNotFoundError for what cannot be a session's id."""
        _worker_id(session_id)
        return await self._archive.get(session_id)

    def _lost_state(self, session_id: str) -> wire.SessionState:
        lost = self._lost[session_id]
        live = _live_state(lost.note, session_id.partition(".")[0])
        return msgspec.structs.replace(live, state="lost", reason=lost.reason)

    # --- workers and environments -----------------------------------------------------------------------------------

    def environment(self, name: str) -> EnvironmentInfo:
        known = self.workers.environments()
        if name not in known:
            raise EnvironmentNotFoundError(f"no environment is named {name!r}; valid: {', '.join(known)}")
        return known[name]

    async def drain(self, worker_id: str) -> Answered:
        worker = self.workers.get(worker_id)
        if worker is None:
            raise SessionNotFoundError(f"no worker is named {worker_id[:80]!r}")
        reply = await self.workers.call(worker, "drain", "", b"")
        return Answered(reply.status, reply.body)

    @property
    def n_unstored(self) -> int:
        return self._archive.n_pending

    def now(self) -> float:
        return self._clock.now()

    # --- life -------------------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Judge workers and waiting starts until cancelled; a failing pass is recorded and the next runs all the same."""
        while True:
            await self._clock.sleep(TICK_S)
            try:
                self.workers.tick()
                self._trim()
            except Exception as error:  # boundary: this loop must outlive any single fault
                log.exception("the watch failed")
                self._note_failure("watch", error)

    async def close(self) -> None:
        self.workers.shut_down()
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._archive.close()

    def count_outcomes(self, count: Callable[[str, str], None]) -> None:
        """Have ``count(environment, outcome)`` called once for every episode that is stored."""
        self._count = count

    def _on_finished(self, record: wire.EpisodeRecord, on_stored: Callable[[], None]) -> None:
        session_id, outcome = record.session_id, "failed" if record.error else str(record.stop_reason)

        def stored() -> None:
            if session_id not in self._counted:
                self._counted[session_id] = self._clock.now()
                self._count(record.environment, outcome)
            on_stored()

        self._archive.submit(record, stored)

    def _note_failure(self, where: str, error: BaseException) -> None:
        self.failures = [*self.failures[-9:], f"{where}: {type(error).__name__}: {error}"]

    def _on_lost(self, worker: Worker, notes: Sequence[SessionNote], reason: str) -> None:
        now = self._clock.now()
        for note in notes:
            self._lost[note.session_id] = _Lost(now, note, reason)

    def _on_sessions(self, worker: Worker, notes: Iterable[SessionNote]) -> list[str]:
        """Learn request keys; the sessions that must be ended: lost to their clients, or twins of a known start."""
        cancel: list[str] = []
        for note in notes:
            if note.session_id in self._lost:
                cancel.append(note.session_id)
                continue
            if note.request_key is None:
                continue
            known = self._keyed.get(note.request_key)
            if known is None:
                self._keyed[note.request_key] = _Keyed(None, self._clock.now(), note.session_id)
            elif known.session_id is None:
                known.seen.append((worker, note.session_id))
            elif known.session_id != note.session_id and known.delivered:
                cancel.append(note.session_id)
            elif known.session_id != note.session_id:  # its client has gone and asked another controller
                known.session_id, known.delivered = note.session_id, True
        return cancel

    def _trim(self) -> None:
        oldest = self._clock.now() - _REMEMBER_S
        while self._lost and (next(iter(self._lost.values())).at < oldest or len(self._lost) > _REMEMBER_MOST):
            self._lost.popitem(last=False)
        while self._counted and (next(iter(self._counted.values())) < oldest or len(self._counted) > _REMEMBER_MOST):
            self._counted.popitem(last=False)
        while self._keyed and (
            (first := next(iter(self._keyed.values()))).at < oldest or len(self._keyed) > _REMEMBER_MOST
        ):
            if first.task is not None:
                return
            self._keyed.popitem(last=False)

    async def _forget(self, worker: Worker, session_id: str, op: str, body: bytes) -> None:
        try:
            await self.workers.call(worker, op, session_id, body)
        except EnvhubError as error:
            log.debug("%s of %s: %s", op, session_id, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("a task in the background failed: %s", failure, exc_info=failure)
            self._note_failure("background", failure)


def _live_state(note: SessionNote, worker_id: str) -> wire.SessionState:
    return wire.SessionState(
        note.session_id,
        "live",
        note.environment,
        note.split,
        note.task,
        worker_id,
        started_at=note.started_at,
        tags=note.tags,
    )


def _state_of(record: wire.EpisodeRecord) -> wire.SessionState:
    return wire.SessionState(
        record.session_id,
        "failed" if record.error else "ended",
        record.environment,
        record.split,
        record.task,
        record.worker,
        turn=record.turns,
        seed=record.seed,
        started_at=record.started_at,
        ended_at=record.ended_at,
        stop_reason=record.stop_reason,
        reason=record.reason,
        episode_return=record.episode_return,
        error=record.error,
        identity=record.identity,
        tags=record.tags,
    )


def _worker_id(session_id: str) -> str:
    """The worker that a session id names. Raises SessionNotFoundError."""
    match = _SESSION_ID.fullmatch(session_id)
    if match is None:
        raise SessionNotFoundError(f"no session is named {session_id[:80]!r}")
    return match[1]


def _error_of(record: wire.EpisodeRecord) -> EnvhubError:
    """What a call on a finished session gets."""
    if record.error is not None:
        return from_code(record.error["code"], record.error["message"], record.error.get("details") or {})
    reason = record.reason or str(record.stop_reason)
    return SessionEndedError(f"the session is over: {reason}", reason=reason, stop_reason=record.stop_reason)

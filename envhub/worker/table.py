"""All sessions of a worker: capacity, starts, the reaper, and what is remembered of the dead.

Invariants: live sessions plus starts under way never exceed the capacity, and every slot taken is given back exactly once; a
session id is used once; a finished record is kept until a controller has stored it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from envhub import wire
from envhub.core.clock import Clock
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    EpisodeFailedError,
    EpisodeTimeoutError,
    InvalidRequestError,
    NoCapacityError,
    SessionNotFoundError,
    ShuttingDownError,
    TaskNotFoundError,
    UnavailableError,
)
from envhub.core.protocols import Environment, Episode
from envhub.core.types import JSON, LIMIT_OPTIONS, EnvironmentInfo, Identity, TaskRef
from envhub.link.frames import Closed, Draining, Finished, Frame, Opened, SessionNote
from envhub.worker.closing import close_quietly
from envhub.worker.forks import Fork, fork
from envhub.worker.session import Abort, Answer, Session, SessionLimits, SessionSpec

log = logging.getLogger(__name__)

_SEEDS = 2**31
_OFFER_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class TableSettings:
    """``image_digest``: of the image this worker runs in, for the environments that name none of their own."""

    capacity: int = 256
    max_open_s: float = 300.0
    max_step_s: float = 330.0
    detach_grace_s: float = 60.0
    tombstone_s: float = 3600.0
    max_tombstone_bytes: int = 64 * 2**20
    max_unstored_bytes: int = 256 * 2**20
    image_digest: str | None = None


@dataclass(slots=True)
class _Opening:
    task: asyncio.Task[Answer]
    since: float
    request_key: str | None
    claims: int = 1
    overdue: bool = False


@dataclass(slots=True)
class _Tombstones:
    sessions: OrderedDict[str, tuple[float, int, Session]] = field(default_factory=OrderedDict)
    bytes: int = 0


class SessionTable:
    """See the module. ``emit`` receives Opened, Closed, Finished and Draining."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        settings: TableSettings,
        *,
        worker_id: str,
        clock: Clock,
        rng: random.Random,
        emit: Callable[[Frame], None],
    ) -> None:
        self.environments = environments
        self.infos: Mapping[str, EnvironmentInfo] = {
            name: _imaged(each.info(), settings.image_digest) for name, each in environments.items()
        }
        self.settings = settings
        self.draining = False
        self._worker_id = worker_id
        self._clock = clock
        self._rng = rng
        self._emit = emit
        self._live: dict[str, Session] = {}
        self._by_key: dict[str, Session] = {}
        self._opening: dict[str, _Opening] = {}
        self._dead = _Tombstones()
        self._unstored: dict[str, Finished] = {}
        self._unstored_bytes = 0
        self._offered_at = clock.now()
        self._endings: set[asyncio.Task[None]] = set()
        self._stopping = False

    # --- starting ---------------------------------------------------------------------------------------------------

    async def start(self, session_id: str, request: wire.StartRequest) -> Answer:
        """Open an episode. The same id again joins or repeats the first answer. Raises EnvhubError."""
        if (known := self._known(session_id, request.request_key)) is not None:
            return await known
        self._check_room()
        environment, spec = self._resolve(session_id, request)
        return await self._begin(spec, self._open(environment, spec))

    async def fork(self, session_id: str, call: wire.ForkCall) -> Answer:
        """Double a live session, as ``session_id``. The same id again joins or repeats the first answer. Raises EnvhubError."""
        if (known := self._known(session_id, call.request_key)) is not None:
            return await known
        parent = self.find(call.parent)
        self._check_room()
        lineage = {"fork.parent": call.parent, "fork.turn": str(parent.turn)}
        spec = replace(
            parent.spec,
            session_id=session_id,
            lease_s=call.lease_s or parent.lease_s,
            tags=_tags({**parent.spec.tags, **call.tags, **lineage}),
            request_key=call.request_key,
        )
        return await self._begin(spec, self._fork(parent, spec, call.turn))

    def _known(self, session_id: str, request_key: str | None) -> Awaitable[Answer] | None:
        """The answer to a start that was asked for before."""
        for name, opening in self._opening.items():  # by its key it may be on its way through another controller
            if name == session_id:
                return self._join(opening)
            if request_key is not None and opening.request_key == request_key:
                opening.claims += 1
                return self._join(opening)
        found = self._live.get(session_id)
        if found is None and session_id in self._dead.sessions:
            found = self._dead.sessions[session_id][2]
        if found is None and request_key is not None:
            found = self._by_key.get(request_key)
            if found is not None:
                found.claims += 1
        return None if found is None else _ready(found.started())

    async def _begin(self, spec: SessionSpec, work: Coroutine[Any, Any, Answer]) -> Answer:
        opening = _Opening(asyncio.create_task(work), self._clock.now(), spec.request_key)
        self._opening[spec.session_id] = opening
        opening.task.add_done_callback(lambda _: self._opening.pop(spec.session_id, None))
        return await self._join(opening)

    async def _join(self, opening: _Opening) -> Answer:
        try:
            return await asyncio.shield(opening.task)
        except asyncio.CancelledError:
            if opening.task.cancelled():
                if opening.overdue:
                    raise EpisodeTimeoutError(f"the task did not open in {self.settings.max_open_s:g} s") from None
                raise ShuttingDownError("the start was cancelled") from None
            raise

    def _check_room(self) -> None:
        if self._stopping or self.draining:
            raise ShuttingDownError(f"worker {self._worker_id} takes no new sessions")
        if self._unstored_bytes > self.settings.max_unstored_bytes:
            raise UnavailableError("finished episodes wait to be stored; no new ones are started", retry_after_s=5.0)
        if len(self._live) + len(self._opening) >= self.settings.capacity:
            raise NoCapacityError(f"worker {self._worker_id} is at its capacity of {self.settings.capacity} sessions")

    def _resolve(self, session_id: str, request: wire.StartRequest) -> tuple[Environment, SessionSpec]:
        environment = self.environments.get(request.environment)
        if environment is None:
            valid = ", ".join(self.environments)
            raise EnvironmentNotFoundError(f"no environment is named {request.environment!r}; valid: {valid}")
        info = self.infos[request.environment]
        split = request.split or info.default_split
        size = info.splits.get(split)
        if size is None:
            valid = ", ".join(info.splits)
            raise TaskNotFoundError(f"{info.name} has no split {split!r}; valid: {valid}")
        rng = self._rng if request.seed is None else random.Random(request.seed)
        index = request.task
        if index is None and size > 0:
            index = rng.randrange(size)
        if index is None or index >= size:
            raise TaskNotFoundError(f"{info.name}/{split} has no task {request.task}; valid: 0..{size - 1}")
        seed = request.seed if request.seed is not None else self._rng.randrange(_SEEDS)
        options, limits = _options(info, request.options, self.settings.max_step_s)
        changed = {key: value for key, value in options.items() if value != info.options[key]}
        changed |= {name: value for name in LIMIT_OPTIONS if (value := getattr(limits, name)) != getattr(info, name)}
        grading = str(options.get("grading", "strict"))
        identity = Identity(info.name, info.version, info.dataset_hash, grading, changed, info.image_digest)
        spec = SessionSpec(
            session_id,
            TaskRef(info.name, split, index),
            seed,
            identity,
            request.lease_s,
            limits,
            options,
            request.tags,
            request.request_key,
            info.reward_range,
        )
        return environment, spec

    async def _open(self, environment: Environment, spec: SessionSpec) -> Answer:
        episode = None
        try:
            episode = await environment.open(spec.task, seed=spec.seed, options=spec.options)
            observation = await episode.reset()
            session = Session(spec, episode, worker_id=self._worker_id, clock=self._clock, on_end=self._ended)
            answer = await session.start(observation)
        except BaseException as error:
            if episode is not None:
                await close_quietly(episode.close)
            if isinstance(error, EnvhubError):
                return Answer.of(error)
            if isinstance(error, Exception):
                log.exception("environment %s did not open %s", spec.task.environment, spec.task)
                return Answer.of(EpisodeFailedError(f"{type(error).__name__}: {error}"))
            raise
        else:
            self._opened(session)
            return answer

    async def _fork(self, parent: Session, spec: SessionSpec, turn: int | None) -> Answer:
        environment = self.environments[spec.task.environment]

        def copy(original: Episode, trace: bytes) -> Awaitable[Fork]:
            return fork(original, trace, lambda: environment.open(spec.task, seed=spec.seed, options=spec.options))

        try:
            session, answer = await parent.fork(spec, turn=turn, copy=copy)
        except EnvhubError as error:
            return Answer.of(error)
        except Exception as error:  # boundary: whatever an environment raises is our failure, and costs no session
            log.exception("session %s was not forked", parent.spec.session_id)
            return Answer.of(EpisodeFailedError(f"{type(error).__name__}: {error}"))
        self._opened(session)
        return answer

    def _opened(self, session: Session) -> None:
        spec = session.spec
        session.claims = self._opening[spec.session_id].claims
        self._live[spec.session_id] = session
        if spec.request_key is not None:
            self._by_key[spec.request_key] = session
        del self._opening[spec.session_id]
        self._emit(Opened(session.note()))

    # --- finding and ending -----------------------------------------------------------------------------------------

    def find(self, session_id: str) -> Session:
        """A live session, or one of the recently ended. Raises SessionNotFoundError."""
        session = self._live.get(session_id)
        if session is None:
            if session_id not in self._dead.sessions:
                raise SessionNotFoundError(f"no session is named {session_id!r} here")
            session = self._dead.sessions[session_id][2]
        return session

    async def cancel(self, session_id: str, abort: Abort, reason: str) -> Session | None:
        """End a session, or a start under way (None then). Raises SessionNotFoundError."""
        if (opening := self._opening.get(session_id)) is not None:
            opening.task.cancel()
            await asyncio.wait({opening.task})
            if session_id not in self._live:
                return None
        session = self.find(session_id)
        await session.cancel(abort, reason)
        return session

    async def give_up(self, session_id: str, reason: str) -> None:
        """One of the starts that led here has no client any more; the last one to say so ends the session.

        Raises SessionNotFoundError.
        """
        claimed = self._opening.get(session_id) or self.find(session_id)
        claimed.claims -= 1
        if claimed.claims <= 0:
            await self.cancel(session_id, Abort.CANCELLED, reason)

    def abandon(self, session_ids: Iterable[str]) -> None:
        """End sessions in the background, without a reward."""
        for session_id in session_ids:
            if session_id in self._live:
                self._end_later(self._live[session_id], Abort.ABANDONED, "its controller had given it up as lost")

    def tick(self) -> None:
        """End what is overdue and forget what died long ago. Called about once a second."""
        now = self._clock.now()
        for session in list(self._live.values()):
            if (due := session.overdue()) is not None:
                self._end_later(session, *due)
        for opening in self._opening.values():
            if now - opening.since > self.settings.max_open_s and not opening.overdue:
                opening.overdue = True
                opening.task.cancel()
        self._trim_tombstones(now)
        if now - self._offered_at > _OFFER_AGAIN_S:
            self._offered_at = now
            for finished in self._unstored.values():
                self._emit(finished)

    async def shutdown(self) -> None:
        """End every session and close the environments."""
        self._stopping = True
        while waiting := [each.task for each in self._opening.values()] + self._end_all():
            for opening in self._opening.values():
                opening.task.cancel()
            await asyncio.wait(waiting)
        for environment in self.environments.values():
            await close_quietly(environment.close)

    def drain(self, draining: bool = True) -> None:
        self.draining = draining
        self._emit(Draining(draining))

    def _end_all(self) -> list[asyncio.Task[None]]:
        for session in list(self._live.values()):
            self._end_later(session, Abort.SHUTDOWN, "the worker is shutting down")
        return list(self._endings)

    def _end_later(self, session: Session, abort: Abort, reason: str) -> None:
        task = asyncio.create_task(session.cancel(abort, reason))
        self._endings.add(task)
        task.add_done_callback(self._ending_done)

    def _ending_done(self, task: asyncio.Task[None]) -> None:
        self._endings.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("a session did not end: %s: %s", type(failure).__name__, failure, exc_info=failure)

    def _ended(self, session: Session) -> None:
        session_id = session.spec.session_id
        del self._live[session_id]
        if session.spec.request_key is not None:
            self._by_key.pop(session.spec.request_key, None)
        finished = Finished(session.record())
        self._unstored[session_id] = finished
        self._unstored_bytes += len(finished.record.trace)
        kept = session.bury()
        self._dead.sessions[session_id] = (self._clock.now(), kept, session)
        self._dead.bytes += kept
        self._trim_tombstones(self._clock.now())
        self._emit(finished)
        self._emit(Closed(session_id))

    def _trim_tombstones(self, now: float) -> None:
        dead = self._dead
        while dead.sessions:
            session_id, (since, kept, _) = next(iter(dead.sessions.items()))
            if now - since <= self.settings.tombstone_s and dead.bytes <= self.settings.max_tombstone_bytes:
                return
            del dead.sessions[session_id]
            dead.bytes -= kept

    # --- results and numbers ----------------------------------------------------------------------------------------

    def unstored(self) -> tuple[Finished, ...]:
        return tuple(self._unstored.values())

    def stored(self, session_id: str) -> None:
        finished = self._unstored.pop(session_id, None)
        if finished is not None:
            self._unstored_bytes -= len(finished.record.trace)

    def trace(self, session_id: str) -> bytes:
        """Of a live session, or of a finished one that is not stored yet. Raises SessionNotFoundError for one that is."""
        if (finished := self._unstored.get(session_id)) is not None:
            return finished.record.trace
        if (session := self._live.get(session_id)) is not None:
            return session.trace()
        raise SessionNotFoundError(f"no live session is named {session_id!r} here")

    def notes(self) -> list[SessionNote]:
        return [session.note() for session in self._live.values()]

    @property
    def n_live(self) -> int:
        return len(self._live)

    @property
    def n_slots_taken(self) -> int:
        return len(self._live) + len(self._opening)


def _tags(tags: dict[str, str]) -> dict[str, str]:
    """Raises InvalidRequestError: a chain of forks must not carry ever more."""
    if len(tags) > wire.MAX_TAGS + 2:
        raise InvalidRequestError(f"a fork has its parent's tags and its own: at most {wire.MAX_TAGS} in all")
    return tags


async def _ready(answer: Answer) -> Answer:
    return answer


def _imaged(info: EnvironmentInfo, digest: str | None) -> EnvironmentInfo:
    return replace(info, image_digest=digest) if info.image_digest is None else info


def _options(
    info: EnvironmentInfo, asked: Mapping[str, JSON], max_step_s: float
) -> tuple[dict[str, JSON], SessionLimits]:
    """The environment's options with defaults filled in, and the session's limits. Raises InvalidRequestError."""
    try:
        msgspec.msgpack.encode(asked)
    except OverflowError as error:
        raise InvalidRequestError(f"options: a number is too large: {error}") from None
    limits: dict[str, JSON] = {"max_turns": info.max_turns, "max_episode_s": info.max_episode_s}
    options = dict(info.options)
    for name, value in asked.items():
        if name in options:
            default = options[name]
            if default is not None and not _same_kind(default, value):
                kind = type(default).__name__
                raise InvalidRequestError(f"option {name!r} of {info.name} must be of type {kind}")
            options[name] = value
        elif name in LIMIT_OPTIONS:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e6:
                raise InvalidRequestError(f"option {name!r} must be a number above 0 and at most 1000000")
            limits[name] = value
        else:
            valid = ", ".join([*info.options, *LIMIT_OPTIONS])
            raise InvalidRequestError(f"{info.name} has no option {name!r}; valid: {valid}")
    if int(limits["max_turns"]) != limits["max_turns"]:
        raise InvalidRequestError("option 'max_turns' must be a whole number")
    return options, SessionLimits(int(limits["max_turns"]), float(limits["max_episode_s"]), max_step_s)


def _same_kind(default: JSON, value: JSON) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))

"""One live episode: order of turns, repeated calls, limits, lease, and its single end.

Invariants: an episode is stepped by one call at a time and never after its end; it is closed exactly once, before the answer
that ends it leaves; a repeated turn gets the stored answer; ``truncated`` is set here and nowhere else; a failure of ours ends
the session with an error and without a reward.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from envhub import wire
from envhub.core.clock import Clock
from envhub.core.errors import (
    EnvhubError,
    EpisodeError,
    EpisodeFailedError,
    EpisodeTimeoutError,
    SessionEndedError,
    SessionLostError,
    TurnConflictError,
)
from envhub.core.protocols import Episode
from envhub.core.types import JSON, Identity, Message, Observation, StepResult, StopReason, TaskRef
from envhub.link.frames import SessionNote
from envhub.worker.closing import close_quietly
from envhub.worker.forks import Fork

log = logging.getLogger(__name__)

_CANCEL_AGAIN_S = 5.0
MAX_ANSWER_BYTES = 8 * 2**20
MAX_TRACE_BYTES = 32 * 2**20
"""A record must fit into one message of the link, with room for its other fields."""


class Abort(StrEnum):
    """Why a session is ended from outside its episode."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    TIME_LIMIT = "time_limit"
    STEP_TIMEOUT = "step_timeout"
    SHUTDOWN = "shutdown"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """``max_step_s`` bounds one call of the environment and is our failure; the other two are outcomes of the agent."""

    max_turns: int
    max_episode_s: float
    max_step_s: float = 330.0


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What was asked for, completed with what was drawn."""

    session_id: str
    task: TaskRef
    seed: int
    identity: Identity
    lease_s: float
    limits: SessionLimits
    options: Mapping[str, JSON]
    tags: Mapping[str, str]
    request_key: str | None
    reward_range: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Answer:
    """A ready answer: HTTP status and JSON body."""

    status: int
    body: bytes

    @staticmethod
    def of(error: EnvhubError) -> Answer:
        return Answer(error.status, wire.error_body(error))


class Session:
    """See the module. ``on_end`` is called once, after the episode is closed."""

    def __init__(
        self, spec: SessionSpec, episode: Episode, *, worker_id: str, clock: Clock, on_end: Callable[[Session], None]
    ) -> None:
        self.spec = spec
        self.turn = 0
        self.claims = 1
        """Starts that were answered with this session: a client may have asked several controllers."""
        self.detached = False
        self.ended = False
        self.error: EnvhubError | None = None
        self.stop_reason: StopReason | None = None
        self.reason: str | None = None
        self._episode = episode
        self._worker_id = worker_id
        self._clock = clock
        self._on_end = on_end
        self._lease_s = spec.lease_s
        self._grace_s = spec.lease_s
        self._touched = self._opened = clock.now()
        self.started_at = clock.wall()
        self.ended_at: float | None = None
        self._abort: tuple[Abort, str] | None = None
        self._running: asyncio.Task[Answer] | None = None
        self._running_since = 0.0
        self._still = asyncio.Lock()
        self._stepping = False
        self._last_message: Message | None = None
        self._last_answer: Answer | None = None
        self._started: Answer | None = None
        self._ending: asyncio.Task[None] | None = None
        self._steps: list[bytes] = []
        self._trace_bytes = 0
        self._returns = 0.0
        self._terminated = self._truncated = False
        self._info: Mapping[str, JSON] = {}

    # --- calls ------------------------------------------------------------------------------------------------------

    async def start(self, observation: Observation) -> Answer:
        """Store and return the answer to the start."""
        spec = self.spec
        messages, tools = wire.observation_to_json(observation)
        answer = wire.Started(
            spec.session_id,
            spec.task.environment,
            spec.task.split,
            spec.task.index,
            spec.seed,
            0,
            messages,
            tools,
            spec.limits.max_turns,
            self._lease_s,
            wire.identity_to_json(spec.identity),
            dict(observation.info),
        )
        self._started = Answer(200, _bounded(wire.dumps(answer)))
        return self._started

    @property
    def lease_s(self) -> float:
        """What it is now, after renewals."""
        return self._lease_s

    def started(self) -> Answer:
        """The answer to a repeated start."""
        if self.ended:
            return Answer.of(self.ended_error())
        assert self._started is not None
        return self._started

    async def interact(self, turn: int, message: Message) -> Answer:
        """Play one turn. Raises TurnConflictError or SessionEndedError; a failure of the episode is an Answer."""
        self.detached = False
        if self._still.locked():
            async with self._still:
                pass  # a fork is over; nothing is awaited between here and the turn's begin
        if self._running is not None:
            if turn == self.turn and message == self._last_message:
                return await asyncio.shield(self._running)
            raise TurnConflictError(f"turn {self.turn} is being played", current_turn=self.turn)
        if turn == self.turn - 1 and self._last_answer is not None:
            if message != self._last_message:
                raise TurnConflictError(f"turn {turn} already answered another message", current_turn=self.turn)
            self._touched = self._clock.now()
            return self._last_answer
        if self.ended or self._abort is not None:
            raise self.ended_error()
        if turn != self.turn:
            raise TurnConflictError(f"expected turn {self.turn}, got {turn}", current_turn=self.turn)
        self._last_message = message
        self._running_since = self._clock.now()
        self._running = asyncio.create_task(self._play(message))
        return await asyncio.shield(self._running)

    def renew(self, lease_s: float | None) -> float:
        """Restart the lease, perhaps with another length; seconds it now lasts. Raises SessionEndedError."""
        if self.ended or self._abort is not None:
            raise self.ended_error()
        if lease_s is not None:
            self._lease_s = lease_s
        self._touched = self._clock.now()
        self.detached = False
        return self._lease_s

    async def fork(
        self, spec: SessionSpec, *, turn: int | None, copy: Callable[[Episode, bytes], Awaitable[Fork]]
    ) -> tuple[Session, Answer]:
        """A session of its own that goes on from this one's turn, and the answer that tells of it; turns wait meanwhile.

        Raises TurnConflictError, SessionEndedError, and what ``copy`` raises.
        """
        async with self._still:
            self._check_still(turn)
            self._touched = self._clock.now()
            made = await copy(self._episode, self.trace())
            try:
                if self.ended or self._abort is not None:
                    raise self.ended_error()
                return self._double(spec, made)
            except BaseException:
                await close_quietly(made.episode.close)
                raise

    def _check_still(self, turn: int | None) -> None:
        if self.ended or self._abort is not None:
            raise self.ended_error()
        if self._running is not None:
            raise TurnConflictError(f"turn {self.turn} is being played", current_turn=self.turn)
        if turn is not None and turn != self.turn:
            raise TurnConflictError(f"the session is at turn {self.turn}, not {turn}", current_turn=self.turn)

    def _double(self, spec: SessionSpec, made: Fork) -> tuple[Session, Answer]:
        assert self._started is not None
        twin = Session(spec, made.episode, worker_id=self._worker_id, clock=self._clock, on_end=self._on_end)
        twin.turn = self.turn
        twin._opened = self._opened
        twin._last_message, twin._last_answer = self._last_message, self._last_answer
        twin._steps, twin._trace_bytes = list(self._steps), self._trace_bytes
        twin._returns, twin._info = self._returns, self._info
        started = msgspec.json.decode(self._started.body, type=wire.Started)
        told = {name: getattr(started, name) for name in wire.Started.__struct_fields__}
        told |= {"session_id": spec.session_id, "turn": self.turn, "lease_s": spec.lease_s}
        twin._started = Answer(
            200, _bounded(wire.dumps(wire.Forked(**told, parent=self.spec.session_id, fork=made.kind)))
        )
        return twin, twin._started

    async def cancel(self, abort: Abort, reason: str) -> None:
        """End the session now, aborting a running call. Returns when the episode is closed; harmless when it already is."""
        if self._abort is None and not self.ended:
            self._abort = (abort, reason)
            if self._running is None:
                self._ending = asyncio.create_task(self._end(self._aborted()))
            else:
                await self._interrupt(self._running)
        await self.wait_ended()

    async def _interrupt(self, running: asyncio.Task[Answer]) -> None:
        """Cancel the step, and again if it swallowed that; one that completes all the same is seen by `_play`."""
        while not running.done():
            if self._stepping:
                running.cancel()
            await asyncio.wait({running}, timeout=_CANCEL_AGAIN_S)

    async def wait_ended(self) -> None:
        """Return once an end that is under way is complete."""
        for task in (self._running, self._ending):
            if task is not None:
                await asyncio.wait({task})

    def detach(self, grace_s: float) -> None:
        """The client went away in the middle of a call: unless it comes back, the lease ends after ``grace_s``."""
        self.detached = True
        self._grace_s = grace_s

    def overdue(self) -> tuple[Abort, str] | None:
        """Why this session should be ended now, if it should."""
        if self.ended or self._abort is not None:
            return None
        now = self._clock.now()
        if self._still.locked():
            return None
        if now - self._opened > self.spec.limits.max_episode_s:
            return Abort.TIME_LIMIT, f"the episode lasted more than {self.spec.limits.max_episode_s:g} s"
        if self._running is not None:
            if now - self._running_since > self.spec.limits.max_step_s:
                return Abort.STEP_TIMEOUT, f"one step took more than {self.spec.limits.max_step_s:g} s"
            return None
        if self.detached and now - self._touched > self._grace_s:
            return Abort.EXPIRED, "the client disconnected in the middle of a call and did not come back"
        if now - self._touched > self._lease_s:
            return Abort.EXPIRED, f"idle for more than {self._lease_s:g} s"
        return None

    # --- what others read -------------------------------------------------------------------------------------------

    def ended_error(self) -> EnvhubError:
        """What a call on this session gets once it is over."""
        if self.error is not None:
            return self.error
        reason = self.reason or (self._abort[1] if self._abort else "ended")
        return SessionEndedError(f"the session is over: {reason}", reason=reason, stop_reason=self.stop_reason)

    def bury(self) -> int:
        """Forget all but what a late call needs; the bytes that are kept."""
        self._steps.clear()
        self._started = None
        self._episode = _BURIED
        said = len(wire.dumps(wire.message_to_json(self._last_message))) if self._last_message else 0
        return 1024 + said + (len(self._last_answer.body) if self._last_answer else 0)

    def note(self) -> SessionNote:
        spec = self.spec
        task = spec.task
        return SessionNote(
            spec.session_id,
            task.environment,
            task.split,
            task.index,
            self.started_at,
            spec.request_key,
            dict(spec.tags),
        )

    def state(self) -> wire.SessionState:
        spec = self.spec
        live = not self.ended
        return wire.SessionState(
            session_id=spec.session_id,
            state="live" if live else ("failed" if self.error else "ended"),
            environment=spec.task.environment,
            split=spec.task.split,
            task=spec.task.index,
            worker=self._worker_id,
            turn=self.turn,
            seed=spec.seed,
            started_at=self.started_at,
            ended_at=self.ended_at,
            idle_s=round(self._clock.now() - self._touched, 3) if live else None,
            lease_s=self._lease_s,
            detached=self.detached and live,
            stop_reason=self.stop_reason,
            reason=self.reason,
            episode_return=self.episode_return,
            error=wire.error_to_json(self.error) if self.error else None,
            identity=wire.identity_to_json(spec.identity),
            tags=dict(spec.tags),
        )

    def trace(self) -> bytes:
        """JSON: the first messages and tools, then each turn's message, answer and seconds."""
        start = msgspec.json.decode(self._started.body) if self._started else {}
        head = wire.dumps({"messages": start.get("messages", []), "tools": start.get("tools", [])})
        return head[:-1] + b',"steps":[' + b",".join(self._steps) + b"]}"

    def record(self) -> wire.EpisodeRecord:
        """The finished episode. Only after the end."""
        spec = self.spec
        return wire.EpisodeRecord(
            session_id=spec.session_id,
            environment=spec.task.environment,
            split=spec.task.split,
            task=spec.task.index,
            seed=spec.seed,
            worker=self._worker_id,
            identity=wire.identity_to_json(spec.identity),
            tags=dict(spec.tags),
            started_at=self.started_at,
            ended_at=self.ended_at or self._clock.wall(),
            turns=self.turn,
            episode_return=self.episode_return,
            terminated=self._terminated,
            truncated=self._truncated,
            stop_reason=self.stop_reason,
            error=wire.error_to_json(self.error) if self.error else None,
            reason=self.reason,
            info=dict(self._info),
            trace=self.trace(),
        )

    # --- the turn ---------------------------------------------------------------------------------------------------

    async def _play(self, message: Message) -> Answer:
        started = self._clock.now()
        outcome = await self._step(message)
        if self._abort is not None and isinstance(outcome, StepResult) and not outcome.terminated:
            outcome = self._aborted(message)
        played: tuple[StepResult, Answer] | EnvhubError = (
            self._advance(message, outcome, self._clock.now() - started) if isinstance(outcome, StepResult) else outcome
        )
        if isinstance(played, EnvhubError):
            await self._end(played)
            answer = Answer.of(played)
        else:
            result, answer = played
            if result.done:
                await self._end(result)
        self._last_answer = answer
        self._touched = self._clock.now()
        self._running = None
        return answer

    async def _step(self, message: Message) -> StepResult | EnvhubError:
        if self._abort is not None:  # it came before this task's first moment
            return StepResult()
        self._stepping = True
        try:
            return self._checked(await self._episode.step(message))
        except asyncio.CancelledError:
            if self._abort is None:
                self._abort = (Abort.SHUTDOWN, "the worker is shutting down")
            return StepResult()
        except EpisodeError as error:
            return error
        except Exception as error:  # boundary: whatever else an environment raises is our failure
            log.exception("environment %s failed", self.spec.task.environment)
            return EpisodeFailedError(f"{type(error).__name__}: {error}")
        finally:
            self._stepping = False

    def _advance(self, message: Message, result: StepResult, seconds: float) -> tuple[StepResult, Answer] | EnvhubError:
        """Count the turn: the result with the session's limits applied, and its answer."""
        turn = self.turn + 1
        if not result.done:
            if turn >= self.spec.limits.max_turns:
                result = wire.with_truncation(result, StopReason.TURN_LIMIT)
            elif self._clock.now() - self._opened > self.spec.limits.max_episode_s:
                result = wire.with_truncation(result, StopReason.TIME_LIMIT)
        try:
            body = _bounded(wire.dumps(wire.step_to_wire(result, turn)))
            info = _plain(result.info)
        except Exception as error:  # boundary: what an environment gave may be of any type
            log.exception("environment %s gave an answer that cannot be sent", self.spec.task.environment)
            return EpisodeFailedError(f"the answer cannot be sent: {type(error).__name__}: {error}")
        self.turn = turn
        self._returns += result.reward
        self._info = info or self._info
        self._remember(message, body, seconds)
        return result, Answer(200, body)

    def _remember(self, message: Message, body: bytes, seconds: float) -> None:
        record = {"message": wire.message_to_json(message), "answer": msgspec.Raw(body), "seconds": round(seconds, 4)}
        step = wire.dumps(record)
        if self._trace_bytes + len(step) > MAX_TRACE_BYTES:
            step = wire.dumps({"omitted_bytes": len(step)})
        self._trace_bytes += len(step)
        self._steps.append(step)

    def _checked(self, result: StepResult) -> StepResult:
        low, high = self.spec.reward_range
        if not (math.isfinite(result.reward) and low <= result.reward <= high):
            raise EpisodeFailedError(f"the environment gave reward {result.reward}, outside [{low:g}, {high:g}]")
        if result.truncated:
            raise EpisodeFailedError("the environment set truncated, which belongs to the session")
        reason = result.stop_reason or (StopReason.COMPLETED if result.terminated else None)
        return replace(result, reward=float(result.reward), stop_reason=reason)

    def _aborted(self, message: Message | None = None) -> StepResult | EnvhubError:
        """What an end from outside comes to: only the agent's own time limit is an outcome."""
        assert self._abort is not None
        abort, reason = self._abort
        if abort is Abort.TIME_LIMIT:
            calls = message.tool_calls if message else ()
            replies = tuple(Message.tool(call.id, f"Not finished: {reason}.") for call in calls)
            return StepResult(replies, truncated=True, stop_reason=StopReason.TIME_LIMIT)
        if abort is Abort.STEP_TIMEOUT:
            return EpisodeTimeoutError(reason)
        if abort in (Abort.SHUTDOWN, Abort.ABANDONED):
            return SessionLostError(reason)
        return SessionEndedError(f"the session is over: {reason}", reason=reason, stop_reason=StopReason.CANCELLED)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _end(self, outcome: StepResult | EnvhubError) -> None:
        self.ended = True
        self.ended_at = self._clock.wall()
        if isinstance(outcome, StepResult):
            self._terminated, self._truncated = outcome.terminated, outcome.truncated
            self.stop_reason = outcome.stop_reason
        elif isinstance(outcome, EpisodeError):
            self.error = outcome
        else:
            self.stop_reason = StopReason.CANCELLED
        self.reason = self._abort[1] if self._abort and not self._terminated else self.stop_reason
        try:
            await close_quietly(self._episode.close)
        finally:
            self._on_end(self)

    @property
    def episode_return(self) -> float | None:
        """Sum of the rewards of a finished episode; None while it runs, when it failed and when it was cancelled."""
        if not self.ended or self.error is not None or self.stop_reason is StopReason.CANCELLED:
            return None
        return self._returns


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_ANSWER_BYTES:
        raise EpisodeFailedError(f"the environment's answer has {len(body)} bytes; at most {MAX_ANSWER_BYTES} are sent")
    return body


def _plain(info: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Built-in types only, no larger than the link can carry. Raises what the encoders raise."""
    if not info:
        return info
    plain: Mapping[str, JSON] = msgspec.json.decode(wire.dumps(dict(info)))
    msgspec.msgpack.encode(plain)
    return plain


class _Buried:
    """Stands where the episode of a finished session was."""

    async def reset(self) -> Observation:
        raise EpisodeFailedError("the episode is over")

    async def step(self, message: Message) -> StepResult:
        raise EpisodeFailedError("the episode is over")

    async def close(self) -> None:
        pass


_BURIED = _Buried()

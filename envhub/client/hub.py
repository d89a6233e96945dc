"""A hub as a program sees it: environments, and sessions that survive lost answers and restarted controllers.

Invariants: a call is repeated only in a form that the hub answers once (request key, turn number); a session that was left
early is cancelled; what failed on the hub is raised here as the same class.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

from envhub import wire
from envhub.core.clock import Clock, SystemClock
from envhub.core.endings import ended
from envhub.core.errors import (
    EnvhubError,
    EnvironmentNotFoundError,
    EpisodeError,
    SessionEndedError,
    UnavailableError,
)
from envhub.core.types import JSON, EnvironmentInfo, Identity, Message, Observation, StepResult, StopReason, TaskRef
from envhub.transport import HttpTransport, Transport

log = logging.getLogger(__name__)

DEFAULT_URL = "http://127.0.0.1:8800"
_CALL_LIMIT_S = 900.0
_CANCEL_LIMIT_S = 30.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0


class Hub:
    """A connection to a hub; ``async with Hub(url) as hub``. Safe to share between tasks of one event loop.

    ``retry_for_s``: how long a call is repeated while the hub does not answer, counted from the first failure.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        transport: Transport | None = None,
        retry_for_s: float = 60.0,
        max_connections: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._transport = transport or HttpTransport(url, key=key, max_connections=max_connections)
        self._retry_for_s = retry_for_s
        self._clock = clock or SystemClock()
        self._rng = random.Random()

    async def __aenter__(self) -> Hub:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def environments(self) -> tuple[EnvironmentInfo, ...]:
        """What can be played now."""
        answer = wire.loads_json(await self.request("GET", "/v1/environments"))
        return tuple(wire.info_from_json(each) for each in answer["environments"])

    async def info(self, environment: str) -> EnvironmentInfo:
        """Raises EnvironmentNotFoundError."""
        known = {info.name: info for info in await self.environments()}
        if environment not in known:
            raise EnvironmentNotFoundError(f"no environment is named {environment!r}; valid: {', '.join(known)}")
        return known[environment]

    def session(
        self,
        environment: str,
        split: str | None = None,
        task: int | None = None,
        *,
        seed: int | None = None,
        lease_s: float = 300.0,
        options: Mapping[str, JSON] | None = None,
        tags: Mapping[str, str] | None = None,
        wait_s: float = 600.0,
    ) -> HubSession:
        """A session to be started by ``async with`` or ``start``; ``wait_s`` is how long to wait for a free slot."""
        request = wire.StartRequest(
            environment,
            split,
            task,
            seed,
            lease_s,
            dict(options or {}),
            dict(tags or {}),
            secrets.token_urlsafe(16),
            wait_s,
        )
        return HubSession(self, request)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        limit_s: float = _CALL_LIMIT_S,
        retry_for_s: float | None = None,
    ) -> bytes:
        """One call, repeated while the hub is unavailable. Only for calls that may be repeated. Raises EnvhubError."""
        pause_s = _FIRST_PAUSE_S
        failing_since: float | None = None
        retry_for_s = self._retry_for_s if retry_for_s is None else retry_for_s
        while True:
            try:
                answer = await self._transport.request(method, path, body, limit_s)
                if answer.status < 400:
                    return answer.body
                raise wire.error_from_body(answer.status, answer.body, answer.retry_after_s)
            except UnavailableError as error:
                now = self._clock.now()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since + pause_s > retry_for_s:
                    raise
                wanted = float(error.details.get("retry_after_s", 0.0))
                log.debug("repeating %s %s: %s", method, path, error)
            await self._clock.sleep(max(pause_s, min(wanted, _LAST_PAUSE_S)) * self._rng.uniform(0.75, 1.25))
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)


class HubSession:
    """One episode on a hub. Calls are made one at a time; leaving the ``async with`` early cancels the episode."""

    def __init__(self, hub: Hub, request: wire.StartRequest, *, started: wire.Forked | None = None) -> None:
        self._hub = hub
        self._request = request
        self._started: wire.Started | None = None
        self.turn = 0
        self.done = False
        self.fork_kind: Literal["native", "replay"] | None = None
        if started is not None:
            self._know(started)
            self.turn = started.turn
            self.fork_kind = started.fork

    async def __aenter__(self) -> HubSession:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()

    async def start(self) -> Observation:
        """Start the episode and return its first observation. Raises EnvhubError."""
        if self._started is None:
            limit_s = _CALL_LIMIT_S + self._request.wait_s
            try:
                body = await self._hub.request("POST", "/v1/sessions", wire.dumps(self._request), limit_s=limit_s)
            except asyncio.CancelledError:  # the session may exist although its id never arrived
                key = quote(self._request.request_key or "", safe="")
                await _finish(self._give_up("DELETE", f"/v1/sessions?request_key={key}", b""))
                raise
            self._know(wire.loads(body, wire.Started))
        return Observation(self.messages, self.tools, self._known.info)

    async def interact(self, message: Message) -> StepResult:
        """Play one turn with an assistant message.

        A time limit that passed since the last turn truncates the episode, as one that passes during a turn does.
        Raises SessionEndedError (expired, cancelled), EpisodeError (the environment or its worker broke: no reward).
        """
        body = wire.dumps({"turn": self.turn, "message": wire.message_to_json(message)})
        try:
            answer = wire.loads(await self._hub.request("POST", self._path("interact"), body), wire.Stepped)
        except SessionEndedError as error:
            self.done = True
            if error.details.get("stop_reason") != StopReason.TIME_LIMIT:
                raise
            return _too_late(message, error)
        except EpisodeError:
            self.done = True
            raise
        self.turn = answer.turn
        self.done = answer.terminated or answer.truncated
        return wire.step_from_wire(answer)

    async def fork(self, *, lease_s: float | None = None, tags: Mapping[str, str] | None = None) -> HubSession:
        """A session of its own that goes on from this one's turn; both end apart. See ``fork_kind`` for how it was made.

        Raises UnavailableError (no free slot on its worker), SessionEndedError, EpisodeError (it cannot be doubled).
        """
        request = wire.ForkRequest(self.turn, lease_s, dict(tags or {}), secrets.token_urlsafe(16))
        try:
            body = await self._hub.request("POST", self._path("fork"), wire.dumps(request))
        except asyncio.CancelledError:
            key = quote(f"fork:{self.id}:{request.request_key}", safe="")
            await _finish(self._give_up("DELETE", f"/v1/sessions?request_key={key}", b""))
            raise
        return HubSession(self._hub, self._request, started=wire.loads(body, wire.Forked))

    async def renew(self, lease_s: float | None = None) -> None:
        """Restart the lease. Raises SessionEndedError, SessionLostError."""
        body = b"{}" if lease_s is None else wire.dumps({"lease_s": lease_s})
        await self._hub.request("POST", self._path("renew"), body)

    async def cancel(self) -> None:
        """End the episode if it still runs. Idempotent; a hub that is away is left to its lease."""
        if self._started is None or self.done:
            return
        self.done = True
        await _finish(self._give_up("POST", self._path("cancel"), b"{}"))

    @property
    def id(self) -> str:
        return self._known.session_id

    @property
    def task(self) -> TaskRef:
        return TaskRef(self._known.environment, self._known.split, self._known.task)

    @property
    def seed(self) -> int:
        return self._known.seed

    @property
    def identity(self) -> Identity:
        return wire.identity_from_json(self._known.identity)

    @property
    def max_turns(self) -> int:
        return self._known.max_turns

    @property
    def _known(self) -> wire.Started:
        if self._started is None:
            raise RuntimeError("the session has not been started: use `async with` or `await session.start()`")
        return self._started

    def _know(self, started: wire.Started) -> None:
        self._started = started
        self.messages = tuple(wire.message_from_json(each) for each in started.messages)
        self.tools = tuple(wire.tool_from_json(each) for each in started.tools)

    def _path(self, verb: str) -> str:
        return f"/v1/sessions/{quote(self._known.session_id, safe='')}/{verb}"

    async def _give_up(self, method: str, path: str, body: bytes) -> None:
        try:
            await self._hub.request(method, path, body, limit_s=_CANCEL_LIMIT_S, retry_for_s=_CANCEL_LIMIT_S)
        except EnvhubError as error:
            log.debug("cancel: %s", error)


def _too_late(message: Message, error: SessionEndedError) -> StepResult:
    """What a turn comes to that was sent after the time limit; its calls are answered, none was executed."""
    text = f"Not executed: {error.details.get('reason', error.message)}."
    replies = tuple(Message.tool(call.id, text) for call in message.tool_calls)
    return StepResult(replies, truncated=True, stop_reason=StopReason.TIME_LIMIT)


async def _finish(work: Any) -> None:
    """Let a clean-up, which bounds its own time, run to its end, however often the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    await ended([task])
    task.result()

"""Sessions of a hub as the site shows them: start, look, play, leave.

Invariant: a turn is played at most once, however often its form is sent; sessions share nothing but the catalogue.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from envhub import wire
from envhub.client.hub import Hub
from envhub.core.errors import InvalidRequestError, SessionEndedError, TurnConflictError
from envhub.core.types import JSON, Message, TaskRef, ToolCall
from envhub.envs.webshop.env import NAME, WebShopEnvironment
from envhub.envs.webshop.pages import State
from envhub.webshop_site.forms import Call
from envhub.webshop_site.mirror import PAGE_CALL, Action, Mirror

LEASE_S = 1800.0
"""How long a shopper may think."""

_WAIT_S = 5.0
_RETRY_S = 5.0
_MOST_MIRRORS = 512


@dataclass(frozen=True, slots=True)
class Visit:
    """A session at its current turn. ``reward`` and ``info`` are the hub's answer to the last turn of an ended one."""

    session_id: str
    task: TaskRef
    turn: int
    max_turns: int
    state: State
    live: bool
    reason: str | None
    reward: float | None
    info: Mapping[str, JSON]
    actions: Sequence[Sequence[Action]]
    past: Sequence[State]

    def state_at(self, turn: int) -> State:
        """Where the session stood before ``turn``; where it stands now for a turn that is not played yet."""
        return self.past[turn] if turn < len(self.past) else self.state


class Sessions:
    """``environment`` is made as the hub's is: the same catalogue."""

    def __init__(self, hub: Hub, environment: WebShopEnvironment) -> None:
        self._hub = hub
        self._environment = environment
        self._info = environment.info()
        self._mirrors: OrderedDict[str, Mirror] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def start(self, split: str, task: int, request_key: str | None) -> str:
        """The id of a new session; the same one for the same key. Raises EnvhubError."""
        request = wire.StartRequest(
            NAME, split, task, lease_s=LEASE_S, tags={"player": "page"}, request_key=request_key or None, wait_s=_WAIT_S
        )
        body = await self._call("POST", "/v1/sessions", wire.dumps(request))
        return wire.loads(body, wire.Started).session_id

    async def look(self, session_id: str) -> Visit:
        """Raises EnvhubError."""
        described = wire.loads(await self._call("GET", _path(session_id)), wire.SessionState)
        self._check(described)
        trace = wire.loads_json(await self._call("GET", _path(session_id, "trace")))
        mirror = await self._follow(described, trace["steps"])
        last = mirror.answers[-1] if mirror.answers else None
        finished = last is not None and (last.terminated or last.truncated)
        return Visit(
            session_id,
            TaskRef(NAME, described.split, described.task),
            len(mirror.messages),
            int(_options(described).get("max_turns", self._info.max_turns)),
            mirror.states[-1],
            described.state == "live" and not finished,
            (last.stop_reason if last and finished else None) or described.reason or _error(described),
            last.reward if last and finished else None,
            last.info if last else {},
            tuple(mirror.actions),
            tuple(mirror.states),
        )

    async def play(self, session_id: str, turn: int, calls: Sequence[Call]) -> bool:
        """Send a turn; False when another message was played in its place, or none can be any more. Raises EnvhubError."""
        message = _message(turn, calls)
        body = wire.dumps({"turn": turn, "message": wire.message_to_json(message)})
        try:
            await self._call("POST", _path(session_id, "interact"), body)
        except (TurnConflictError, SessionEndedError):
            return await self._was_played(session_id, turn, message)
        return True

    async def leave(self, session_id: str) -> None:
        """End it without a purchase; nothing when it is over."""
        body = wire.dumps(wire.CancelRequest("left by the shopper"))
        await self._call("POST", _path(session_id, "cancel"), body)

    async def _was_played(self, session_id: str, turn: int, message: Message) -> bool:
        trace = wire.loads_json(await self._call("GET", _path(session_id, "trace")))
        steps = trace["steps"]
        return turn < len(steps) and wire.message_to_json(message) == steps[turn].get("message")

    async def _follow(self, described: wire.SessionState, steps: Sequence[Any]) -> Mirror:
        session_id = described.session_id
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            mirror = self._mirrors.get(session_id)
            if mirror is None:
                mirror = self._mirrors[session_id] = await self._mirror(described)
            self._mirrors.move_to_end(session_id)
            await mirror.follow(steps)
        while len(self._mirrors) > _MOST_MIRRORS:
            oldest, _ = self._mirrors.popitem(last=False)
            self._locks.pop(oldest, None)
        return mirror

    async def _mirror(self, described: wire.SessionState) -> Mirror:
        given = _options(described)
        options = {name: given.get(name, default) for name, default in self._info.options.items()}
        task = TaskRef(NAME, described.split, described.task)
        return Mirror(await self._environment.open(task, seed=described.seed or 0, options=options))

    def _check(self, described: wire.SessionState) -> None:
        if described.environment != NAME:
            raise InvalidRequestError(
                f"this is a session of the environment {described.environment}, which has no shop"
            )
        played_on = (described.identity or {}).get("dataset_hash", self._info.dataset_hash)
        if played_on != self._info.dataset_hash:
            raise InvalidRequestError(
                "this session is played with another catalogue than this site shows: start the site with the hub's catalogue"
            )

    async def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        return await self._hub.request(method, path, body, retry_for_s=_RETRY_S)


def _path(session_id: str, verb: str = "") -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}" + (f"/{verb}" if verb else "")


def _options(described: wire.SessionState) -> Mapping[str, Any]:
    options: Mapping[str, Any] = (described.identity or {}).get("options", {})
    return options


def _error(described: wire.SessionState) -> str | None:
    return None if described.error is None else str(described.error.get("message"))


def _message(turn: int, calls: Sequence[Call]) -> Message:
    """The same form at the same turn makes the same message: that is how a repeated one is known."""
    made = (
        ToolCall(
            f"{PAGE_CALL}_{turn}_{position}", call.tool, json.dumps({call.argument: call.value}, ensure_ascii=False)
        )
        for position, call in enumerate(calls)
    )
    return Message.assistant(None, *made)

"""What travels on the link, as msgpack arrays; several frames share one WebSocket message when there is a queue.

Invariant: every call is answered once or called again after a reconnect; a worker answers a repeated call like the first one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from envhub.wire import EpisodeRecord

PROTOCOL_VERSION = 1
LINK_PATH = "/v1/link"
MAX_MESSAGE_BYTES = 64 * 2**20
LINKED, NOT_LINKED = b'{"linked":true}', b'{"linked":false}'
"""A controller's answers to a heartbeat."""
BAD_DATA, REFUSED = 1007, 1008
"""WebSocket close codes of a controller that will not have what a worker sent, or the worker."""
_BATCH_BYTES = 2**20


class SessionNote(Struct, frozen=True, array_like=True):
    """What the controller must know of a live session."""

    session_id: str
    environment: str
    split: str
    task: int
    started_at: float
    request_key: str | None
    tags: dict[str, str]


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """First frame of a worker on a new connection: who it is, what it can play, what is alive on it.

    ``incarnation`` differs for every process, also for one that was started again under the same ``worker_id``.
    """

    protocol: int
    worker_id: str
    version: str
    capacity: int
    environments: list[dict[str, Any]]
    sessions: list[SessionNote]
    draining: bool
    labels: dict[str, str]
    failures: list[str]
    incarnation: str = ""


class Welcome(Struct, frozen=True, array_like=True, tag="welcome"):
    """The controller's answer. ``cancel`` lists sessions that were already declared lost to their clients."""

    protocol: int
    instance: str
    heartbeat_s: float
    cancel: list[str]


class Call(Struct, frozen=True, array_like=True, tag="call"):
    """Controller to worker: run ``op`` on ``session`` with a JSON body."""

    id: int
    op: str
    session: str
    body: bytes


class Reply(Struct, frozen=True, array_like=True, tag="reply"):
    """Worker to controller: an HTTP status and a ready JSON body."""

    id: int
    status: int
    body: bytes


class Opened(Struct, frozen=True, array_like=True, tag="opened"):
    note: SessionNote


class Closed(Struct, frozen=True, array_like=True, tag="closed"):
    """The session's slot is free again."""

    session_id: str


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    """A finished episode; repeated after a reconnect until ``Stored`` names it."""

    record: EpisodeRecord


class Stored(Struct, frozen=True, array_like=True, tag="stored"):
    session_id: str


class Draining(Struct, frozen=True, array_like=True, tag="draining"):
    draining: bool


class Failed(Struct, frozen=True, array_like=True, tag="failed"):
    """A part of the worker that belongs to no session failed and was started again."""

    failures: list[str]


class Bye(Struct, frozen=True, array_like=True, tag="bye"):
    """The worker ends in an orderly way; its sessions are closed."""

    reason: str


Frame = Hello | Welcome | Call | Reply | Opened | Closed | Finished | Stored | Draining | Failed | Bye

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Frame]] = msgspec.msgpack.Decoder(list[Frame])


def encode(frames: Sequence[Frame]) -> bytes:
    return _encoder.encode(frames)


def decode(message: bytes) -> list[Frame]:
    """Raises msgspec.DecodeError for anything that is not a list of frames."""
    return _decoder.decode(message)


class Outbox:
    """Frames waiting to be sent on one connection, coalesced into few messages."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._wake.set()

    def close(self) -> None:
        """Let ``pump`` return once everything queued has been sent."""
        self._closed = True
        self._wake.set()

    async def pump(self, send: Callable[[bytes], Awaitable[Any]]) -> None:
        """Send until closed. Returns early, by exception, when ``send`` fails."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._frames:
                await send(encode(self._take()))
            if self._closed:
                return

    def _take(self) -> list[Frame]:
        batch: list[Frame] = []
        size = 0
        while self._frames and size < _BATCH_BYTES:
            frame = self._frames.popleft()
            size += _size(frame)
            batch.append(frame)
        return batch


def _size(frame: Frame) -> int:
    if isinstance(frame, (Call, Reply)):
        return len(frame.body)
    if isinstance(frame, Finished):
        return len(frame.record.trace)
    return 64

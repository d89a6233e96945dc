"""The HTTP edge in plain ASGI: bodies, answers, and noticing that a client has gone.

Invariant: nothing here buffers more than the body limit, and a client that disconnects cancels what it was waiting for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from types import TracebackType
from typing import Any

from envhub import wire
from envhub.core.errors import BodyTooLargeError, EnvhubError, UnavailableError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 8 * 2**20
_WATCH_AFTER_S = 0.1
_JSON = (b"content-type", b"application/json")


class ClientGoneError(Exception):
    """The client closed its connection before it was answered."""


async def read_body(receive: Receive) -> bytes:
    """The whole request body. Raises BodyTooLargeError, ClientGoneError."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"the body is larger than {MAX_BODY_BYTES} bytes", limit_bytes=MAX_BODY_BYTES)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def send_answer(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """One complete JSON answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def error_headers(error: EnvhubError) -> list[tuple[bytes, bytes]]:
    """``Retry-After`` where trying again makes sense, ``WWW-Authenticate`` where a key is missing."""
    if isinstance(error, UnavailableError):
        seconds = max(1, round(float(error.details.get("retry_after_s", 1.0))))
        return [(b"retry-after", str(seconds).encode())]
    return [(b"www-authenticate", b"Bearer")] if error.status == 401 else []


async def send_error(send: Send, error: EnvhubError) -> None:
    await send_answer(send, error.status, wire.error_body(error), error_headers(error))


class ClientWatch:
    """``async with ClientWatch(receive):`` cancels its body when the client disconnects, and then raises ClientGoneError.

    Watching starts a little late, so that quick answers do not pay for it. ``receive`` must not be used inside.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ClientWatch:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_S, self._begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._gone and kind is asyncio.CancelledError and self._task.uncancel() == 0:
            raise ClientGoneError from error

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()

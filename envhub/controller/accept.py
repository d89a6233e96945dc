"""The controller's end of a link: one WebSocket per worker.

Invariant: whatever arrives on the socket, the controller stays up; a connection that speaks nonsense is closed.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from envhub.controller.asgi import Receive, Scope, Send
from envhub.controller.auth import Keys
from envhub.controller.workers import Worker, Workers
from envhub.core.errors import AuthenticationError
from envhub.link.frames import PROTOCOL_VERSION, Frame, Hello, Outbox, Welcome, decode

log = logging.getLogger(__name__)

_BAD_DATA, _REFUSED = 1007, 1008


class LinkEndpoint:
    """ASGI endpoint of the link."""

    def __init__(self, workers: Workers, keys: Keys) -> None:
        self._workers = workers
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._keys.check_worker(scope["headers"])
        except AuthenticationError as error:
            log.warning("a worker was refused: %s", error)
            await send({"type": "websocket.close", "code": _REFUSED, "reason": str(error)})
            return
        await send({"type": "websocket.accept"})
        outbox = Outbox()
        worker: Worker | None = None
        pump = asyncio.create_task(outbox.pump(lambda data: send({"type": "websocket.send", "bytes": data})))
        try:
            hello = _first(await _frames(receive))
            worker, cancel = self._workers.attach(hello, outbox)
            settings = self._workers.settings
            outbox.put(Welcome(PROTOCOL_VERSION, self._workers.instance, settings.heartbeat_s, cancel))
            self._workers.attached(worker)
            await self._serve(worker, receive, pump)
        except msgspec.DecodeError as error:
            log.warning("a link was closed for bad data: %s", error)
            await send({"type": "websocket.close", "code": _BAD_DATA, "reason": str(error)[:100]})
        except EOFError:
            pass
        finally:
            if worker is not None:
                self._workers.detach(worker, outbox)
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def _serve(self, worker: Worker, receive: Receive, pump: asyncio.Task[None]) -> None:
        """Deliver what the worker sends until it goes, or until this link's outbox is closed."""
        while True:
            arriving = asyncio.ensure_future(_frames(receive))
            await asyncio.wait({arriving, pump}, return_when=asyncio.FIRST_COMPLETED)
            if not arriving.done():
                arriving.cancel()
                await asyncio.gather(arriving, return_exceptions=True)
                return
            self._workers.receive(worker, arriving.result())


async def _frames(receive: Receive) -> list[Frame]:
    """Frames of the next message. Raises EOFError at the end of the connection, msgspec.DecodeError."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise EOFError
    data = message.get("bytes")
    if data is None:
        raise msgspec.DecodeError("expected a binary message")
    return decode(data)


def _first(frames: list[Frame]) -> Hello:
    if len(frames) != 1 or not isinstance(frames[0], Hello):
        raise msgspec.DecodeError("expected a hello frame first")
    if frames[0].protocol != PROTOCOL_VERSION:
        raise msgspec.DecodeError(f"this controller speaks protocol {PROTOCOL_VERSION}")
    return frames[0]

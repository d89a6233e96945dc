"""The controller's end of a link: one WebSocket per worker.

Invariant: whatever arrives on the socket, the controller stays up; a connection that speaks nonsense is closed.
"""

from __future__ import annotations

import asyncio
import logging
import re

import msgspec

from envhub.controller.asgi import Receive, Scope, Send
from envhub.controller.auth import Keys
from envhub.controller.workers import Worker, Workers, WorkerTakenError
from envhub.core.errors import AuthenticationError
from envhub.link.frames import BAD_DATA, PROTOCOL_VERSION, REFUSED, Frame, Hello, Outbox, Welcome, decode

log = logging.getLogger(__name__)

_WORKER_ID = re.compile(r"w[a-z0-9]{4,32}")


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
            await send({"type": "websocket.close", "code": REFUSED, "reason": str(error)})
            return
        await send({"type": "websocket.accept"})
        outbox = Outbox()
        worker: Worker | None = None
        pump = asyncio.create_task(outbox.pump(lambda data: send({"type": "websocket.send", "bytes": data})))
        try:
            first, *later = await _frames(receive)
            hello = _checked(first)
            worker, cancel = self._workers.attach(hello, outbox)
            settings = self._workers.settings
            outbox.put(Welcome(PROTOCOL_VERSION, self._workers.instance, settings.heartbeat_s, cancel))
            self._workers.attached(worker)
            self._workers.receive(worker, later)
            await self._serve(worker, receive, pump)
        except msgspec.DecodeError as error:
            log.warning("a link was closed for bad data: %s", error)
            await send({"type": "websocket.close", "code": BAD_DATA, "reason": str(error)[:100]})
        except WorkerTakenError as error:
            log.error("a worker was refused: %s", error)
            await send({"type": "websocket.close", "code": REFUSED, "reason": str(error)})
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
    """Frames of the next message, at least one. Raises EOFError at the end of the connection, msgspec.DecodeError."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise EOFError
    data = message.get("bytes")
    if data is None:
        raise msgspec.DecodeError("expected a binary message")
    frames = decode(data)
    if not frames:
        raise msgspec.DecodeError("expected at least one frame")
    return frames


def _checked(frame: Frame) -> Hello:
    """Raises msgspec.DecodeError."""
    if not isinstance(frame, Hello):
        raise msgspec.DecodeError("expected a hello frame first")
    if frame.protocol != PROTOCOL_VERSION:
        raise msgspec.DecodeError(f"this controller speaks protocol {PROTOCOL_VERSION}")
    if not _WORKER_ID.fullmatch(frame.worker_id) or frame.capacity < 1:
        raise msgspec.DecodeError("expected a worker id such as w1a2b3 and a capacity of at least 1")
    return frame

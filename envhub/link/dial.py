"""The worker's end of a link: dials one controller, serves its calls, and comes back when the connection breaks.

Invariant: a connection failure never ends the worker or a session; heartbeats come from a thread of their own, so that a busy
event loop is not taken for a dead worker.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import msgspec

from envhub.core.clock import Clock
from envhub.link.frames import (
    BAD_DATA,
    LINK_PATH,
    MAX_MESSAGE_BYTES,
    NOT_LINKED,
    PROTOCOL_VERSION,
    REFUSED,
    Bye,
    Call,
    Outbox,
    Reply,
    Stored,
    Welcome,
    decode,
)
from envhub.link.protocols import WorkerEnd

log = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 3.0


class RefusedError(Exception):
    """The controller will not have this worker: wrong key or protocol. Retried slowly, logged loudly."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a controller listens; ``url`` is its HTTP base URL."""

    url: str
    key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


class Dialer:
    """Keeps one worker linked to one controller until ``close``."""

    def __init__(self, address: Address, end: WorkerEnd, *, clock: Clock, rng: random.Random) -> None:
        self._address = address
        self._rng = rng
        self._end = end
        self._clock = clock
        self._calls: set[asyncio.Task[None]] = set()
        self._outbox: Outbox | None = None
        self._closing = False
        self.linked = asyncio.Event()

    async def run(self) -> None:
        """Connect, serve, reconnect. Returns after ``close``; cancellation ends it at once."""
        delay = _FIRST_RETRY_S
        async with aiohttp.ClientSession(headers=self._address.headers) as http_session:
            while not self._closing:
                try:
                    await self._serve(http_session)
                    delay = _FIRST_RETRY_S
                except RefusedError as error:
                    log.error("controller %s refused this worker: %s", self._address.url, error)
                    delay = _LAST_RETRY_S
                except (aiohttp.ClientError, OSError, msgspec.DecodeError, TimeoutError) as error:
                    log.info("no link to %s: %s", self._address.url, error)
                    delay = min(delay * 2, _LAST_RETRY_S)
                except Exception:  # boundary: a fault on one connection must not end the worker
                    log.exception("the link to %s broke", self._address.url)
                    delay = _LAST_RETRY_S
                if not self._closing:
                    await self._clock.sleep(delay * self._rng.uniform(0.5, 1.0))
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def close(self, reason: str) -> None:
        """Say goodbye and stop."""
        self._closing = True
        if self._outbox is not None:
            self._outbox.put(Bye(reason))
            self._outbox.close()

    async def _serve(self, http_session: aiohttp.ClientSession) -> None:
        url = self._address.url.rstrip("/") + LINK_PATH
        try:
            socket = await http_session.ws_connect(url, max_msg_size=MAX_MESSAGE_BYTES, compress=0)
        except aiohttp.WSServerHandshakeError as error:
            if error.status in (401, 403):
                raise RefusedError("the worker key is missing or wrong") from error
            raise
        async with socket:
            outbox = Outbox()
            outbox.put(self._end.hello())
            unsubscribe = self._end.subscribe(outbox.put)  # at once, so that no event falls between hello and welcome
            forgotten = asyncio.Event()
            pump = asyncio.create_task(outbox.pump(socket.send_bytes))
            reader = asyncio.create_task(self._read(socket, outbox, forgotten))
            missing = asyncio.create_task(forgotten.wait())
            try:
                await asyncio.wait({pump, reader, missing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                unsubscribe()
                self._outbox = None
                self.linked.clear()
                for task in (pump, reader, missing):
                    task.cancel()
                outcomes = await asyncio.gather(pump, reader, missing, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, outbox: Outbox, forgotten: asyncio.Event) -> None:
        heartbeat: Heartbeat | None = None
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    continue
                for frame in decode(message.data):
                    if isinstance(frame, Call):
                        self._spawn(frame, outbox)
                    elif isinstance(frame, Stored):
                        self._end.stored(frame.session_id)
                    elif isinstance(frame, Welcome):
                        if frame.protocol != PROTOCOL_VERSION:
                            raise RefusedError(f"it speaks protocol {frame.protocol}, this worker {PROTOCOL_VERSION}")
                        self._end.abandon(frame.cancel)
                        heartbeat = self._heartbeat(frame, forgotten)
                        heartbeat.start()
                        self._outbox = outbox
                        self.linked.set()
                        log.info("linked to %s (instance %s)", self._address.url, frame.instance)
        finally:
            if heartbeat is not None:
                heartbeat.stop()
        if socket.close_code in (BAD_DATA, REFUSED):
            raise RefusedError(f"it closed the link with code {socket.close_code}; its log says why")

    def _heartbeat(self, welcome: Welcome, forgotten: asyncio.Event) -> Heartbeat:
        loop = asyncio.get_running_loop()
        worker_id = self._end.hello().worker_id
        on_unknown = functools.partial(loop.call_soon_threadsafe, forgotten.set)
        return Heartbeat(self._address, worker_id, welcome.heartbeat_s, on_unknown=on_unknown)

    def _spawn(self, call: Call, outbox: Outbox) -> None:
        task = asyncio.create_task(self._answer(call, outbox))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, call: Call, outbox: Outbox) -> None:
        status, body = await self._end.handle(call.op, call.session, call.body)
        outbox.put(Reply(call.id, status, body))


class Heartbeat:
    """A thread that tells a controller every ``interval_s`` that this process is alive.

    ``on_unknown`` is called in that thread when the controller answers that it does not have this worker's link.
    """

    def __init__(
        self, address: Address, worker_id: str, interval_s: float, *, on_unknown: Callable[[], object]
    ) -> None:
        self._on_unknown = on_unknown
        self._address = address
        self._path = f"{urlsplit(address.url).path.rstrip('/')}/v1/workers/{worker_id}/heartbeat"
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="envhub-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; does not wait for it."""
        self._stopped.set()

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stopped.wait(self._interval_s):
            try:
                if connection is None:
                    connection = self._connect()
                connection.request("POST", self._path, b"", self._address.headers)
                if connection.getresponse().read() == NOT_LINKED and not self._stopped.is_set():
                    self._on_unknown()
            except (OSError, http.client.HTTPException) as error:
                log.debug("heartbeat not delivered: %s", error)
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._address.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "127.0.0.1", parts.port, timeout=5.0)

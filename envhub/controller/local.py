"""A link inside one process: the same frames, no socket.

Invariant: an open link is never taken for a silent one, however little there is to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from envhub.controller.workers import Worker, Workers
from envhub.core.clock import Clock
from envhub.link.frames import Call, Frame, Outbox, Reply, Stored, decode, encode
from envhub.link.protocols import WorkerEnd


class LocalLink:
    """Attaches a worker of this process to a controller of this process. Frames are encoded and decoded as on the wire."""

    def __init__(self, workers: Workers, end: WorkerEnd, *, clock: Clock) -> None:
        self._workers = workers
        self._end = end
        self._clock = clock
        self._outbox = Outbox()
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker: Worker | None = None
        self._unsubscribe: Callable[[], None] | None = None

    async def open(self) -> None:
        self._worker, cancel = self._workers.attach(self._end.hello(), self._outbox)
        self._end.abandon(cancel)
        self._workers.attached(self._worker)
        self._unsubscribe = self._end.subscribe(self._up)
        self._spawn(self._outbox.pump(self._down))
        self._spawn(self._beat(self._worker.id))

    async def close(self) -> None:
        """Break the link, as a lost connection would."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._worker is not None:
            self._workers.detach(self._worker, self._outbox)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _beat(self, worker_id: str) -> None:
        while True:
            await self._clock.sleep(self._workers.settings.heartbeat_s)
            self._workers.heartbeat(worker_id)

    def _up(self, frame: Frame) -> None:
        assert self._worker is not None
        self._workers.receive(self._worker, decode(encode([frame])))

    async def _down(self, message: bytes) -> None:
        for frame in decode(message):
            if isinstance(frame, Call):
                self._spawn(self._answer(frame))
            elif isinstance(frame, Stored):
                self._end.stored(frame.session_id)

    async def _answer(self, call: Call) -> None:
        status, body = await self._end.handle(call.op, call.session, call.body)
        self._up(Reply(call.id, status, body))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""A hub of one environment in this process: the worker's own sessions, without network, controller or store.

Invariant: sessions behave as on any worker (order, limits, truncation, closing); leaving the context ends them all and frees
the environment when it was made here.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

from envhub import wire
from envhub.client.hub import Hub
from envhub.core.clock import SystemClock
from envhub.core.protocols import Environment
from envhub.envs import registry
from envhub.link.frames import Finished, Frame
from envhub.transport import HttpAnswer
from envhub.worker.service import WorkerService
from envhub.worker.table import TableSettings

_CAPACITY = 1_000_000  # callers hold the sessions; nobody else waits for a slot
_SETTINGS = TableSettings(capacity=_CAPACITY, tombstone_s=60.0)


@asynccontextmanager
async def embedded_hub(environment: str | Environment) -> AsyncIterator[Hub]:
    """Serve one environment on the running loop; an environment given by name is made and closed here."""
    served = registry.create(environment) if isinstance(environment, str) else _Borrowed(environment)
    service = WorkerService(
        {served.info().name: served}, worker_id="embedded", clock=SystemClock(), rng=random.Random(), settings=_SETTINGS
    )

    def discard(frame: Frame) -> None:
        if isinstance(frame, Finished):
            service.stored(frame.record.session_id)

    unsubscribe = service.subscribe(discard)
    reaper = asyncio.create_task(service.reap())
    try:
        yield Hub("embedded", transport=_WorkerTransport(service))
    finally:
        reaper.cancel()
        await asyncio.wait({reaper})
        await service.table.shutdown()
        unsubscribe()


class _WorkerTransport:
    """The part of the public API that players use, straight into a worker. Implements ``envhub.transport.Transport``."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        match [unquote(part) for part in path.split("/")[2:]]:
            case ["environments"]:
                infos = [wire.info_to_json(info) for info in self._service.table.infos.values()]
                return HttpAnswer(200, wire.dumps({"environments": infos}))
            case ["sessions"]:
                return HttpAnswer(*await self._service.handle("start", uuid.uuid4().hex, body))
            case ["sessions", session_id, verb]:
                return HttpAnswer(*await self._service.handle(verb, session_id, body))
        raise ValueError(f"players make no call to {path}")

    async def close(self) -> None:
        pass


class _Borrowed:
    """An environment whose owner closes it."""

    def __init__(self, owned: Environment) -> None:
        self.info = owned.info
        self.open = owned.open
        self.solution = owned.solution
        self.lint = owned.lint

    async def close(self) -> None:
        pass

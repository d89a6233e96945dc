"""The whole hub inside one process: controller, worker and client, with or without a socket.

Invariant: it is the same controller and the same worker as in separate processes; only the link between them has no socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.controller import main as controller_main
from envhub.controller.app import HubApp
from envhub.controller.archive import MemoryArchive
from envhub.controller.local import LocalLink
from envhub.controller.service import Archive, ControllerService
from envhub.core.clock import Clock, SystemClock
from envhub.core.protocols import Environment
from envhub.transport import AsgiTransport
from envhub.worker import main as worker_main
from envhub.worker.service import WorkerService

__all__ = ["EmbeddedHub", "embedded_hub", "served_hub"]


@dataclass(frozen=True, slots=True)
class EmbeddedHub:
    """The parts of a running hub. ``hub`` is connected to it; ``url`` is None without a socket."""

    hub: Hub
    controller: ControllerService
    worker: WorkerService
    app: HubApp
    archive: Archive
    url: str | None = None


@asynccontextmanager
async def embedded_hub(
    environments: Mapping[str, Environment],
    *,
    settings: Settings = Settings(),  # noqa: B008
    clock: Clock | None = None,
    archive: Archive | None = None,
) -> AsyncIterator[EmbeddedHub]:
    """A hub without a socket. Closes the environments at the end."""
    clock = clock or SystemClock()
    archive = archive or MemoryArchive()
    app, controller = controller_main.build(settings, clock=clock, archive=archive)
    worker = worker_main.build(environments, settings, clock=clock)
    async with controller_main.running(controller), worker_main.running(worker):
        link = LocalLink(controller.workers, worker, clock=clock)
        await link.open()
        hub = Hub(transport=AsgiTransport(app, key=settings.client_key), clock=clock)
        try:
            yield EmbeddedHub(hub, controller, worker, app, archive)
        finally:
            await hub.close()
            await worker.table.shutdown()
            await link.close()


@asynccontextmanager
async def served_hub(
    environments: Mapping[str, Environment],
    *,
    settings: Settings = Settings(port=0),  # noqa: B008
    clock: Clock | None = None,
    archive: Archive | None = None,
) -> AsyncIterator[EmbeddedHub]:
    """The same, reachable at ``url`` through a real socket; ``hub`` is connected through it."""
    async with embedded_hub(environments, settings=settings, clock=clock, archive=archive) as inner:
        bound = controller_main.listen(settings.host, settings.port)
        async with controller_main.serving(inner.app, bound) as url, Hub(url, key=settings.client_key) as hub:
            yield EmbeddedHub(hub, inner.controller, inner.worker, inner.app, inner.archive, url)

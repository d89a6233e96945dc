"""Composition root of the worker: environments from settings, linked to its controllers until it is told to stop.

Invariant: on SIGTERM every session is ended, its sandbox freed and its record offered to a controller before the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import string
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from envhub.config import Settings
from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import MissingExtraError, SandboxUnavailableError
from envhub.core.protocols import Environment
from envhub.core.types import JSON
from envhub.envs import registry
from envhub.link.dial import Address, Dialer
from envhub.stopping import stop_signals
from envhub.worker.service import WorkerService
from envhub.worker.table import TableSettings

log = logging.getLogger(__name__)

_ID_LETTERS = string.ascii_lowercase + string.digits
_WITH_DATASETS = frozenset({"alfworld", "db", "kg", "os"})
_STORED_WITHIN_S = 3.0
_HEALTH_S = 2.0


def new_worker_id() -> str:
    """A name that is never used again."""
    return "w" + "".join(secrets.choice(_ID_LETTERS) for _ in range(12))


def make_environments(settings: Settings) -> dict[str, Environment]:
    """The environments asked for, or all that this machine can run.

    Raises MissingExtraError or SandboxUnavailableError for one that was asked for.
    """
    made: dict[str, Environment] = {}
    for name in settings.environments or registry.names():
        try:
            made[name] = registry.create(name, environment_settings(settings, name))
        except (MissingExtraError, SandboxUnavailableError) as error:
            if settings.environments:
                raise
            log.warning("%s", error)
    return made


def environment_settings(settings: Settings, name: str) -> dict[str, JSON]:
    """What the factory of environment ``name`` is told."""
    own: dict[str, JSON] = dict(settings.environment_settings.get(name, {}))
    if settings.datasets is not None and name in _WITH_DATASETS:
        own.setdefault("datasets", settings.datasets)
    if settings.images is not None and name == "os":
        own.setdefault("images", settings.images)
    return own


def build(
    environments: Mapping[str, Environment], settings: Settings, *, clock: Clock, worker_id: str | None = None
) -> WorkerService:
    return WorkerService(
        environments,
        worker_id=worker_id or settings.worker_id or new_worker_id(),
        clock=clock,
        rng=random.Random(secrets.randbits(64)),
        settings=TableSettings(
            capacity=settings.capacity, max_step_s=settings.max_step_s, image_digest=settings.image_digest
        ),
        labels=settings.labels,
    )


@asynccontextmanager
async def running(service: WorkerService) -> AsyncIterator[None]:
    """Run the reaper; on the way out end every session."""
    reaper = asyncio.create_task(service.reap(), name="reaper")
    try:
        yield
    finally:
        await service.table.shutdown()
        reaper.cancel()
        await asyncio.gather(reaper, return_exceptions=True)


async def run(settings: Settings, *, parent: int | None = None) -> None:
    """The worker program; with ``parent`` it stops when it is no longer that process's child."""
    with stop_signals(patience_s=settings.drain_s) as stopped:
        await _serve(settings, parent, stopped)


async def _serve(settings: Settings, parent: int | None, stopped: asyncio.Event) -> None:
    clock = SystemClock()
    service = build(make_environments(settings), settings, clock=clock)
    rng = random.Random(service.worker_id)
    addresses = [Address(url, settings.worker_key) for url in settings.controllers]
    dialers = [Dialer(address, service, clock=clock, rng=rng) for address in addresses]
    links = [asyncio.create_task(dialer.run(), name="link") for dialer in dialers]
    log.info("worker %s serves %s", service.worker_id, ", ".join(service.table.environments))
    orphanage = asyncio.create_task(_until_orphaned(parent, clock, stopped), name="orphanage")
    if settings.health_file is not None:
        links.append(asyncio.create_task(_show_health(Path(settings.health_file), dialers, clock), name="health"))
    for link in links:
        link.add_done_callback(lambda _: stopped.set())  # a worker without a link is of no use
    async with running(service):
        await stopped.wait()
        await _drain(service, clock, settings.drain_s)
    await _goodbye(service, clock, dialers)
    for task in (*links, orphanage):
        task.cancel()
    for outcome in await asyncio.gather(*links, orphanage, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _until_orphaned(parent: int | None, clock: Clock, stopped: asyncio.Event) -> None:
    while parent is not None and os.getppid() == parent:
        await clock.sleep(1.0)
    if parent is not None:
        stopped.set()


async def _show_health(file: Path, dialers: Sequence[Dialer], clock: Clock) -> None:
    """Touch ``file`` as long as a controller is linked: its age is what a container's health check looks at."""
    while True:
        if any(dialer.linked.is_set() for dialer in dialers):
            await asyncio.to_thread(file.touch)
        await clock.sleep(_HEALTH_S)


async def _drain(service: WorkerService, clock: Clock, limit_s: float) -> None:
    """Take no new sessions, and give the live ones a moment to end by themselves."""
    service.table.drain()
    until = clock.now() + limit_s
    while service.table.n_slots_taken and clock.now() < until:
        await clock.sleep(0.1)


async def _goodbye(service: WorkerService, clock: Clock, dialers: Iterable[Dialer]) -> None:
    """Wait a little for the last records to be stored, then take leave."""
    until = clock.now() + _STORED_WITHIN_S
    while service.table.unstored() and clock.now() < until:
        await clock.sleep(0.05)
    if left := len(service.table.unstored()):
        log.warning("%d finished episodes could not be handed to a controller", left)
    for dialer in dialers:
        await dialer.close("it was stopped")
    await clock.sleep(0.1)

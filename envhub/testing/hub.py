"""Hubs for tests: by environment names or by environment objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from envhub import embedded
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.service import Archive
from envhub.core.clock import Clock
from envhub.core.protocols import Environment
from envhub.embedded import EmbeddedHub
from envhub.envs import registry

Environments = Mapping[str, Environment] | Sequence[str]


@asynccontextmanager
async def local_hub(
    environments: Environments = ("calculator",),
    *,
    capacity: int = 256,
    clock: Clock | None = None,
    archive: Archive | None = None,
) -> AsyncIterator[EmbeddedHub]:
    """A whole hub in this process, without a socket."""
    settings = Settings(capacity=capacity)
    archive = archive or MemoryArchive()
    made = _made(environments)
    async with embedded.embedded_hub(made, settings=settings, clock=clock, archive=archive) as hub:
        yield hub


@asynccontextmanager
async def served_hub(
    environments: Environments = ("calculator",),
    *,
    capacity: int = 256,
    clock: Clock | None = None,
    archive: Archive | None = None,
) -> AsyncIterator[EmbeddedHub]:
    """A whole hub in this process, reachable at ``url`` over a loopback socket."""
    settings = Settings(port=0, capacity=capacity)
    archive = archive or MemoryArchive()
    made = _made(environments)
    async with embedded.served_hub(made, settings=settings, clock=clock, archive=archive) as hub:
        yield hub


def _made(environments: Environments) -> Mapping[str, Environment]:
    if isinstance(environments, Mapping):
        return environments
    return {name: registry.create(name) for name in environments}

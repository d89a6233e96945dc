"""A hub of one environment in this process, for players that were given no URL.

Invariant: an environment given by name is made and closed here; one given as an object is left to its owner.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.core.protocols import Environment
from envhub.embedded import embedded_hub
from envhub.envs import registry

_SETTINGS = Settings(capacity=1_000_000)  # callers hold the sessions; nobody else waits for a slot


@asynccontextmanager
async def hub_of(environment: str | Environment) -> AsyncIterator[Hub]:
    """Serve one environment on the running loop; nothing of finished episodes is kept."""
    served = registry.create(environment) if isinstance(environment, str) else _Borrowed(environment)
    environments = {served.info().name: served}
    async with embedded_hub(environments, settings=_SETTINGS, archive=MemoryArchive(most=0)) as inner:
        yield inner.hub


class _Borrowed:
    """An environment whose owner closes it."""

    def __init__(self, owned: Environment) -> None:
        self.info = owned.info
        self.open = owned.open
        self.solution = owned.solution
        self.lint = owned.lint

    async def close(self) -> None:
        pass

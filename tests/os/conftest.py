"""The OS environment on the sandboxes of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxUnavailableError
from envhub.core.sandbox import Sandbox, SandboxDriver, SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import Machine, probe
from tests.require import lacking


class Started:
    """Sandboxes started when they are asked for."""

    def __init__(self, driver: SandboxDriver) -> None:
        self.driver = driver

    async def acquire(self, spec: SandboxSpec) -> Sandbox:
        return await self.driver.start(spec)

    async def close(self) -> None:
        return None


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    try:
        return probe(tmp_path_factory.mktemp("probe"))
    except SandboxUnavailableError as error:
        lacking("bubblewrap", str(error))


@pytest.fixture
async def driver(machine: Machine, tmp_path: Path) -> AsyncIterator[SandboxDriver]:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    made = BubblewrapDriver(machine, owner=Owner.current(), clock=SystemClock(), runtime=runtime)
    yield made
    await made.close()


@pytest.fixture
def sandboxes(driver: SandboxDriver) -> Started:
    return Started(driver)

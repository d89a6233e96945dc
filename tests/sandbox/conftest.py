"""Drivers for the sandbox tests: what a machine cannot run is skipped with the reason, or fails when ENVHUB_REQUIRE lists it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxUnavailableError
from envhub.core.sandbox import Sandbox, SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import Machine, probe
from tests.require import lacking


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    try:
        return probe(tmp_path_factory.mktemp("probe"))
    except SandboxUnavailableError as error:
        lacking("bubblewrap", f"bubblewrap: {error}")
        raise


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
async def bubblewrap(machine: Machine, runtime: Path) -> AsyncIterator[BubblewrapDriver]:
    """A driver that shows this machine's own programs, whatever images are prepared on it."""
    driver = BubblewrapDriver(
        machine, owner=Owner.current(), clock=SystemClock(), runtime=runtime, image_root=runtime.parent / "no-images"
    )
    yield driver
    await driver.close()


@pytest.fixture
async def box(bubblewrap: BubblewrapDriver) -> AsyncIterator[Sandbox]:
    sandbox = await bubblewrap.start(SandboxSpec())
    yield sandbox
    await sandbox.close()

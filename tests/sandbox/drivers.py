"""The drivers of this machine, for tests that every driver must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.sandbox import SandboxDriver, SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.docker import DockerDriver
from envhub.sandbox.owner import Owner
from tests.require import lacking

NAMES = ("bubblewrap", pytest.param("docker", marks=pytest.mark.docker))


@asynccontextmanager
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[SandboxDriver]:
    """The driver that the parameter of a fixture names."""
    driver = _docker() if request.param == "docker" else _bubblewrap(request)
    try:
        yield driver
    finally:
        await driver.close()


def _bubblewrap(request: pytest.FixtureRequest) -> SandboxDriver:
    machine = request.getfixturevalue("machine")
    folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("bubblewrap")
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    return BubblewrapDriver(
        machine, owner=Owner.current(), clock=SystemClock(), runtime=runtime, image_root=folder / "no-images"
    )


def _docker() -> SandboxDriver:
    driver = DockerDriver(clock=SystemClock())
    try:
        driver.image_digest(SandboxSpec().image)
    except EnvhubError as error:
        lacking("docker", f"docker: {error}")
    return driver

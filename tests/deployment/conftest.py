"""Deployments for the tests: up once for a module, away at its end, whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deployment.deployment import Deployment, missing
from tests.require import lacking


@pytest.fixture(scope="session")
def engine() -> None:
    if (why := missing()) is not None:
        lacking("docker", why)


@pytest.fixture
def make(engine: None, tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    """Makes deployments of the profiles, files and settings that are asked for."""
    made: list[Deployment] = []

    def with_profiles(profiles: str, *files: str, **settings: str) -> Deployment:
        made.append(Deployment(tmp_path, profiles=profiles, files=files, settings=settings))
        return made[-1]

    yield with_profiles
    for each in made:
        each.down()


@pytest.fixture(scope="module")
def deployment(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Everything, as ``docker compose up`` starts it."""
    whole = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        whole.up()
        yield whole
    finally:
        whole.down()

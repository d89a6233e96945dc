"""The named catalogues that tests share, made once a session in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envhub.envs.webshop.tasks import Tasks, open_tasks


@pytest.fixture(scope="session")
def catalogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for named catalogues."""
    return tmp_path_factory.mktemp("catalogues")


@pytest.fixture(scope="session")
def tiny(catalogues: Path) -> Iterator[Tasks]:
    tasks = open_tasks("tiny", cache=catalogues)
    yield tasks
    tasks.close()


@pytest.fixture(scope="session")
def small(catalogues: Path) -> Iterator[Tasks]:
    tasks = open_tasks("small", cache=catalogues)
    yield tasks
    tasks.close()

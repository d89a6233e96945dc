"""Servers shared by the database tests of one run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.db.mariadb_server import any_mysql


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MariaDB or MySQL server with an administrator's account; see ``any_mysql``."""
    with any_mysql(tmp_path_factory.mktemp("mariadb")) as url:
        yield url

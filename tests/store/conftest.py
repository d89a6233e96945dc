"""Episode records and databases for the tests of the store."""

from __future__ import annotations

import asyncio
import heapq
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, make_url

from envhub.core.types import StopReason
from envhub.store.episodes import EpisodeStore
from envhub.wire import EpisodeRecord, dumps
from tests.require import lacking

MakeRecord = Callable[..., EpisodeRecord]


class ManualClock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._n = 0

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._n += 1
        heapq.heappush(self._sleeping, (self.time + seconds, self._n, future))
        await future

    def advance(self, seconds: float) -> None:
        self.time += seconds
        while self._sleeping and self._sleeping[0][0] <= self.time:
            _, _, future = heapq.heappop(self._sleeping)
            if not future.done():
                future.set_result(None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    def make(number: int = 0, **changes: Any) -> EpisodeRecord:
        messages = [{"role": "user", "content": f"task {number}: 你好 😀 \u0000 end"}]
        fields: dict[str, Any] = {
            "session_id": f"w1-{number}",
            "environment": "db",
            "split": "test",
            "task": number,
            "seed": 2**63 - 1,
            "worker": "w1",
            "identity": {"environment": "db", "version": "1", "dataset_hash": "aa", "digest": "0123456789ab"},
            "tags": {"run": "r1"},
            "started_at": 1_700_000_000.25 + number,
            "ended_at": 1_700_000_010.5 + number,
            "turns": 3,
            "episode_return": 0.1,
            "terminated": True,
            "truncated": False,
            "stop_reason": StopReason.COMPLETED,
            "error": None,
            "reason": None,
            "info": {"nested": [1, None, "é"]},
            "trace": dumps({"messages": messages, "tools": [], "steps": []}),
        }
        return EpisodeRecord(**(fields | changes))

    return make


@pytest.fixture(scope="session")
def make_failure(make_record: MakeRecord) -> MakeRecord:
    def make(number: int = 0, **changes: Any) -> EpisodeRecord:
        error = {"code": "session_lost", "message": "its worker is gone", "details": {}}
        failure = {"episode_return": None, "error": error, "terminated": False, "stop_reason": None}
        return make_record(number, **(failure | changes))

    return make


@pytest.fixture(scope="session")
def make_cancelled(make_record: MakeRecord) -> MakeRecord:
    def make(number: int = 0, **changes: Any) -> EpisodeRecord:
        cancelled = {"episode_return": None, "terminated": False, "stop_reason": StopReason.CANCELLED}
        return make_record(number, **(cancelled | changes))

    return make


@pytest.fixture(scope="session")
def mysql_server() -> URL:
    """A server on which databases may be made; ENVHUB_MYSQL_URL names it."""
    url = os.environ.get("ENVHUB_MYSQL_URL")
    if url is None:
        lacking("mysql", "ENVHUB_MYSQL_URL is not set")
    return make_url(url)


@pytest.fixture
def mysql_url(mysql_server: URL) -> Iterator[str]:
    import mysql.connector

    name = f"store_{uuid.uuid4().hex[:12]}"
    server = {
        "host": mysql_server.host,
        "port": mysql_server.port or 3306,
        "user": mysql_server.username,
        "password": mysql_server.password,
    }
    with closing(mysql.connector.connect(**server)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield mysql_server.set(database=name).render_as_string(hide_password=False)
        finally:
            cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new folder' / 'episodes.db'}"


@pytest.fixture(params=["sqlite", "memory", pytest.param("mysql", marks=pytest.mark.mysql)])
def store(request: pytest.FixtureRequest) -> Iterator[EpisodeStore]:
    """A new store on each engine."""
    url = "sqlite://" if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")
    with closing(EpisodeStore(url)) as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A new database that several processes can use."""
    return str(request.getfixturevalue(f"{request.param}_url"))

"""Database URLs."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from envhub.core.errors import InvalidRequestError, MissingExtraError, UnavailableError
from envhub.store.engine import open_engine, prepare
from envhub.store.episodes import EpisodeStore


@pytest.mark.parametrize(
    "url", ["postgresql://u:hunter2@h/d", "mysql+pymysql://u:hunter2@h/d", "mysql://u:hunter2@h", "hunter2", ""]
)
def test_url_that_cannot_be_used_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="valid: sqlite:///") as caught:
        EpisodeStore(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+mysqlconnector"])
def test_mysql_urls_name_the_one_driver(scheme: str) -> None:
    pytest.importorskip("mysql.connector")
    with closing(EpisodeStore(f"{scheme}://u:hunter2@h:3307/d")) as store:
        assert store.url == "mysql+mysqlconnector://u:***@h:3307/d"


def test_missing_mysql_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mysql"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mysql", None)
    with pytest.raises(MissingExtraError, match=r"envhub\[db\]") as caught:
        EpisodeStore("mysql://u:p@h/d")
    assert caught.value.details["extra"] == "db"


def test_sqlite_file_is_durable_and_waits_for_other_writers(tmp_path: Path) -> None:
    with closing(EpisodeStore(f"sqlite:///{tmp_path}/e.db")) as store:
        store.open()
        with store._engine.begin() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
            assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 30_000


def test_file_in_use_by_another_program_is_prepared_without_waiting_for_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "e.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        engine = open_engine(f"sqlite:///{tmp_path}/e.db?timeout=0.05")
        prepare(engine)
        other.execute("ROLLBACK")
    prepare(engine)
    with engine.begin() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    engine.dispose()


def test_path_that_cannot_be_a_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a database, and not a folder" * 100)
    for path in (tmp_path, tmp_path / "file", tmp_path / "file" / "e.db"):
        with closing(EpisodeStore(f"sqlite:///{path}")) as store, pytest.raises(UnavailableError, match=str(path)):
            store.open()


@pytest.mark.mysql
def test_mysql_connection_is_strict_and_exact(mysql_url: str) -> None:
    engine = open_engine(mysql_url)
    with engine.begin() as connection:
        assert "STRICT_ALL_TABLES" in connection.execute(text("SELECT @@sql_mode")).scalar_one()
        assert connection.execute(text("SELECT @@collation_connection")).scalar() == "utf8mb4_bin"
    engine.dispose()

"""Creating, upgrading and refusing schemas."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from envhub.core.errors import RequestError, UnavailableError
from envhub.store import schema
from envhub.store.engine import open_engine, prepare
from envhub.store.episodes import EpisodeFilter, EpisodeStore
from envhub.store.models import Base
from envhub.store.rows import to_rows
from envhub.store.schema import STEPS, SchemaTooNewError, _episodes_1, _trace_parts_1, upgrade


def test_steps_lead_to_the_tables_that_the_models_describe(shared_url: str, clock: Any) -> None:
    with closing(EpisodeStore(shared_url, clock=clock)) as store:
        store.open()
        inspector = inspect(store._engine)
        assert set(inspector.get_table_names()) == {*Base.metadata.tables, "schema_version"}
        for name, table in Base.metadata.tables.items():
            found = {each["name"]: each for each in inspector.get_columns(name)}
            assert list(found) == [column.name for column in table.columns]
            for column in table.columns:
                assert found[column.name]["nullable"] == column.nullable, column
                is_bool = "BOOL" in str(column.type)
                wanted = column.type.compile(store._engine.dialect).split("(")[0]
                assert is_bool or str(found[column.name]["type"]).split("(")[0] == wanted, column
            assert set(inspector.get_pk_constraint(name)["constrained_columns"]) == {c.name for c in table.primary_key}
            indexes = {each["name"] for each in inspector.get_indexes(name)}
            assert {index.name for index in table.indexes} <= indexes
        with store._engine.begin() as connection:
            rows = connection.execute(text("SELECT version, applied_at FROM schema_version ORDER BY version")).all()
        assert [tuple(row) for row in rows] == [(n, clock.wall()) for n in range(1, len(STEPS) + 1)]


def test_version_1_with_data_is_upgraded(shared_url: str, make_record: Any, clock: Any) -> None:
    old = open_engine(shared_url)
    prepare(old)
    upgrade(old, clock, STEPS[:1])
    records = [make_record(number, tags={"run": f"r{number}", "ø": "😀"} if number else {}) for number in range(5)]
    with old.begin() as connection:
        for record in records:
            connection.execute(_episodes_1.insert().values(**to_rows(record).episode))
            connection.execute(_trace_parts_1.insert(), to_rows(record).trace_parts)
    old.dispose()

    with closing(EpisodeStore(shared_url)) as store:
        assert [store.get(record.session_id) for record in records] == records
        found = store.find(EpisodeFilter(tags={"run": "r3", "ø": "😀"})).episodes
        assert [each.session_id for each in found] == ["w1-3"]
        store.put([make_record(7)])
        assert len(store.find().episodes) == 6


def test_newer_schema_is_refused_and_left_untouched(shared_url: str, make_record: Any) -> None:
    with closing(EpisodeStore(shared_url)) as store:
        store.put([make_record(1)])
        with store._engine.begin() as connection:
            connection.execute(text("INSERT INTO schema_version VALUES (99, 0)"))
    with closing(EpisodeStore(shared_url)) as store:
        for call in (store.open, lambda: store.put([make_record(2)]), store.find):
            with pytest.raises(SchemaTooNewError, match=f"version 99.*up to {len(STEPS)}"):
                call()
        assert issubclass(SchemaTooNewError, RequestError)
        with store._engine.begin() as connection:
            assert connection.execute(text("SELECT count(*) FROM episodes")).scalar() == 1


def test_step_that_fails_is_done_again_next_time(shared_url: str, clock: Any, make_record: Any) -> None:
    def breaks(connection: Connection) -> None:
        STEPS[1](connection)
        raise RuntimeError("power cut")

    engine = open_engine(shared_url)
    prepare(engine)
    upgrade(engine, clock, STEPS[:1])
    with pytest.raises(RuntimeError):
        upgrade(engine, clock, (STEPS[0], breaks))
    engine.dispose()
    with closing(EpisodeStore(shared_url)) as store:
        store.put([make_record(1)])
        assert len(store.find(EpisodeFilter(tags={"run": "r1"})).episodes) == 1


def test_processes_that_open_a_new_database_at_once_all_succeed(shared_url: str) -> None:
    program = (
        "import sys; from envhub.store.episodes import EpisodeStore\n"
        "store = EpisodeStore(sys.argv[1]); print('ready', flush=True); sys.stdin.readline(); store.open()\n"
        "print(store.summary())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, shared_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for each in processes:
        assert each.stdout is not None
        each.stdout.readline()
    outputs = [each.communicate("\n", timeout=60)[0] for each in processes]
    assert outputs == ["()\n"] * 4


@pytest.mark.mysql
def test_one_process_at_a_time_upgrades_mysql(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOCK_WAIT_S", 0)
    with closing(EpisodeStore(mysql_url)) as store:
        with schema._alone(open_engine(mysql_url)), pytest.raises(UnavailableError, match="another process"):
            store.open()
        store.open()

"""Several processes on one database, and processes that are killed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import text

from envhub.store.episodes import EpisodeFilter, EpisodeStore

PROGRAM = Path(__file__).with_name("writer_process.py")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("writer_process", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(url: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), url, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once_also_the_same_sessions(shared_url: str, program: ModuleType) -> None:
    both = [start(shared_url, 0, 120), start(shared_url, 80, 200)]
    acked = [set(each.communicate(timeout=60)[0].split()) for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert acked == [{f"s-{n}" for n in range(120)}, {f"s-{n}" for n in range(80, 200)}]
    with closing(EpisodeStore(shared_url)) as store:
        found = list(store.records())
        assert sorted(each.task for each in found) == list(range(200))
        assert all(each == program.record(each.task) for each in found)


@pytest.mark.parametrize("acks_before_kill", [1, 20, 45, 90])
def test_killed_writer_loses_nothing_acked_and_leaves_no_half_record(
    shared_url: str, program: ModuleType, acks_before_kill: int
) -> None:
    process = start(shared_url, 0, 100_000)
    assert process.stdout is not None
    acked = [process.stdout.readline() for _ in range(acks_before_kill)]
    process.kill()
    acked += process.stdout.read().splitlines()
    assert process.wait(timeout=10) == -9
    whole = {line.strip() for line in acked if program.record(int(line.strip()[2:] or -1)).session_id == line.strip()}
    assert len(whole) >= acks_before_kill

    with closing(EpisodeStore(shared_url)) as store:
        found = list(store.records())
        assert all(each == program.record(each.task) for each in found)
        stored = {each.session_id for each in found}
        assert whole <= stored
        for session_id in list(stored)[:20]:
            assert len(store.find(EpisodeFilter(tags={"n": session_id[2:], "run": "kill"})).episodes) == 1
        with store._engine.begin() as connection:
            for table in ("trace_parts", "tags"):
                orphans = f"SELECT count(*) FROM {table} WHERE session_id NOT IN (SELECT session_id FROM episodes)"
                assert connection.execute(text(orphans)).scalar() == 0
        store.put([program.record(-1)])

from __future__ import annotations

from pathlib import Path

import pytest
from result_rows import ONE, failed, graded

from envhub.bench.plan import Plan, PlanError, Target
from envhub.bench.results import ResultsFolder

PLAN = Plan((Target("db", "test", (0, 1, 2)),), {"a": {"kind": "null"}})


def fill(path: Path) -> None:
    with ResultsFolder(path) as folder:
        folder.begin(PLAN, resume=False)
        folder.add(graded(0, 1.0), ONE)
        folder.add(failed(1))


def test_rows_plan_and_identities_come_back(tmp_path: Path) -> None:
    fill(tmp_path / "run")
    with ResultsFolder(tmp_path / "run") as folder:
        folder.begin(PLAN, resume=True)
        assert folder.rows == (graded(0, 1.0), failed(1))
        assert folder.identities == {ONE.digest: ONE}
        assert folder.finished() == {graded(0, 1.0).key}


def test_a_redone_episode_counts_once_and_the_last_row_wins(tmp_path: Path) -> None:
    fill(tmp_path)
    with ResultsFolder(tmp_path) as folder:
        folder.add(graded(1, 0.0), ONE)
    with ResultsFolder(tmp_path) as folder:
        assert folder.rows == (graded(0, 1.0), graded(1, 0.0))
        assert len(folder.results_path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_torn_last_line_is_dropped_and_what_follows_is_whole(tmp_path: Path, cut: int) -> None:
    fill(tmp_path)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    with ResultsFolder(tmp_path) as folder:
        assert folder.rows == (graded(0, 1.0),)
        folder.add(graded(2, 0.5), ONE)
    with ResultsFolder(tmp_path) as folder:
        assert folder.rows == (graded(0, 1.0), graded(2, 0.5))


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(PlanError, match=r"results\.jsonl:1"), ResultsFolder(tmp_path):
        pass


def test_another_plan_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    fill(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with ResultsFolder(tmp_path) as folder:
        other = Plan((Target("db", "test", (0,)),), PLAN.agents)
        with pytest.raises(PlanError, match=r"another plan.*targets"):
            folder.begin(other, resume=True)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_an_earlier_run_is_not_taken_over_without_resume(tmp_path: Path) -> None:
    fill(tmp_path)
    with ResultsFolder(tmp_path) as folder, pytest.raises(PlanError, match="resume it"):
        folder.begin(PLAN, resume=False)


def test_results_without_their_plan_are_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "run.json").unlink()
    with ResultsFolder(tmp_path) as folder, pytest.raises(PlanError, match=r"no run\.json"):
        folder.begin(PLAN, resume=True)


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path), pytest.raises(PlanError, match="in use"), ResultsFolder(tmp_path):
        pass


def test_trace_names_stay_inside_the_folder(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path) as folder:
        name = folder.write_trace(graded(0, 1.0, agent="../../x").key, {"messages": []})
    assert (tmp_path / name).resolve().is_relative_to(tmp_path.resolve() / "traces")

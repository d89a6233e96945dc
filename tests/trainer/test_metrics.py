from dataclasses import replace
from itertools import combinations

import pytest

from envhub.core.types import StopReason, TaskRef
from trainer_adapter.metrics import (
    account_metrics,
    batch_metrics,
    evaluation_metrics,
    evaluation_names,
    failure_metrics,
    is_told,
    pass_at_k,
    progress_line,
    queue_seconds,
)
from trainer_adapter.queue import Account, Batch, Group
from trainer_adapter.tokens import Failure, FailureKind, Timing, TokenSequence, Trajectory


def played(environment: str, reward: float, *, engines: tuple[int, ...] = (0, 0), n_sequences: int = 1) -> Trajectory:
    n = len(engines)
    sequence = TokenSequence(tuple(range(n + 1)), (0, *[1] * n), (0.0, *[-0.5] * n), (-1, *engines), (-1, *[3] * n))
    return Trajectory(
        "g0",
        0,
        TaskRef(environment, "train", 0),
        (sequence,) * n_sequences,
        reward,
        reward,
        StopReason.COMPLETED,
        n_turns=2,
    )


def failed(environment: str) -> Trajectory:
    return Trajectory(
        "g0", 0, TaskRef(environment, "train", 0), failure=Failure(FailureKind.INFRASTRUCTURE, "lost", "gone")
    )


def test_batch_is_counted_by_task_engine_and_staleness() -> None:
    db = Group("g0", 0, 2, TaskRef("db", "train", 0), (played("db", 1.0), played("db", 0.0, engines=(0, 1))))
    kg = Group("g1", 1, 3, TaskRef("kg", "train", 0), (played("kg", 0.5), played("kg", 0.5, n_sequences=2)))
    found = batch_metrics(Batch(3, (db, kg), (1, 0)))
    assert found["reward/db"] == 0.5 and found["success/db"] == 0.5
    assert found["reward/kg"] == 0.5 and found["success/kg"] == 0.0
    assert found["split/kg"] == 0.5 and found["action_tokens/kg"] == 3
    assert found["batch/flat_groups"] == 0.5
    assert (found["staleness/0"], found["staleness/1"], found["staleness/max"]) == (1, 1, 1)
    assert found["engines/0"] == pytest.approx(9 / 10) and found["engines/1"] == pytest.approx(1 / 10)
    line = progress_line(1, 9, found, seconds=2.0)
    assert "db 0.500 kg 0.500" in line and "staleness 0:1 1:1" in line and "\n" not in line


def test_the_time_between_playing_and_training_is_told() -> None:
    ended = [replace(played("db", 1.0), timing=Timing(ended_at=at)) for at in (10.0, 16.0)]
    found = queue_seconds(Batch(3, (Group("g0", 0, 2, TaskRef("db", "train", 0), tuple(ended)),), (1,)), 20.0)
    assert found == {"latency/queue_s": 7.0, "latency/queue_max_s": 10.0}


def test_account_is_logged_by_reason() -> None:
    found = account_metrics(Account(8, 4, {"stale": 2}, 2, 0, 1), n_ready=0, n_open=1)
    assert found["queue/admitted"] == 8 and found["queue/dropped_stale"] == 2 and found["queue/retries"] == 1


@pytest.mark.parametrize(("n", "solved", "k"), [(4, 0, 1), (4, 1, 2), (5, 2, 3), (4, 4, 4), (6, 1, 6)])
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_success(n: int, solved: int, k: int) -> None:
    subsets = list(combinations([True] * solved + [False] * (n - solved), k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_failures_of_an_evaluation_are_no_rewards() -> None:
    """B015"""
    found = evaluation_metrics({"db": [[played("db", 1.0), failed("db"), played("db", 0.0)]], "kg": [[failed("kg")]]})
    assert found == {
        "failures/db": 1,
        "reward/db": 0.5,
        "success/db": 0.5,
        "pass1/db": 0.5,
        "pass2/db": 1.0,
        "failures/kg": 1,
    }


def test_a_task_with_fewer_samples_does_not_change_which_numbers_there_are() -> None:
    whole = [played("db", 1.0), played("db", 0.0), played("db", 0.0), played("db", 0.0)]
    found = evaluation_metrics({"db": [whole, [*whole[:3], failed("db")]]})
    assert found["pass1/db"] == pytest.approx((1 / 4 + 1 / 3) / 2) and found["pass4/db"] == 1.0
    assert found["success/db"] == pytest.approx(2 / 7) and found["failures/db"] == 1
    assert set(found) == {f"{name}/db" for name in ("failures", "reward", "success", "pass1", "pass2", "pass4")} | {
        "pass1"
    }


def test_the_mean_of_all_is_told_only_when_all_have_a_result_b052() -> None:
    """Otherwise a checkpoint would be the best because the hardest environment was away."""
    kg = [[played("kg", 0.0)]]
    assert evaluation_metrics({"db": [[played("db", 1.0)]], "kg": kg})["pass1"] == 0.5
    assert "pass1" not in evaluation_metrics({"db": [[played("db", 1.0)]], "kg": [[failed("kg")]]})
    assert "pass1" not in evaluation_metrics({})


def test_two_splits_of_one_environment_are_told_apart() -> None:
    tasks = [("alfworld", "valid_seen"), ("db", "test"), ("alfworld", "valid_unseen")]
    assert evaluation_names(tasks) == ["alfworld-valid_seen", "db", "alfworld-valid_unseen"]


def test_failures_are_logged_by_environment_and_code_b015() -> None:
    found = failure_metrics({("os", "sandbox_lost"): 3, ("db", "template_rewrites"): 1}, {"db": 0.0, "os": 0.75})
    assert found == {
        "failures_sandbox_lost/os": 3,
        "failures_template_rewrites/db": 1,
        "failure_rate/db": 0.0,
        "failure_rate/os": 0.75,
    }
    assert [n for n in range(1, 20) if is_told(n)] == [1, 2, 4, 8, 16]

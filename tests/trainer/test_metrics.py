from itertools import combinations

import pytest

from envhub.core.types import StopReason, TaskRef
from trainer_adapter.metrics import account_metrics, batch_metrics, evaluation_metrics, pass_at_k, progress_line
from trainer_adapter.queue import Account, Batch, Group
from trainer_adapter.tokens import Failure, FailureKind, TokenSequence, Trajectory


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
        "pass1/db": 0.5,
        "pass2/db": 1.0,
        "failures/kg": 1,
    }

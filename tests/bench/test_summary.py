from __future__ import annotations

from itertools import combinations
from statistics import fmean, stdev

import pytest
from result_rows import ONE, TWO, cancelled, failed, graded

from envhub.bench.summary import mixed_identities, pass_at_k, summarize, wilson
from envhub.bench.wording import HEADINGS, cells


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_draws_that_hold_a_success(n: int) -> None:
    for passed in range(n + 1):
        outcomes = [True] * passed + [False] * (n - passed)
        for k in range(1, n + 1):
            draws = list(combinations(outcomes, k))
            assert pass_at_k(n, passed, k) == pytest.approx(fmean(any(draw) for draw in draws))


def test_pass_at_k_needs_k_attempts() -> None:
    with pytest.raises(ValueError, match="needs at least 3"):
        pass_at_k(2, 1, 3)


def test_pass_at_k_of_a_run_averages_over_tasks_that_have_enough_repeats() -> None:
    rows = [graded(0, 1.0, 0), graded(0, 0.0, 1), graded(0, 0.0, 2), graded(1, 0.0, 0), graded(1, 0.0, 1), failed(1, 2)]
    (summary,) = summarize(rows)
    found = {each.k: (each.value, each.n_tasks) for each in summary.pass_at}
    assert found == {
        1: (pytest.approx((1 / 3 + 0) / 2), 2),
        2: (pytest.approx((2 / 3 + 0) / 2), 2),
        3: (1.0, 1),
    }
    assert "@3 100.0%\n1/2 tasks" in cells(summary)[HEADINGS.index("pass@k")]


def test_b052_d16_errors_and_cancelled_episodes_stay_in_n_and_out_of_the_mean() -> None:
    rows = [graded(i, 1.0) for i in range(4)] + [graded(i, 0.0) for i in range(4, 7)]
    rows += [failed(7), failed(8, code="session_lost"), cancelled(9)]
    (summary,) = summarize(rows)
    assert (summary.n, summary.graded, summary.passed, summary.n_errors, summary.cancelled) == (10, 7, 4, 2, 1)
    assert summary.pass_of_all == 0.4
    assert summary.pass_of_graded == pytest.approx(4 / 7)
    assert summary.return_mean == pytest.approx(4 / 7)
    assert summary.errors == {"episode_failed": 1, "session_lost": 1}
    assert summary.cell.identity == ONE.digest


def test_b052_nothing_graded_is_not_available() -> None:
    (summary,) = summarize([failed(0), failed(1)])
    assert (summary.n, summary.graded) == (2, 0)
    assert summary.pass_of_all is summary.pass_of_graded is summary.return_mean is summary.interval is None
    texts = dict(zip(HEADINGS, cells(summary), strict=True))
    assert texts["pass/n"] == texts["reward"] == texts["pass@k"] == "n/a"
    assert texts["errors"] == "episode_failed 2"


def test_deviation_is_given_over_episodes_and_over_repeats() -> None:
    returns = {(0, 0): 1.0, (1, 0): 0.5, (0, 1): 0.0, (1, 1): 0.5}
    (summary,) = summarize([graded(task, value, repeat) for (task, repeat), value in returns.items()])
    assert summary.return_std == pytest.approx(stdev(returns.values()))
    assert summary.repeat_std == pytest.approx(stdev([0.75, 0.25]))


def test_identities_are_never_averaged_together() -> None:
    rows = [graded(0, 1.0), graded(1, 0.0, identity=TWO.digest)]
    summaries = summarize(rows)
    assert sorted((each.cell.identity, each.return_mean) for each in summaries) == sorted(
        [(ONE.digest, 1.0), (TWO.digest, 0.0)]
    )
    (warning,) = mixed_identities(summaries)
    assert ONE.digest in warning and TWO.digest in warning
    assert mixed_identities(summaries[:1]) == ()


def test_an_error_without_identity_joins_the_only_one_and_stands_alone_among_several() -> None:
    assert [each.n for each in summarize([graded(0, 1.0), failed(1)])] == [2]
    rows = [graded(0, 1.0), graded(1, 0.0, identity=TWO.digest), failed(2)]
    assert sorted(each.n for each in summarize(rows)) == [1, 1, 1]


def test_wilson_interval() -> None:
    interval = wilson(8, 10)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(0, 0) is None
    edges = wilson(0, 5), wilson(5, 5)
    assert edges[0] and edges[1] and edges[0].low == 0.0 and edges[1].high == 1.0

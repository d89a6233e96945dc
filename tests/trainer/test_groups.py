"""Advantages of a group from its rewards."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_adapter.groups import GroupBaseline, group_advantages

rewards = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=16)


@pytest.mark.parametrize(
    ("unbiased", "alfworld", "db"),
    [(False, (-0.5, 2.0), (0.5, -2.0)), (True, (-0.447, 1.789), (0.447, -1.789))],
)
def test_the_worked_groups(unbiased: bool, alfworld: tuple[float, float], db: tuple[float, float]) -> None:
    found = group_advantages([0, 0, 0, 0, 1], unbiased_std=unbiased)
    assert (found[0], found[4]) == pytest.approx(alfworld, abs=1e-3)
    found = group_advantages([1, 1, 0, 1, 1], unbiased_std=unbiased)
    assert (found[0], found[2]) == pytest.approx(db, abs=1e-3)


@pytest.mark.parametrize("group", [[0.7], [0, 0, 0, 0], [1, 1, 1, 1 + 1e-9], [], [-0.2] * 8])
@pytest.mark.parametrize("baseline", [each for each in GroupBaseline if each is not GroupBaseline.OFF])
def test_what_cannot_be_compared_gets_zero_b014(group: list[float], baseline: GroupBaseline) -> None:
    assert group_advantages(group, baseline) == (0.0,) * len(group)


@given(rewards)
def test_grpo_has_mean_0_and_std_1_or_is_0(values: list[float]) -> None:
    found = group_advantages(values)
    assert all(map(math.isfinite, found)) and len(found) == len(values)
    if any(found):
        assert statistics.fmean(found) == pytest.approx(0, abs=1e-6)
        assert statistics.pstdev(found) == pytest.approx(1, abs=1e-6)


@given(rewards)
def test_leave_one_out_is_the_distance_to_the_others(values: list[float]) -> None:
    found = group_advantages(values, GroupBaseline.RLOO)
    if any(found):
        others = [statistics.fmean(values[:i] + values[i + 1 :]) for i in range(len(values))]
        assert found == pytest.approx([value - mean for value, mean in zip(values, others, strict=True)], abs=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused_b013(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, bad])

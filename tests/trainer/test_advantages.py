"""Task advantage normalization on tensors."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make trainer-cpu, then make test-trainer")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainer_adapter.advantages import TaskNormalization, TaskNormalizer, moments_by_task  # noqa: E402
from trainer_adapter.groups import group_advantages  # noqa: E402

pytestmark = pytest.mark.torch


def spread(advantages: list[float], n_tokens: list[int], width: int, fill: float = 0.0):  # type: ignore[no-untyped-def]
    """(B, T) with every row's advantage on its first tokens, and the mask."""
    piece = torch.full((len(advantages), width), fill)
    mask = torch.zeros(len(advantages), width, dtype=torch.bool)
    for row, (advantage, n) in enumerate(zip(advantages, n_tokens, strict=True)):
        piece[row, :n] = advantage
        mask[row, :n] = True
    return piece, mask


def test_the_worked_example_gives_both_tasks_mean_0_and_std_1() -> None:
    found = {}
    for unbiased in (False, True):
        rewards = [0, 0, 0, 0, 1], [1, 1, 0, 1, 1]
        advantages = [value for group in rewards for value in group_advantages(group, unbiased_std=unbiased)]
        piece, mask = spread(advantages, [30] * 5 + [5] * 5, 32)
        tasks = ["alfworld"] * 5 + ["db"] * 5
        (out,) = TaskNormalizer()([piece], [mask], tasks)
        for moments in moments_by_task([out], [mask], tasks).values():
            assert moments.mean == pytest.approx(0, abs=1e-6) and moments.std == pytest.approx(1, abs=1e-6)
        found[unbiased] = out
    assert torch.allclose(found[False], found[True], atol=1e-6)
    assert found[False][0, 0] == pytest.approx(-0.5) and found[False][4, 0] == pytest.approx(2.0)


@pytest.mark.parametrize("fill", [0.0, 1e9, math.nan, -math.inf])
def test_padding_is_never_read_and_comes_out_zero_b012(fill: float) -> None:
    plain, mask = spread([0.3, -1.0, 2.0, 0.0], [3, 500, 7, 0], 512)
    filled, _ = spread([0.3, -1.0, 2.0, 0.0], [3, 500, 7, 0], 512, fill)
    tasks = ["a", "b", "b", "a"]
    (expected,), (out,) = TaskNormalizer()([plain], [mask], tasks), TaskNormalizer()([filled], [mask], tasks)
    assert torch.equal(out, expected) and bool((out[~mask] == 0).all())


@pytest.mark.parametrize(
    ("advantages", "n_tokens"), [([1.0], [1]), ([2.5], [40]), ([0.1 + 0.2, 0.3], [3, 4]), ([0.0, 0.0], [2, 2])]
)
def test_a_task_without_variance_comes_out_zero_b012(advantages: list[float], n_tokens: list[int]) -> None:
    piece, mask = spread(advantages, n_tokens, 64)
    (out,) = TaskNormalizer()([piece.double()], [mask], ["a"] * len(advantages))
    assert bool((out == 0).all())


def test_tasks_do_not_touch_each_other_and_pieces_may_have_any_width() -> None:
    a, mask_a = spread([1.0, -1.0, 0.5], [4, 4, 2], 9)
    b, mask_b = spread([100.0, -50.0], [3, 6], 6)
    together = TaskNormalizer()([a, b], [mask_a, mask_b], ["x", "x", "y", "y", "x"])
    x = TaskNormalizer()([a[:2], b[1:]], [mask_a[:2], mask_b[1:]], ["x"] * 3)
    assert torch.equal(together[0][:2], x[0]) and torch.equal(together[1][1:], x[1])
    assert together[0].shape == a.shape and together[1].shape == b.shape and together[0].dtype == a.dtype


def test_a_square_batch_is_normalized_along_tasks_not_positions_b012() -> None:
    piece, mask = torch.randn(8, 8), torch.ones(8, 8, dtype=torch.bool)
    (out,) = TaskNormalizer()([piece], [mask], ["a"] * 4 + ["b"] * 4)
    for rows in (out[:4], out[4:]):
        assert rows.mean().item() == pytest.approx(0, abs=1e-6) and rows.std(correction=0).item() == pytest.approx(
            1, abs=1e-5
        )


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(-50, 50, width=32), st.integers(0, 20)), min_size=1, max_size=24
    )
)
def test_every_task_gets_mean_0_and_std_1_or_nothing(rows: list[tuple[str, float, int]]) -> None:
    tasks = [task for task, _, _ in rows]
    piece, mask = spread([value for _, value, _ in rows], [n for _, _, n in rows], 20)
    (out,) = TaskNormalizer()([piece], [mask], tasks)
    assert bool(torch.isfinite(out).all()) and bool((out[~mask] == 0).all())
    before = moments_by_task([piece], [mask], tasks)
    for task, moments in moments_by_task([out.double()], [mask], tasks).items():
        if before[task].std:
            assert moments.mean == pytest.approx(0, abs=1e-4) and moments.std == pytest.approx(1, abs=1e-4)
        else:
            assert moments.mean == moments.std == 0


def test_running_moments_are_averaged_and_survive_a_checkpoint() -> None:
    made = TaskNormalizer(TaskNormalization.RUNNING, momentum=0.5)
    piece, mask = spread([1.0, -1.0], [4, 4], 4)
    (first,) = made([piece], [mask], ["a", "a"])
    assert torch.equal(first, piece)  # the first batch gives its own moments
    resumed = TaskNormalizer(TaskNormalization.RUNNING, momentum=0.5)
    resumed.restore(made.state())
    larger = piece * 3
    outs = [each([larger], [mask], ["a", "a"])[0] for each in (made, resumed)]
    assert torch.equal(*outs)
    assert outs[0][0, 0].item() == pytest.approx(3 / math.sqrt(0.5 * 1 + 0.5 * 9))


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0, 0.99),
    st.lists(
        st.lists(st.tuples(st.floats(-50, 50, width=32), st.integers(0, 6)), min_size=1, max_size=6),
        min_size=1,
        max_size=8,
    ),
)
def test_running_moments_never_blow_up(momentum: float, batches: list[list[tuple[float, int]]]) -> None:
    """Whatever came before, a value of the batch counts with its own share in the variance that divides it."""
    made = TaskNormalizer(TaskNormalization.RUNNING, momentum=momentum)
    for rows in batches:
        piece, mask = spread([value for value, _ in rows], [n for _, n in rows], 6)
        (out,) = made([piece], [mask], ["a"] * len(rows))
        assert bool(torch.isfinite(out).all()) and bool((out[~mask] == 0).all())
        n_tokens = max(1, int(mask.sum()))
        assert (
            float(out.abs().max()) <= 1.01 * math.sqrt(n_tokens / ((1 - momentum) * max(momentum, 1 / n_tokens))) + 1e-3
        )


def test_empty_masks_and_a_single_token_give_nothing() -> None:
    piece, mask = spread([3.0, 4.0], [0, 0], 4, fill=math.nan)
    (out,) = TaskNormalizer()([piece], [mask], ["a", "b"])
    assert bool((out == 0).all())
    one, its_mask = spread([1e30], [1], 4, fill=math.inf)
    for mode in (TaskNormalization.BATCH, TaskNormalization.RUNNING):
        (out,) = TaskNormalizer(mode)([one], [its_mask], ["a"])
        assert bool((out == 0).all())


def test_off_leaves_what_is_trained_and_clears_the_rest() -> None:
    piece, mask = spread([1.0, -3.0], [4, 2], 6, fill=math.nan)
    (out,) = TaskNormalizer(TaskNormalization.OFF)([piece], [mask], ["a", "a"])
    assert torch.equal(out, spread([1.0, -3.0], [4, 2], 6)[0])


def test_what_does_not_fit_or_is_not_finite_is_refused() -> None:
    piece, mask = spread([1.0, 2.0], [2, 2], 2)
    for args in (([piece], [mask], ["a"]), ([piece], [mask[:1]], ["a", "a"]), ([piece, piece], [mask], ["a"] * 4)):
        with pytest.raises(ValueError):
            TaskNormalizer()(*args)
    piece[0, 0] = math.inf
    with pytest.raises(ValueError, match="finite"):
        TaskNormalizer()([piece], [mask], ["a", "a"])

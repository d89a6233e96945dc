"""The draw of engines, and which of them get weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.trainer.makers import completion
from trainer_adapter.engines import Draw, EnginePlan, EnginePool, Step
from trainer_adapter.tokens import Completion, SamplerError
from trainer_adapter.versions import Manifest, WeightSyncError, checksum, verify


def steps(n: int) -> list[Step]:
    return [Step(f"g{number // 40}", number % 4, 0, number // 4 % 10) for number in range(n)]


def test_the_published_plan_has_a_quarter_of_stale_engines() -> None:
    plan = EnginePlan(16, stale_ratio=0.25, stale_every=25)
    assert (len(plan.fresh), len(plan.stale)) == (12, 4) and not plan.fresh & plan.stale
    assert plan.due(0) == plan.due(25) == plan.fresh | plan.stale
    assert all(plan.due(version) == plan.fresh for version in range(1, 25))
    assert [plan.lag(version) for version in (0, 1, 24, 25, 26)] == [0, 1, 24, 0, 1]
    assert EnginePlan(3, stale_ratio=0.3).n_stale == 0


def test_an_engine_is_drawn_for_each_step_whatever_else_happens() -> None:
    draw = Draw(EnginePlan(4), seed=1)
    found = [draw(step) for step in steps(400)]
    assert found[::-1] == [draw(step) for step in steps(400)[::-1]]
    assert found != [Draw(EnginePlan(4), seed=2)(step) for step in steps(400)]
    assert all(70 < n < 130 for n in Counter(found).values()) and len(set(found)) == 4
    one_trajectory = {draw(Step("g", 0, 0, turn)) for turn in range(30)}
    assert len(one_trajectory) == 4


def test_weights_bend_the_draw() -> None:
    found = Counter(Draw(EnginePlan(3, weights=(3, 1, 0)), seed=5)(step) for step in steps(2000))
    assert found[2] == 0 and found[0] / found[1] == pytest.approx(3, rel=0.2)


@pytest.mark.parametrize("weights", [(), (3.0, 1.0, 0.0), (0.0, 0.1, 0.2), (0.0, 0.0, 1e-300), (0.1, 0.7, 0.0)])
def test_every_share_has_an_engine_that_may_be_drawn(weights: tuple[float, ...]) -> None:
    """The largest draw rounds up to 1."""
    draw = Draw(EnginePlan(3, weights=weights), seed=0)
    assert int.from_bytes(b"\xff" * 8) / float(1 << 64) == 1.0
    for share in (0.0, 0.5, 1.0 - 2**-53, 1.0):
        assert not weights or weights[draw._at(share)] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_engines": 0},
        {"n_engines": 2, "stale_ratio": 1.0},
        {"n_engines": 2, "stale_every": 0},
        {"n_engines": 2, "weights": (1.0,)},
        {"n_engines": 2, "weights": (0.0, 0.0)},
        {"n_engines": 2, "weights": (2.0, -1.0)},
        {"n_engines": 4, "stale_ratio": 0.5, "weights": (0.0, 0.0, 1.0, 1.0)},
        {"n_engines": 2, "weights": (1e308, 1e308)},
    ],
)
def test_plans_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        EnginePlan(**wrong)


class Engine:
    def __init__(self, number: int, *, broken: bool = False) -> None:
        self.number, self.broken, self.asked = number, broken, 0

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion:
        self.asked += 1
        if self.broken:
            raise SamplerError("out of memory")
        return completion(*range(max_tokens), engine=self.number)


async def test_a_pool_asks_the_drawn_engine_and_names_the_one_that_fails() -> None:
    plan = EnginePlan(4, stale_ratio=0.5)
    engines = [Engine(number) for number in range(4)]
    pool = EnginePool(plan, engines, Draw(plan, seed=3))
    for step in steps(100):
        assert (await pool.sample(step, [1], max_tokens=2)).engine == Draw(plan, seed=3)(step)
    assert sum(pool.mix().values()) == pytest.approx(1) and set(pool.mix()) == {0, 1, 2, 3}
    broken = EnginePool(EnginePlan(1), [Engine(0, broken=True)], Draw(EnginePlan(1), seed=0))
    with pytest.raises(SamplerError, match="engine 0: out of memory"):
        await broken.sample(steps(1)[0], [1], max_tokens=2)


async def test_evaluation_asks_fresh_engines_only() -> None:
    plan = EnginePlan(4, stale_ratio=0.5)
    engines = [Engine(number) for number in range(4)]
    pool = EnginePool(plan, engines, Draw(plan, seed=3), only_fresh=True)
    for step in steps(60):
        await pool.sample(step, [1], max_tokens=1)
    assert [bool(engine.asked) for engine in engines] == [True, True, False, False]


SENT = Manifest(7, {"embed": checksum(b"a"), "norm": checksum(b"b"), "lm_head": checksum(b"c")})


def test_an_update_that_arrived_everywhere_is_accepted() -> None:
    arrived = {0: Manifest(7, dict(SENT.tensors)), 2: Manifest(7, dict(SENT.tensors)), 1: Manifest(3, {})}
    verify(SENT, arrived, {0, 2})
    assert arrived[0].digest == SENT.digest != arrived[1].digest


@pytest.mark.parametrize(
    ("arrived", "said"),
    [
        ({}, "engine 1 reports nothing of version 7"),
        ({1: Manifest(6, dict(SENT.tensors))}, "engine 1 has version 6, not 7"),
        ({1: Manifest(7, {k: v for k, v in SENT.tensors.items() if k != "lm_head"})}, "lacks 1 of 3 tensors: lm_head"),
        ({1: Manifest(7, {**SENT.tensors, "norm": "0"})}, "has other values in 1 of 3 tensors: norm"),
        ({1: Manifest(7, {**SENT.tensors, "more": "0"})}, "has unknown 1 of 3 tensors: more"),
    ],
)
def test_a_tensor_that_did_not_arrive_is_named(arrived: dict[int, Manifest], said: str) -> None:
    with pytest.raises(WeightSyncError, match=said) as caught:
        verify(SENT, arrived, {1})
    assert caught.value.engine == 1

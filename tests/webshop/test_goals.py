"""Goals: the recorded ones exactly, and the same ones wherever the data is loaded (B047)."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import replace

import pytest

from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.goals import (
    NO_BOUND,
    HumanInstruction,
    Listing,
    human_goals,
    in_order,
    purchase_price,
    synthetic_goals,
)
from tests.webshop.published_data import as_goal, published
from tests.webshop.small_shop import MUG, SHIRT

LISTING = Listing(SHIRT, "Find me a shirt", ("machine wash", "long sleeve"))


def test_recorded_prices_are_exact() -> None:
    data = published()
    assert {asin: product.price for asin, product in data.products.items()} == data.golden["product_prices"]


def test_recorded_goals_are_exact_and_in_order() -> None:
    data = published()
    recorded = [as_goal(goal) for goal in data.golden["synthetic_goals"]]
    assert len(recorded) == 6910
    assert [index for index, (a, b) in enumerate(zip(data.synthetic, recorded, strict=True)) if a != b] == []
    assert list(data.human) == [as_goal(goal) for goal in data.golden["human_goals"]]


def test_b047_goals_depend_on_the_seed_alone() -> None:
    listings = [replace(LISTING, product=replace(SHIRT, asin=f"B{number}")) for number in range(20)]

    def digest(seed: int) -> str:
        random.seed()
        goals = synthetic_goals(listings, random.Random(seed))
        return hashlib.sha256(repr([(g.text, g.price_upper, g.options) for g in goals]).encode()).hexdigest()

    assert digest(5) == digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_goals_leave_the_global_generator_alone() -> None:
    random.seed(1)
    before = random.getstate()
    synthetic_goals([LISTING], random.Random(0))
    in_order([])
    assert random.getstate() == before


def test_synthetic_goals_combine_options_in_the_order_of_group_names() -> None:
    goals = synthetic_goals([LISTING], random.Random(0))
    assert len(goals) == 6
    assert {goal.price_upper for goal in goals} <= {40.0, 50.0, 60.0}
    bound = goals[0].price_upper
    assert Counter(tuple(goal.options) for goal in goals) == {("color", "size"): 6}
    assert f"Find me a shirt with color: navy blue, and size: small, and price lower than {bound:.2f} dollars" in {
        goal.text for goal in goals
    }


def test_goal_without_options_has_no_with() -> None:
    (goal,) = synthetic_goals(
        [Listing(replace(MUG, price=985.0), "Find me a mug", ("dishwasher safe",))], random.Random(0)
    )
    assert goal == Goal(MUG.asin, "Find me a mug", ("dishwasher safe",), {}, NO_BOUND, 1.0)


def test_weights_favour_rare_attributes() -> None:
    other = Listing(MUG, "Find me a mug", ("machine wash",))
    weights = {goal.attributes: goal.weight for goal in synthetic_goals([LISTING, other], random.Random(0))}
    assert weights[("machine wash",)] == 1 / 7
    assert weights[("machine wash", "long sleeve")] == (1 / 7 + 1 / 6) / 2


@pytest.mark.parametrize("listing", [Listing(SHIRT), Listing(SHIRT, "Find me a shirt")])
def test_products_without_template_or_attributes_make_no_goal(listing: Listing) -> None:
    rng = random.Random(0)
    before = rng.getstate()
    assert synthetic_goals([listing], rng) == []
    assert rng.getstate() == before


def test_human_goals_keep_their_list_of_values() -> None:
    instructions = (
        HumanInstruction("..i need a mug.", ("dishwasher safe",), ("white",)),
        HumanInstruction("no attributes", (), ("white",)),
    )
    (goal,) = human_goals([Listing(replace(MUG, price=2000.0), human=instructions)], random.Random(0))
    assert goal == Goal(MUG.asin, "i need a mug", ("dishwasher safe",), ("white",), NO_BOUND)


def test_bound_is_the_second_to_fourth_ten_above_the_price_in_the_published_shares() -> None:
    instructions = (HumanInstruction("a mug", ("a",), ()),) * 6000
    goals = human_goals([Listing(replace(MUG, price=20.0), human=instructions)], random.Random(0))
    shares = Counter(goal.price_upper for goal in goals)
    assert shares.keys() == {40.0, 50.0, 60.0}
    assert [round(shares[bound] / 1000) for bound in sorted(shares)] == [1, 2, 3]


@pytest.mark.parametrize(("price", "bounds"), [(969.0, {980.0, 990.0}), (975.0, {990.0}), (980.0, {NO_BOUND})])
def test_dear_products_have_few_bounds_or_none(price: float, bounds: set[float]) -> None:
    instructions = (HumanInstruction("a mug", ("a",), ()),) * 50
    goals = human_goals([Listing(replace(MUG, price=price), human=instructions)], random.Random(0))
    assert {goal.price_upper for goal in goals} == bounds


def test_purchase_price() -> None:
    rng = random.Random(0)
    assert purchase_price((), rng) == 100.0
    assert purchase_price((7.5,), rng) == 7.5
    assert purchase_price((10.0, 20.0), rng) == random.Random(0).uniform(10.0, 20.0)

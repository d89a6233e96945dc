"""The reward: each rule, the faults reported of the original (B048), and the recorded purchases, exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.goals import NO_BOUND
from envhub.envs.webshop.reward import RewardMode, Score, judge, unreachable
from tests.webshop.published_data import as_goal, published
from tests.webshop.small_shop import GOAL, MUG, PRODUCTS, SHIRT

RIGHT = {"size": "small", "color": "navy blue"}


def buy(
    goal: Goal = GOAL, options: Mapping[str, str] = RIGHT, bought: Product = SHIRT, target: Product = SHIRT
) -> Score:
    return judge(bought, options, goal, target)


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_recorded_purchases_are_exact(kind: str) -> None:
    data = published()
    recorded = data.golden["synthetic_goals" if kind == "synthetic" else "human_goals"]
    goals = [as_goal(goal) for goal in recorded]
    purchases = data.golden[f"rewards_{kind}"]
    assert len(purchases) == {"synthetic": 1250, "human": 163}[kind]
    wrong = []
    for index, asin, options, reward, info in purchases:
        score = judge(data.products[asin], options, goals[index], data.products[goals[index].asin])
        if score.total != reward or list(score.info().items()) != list(info.items()):
            wrong.append((index, asin, reward, score))
    assert wrong == []


def test_unreachable_goals_are_those_recorded_and_none_in_consistent_mode() -> None:
    data = published()
    product = data.products.__getitem__
    assert list(unreachable(data.synthetic, product)) == data.golden["synthetic_goals_without_reachable_1"]
    assert unreachable(data.synthetic, product, mode="consistent") == ()
    assert unreachable(data.human, product) == ()


def test_right_purchase_scores_exactly_one() -> None:
    score = buy()
    assert score.total == 1.0
    assert score.info() == {
        "r_type": 1.0,
        "r_att": 1.0,
        "w_att": 0.25,
        "query_match": True,
        "category_match": True,
        "title_score": 1.0,
        "r_option": 1.0,
        "w_option": 0.5,
        "r_price": True,
        "w_price": 0.25,
    }


def test_buying_without_options_loses_their_share() -> None:
    assert buy(options={}).total == 0.5


def test_goal_without_options() -> None:
    score = buy(goal=replace(GOAL, options={}))
    assert score.total == 1.0
    assert score.r_option is None and "r_option" not in score.info()


def test_price_equal_to_the_bound_meets_it() -> None:
    assert buy(goal=replace(GOAL, price_upper=25.0)).r_price is True
    assert buy(goal=replace(GOAL, price_upper=24.99)).total == 0.75


@pytest.mark.parametrize("bound", [0.0, -1.0])
def test_b048_bound_of_nothing_asks_for_no_price(bound: float) -> None:
    score = buy(goal=replace(GOAL, price_upper=bound))
    assert (score.total, score.r_price, score.w_price) == (1.0, None, 0.0)
    assert "r_price" not in score.info()


def test_b048_unknown_price_misses_the_bound() -> None:
    score = buy(bought=replace(SHIRT, price=math.nan))
    assert (score.total, score.r_price) == (0.75, False)


def test_b048_nothing_asked_for_is_the_type_alone() -> None:
    nothing = Goal(SHIRT.asin, "", (), (), 0.0)
    assert buy(goal=nothing).total == 1.0
    assert buy(goal=nothing, bought=MUG).total == 0.0


def test_b048_no_common_noun_loses_everything() -> None:
    same_query = replace(SHIRT, nouns=("mug",))
    score = buy(bought=same_query)
    assert (score.query_match, score.r_type, score.total) == (True, 0.0, 0.0)


@pytest.mark.parametrize(
    ("nouns", "query", "r_type"),
    [
        (("harbour",), "men's shirts", 1.0),
        (("harbour",), "mugs", 1.0),
        (("harbour", "cotton"), "mugs", 1.0),
        ((), "men's shirts", 0.0),
    ],
)
def test_type_factor(nouns: tuple[str, ...], query: str, r_type: float) -> None:
    bought = replace(SHIRT, nouns=nouns, query=query, categories="Home › Kitchen")
    assert buy(bought=bought).r_type == r_type


@pytest.mark.parametrize(
    ("n_wanted", "query", "r_type"), [(5, "mugs", 0.5), (10, "mugs", 0.5), (11, "men's shirts", 0.1)]
)
def test_type_factor_of_few_common_nouns(n_wanted: int, query: str, r_type: float) -> None:
    target = replace(SHIRT, nouns=("shirt", *(f"w{i}" for i in range(n_wanted - 1))))
    bought = replace(SHIRT, nouns=("shirt",), query=query, categories="")
    assert buy(bought=bought, target=target).r_type == r_type


def test_repeated_nouns_of_the_target_count_and_no_nouns_pass() -> None:
    assert buy(target=replace(SHIRT, nouns=("shirt", "shirt"))).title_score == 0.5
    assert buy(target=replace(SHIRT, nouns=())).title_score == 0.2


@pytest.mark.parametrize(
    ("asked", "met"),
    [
        ("machine washing", 1),
        ("wash machine", 1),
        ("dishwasher safe", 0),
        ("harbour", 1),
        ("iron breathable", 0),
        ("iron   b", 1),
        ("nights", 1),
    ],
)
def test_attribute_from_list_title_bullets_or_description(asked: str, met: int) -> None:
    assert buy(goal=replace(GOAL, attributes=(asked,))).r_att == met


def test_colour_hidden_in_a_word_makes_a_mapping_goal_unreachable_but_not_a_list_one() -> None:
    hidden = {"shape": "rectangular"}
    wanted = replace(GOAL, options=hidden)
    assert judge(SHIRT, hidden, wanted, SHIRT).r_option == 0.0
    assert judge(SHIRT, hidden, wanted, SHIRT, mode="consistent").r_option == 1.0
    assert judge(SHIRT, hidden, replace(GOAL, options=("rectangular",)), SHIRT).r_option == 1.0


def test_value_without_words_is_met_in_consistent_mode_only() -> None:
    wordless = replace(GOAL, options=("***",))
    assert judge(SHIRT, {"size": "***"}, wordless, SHIRT).r_option == 0.0
    assert judge(SHIRT, {"size": "***"}, wordless, SHIRT, mode="consistent").r_option == 1.0
    assert judge(SHIRT, {"size": "+++"}, wordless, SHIRT, mode="consistent").r_option == 0.0


def test_values_are_not_tied_to_their_group() -> None:
    assert buy(options={"anything": "small", "else": "navy blue"}).total == 1.0


TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(["red", "navy blue", "x-large", "machine wash", "---"]))
OPTIONS = st.one_of(st.lists(TEXTS, max_size=3).map(tuple), st.dictionaries(TEXTS, TEXTS, max_size=3))


@given(
    goal=st.builds(
        Goal,
        asin=st.just(SHIRT.asin),
        text=TEXTS,
        attributes=st.lists(TEXTS, max_size=3).map(tuple),
        options=OPTIONS,
        price_upper=st.one_of(st.just(NO_BOUND), st.floats(allow_nan=True)),
    ),
    options=st.dictionaries(TEXTS, TEXTS, max_size=3),
    bought=st.sampled_from(PRODUCTS),
    target=st.sampled_from(PRODUCTS),
    mode=st.sampled_from(["webshop", "consistent"]),
)
def test_reward_lies_between_0_and_1(
    goal: Goal, options: dict[str, str], bought: Product, target: Product, mode: RewardMode
) -> None:
    score = judge(bought, options, goal, target, mode=mode)
    assert 0.0 <= score.total <= 1.0
    assert score.info()["r_type"] in (0.0, 0.1, 0.5, 1.0)

"""The generated catalogues: what holds for every product and goal, how hard they are, and that a seed fixes all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.envs.webshop import oracle, pages, players
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.fuzzy import similar
from envhub.envs.webshop.reward import judge
from envhub.envs.webshop.shop import Shop
from envhub.envs.webshop.store import open_store
from envhub.envs.webshop.synthetic import families, making, options, texts, wishes
from envhub.envs.webshop.synthetic.attributes import ATTRIBUTES
from envhub.envs.webshop.synthetic.coverage import BRANCHES, coverage
from envhub.envs.webshop.synthetic.kinds import KINDS
from envhub.envs.webshop.synthetic.knobs import SIZES, Knobs
from envhub.envs.webshop.synthetic.phrases import Phrase
from envhub.envs.webshop.tasks import Tasks

DIGESTS = {"tiny": "68c14b7960caf389", "small": "84f0948dcb68ce32"}
"""They change with the generator; then ``GENERATOR`` must too, or caches keep the old catalogue."""

BANDS = {
    "first_hit": ((0.50, 0.66), (0.0, 0.10)),
    "first_hit_for_instruction": ((0.50, 0.70), (0.0, 0.12)),
    "first_hit_with_options": ((0.70, 0.84), (0.50, 0.70)),
    "random_of_first_page": ((0.26, 0.42), (0.0, 0.10)),
}
"""Mean reward and share of exact ones; on the published 1,000 products .54/.01, -, .76/.57 and .32/.00."""


def all_goals(tasks: Tasks) -> list[Goal]:
    return [goal for goals in tasks.splits.values() for goal in goals]


def made_goals(knobs: Knobs, folder: Path) -> Sequence[Goal]:
    with open_store(making.make("test", knobs, folder / "catalogue")) as store:
        return list(store.goals("test"))


@pytest.fixture(scope="module")
def products(small: Tasks) -> list[Product]:
    return list(small.catalogue.products())


@pytest.mark.slow
@pytest.mark.parametrize("size", DIGESTS)
def test_a_seed_fixes_every_product_and_goal(size: str, request: pytest.FixtureRequest) -> None:
    tasks: Tasks = request.getfixturevalue(size)
    assert tasks.catalogue.digest[:16] == DIGESTS[size]


def test_another_seed_gives_another_catalogue(tmp_path: Path, tiny: Tasks) -> None:
    with open_store(making.make("other", replace(SIZES["tiny"], seed=7), tmp_path / "other")) as other:
        assert other.digest != tiny.catalogue.digest
        assert {goal.text for goal in other.goals("test")}.isdisjoint(goal.text for goal in tiny.splits["test"])


def test_sizes_are_what_they_are_called(small: Tasks, tiny: Tasks) -> None:
    for tasks, n_products, n_goals in ((tiny, 200, 100), (small, 1_000, 500)):
        assert tasks.catalogue.n_products == n_products
        assert sum(len(goals) for goals in tasks.splits.values()) == n_goals
        assert set(tasks.splits) == {"train", "dev", "test"}


def test_asins_are_short_and_distinct(products: list[Product]) -> None:
    assert all(len(product.asin) <= 10 for product in products)
    assert len({product.asin.lower() for product in products}) == len(products)


def test_the_asins_of_a_large_catalogue_are_distinct() -> None:
    asins = {families._asin(SIZES["large"], number, member) for number in range(40_000) for member in range(8)}
    assert len(asins) == 320_000


def test_a_catalogue_looks_like_the_published_one(products: list[Product]) -> None:
    n = len(products)
    assert len(KINDS) >= 150 and len({kind.domain for kind in KINDS}) >= 5
    assert len({product.query for product in products}) >= 140
    assert 0.50 < sum(not product.options for product in products) / n < 0.66
    assert 0.12 < sum(not product.attributes for product in products) / n < 0.24
    assert 0.24 < sum(" to " in product.price_tag for product in products) / n < 0.36
    assert 0.20 < sum(not product.description for product in products) / n < 0.42
    assert 4.0 < sum(len(product.bullets) for product in products) / n < 5.2
    assert 9.0 < sum(len(product.title.split()) for product in products) / n < 20.0
    values = {value for product in products for group in product.options.values() for value in group}
    assert any("-" in value and any(letter.isdigit() for letter in value) for value in values), "codes"
    assert any(" | " in value for value in values), "two colours"
    assert any("(pack of" in value for value in values), "packs"
    assert max(product.price for product in products) > 980


def test_the_nouns_of_a_title_are_words_of_it(products: list[Product]) -> None:
    for product in products:
        words = Counter(product.title.replace(",", "").lower().split())
        assert not Counter(product.nouns) - words, product


def test_prices_lie_in_what_is_shown(products: list[Product]) -> None:
    for product in products:
        shown = [float(price.strip("$")) for price in product.price_tag.split(" to ")]
        assert min(shown) <= product.price <= max(shown)


def test_options_can_be_told_apart(products: list[Product]) -> None:
    for product in products:
        options.check(product.options)
        for values in product.options.values():
            assert values and all(value not in pages.SUB_PAGES for value in values)


@pytest.mark.parametrize(
    "groups",
    [
        {"color": ("red", "blue"), "style": ("red",)},
        {"color": ("red", "red")},
        {"size": ("buy now",)},
        {"size": ("12 oz [pack of 2]",)},
        {"color": ("Red",)},
    ],
)
def test_options_that_could_be_mistaken_are_refused(groups: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError):
        options.check(groups)


def test_buttons_are_those_of_the_pages() -> None:
    shown = {pages.SEARCH_BUTTON, pages.BACK_TO_SEARCH, pages.PREVIOUS, pages.NEXT, pages.BUY_NOW, *pages.SUB_PAGES}
    assert shown == options.BUTTONS


def test_every_variant_of_an_attribute_counts_as_it() -> None:
    for attribute in ATTRIBUTES.values():
        assert attribute.variant != attribute.name
        assert similar(attribute.variant, attribute.name), attribute


def test_idle_words_claim_nothing() -> None:
    idle = [
        *(phrase.text for phrase in (*texts.TITLE_USES, *texts.TITLE_NOISE, *texts._MATERIALS)),
        *(" ".join(point) for point in texts._POINTS),
        *texts._OPENINGS,
        *texts._SENTENCES,
        *(kind.name for kind in KINDS),
    ]
    claimed = [name for name in ATTRIBUTES for text in idle if name in text.lower()]
    assert not claimed


def test_kinds_share_attributes_but_no_name() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(len(kind.attributes) >= 4 for kind in KINDS)
    users = Counter(attribute.name for kind in KINDS for attribute in kind.attributes)
    assert sorted(users.values())[len(users) // 2] >= 10


def test_no_product_contradicts_itself() -> None:
    rivals = (
        {"slim fit", "relaxed fit", "classic fit"},
        {"long sleeve", "short sleeve"},
        {"machine washable", "hand wash"},
    )
    for members in families.families(SIZES["small"]):
        for draft in members:
            held = {claim.attribute.name for claim in draft.claims}
            assert held and all(len(held & group) <= 1 for group in rivals), draft


def test_a_part_can_be_made_again_by_itself() -> None:
    knobs = SIZES["small"]
    every = list(families.families(knobs))
    assert families.family(knobs, 17) == every[17]
    assert sum(map(len, every)) == knobs.n_products


def test_near_duplicates_differ_in_little() -> None:
    n_seen = 0
    for first, *copies in families.families(SIZES["tiny"]):
        for copy in copies:
            n_seen += 1
            assert copy.kind == first.kind and copy.asin != first.asin
            changed = (copy.claims != first.claims) + (copy.options != first.options) + (copy.low != first.low)
            assert changed <= 1
    assert n_seen > 60


def test_splits_share_no_family(small: Tasks) -> None:
    homes: dict[str, int] = {
        draft.asin: number for number, members in enumerate(families.families(SIZES["small"])) for draft in members
    }
    by_split = {split: {homes[goal.asin] for goal in goals} for split, goals in small.splits.items()}
    for split, found in by_split.items():
        others = set().union(*(numbers for name, numbers in by_split.items() if name != split))
        assert found and not found & others


def test_no_instruction_occurs_twice(small: Tasks) -> None:
    goals = all_goals(small)
    assert len({goal.text for goal in goals}) == len(goals)


def test_the_oracle_earns_exactly_one_for_every_goal_in_both_modes(small: Tasks) -> None:
    shop = Shop(small.catalogue)
    for goal in all_goals(small):
        plan = oracle.plan(shop, goal)
        assert plan is not None and plan.reward == 1.0 and len(plan.actions) <= 20, goal
        assert oracle.play(replace(shop, reward_mode="consistent"), goal, plan.actions).reward == 1.0, goal


def test_a_wish_that_cannot_be_granted_is_turned_down(tiny: Tasks) -> None:
    shop, goal = Shop(tiny.catalogue), tiny.splits["test"][0]
    assert making._holds(goal, shop)
    assert not making._holds(replace(goal, attributes=(*goal.attributes, "made of cheese")), shop)
    assert not making._holds(replace(goal, options=(*oracle.wanted_values(goal), "no such colour")), shop)
    assert not making._holds(replace(goal, price_upper=0.5), shop)


def test_both_reward_modes_agree_on_what_is_bought(small: Tasks) -> None:
    shop = Shop(small.catalogue)
    for goal in small.splits["test"]:
        target = small.catalogue.product(goal.asin)
        for head in small.catalogue.heads(small.catalogue.search(target.title.split())[:10]):
            bought = small.catalogue.product(head.asin)
            chosen = {group: values[0] for group, values in bought.options.items()}
            published = judge(bought, chosen, goal, target)
            assert published == judge(bought, chosen, goal, target, mode="consistent")
    assert shop.reward_mode == "webshop"


@pytest.mark.slow
def test_few_of_the_products_found_are_perfect(small: Tasks) -> None:
    shop = Shop(small.catalogue)
    counts = [making.n_perfect(goal, shop) for goal in all_goals(small)]
    assert max(counts) <= making.MOST_PERFECT
    assert sum(counts) / len(counts) < 2.5


@pytest.mark.slow
def test_every_way_of_judging_is_reached(small: Tasks) -> None:
    reached = coverage(Shop(small.catalogue), all_goals(small))
    assert not [branch for branch in BRANCHES if not reached[branch]], reached


def test_shoppers_that_hardly_read_earn_what_they_do_on_published_products(small: Tasks) -> None:
    shop, goals = Shop(small.catalogue), all_goals(small)
    for name, ((low, high), (least, most)) in BANDS.items():
        earned = players.measure(shop, goals, players.PLAYERS[name])
        assert low <= earned.mean_reward <= high, (name, earned)
        assert least <= earned.success <= most, (name, earned)


def test_an_instruction_does_not_quote_what_it_paraphrases(small: Tasks) -> None:
    goals = all_goals(small)
    wished = [(attribute, goal) for goal in goals for attribute in goal.attributes]
    in_other_words = sum(attribute not in goal.text for attribute, goal in wished)
    assert 0.25 < in_other_words / len(wished) < 0.45
    for goal in goals:
        assert all(value in goal.text for value in oracle.wanted_values(goal)), "options are named"
        if goal.price_upper < wishes.NO_BOUND:
            assert goal.text.endswith(f", and price lower than {goal.price_upper:.2f} dollars")


KNOBS = Knobs(300, {"test": 60})


def test_goals_can_be_made_easy(tmp_path: Path) -> None:
    easy = replace(
        KNOBS,
        near_duplicates=0,
        max_goal_attributes=1,
        max_goal_options=1,
        paraphrase=0.0,
        vagueness=0.0,
        price_slack="tight",
    )
    for goal in made_goals(easy, tmp_path):
        assert len(goal.attributes) == 1 and len(goal.options) <= 1
        assert goal.attributes[0] in goal.text
    assert all(len(members) == 1 for members in families.families(easy))


def test_a_tight_bound_is_the_next_ten(tmp_path: Path) -> None:
    knobs = replace(KNOBS, price_slack="tight")
    with open_store(making.make("tight", knobs, tmp_path / "catalogue")) as store:
        for goal in store.goals("test"):
            if goal.price_upper < wishes.NO_BOUND:
                assert 0 < goal.price_upper - store.product(goal.asin).price <= 10


def test_goals_may_name_the_groups_of_their_options(tmp_path: Path) -> None:
    goals = made_goals(replace(KNOBS, dict_options=True), tmp_path)
    assert all(isinstance(goal.options, dict) for goal in goals) and any(goal.options for goal in goals)


def test_fewer_kinds_make_results_more_alike(tmp_path: Path) -> None:
    kinds = {draft.kind.name for members in families.families(replace(KNOBS, n_kinds=6)) for draft in members}
    assert len(kinds) == 6


def test_shares_follow_the_knobs() -> None:
    knobs = replace(KNOBS, n_products=3_000, optionless=0.2, ranges=0.0, attributeless=0.0, title_noise=0.0)
    found = list(making.products(knobs))
    assert sum(not product.options for product in found) / len(found) < 0.3
    assert not [product for product in found if " to " in product.price_tag]
    assert sum(not product.attributes for product in found) / len(found) < 0.01
    noisy = list(making.products(replace(knobs, title_noise=0.9)))
    assert sum(len(product.title) for product in noisy) > 1.5 * sum(len(product.title) for product in found)


def test_impossible_knobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least twice as many"):
        Knobs(100, {"test": 51})
    with pytest.raises(ValueError, match="n_kinds"):
        Knobs(100, {"test": 5}, n_kinds=0)
    with pytest.raises(ValueError, match=r"too few|hold"):
        making.make("bare", Knobs(100, {"test": 50}, attributeless=1.0, optionless=1.0), tmp_path / "bare")


def test_nouns_are_marked_not_guessed() -> None:
    phrase = Phrase.of("~wireless earbuds ~for travel")
    assert phrase.text == "wireless earbuds for travel"
    assert phrase.nouns == ("earbuds", "travel")
    assert phrase.titled.text == "Wireless Earbuds for Travel"

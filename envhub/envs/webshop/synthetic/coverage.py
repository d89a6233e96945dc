"""Which ways of judging a purchase the goals of a catalogue reach.

Invariant: a way counts once for every goal that reaches it; the order of looking for an attribute is that of the reward.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from envhub.envs.webshop import oracle
from envhub.envs.webshop.build import document
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.colours import COLOUR_WORDS
from envhub.envs.webshop.fuzzy import similar
from envhub.envs.webshop.reward import judge
from envhub.envs.webshop.shop import Shop
from envhub.envs.webshop.synthetic.wishes import NO_BOUND

BRANCHES: tuple[str, ...] = (
    "type 0",
    "type 0.1",
    "type 0.5",
    "type 1",
    "attribute in the list",
    "attribute nearly in the list",
    "attribute in the title",
    "attribute in a bullet",
    "attribute in the description",
    "attribute not in the index",
    "0 options",
    "1 option",
    "2 options",
    "3 options",
    "colour in an option",
    "price range",
    "price above the bound",
    "no bound",
    "page 2 or later",
)
_N_OTHERS = 12


def coverage(shop: Shop, goals: Iterable[Goal], *, seed: int = 0) -> Counter[str]:
    """How many goals reach each of ``BRANCHES``, buying the right product, what a search shows first, or anything."""
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    for goal in goals:
        counts.update(set(_reached(shop, goal, rng)))
    return counts


def _reached(shop: Shop, goal: Goal, rng: random.Random) -> Iterator[str]:
    target = shop.catalogue.product(goal.asin)
    n_options = len(goal.options)
    yield f"{n_options} option{'' if n_options == 1 else 's'}"
    for attribute in goal.attributes:
        yield f"attribute {_place(target, attribute)}"
        if attribute not in document(target):
            yield "attribute not in the index"
    if any(word in value and word != value for value in oracle.wanted_values(goal) for word in COLOUR_WORDS):
        yield "colour in an option"
    if " to " in target.price_tag:
        yield "price range"
    if goal.price_upper == NO_BOUND:
        yield "no bound"
    plan = oracle.plan(shop, goal)
    if plan is not None and plan.page > 1:
        yield "page 2 or later"
    for bought in _others(shop, goal, target, rng):
        yield f"type {judge(bought, {}, goal, target).r_type:g}"
        if bought.price > goal.price_upper:
            yield "price above the bound"


def _place(product: Product, attribute: str) -> str:
    if attribute in product.attributes:
        return "in the list"
    if any(similar(listed, attribute) for listed in product.attributes):
        return "nearly in the list"
    if attribute in product.title.lower():
        return "in the title"
    return "in a bullet" if attribute in " ".join(product.bullets).lower() else "in the description"


def _others(shop: Shop, goal: Goal, target: Product, rng: random.Random) -> Iterator[Product]:
    found: Sequence[int] = shop.catalogue.search(oracle.query(target, goal).lower().split(" "))[:10]
    anything = [rng.randrange(shop.catalogue.n_products) for _ in range(_N_OTHERS)]
    for head in shop.catalogue.heads([*found, *anything]):
        yield shop.catalogue.product(head.asin)

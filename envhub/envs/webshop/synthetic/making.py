"""Making a catalogue of a size: products, then goals that are each proved on it.

Invariant: every goal earns exactly 1 by the plan of the oracle, in both reward modes; no instruction occurs twice; among the
products that a search for it finds, few give the full reward.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

from envhub.core.types import JSON
from envhub.envs.webshop import oracle
from envhub.envs.webshop.build import Progress, build
from envhub.envs.webshop.catalogue import Catalogue, Goal, Product
from envhub.envs.webshop.shop import Shop
from envhub.envs.webshop.synthetic import families, options, wishes
from envhub.envs.webshop.synthetic.knobs import GENERATOR, Knobs
from envhub.envs.webshop.synthetic.wishes import Candidate

MOST_PERFECT = 5
"""So many of the fifty products that are found for a goal may give 1."""

_MOST_ATTEMPTS = 8


def make(name: str, knobs: Knobs, out: Path, *, progress: Progress = lambda stage, done: None) -> Path:
    """Build the catalogue ``out`` unless it is there. Raises StoreError, ValueError for knobs that cannot be met."""
    return build(products(knobs), partial(proved_goals, knobs), out, meta=meta(name, knobs), progress=progress)


def meta(name: str, knobs: Knobs) -> dict[str, JSON]:
    """What a catalogue is made of; equal ones are the same catalogue."""
    return {"name": name, "generator": GENERATOR, "knobs": {**asdict(knobs), "splits": dict(knobs.splits)}}


def products(knobs: Knobs) -> Iterator[Product]:
    for members in families.families(knobs):
        for draft in members:
            product = families.product(draft)
            options.check(product.options)
            yield product


def proved_goals(knobs: Knobs, catalogue: Catalogue) -> dict[str, list[Goal]]:
    """Raises ValueError when the knobs ask for goals that the products do not give."""
    shop = Shop(catalogue)
    texts: set[str] = set()
    found: dict[str, list[Goal]] = {}
    for split, candidates in wishes.candidates(knobs).items():
        proved = (_proved(candidate, knobs, shop, texts) for candidate in candidates)
        goals = list(islice((goal for goal in proved if goal is not None), knobs.splits[split]))
        if len(goals) < knobs.splits[split]:
            raise ValueError(f"only {len(goals)} goals of split {split} hold; {knobs.splits[split]} are asked for")
        random.Random(f"{knobs.seed}/{split}").shuffle(goals)
        found[split] = goals
    return found


def _proved(candidate: Candidate, knobs: Knobs, shop: Shop, texts: set[str]) -> Goal | None:
    """The first wish that holds, if any; its text is added to ``texts``."""
    draft = candidate.draft(knobs)
    for attempt in range(_MOST_ATTEMPTS):
        goal = wishes.goal(draft, knobs, f"{candidate.time}/{attempt}")
        if goal.text not in texts and _holds(goal, shop):
            texts.add(goal.text)
            return goal
    return None


def _holds(goal: Goal, shop: Shop) -> bool:
    plan = oracle.plan(shop, goal)
    if plan is None or plan.reward != 1.0:
        return False
    target = shop.catalogue.product(goal.asin)
    if oracle.best_score(target, goal, target, mode="consistent") != 1.0:
        return False
    return len(list(islice(_perfect(goal, shop), MOST_PERFECT + 1))) <= MOST_PERFECT


def n_perfect(goal: Goal, shop: Shop) -> int:
    """How many of the products that are found for a goal give 1 with the right options."""
    return len(list(_perfect(goal, shop)))


def _perfect(goal: Goal, shop: Shop) -> Iterator[Product]:
    target = shop.catalogue.product(goal.asin)
    rows = shop.catalogue.search(oracle.query(target, goal).lower().split(" "))
    for head in shop.catalogue.heads(rows):
        bought = shop.catalogue.product(head.asin)
        if oracle.best_score(bought, goal, target, mode=shop.reward_mode) == 1.0:
            yield bought

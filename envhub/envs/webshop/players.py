"""Shoppers that hardly read: how much of the reward takes no thought, as a measure of how hard a catalogue is.

Invariant: a player knows the words of the goal, as a perfect reader of the instruction would, but not the product; one knows the
instruction alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from envhub.envs.webshop import oracle, pages
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.pages import State
from envhub.envs.webshop.shop import Shop


@dataclass(frozen=True, slots=True)
class Earned:
    """``success`` is the share of goals that gave exactly 1."""

    mean_reward: float
    success: float


Player = Callable[[Shop, Goal, random.Random], float]


def first_hit(shop: Shop, goal: Goal, rng: random.Random) -> float:
    """Search for what is wanted and buy the first result as it is."""
    return _buy(shop, goal, lambda heads: 0, options=False)


def first_hit_for_instruction(shop: Shop, goal: Goal, rng: random.Random) -> float:
    """Search for the instruction as it is written and buy the first result as it is."""
    return _buy(shop, goal, lambda heads: 0, options=False, keywords=goal.text)


def first_hit_with_options(shop: Shop, goal: Goal, rng: random.Random) -> float:
    """The same, with the wanted options where the first result has them."""
    return _buy(shop, goal, lambda heads: 0, options=True)


def random_of_first_page(shop: Shop, goal: Goal, rng: random.Random) -> float:
    """Search for what is wanted and buy any of the first ten results, with any options."""
    return _buy(shop, goal, rng.randrange, options=rng)


PLAYERS: Mapping[str, Player] = {
    each.__name__: each for each in (first_hit, first_hit_for_instruction, first_hit_with_options, random_of_first_page)
}


def measure(shop: Shop, goals: Sequence[Goal], player: Player, *, seed: int = 0) -> Earned:
    rewards = [player(shop, goal, random.Random(f"{seed}/{position}")) for position, goal in enumerate(goals)]
    return Earned(sum(rewards) / len(rewards), sum(reward == 1.0 for reward in rewards) / len(rewards))


def _buy(
    shop: Shop, goal: Goal, pick: Callable[[int], int], *, options: bool | random.Random, keywords: str = ""
) -> float:
    """``keywords`` are by default the words of the goal."""
    words = keywords or oracle.query(shop.catalogue.product(goal.asin), goal)
    state = shop.search(shop.enter(goal), words).state
    if not state.heads:
        return 0.0
    state = shop.click(state, state.heads[pick(len(state.heads))].asin).state
    for value in _choice(state, goal, options):
        state = shop.click(state, value).state
    return shop.click(state, pages.BUY_NOW).reward


def _choice(state: State, goal: Goal, options: bool | random.Random) -> Sequence[str]:
    if isinstance(options, random.Random):
        return [options.choice(values) for values in state.item.options.values() if values]
    return [value for value in oracle.wanted_values(goal) if options and _offers(state.item, value)]


def _offers(product: Product, value: str) -> bool:
    return any(value in values for values in product.options.values())

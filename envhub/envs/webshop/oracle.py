"""The way to a purchase that earns everything, found with the catalogue in hand.

Invariant: a plan depends on the catalogue and the goal alone, and its reward is what playing it earns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from envhub.envs.webshop import pages
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.fuzzy import similar
from envhub.envs.webshop.pages import State
from envhub.envs.webshop.reward import RewardMode, judge
from envhub.envs.webshop.shop import Move, Shop

MOST_PAGES = 5
"""So many pages of results exist: the best fifty products."""


class Action(NamedTuple):
    """``value`` is what to search for or to click on."""

    name: Literal["search", "click"]
    value: str


@dataclass(frozen=True, slots=True)
class Plan:
    """``page`` is the page of results on which the product is, ``by_title`` whether it took a search for its title."""

    actions: tuple[Action, ...]
    reward: float
    page: int
    by_title: bool


def plan(shop: Shop, goal: Goal) -> Plan | None:
    """Search as a shopper would, for what is wanted, then for the very title; None when neither search finds the product."""
    product = shop.catalogue.product(goal.asin)
    for keywords in (query(product, goal), product.title):
        if found := _page(shop, keywords, product):
            actions = (Action("search", keywords), *_from_results(found, product, goal))
            return Plan(actions, play(shop, goal, actions).reward, found, keywords == product.title)
    return None


def query(product: Product, goal: Goal) -> str:
    return " ".join([product.query, *goal.attributes, *wanted_values(goal)])


def wanted_values(goal: Goal) -> tuple[str, ...]:
    return tuple(goal.options.values()) if isinstance(goal.options, Mapping) else goal.options


def best_score(bought: Product, goal: Goal, target: Product, *, mode: RewardMode) -> float:
    """What buying a product earns with its own values that come nearest to the wanted ones."""
    chosen = {
        group: value for wanted in wanted_values(goal) if (near := _nearest(bought, wanted)) for group, value in [near]
    }
    return judge(bought, chosen, goal, target, mode=mode).total


def _nearest(product: Product, wanted: str) -> tuple[str, str] | None:
    offered = [(group, value) for group, values in product.options.items() for value in values]
    equal = (pair for pair in offered if pair[1] == wanted)
    return next(equal, None) or next((pair for pair in offered if similar(pair[1], wanted)), None)


def play(shop: Shop, goal: Goal, actions: tuple[Action, ...]) -> Move:
    """The last of the moves. Raises ValueError for an action that is not valid where it stands."""
    move = Move(shop.enter(goal))
    for action in actions:
        move = take(shop, move.state, action)
        if not move.valid:
            raise ValueError(f"{action}: {move.problem}")
    return move


def take(shop: Shop, state: State, action: Action) -> Move:
    return shop.search(state, action.value) if action.name == "search" else shop.click(state, action.value)


def _page(shop: Shop, keywords: str, product: Product) -> int:
    """The page of the results that has the product, from 1; 0 for none."""
    rows = shop.catalogue.search(keywords.lower().split(" "))
    for position, head in enumerate(shop.catalogue.heads(rows)):
        if head.asin == product.asin:
            return position // pages.PAGE_SIZE + 1
    return 0


def _from_results(page: int, product: Product, goal: Goal) -> Iterator[Action]:
    for _ in range(page - 1):
        yield Action("click", pages.NEXT)
    yield Action("click", product.asin.lower())
    offered = {value for values in product.options.values() for value in values}
    for value in wanted_values(goal):
        if value in offered:
            yield Action("click", value)
    yield Action("click", pages.BUY_NOW)

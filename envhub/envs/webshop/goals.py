"""Goals of the official data: which exist, what they ask for, their price bounds and their order.

Invariant: with the random generator that drew the catalogue's prices, in the state it was left in, the goals equal those of
the original code started with that seed, bound for bound. They are drawn when a catalogue is built and stored; nothing is
drawn when an episode starts.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from envhub.envs.webshop.catalogue import Goal, Product

NO_BOUND = 1_000_000.0
ORDER_SEED = 233
"""The original shuffles its goals with this seed: it fixes their indices."""

_BOUNDS = tuple(10.0 * step for step in range(1, 100))


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """What a crowd worker wrote for a product; ``options`` are values without their groups."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A product with what the official files say of instructions for it; ``template`` is the text of its synthetic goals."""

    product: Product
    template: str | None = None
    template_attributes: tuple[str, ...] = ()
    human: tuple[HumanInstruction, ...] = ()


def purchase_price(prices: Sequence[float], rng: random.Random) -> float:
    """What buying costs: the one price, a draw between the ends of a range, or 100 when none is known."""
    if not prices:
        return 100.0
    return prices[0] if len(prices) == 1 else rng.uniform(prices[0], prices[1])


def human_goals(listings: Iterable[Listing], rng: random.Random) -> list[Goal]:
    """One goal for each instruction that has attributes. Call once, after the last price was drawn from ``rng``."""
    goals = []
    for listing in listings:
        for instruction in listing.human:
            if instruction.attributes:
                bound, suffix = _draw_bound(listing.product.price, rng)
                text = instruction.text.strip(".") + suffix
                goals.append(Goal(listing.product.asin, text, instruction.attributes, instruction.options, bound))
    return in_order(goals)


def n_human_goals(listing: Listing) -> int:
    return sum(bool(instruction.attributes) for instruction in listing.human)


def n_synthetic_goals(listing: Listing) -> int:
    if listing.template is None or not listing.template_attributes:
        return 0
    return math.prod(map(len, listing.product.options.values()))


def synthetic_goals(listings: Iterable[Listing], rng: random.Random) -> list[Goal]:
    """A goal for each combination of options of each product with a template; weights favour rare attributes."""
    goals = [goal for listing in listings for goal in _combinations(listing, rng)]
    n_with = Counter(attribute for goal in goals for attribute in goal.attributes)
    weighted = [
        replace(goal, weight=sum(1.0 / n_with[attribute] for attribute in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]
    return in_order(weighted)


def in_order(goals: Iterable[Goal]) -> list[Goal]:
    """The original's order of its goals: their position is their index."""
    ordered = list(goals)
    random.Random(ORDER_SEED).shuffle(ordered)
    return ordered


def _combinations(listing: Listing, rng: random.Random) -> Iterator[Goal]:
    if listing.template is None or not listing.template_attributes:
        return
    product = listing.product
    bound, suffix = _draw_bound(product.price, rng)
    groups = sorted(product.options)
    for values in itertools.product(*(product.options[group] for group in groups)):
        options = dict(zip(groups, values, strict=True))
        asked = ", and ".join(f"{group}: {value}" for group, value in options.items())
        text = f"{listing.template}{' with ' + asked if asked else ''}{suffix}"
        yield Goal(product.asin, text, listing.template_attributes, options, bound)


def _draw_bound(price: float, rng: random.Random) -> tuple[float, str]:
    """The larger of two of the first four tens above the price, and how the instruction says so."""
    candidates = [bound for bound in _BOUNDS if bound > price][:4]
    if len(candidates) < 2:
        return NO_BOUND, ""
    bound = max(rng.sample(candidates, 2))
    return bound, f", and price lower than {bound:.2f} dollars"

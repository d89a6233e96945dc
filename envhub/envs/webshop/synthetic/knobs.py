"""What makes a catalogue harder or easier, and the four sizes that have names.

Invariant: equal knobs give equal products and goals, on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from envhub.envs.webshop.synthetic.kinds import KINDS

GENERATOR = 1
"""Changes whenever equal knobs give another catalogue."""

PriceSlack = Literal["original", "tight"]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Shares are in [0, 1]. ``splits`` maps a split to its number of goals.

    ``near_duplicates``: at most so many copies of a product differ from it in an attribute, an option or the price.
    ``n_kinds``: so many kinds of product; fewer means that a results page shows fewer things of another kind.
    ``max_goal_attributes``, ``max_goal_options``: what one goal asks for. ``price_slack``: the bound lies up to four tens above
    the price, or at the next ten. ``paraphrase``: share of wished attributes in other words. ``title_noise``: how full of
    idle words titles are. ``vagueness``: share of instructions that name the product by its part of the shop.
    ``optionless``, ``attributeless``, ``ranges``: shares of products without options, without listed attributes, with a price range.
    ``dict_options``: goals name the group of each option, which the published reward treats in another way.
    """

    n_products: int
    splits: Mapping[str, int] = field(hash=False)
    seed: int = 2026
    near_duplicates: int = 4
    n_kinds: int = len(KINDS)
    max_goal_attributes: int = 4
    max_goal_options: int = 3
    price_slack: PriceSlack = "original"
    paraphrase: float = 0.35
    title_noise: float = 0.75
    vagueness: float = 0.2
    optionless: float = 0.58
    attributeless: float = 0.18
    ranges: float = 0.3
    dict_options: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n_kinds <= len(KINDS):
            raise ValueError(f"n_kinds must be between 1 and {len(KINDS)}")
        if sum(self.splits.values()) * 2 > self.n_products:
            raise ValueError(f"{sum(self.splits.values())} goals need at least twice as many products")


SIZES: Mapping[str, Knobs] = {
    "tiny": Knobs(200, {"train": 40, "dev": 20, "test": 40}),
    "small": Knobs(1_000, {"train": 200, "dev": 100, "test": 200}),
    "medium": Knobs(20_000, {"train": 4_000, "dev": 500, "test": 500}),
    "large": Knobs(300_000, {"train": 4_000, "dev": 500, "test": 500}),
}

"""The published 1,000 products and what the original code was recorded to make of them. Skips, with a reason, where they are not."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from envhub.core.types import JSON
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.goals import Listing, human_goals, synthetic_goals
from envhub.envs.webshop.official import find_official, read_listings
from tests import require
from tests.webshop.small_shop import MemoryCatalogue

FOLDER = require.SHARED / "data/webshop"


def read(name: str) -> JSON:
    with gzip.open(require.published(f"data/webshop/{name}"), "rt", encoding="utf-8") as source:
        return json.load(source)


@dataclass(frozen=True, slots=True)
class Published:
    listings: Sequence[Listing]
    products: Mapping[str, Product]
    synthetic: Sequence[Goal]
    human: Sequence[Goal]
    golden: Mapping[str, JSON]

    def catalogue(self, search: Callable[[Sequence[str]], Sequence[int]]) -> MemoryCatalogue:
        return MemoryCatalogue(tuple(self.products.values()), search)

    def recorded_results(self) -> Callable[[Sequence[str]], Sequence[int]]:
        """Result rows as far as the recorded pages show them; unknown queries raise KeyError."""
        rows = {asin.lower(): row for row, asin in enumerate(self.products)}
        results: dict[tuple[str, ...], list[int]] = {}
        for episode in self.golden["episodes_text"]:
            words: tuple[str, ...] = ()
            for step in episode["steps"]:
                if searched := re.match(r"search\[(.+)\]", step.get("action", "")):
                    words = tuple(searched[1].lower().split(" "))
                if page := re.search(r" \[SEP\] Page (\d+) \(Total results: (\d+)\) \[SEP\] ", step["obs"]):
                    found = results.setdefault(words, [0] * int(page[2]))
                    shown = [rows[value] for value in step["avail"]["clickables"] if value in rows]
                    start = 10 * (int(page[1]) - 1)
                    found[start : start + len(shown)] = shown
        return lambda keywords: results[tuple(keywords)]


@cache
def published() -> Published:
    golden = read("golden_env.json.gz")
    rng = random.Random(0)
    listings = tuple(read_listings(find_official(FOLDER), rng))
    after_prices = rng.getstate()
    synthetic = synthetic_goals(listings, rng)
    rng.setstate(after_prices)
    products = {listing.product.asin: listing.product for listing in listings}
    return Published(listings, products, synthetic, human_goals(listings, rng), golden)


def as_goal(recorded: Mapping[str, JSON]) -> Goal:
    options = recorded["goal_options"]
    return Goal(
        recorded["asin"],
        recorded["instruction_text"],
        tuple(recorded["attributes"]),
        options if isinstance(options, dict) else tuple(options),
        recorded["price_upper"],
        recorded["weight"],
    )

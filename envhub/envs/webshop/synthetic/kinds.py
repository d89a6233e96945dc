"""Kinds of product: what one is called, searched and filed under, what can be said of it, what it can be chosen in, and its price.

Invariant: names are distinct; several kinds may share a query, a part of the shop and any attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envhub.envs.webshop.synthetic.attributes import POOLS, Attribute
from envhub.envs.webshop.synthetic.kinds_home import GROCERY, HOME
from envhub.envs.webshop.synthetic.kinds_tech import ELECTRONICS, LEISURE
from envhub.envs.webshop.synthetic.kinds_wear import BEAUTY, FASHION
from envhub.envs.webshop.synthetic.phrases import Phrase, rows


@dataclass(frozen=True, slots=True)
class Kind:
    phrase: Phrase
    query: str
    categories: str
    attributes: tuple[Attribute, ...]
    groups: tuple[str, ...]
    usual_price: float
    domain: str

    @property
    def name(self) -> str:
        return self.phrase.text

    @property
    def is_plural(self) -> bool:
        return self.name.endswith("s") and not self.name.endswith("ss")


_DOMAINS: Mapping[str, tuple[str, str]] = {
    "fashion": ("Clothing & Shoes", FASHION),
    "beauty": ("Beauty & Care", BEAUTY),
    "home": ("Home & Kitchen", HOME),
    "grocery": ("Food & Drink", GROCERY),
    "electronics": ("Electronics & Computers", ELECTRONICS),
    "leisure": ("Sports, Toys & Office", LEISURE),
}


def _read() -> Iterator[Kind]:
    for domain, (root, table) in _DOMAINS.items():
        for name, query, path, pools, groups, price in rows(table, 6):
            categories = " › ".join([root, *path.split(" > ")])
            fitting = dict.fromkeys(attribute for pool in pools.split() for attribute in POOLS[pool])
            yield Kind(Phrase.of(name), query, categories, tuple(fitting), tuple(groups.split()), float(price), domain)


KINDS: tuple[Kind, ...] = tuple(_read())

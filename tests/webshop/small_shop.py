"""A few products in memory, enough to reach every page and every rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from envhub.envs.webshop.catalogue import Goal, Head, Product


class MemoryCatalogue:
    digest = "in memory"

    def __init__(
        self, products: Sequence[Product], search: Callable[[Sequence[str]], Sequence[int]] | None = None
    ) -> None:
        self.n_products = len(products)
        self._products = products
        self._by_asin = {product.asin.lower(): product for product in products}
        self._search = search or self._containing

    def product(self, asin: str) -> Product:
        return self._by_asin[asin.lower()]

    def heads(self, rows: Sequence[int]) -> Sequence[Head]:
        return [self._products[row].head for row in rows]

    def search(self, keywords: Sequence[str]) -> Sequence[int]:
        return self._search(keywords)

    def goals(self, split: str) -> Sequence[Goal]:
        raise KeyError(split)

    def _containing(self, keywords: Sequence[str]) -> Sequence[int]:
        titles = [product.title.lower() for product in self._products]
        return [row for row, title in enumerate(titles) if any(word and word in title for word in keywords)][:50]


SHIRT = Product(
    asin="B0SHIRT001",
    title="Harbour Cotton Shirt",
    price_tag="$19.5 to $30.0",
    price=25.0,
    description="A shirt for <warm> days & nights.",
    bullets=("Easy to iron", " ", "Breathable fabric"),
    options={"size": ("small", "x-large"), "color": ("navy blue", 'wine "dark"', "12 oz [pack of 2]")},
    attributes=("machine wash", "long sleeve"),
    query="men's shirts",
    categories="Clothing › Men › Shirts",
    nouns=("harbour", "cotton", "shirt"),
    image="https://example.org/shirt.jpg",
    category="fashion",
)
MUG = Product(
    asin="B0MUG00001",
    title="Stone Mug",
    price_tag="$8.0",
    price=8.0,
    description="",
    bullets=(),
    options={},
    attributes=("dishwasher safe",),
    query="mugs",
    categories="Home › Kitchen › Mugs",
    nouns=("stone", "mug"),
)
TRICKY = replace(
    SHIRT,
    asin="B0TRICKY01",
    title="Tricky Shirt",
    nouns=("tricky", "shirt"),
    options={
        "style": ("search", "description", "attributes", "same", "ÜBER groß".lower(), "next >"),
        "other": ("same", "buy now", "it's"),
    },
)
CROWD = tuple(
    replace(MUG, asin=f"B0CROWD{number:03}", title=f"Plain Mug {number}", nouns=("plain", "mug"))
    for number in range(60)
)
PRODUCTS = (SHIRT, MUG, TRICKY, *CROWD)
GOAL = Goal(
    asin=SHIRT.asin,
    text="Find me a machine washable shirt, and price lower than 30.00 dollars",
    attributes=("machine wash",),
    options={"size": "small", "color": "navy blue"},
    price_upper=30.0,
)

"""Records of the shop: products, goals, and the catalogue that holds them.

Invariant: a record never changes; prices and price bounds are drawn once, when a catalogue is built, and stored in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Head:
    """What a results page shows of a product."""

    asin: str
    title: str
    price_tag: str


@dataclass(frozen=True, slots=True)
class Product:
    """A product as it is shown and judged. ``options`` keeps the order of groups and values; ``price`` is what buying it costs.

    ``nouns`` are the lower-cased nouns of the title in order, duplicates kept (the reward counts them).
    """

    asin: str
    title: str
    price_tag: str
    price: float
    description: str
    bullets: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    query: str
    categories: str
    nouns: tuple[str, ...]
    image: str = ""
    option_images: Mapping[str, str] = field(default_factory=dict)
    category: str = ""
    """The one-word department (``beauty``, ``garden``, ...), shown on the attributes page only."""

    @property
    def head(self) -> Head:
        return Head(self.asin, self.title, self.price_tag)


@dataclass(frozen=True, slots=True)
class Goal:
    """What to buy. ``options`` is a list of values (human instructions) or a mapping of group to value (synthetic ones): the
    published reward treats the two differently. ``price_upper`` is 1,000,000 when the instruction names no price.
    """

    asin: str
    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | Mapping[str, str]
    price_upper: float
    weight: float = 1.0


class Catalogue(Protocol):
    """Read-only, shared by every session of a worker; its large parts by every worker of a machine."""

    digest: str
    """Changes when any product, price or goal does."""

    n_products: int

    def product(self, asin: str) -> Product:
        """By its asin as stored, or in lower case as a page shows it. Raises KeyError."""

    def heads(self, rows: Sequence[int]) -> Sequence[Head]: ...

    def search(self, keywords: Sequence[str]) -> Sequence[int]:
        """Rows of the best 50 products, best first; equal scores in the order of their asins."""

    def goals(self, split: str) -> Sequence[Goal]:
        """Raises KeyError."""

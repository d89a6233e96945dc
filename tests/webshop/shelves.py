"""Made-up products for the tests of search and storage, and BM25 written down the slow way."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from envhub.envs.webshop.analyser import terms
from envhub.envs.webshop.build import build, document
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.store import Store, open_store

_WORDS = "red blue lamp chair shirt cotton running shoes large pack oz steel mug the and sofa light dark 12 xl"
WORDS = _WORDS.split()


def product(asin: str, text: str = "red lamp", *, price: float = 9.5, **fields: object) -> Product:
    made = {
        "asin": asin,
        "title": text,
        "price_tag": f"${price}",
        "price": price,
        "description": "",
        "bullets": (),
        "options": {},
        "attributes": ("soft",),
        "query": "things",
        "categories": "Home › Things",
        "nouns": ("lamp",),
    }
    return Product(**{**made, **fields})


def shelf(n_products: int, seed: int = 1) -> list[Product]:
    """In no order of asins; some have the same text."""
    rng = random.Random(seed)
    asins = rng.sample(range(10_000), n_products)
    return [product(f"B{asin:05}", " ".join(rng.choices(WORDS, k=rng.choice([1, 2, 5, 30, 90])))) for asin in asins]


def goal(asin: str, **fields: object) -> Goal:
    made = {"asin": asin, "text": "Find it", "attributes": ("soft",), "options": ("red",), "price_upper": 20.0}
    return Goal(**{**made, **fields})


def stored(
    folder: Path,
    products: Sequence[Product],
    goals: Mapping[str, Sequence[Goal]] | None = None,
    *,
    compiled: bool = False,
) -> Store:
    out = build(products, goals or {}, folder / "catalogue", meta={"name": "test"}, shard_size=7)
    return open_store(out, compiled=compiled)


def byte_length(n_terms: int) -> int:
    """What Lucene keeps of a length in one byte."""
    over = n_terms - 24
    if over < 16:
        return n_terms
    dropped = over.bit_length() - 4
    return 24 + (over >> dropped << dropped)


class PlainSearch:
    """Product by product, in Lucene's float32 steps."""

    def __init__(self, products: Sequence[Product]) -> None:
        self._counts = {each.asin: Counter(terms(document(each))) for each in products}
        lengths = {asin: sum(found.values()) for asin, found in self._counts.items()}
        self._n_documents = sum(length > 0 for length in lengths.values())
        mean = _F(sum(lengths.values()) / self._n_documents)
        self._norms = {
            asin: _F(1) / (_F(0.9) * ((_F(1) - _F(0.4)) + _F(0.4) * _F(byte_length(length)) / mean))
            for asin, length in lengths.items()
        }

    def best(self, query: str, *, n_best: int = 50) -> list[str]:
        scores: dict[str, float] = {}
        for term, times in Counter(terms(query)).items():
            holding = {asin: found[term] for asin, found in self._counts.items() if term in found}
            weight = _F(times) * _F(math.log(1 + (self._n_documents - len(holding) + 0.5) / (len(holding) + 0.5)))
            for asin, count in holding.items():
                impact = weight - weight / (_F(1) + _F(count) * self._norms[asin])
                scores[asin] = scores.get(asin, 0.0) + float(impact)
        return sorted(scores, key=lambda asin: (-_F(scores[asin]), asin))[:n_best]


_F = np.float32

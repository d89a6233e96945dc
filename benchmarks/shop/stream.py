"""Made-up products with the statistics of a large real shop: 88 words in the middle, 500,000 different ones, Zipf's law.

Rank r has the share 1 / (r + 25) ** 1.05: of 1,000 published products the most frequent term is in 44 %, the 10th in 25 %, the 100th
in 8 %, the 1,000th in 1.4 %; of these in 39, 30, 9 and 1.0 %. Words are their own index terms.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from envhub.envs.webshop import postings
from envhub.envs.webshop.build import assemble, write_items
from envhub.envs.webshop.catalogue import Product

N_WORDS = 500_000
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
_N_BODIES = 1_000
_N_BULLETS = 5
_N_QUANTILES = 1 << 24


class Stream:
    """Equal seeds give equal products and queries."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        n = len(_SYLLABLES)
        first, second, third = np.unravel_index(self._rng.permutation(n**3)[:N_WORDS], (n, n, n))
        syllables = zip(first.tolist(), second.tolist(), third.tolist(), strict=True)
        self.words = [_SYLLABLES[a] + _SYLLABLES[b] + _SYLLABLES[c] + "kbpmgz"[c % 6] for a, b, c in syllables]
        shares = 1 / (np.arange(1, N_WORDS + 1) + 25) ** 1.05
        edges = np.cumsum(shares / shares.sum())
        self._ranks = np.searchsorted(edges, (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES).astype(np.int32)

    def draw(self, n_words: int) -> npt.NDArray[np.int32]:
        return self._ranks[self._rng.integers(0, _N_QUANTILES, n_words)]

    def queries(self, n_queries: int, n_words: int) -> list[str]:
        return [" ".join(self.words[word] for word in self.draw(n_words)) for _ in range(n_queries)]

    def products(self, n_products: int) -> Iterator[Product]:
        for first in range(0, n_products, 1_000):
            lengths = self._lengths(min(1_000, n_products - first))
            bullets = self._rng.poisson(12, (len(lengths), _N_BULLETS)) + 3
            words = iter([self.words[word] for word in self.draw(int(lengths.sum() + bullets.sum())).tolist()])
            for number, (title, description, options) in enumerate(lengths.tolist()):
                colours = tuple(islice(words, options))
                yield Product(
                    asin=asin(first + number),
                    title=" ".join(islice(words, title)),
                    price_tag="$9.5",
                    price=9.5,
                    description=" ".join(islice(words, description)),
                    bullets=tuple(" ".join(islice(words, each)) for each in bullets[number].tolist()),
                    options={"color": colours} if colours else {},
                    attributes=("soft", "washable"),
                    query="made-up things",
                    categories="Home › Things › Made up",
                    nouns=("thing",),
                )

    def write_store(self, folder: Path, n_products: int, *, shard_size: int = 50_000) -> Path:
        """A store of such products without making them one by one: words are drawn as numbers, 1,000 bodies serve all."""
        encoded = [msgspec.json.encode(each) for each in self.products(_N_BODIES)]
        bodies = [(zlib.compress(body), sha256(body).digest()) for body in encoded]
        titles = self.queries(_N_BODIES, 18)
        shards = []
        for first in range(0, n_products, shard_size):
            asins = sorted(map(asin, range(first, min(first + shard_size, n_products))))
            shard = folder / f"shard-{first}"
            shard.mkdir(parents=True)
            lengths = self._lengths(len(asins)).sum(axis=1) + 15  # and the first bullet
            drawn = self.draw(int(lengths.sum()))
            used = np.bincount(drawn, minlength=N_WORDS) > 0
            words = [self.words[word] for word in np.flatnonzero(used).tolist()]
            postings.write_shard(shard, words, (np.cumsum(used) - 1)[drawn], lengths)
            rows = enumerate(asins)
            write_items(shard, ((each, titles[at % _N_BODIES], "$9.5", *bodies[at % _N_BODIES]) for at, each in rows))
            shards.append(shard)
        assemble(shards, {}, folder / "store", meta={"name": "made-up words"})
        return folder / "store"

    def _lengths(self, n_products: int) -> npt.NDArray[np.int64]:
        """(n, 3) words of title, description and options."""
        rng = self._rng
        title = rng.poisson(15, n_products) + 3
        described = rng.random(n_products) >= 0.3
        description = np.where(described, rng.lognormal(np.log(60), 0.8, n_products), 0).astype(np.int64)
        options = rng.choice([0, 4, 9], n_products, p=[0.58, 0.25, 0.17])
        return np.stack([title, description, options], axis=1)


def asin(number: int) -> str:
    """Not in their order."""
    return f"S{number * 7919 % 1_000_003:09}"

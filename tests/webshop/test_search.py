"""Search: Lucene's recorded lists, and agreement with BM25 written down the slow way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from envhub.envs.webshop import bm25
from envhub.envs.webshop.analyser import terms
from envhub.envs.webshop.build import document
from envhub.envs.webshop.index import _best
from envhub.envs.webshop.store import Store
from tests.webshop.published_data import published, read
from tests.webshop.shelves import WORDS, PlainSearch, byte_length, product, shelf, stored

LOOPS = [
    False,
    pytest.param(
        True,
        marks=[
            pytest.mark.slow,  # compiling takes seconds
            pytest.mark.skipif(find_spec("numba") is None, reason="needs numba (the extra 'fast')"),
        ],
    ),
]


@pytest.fixture(params=LOOPS, ids=lambda compiled: "numba" if compiled else "numpy")
def compiled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def lucene_shop(compiled: bool, tmp_path: Path) -> Iterator[Store]:
    products = list(published().products.values())
    with stored(tmp_path, products, compiled=compiled) as store:
        yield store


def asins(store: Store, query: str) -> list[str]:
    return [head.asin for head in store.heads(store.search(query.split(" ")))]


def test_lists_are_those_lucene_recorded(lucene_shop: Store) -> None:
    recorded = read("golden_search_lucene.json.gz")["results"]
    assert len(recorded) == 150
    different = [
        result["query"]
        for result in recorded
        if asins(lucene_shop, result["query"]) != [asin for asin, _ in result["hits"]]
    ]
    assert different == []


def test_lists_are_those_of_plain_bm25(compiled: bool, tmp_path: Path) -> None:
    products = shelf(700)
    plain = PlainSearch(products)
    rng = random.Random(3)
    with stored(tmp_path, products, compiled=compiled) as store:
        for _ in range(25):
            query = " ".join(rng.choices([*WORDS, "unknown"], k=rng.choice([1, 2, 3, 8, 40])))
            assert asins(store, query) == plain.best(query), query


def test_equal_scores_are_in_the_order_of_asins(tmp_path: Path) -> None:
    products = [product(f"A{number:03}", "red lamp") for number in reversed(range(120))]
    with stored(tmp_path, products) as store:
        assert asins(store, "lamp") == [f"A{number:03}" for number in range(50)]


@pytest.mark.parametrize("times", [2, 3, 5, 7, 11])
def test_a_repeated_word_weighs_as_often(times: int, tmp_path: Path) -> None:
    products = shelf(300, seed=times)
    with stored(tmp_path, products) as store:
        query = f"{'lamp ' * times}red chair red"
        assert asins(store, query) == PlainSearch(products).best(query)


def test_a_repeated_word_is_rounded_as_one_weight(tmp_path: Path) -> None:
    products = shelf(300)
    with stored(tmp_path, products) as store:
        index, term = store._index, store._number("lamp")
        assert term is not None
        start, end = index._indptr[term : term + 2]
        docs, once = index._docs[start:end], index._impacts[start:end]
        ordered = sorted(products, key=lambda each: each.asin)
        counts = np.array([terms(document(ordered[row])).count("lamp") for row in docs])
        weight = np.float32(3) * index._idf[term]
        expected = bm25.impacts(np.full(len(docs), weight), counts, index._norms[index._lengths[docs]])
        added: list[list[float]] = []
        index._add = lambda scores, docs, impacts: added.append(impacts.tolist())
        index.search({term: 3})
        assert added == [expected.tolist()]
        assert (np.float32(3) * once).tolist() != expected.tolist()


@pytest.mark.parametrize("n_scores", [1, 255, 40_000])
@pytest.mark.parametrize("n_different", [3, 70, 10**9])
def test_best_rows_are_those_of_a_whole_sort(n_scores: int, n_different: int) -> None:
    rng = np.random.default_rng(n_scores + n_different)
    scores = np.zeros(-(-n_scores // 256) * 256)
    scores[:n_scores] = rng.integers(0, n_different, n_scores) * 1e-3
    scores[rng.random(len(scores)) < 0.5] = 0.0
    rounded = scores.astype(np.float32)
    whole = [row for row in np.lexsort((np.arange(len(scores)), -rounded)).tolist() if rounded[row] > 0]
    assert _best(scores, 50) == whole[:50]


def test_nothing_is_found_for_nothing(tmp_path: Path) -> None:
    with stored(tmp_path, [product("A1"), product("A2", "the")]) as store:
        assert asins(store, "unknown") == asins(store, "the") == asins(store, "") == asins(store, " ") == []
        assert asins(store, "LAMPS unknown") == ["A1"]


def test_searches_leave_nothing_behind(tmp_path: Path) -> None:
    products = shelf(300)
    with stored(tmp_path, products) as store:
        first = asins(store, "red lamp")
        for word in WORDS:
            asins(store, f"{word} red lamp")
        assert asins(store, "red lamp") == asins(store, "lamp red") == first


def test_lengths_are_kept_in_lucenes_byte() -> None:
    lengths = np.array([*range(5_000), 100_000, 2_000_000])
    assert bm25.LENGTHS[bm25.length_codes(lengths)].tolist() == [byte_length(length) for length in lengths.tolist()]
    assert [byte_length(length) for length in (23, 39, 40, 41, 42, 43, 57, 60)] == [23, 39, 40, 40, 42, 42, 56, 60]


@pytest.mark.parametrize("count", [1, 2, 3, 17, 400])
def test_counts_can_be_read_back_from_impacts(count: int) -> None:
    norms = bm25.inverse_norms(80.0)[::16]
    weight = np.float32(3.7)
    made = bm25.impacts(np.full(len(norms), weight), np.full(len(norms), count), norms)
    assert bm25.counts_of(made, weight, norms).tolist() == [count] * len(norms)

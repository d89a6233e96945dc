"""The store: what was put in comes out, by any thread, and a directory that is not whole is refused with a reason."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.envs.webshop import store as store_module
from envhub.envs.webshop.analyser import terms
from envhub.envs.webshop.catalogue import Catalogue, Goal, Product
from envhub.envs.webshop.index import ARRAYS
from envhub.envs.webshop.store import Store, StoreError, open_store, verify
from tests.webshop.shelves import WORDS, goal, product, shelf, stored

RICH = product(
    "B0RICH0001",
    'Ünï "quoted" ❤️ lamp',
    price=26.74537481220038,
    description="Two\nlines",
    bullets=("red", " ", "Not indexed"),
    options={"size": ("xl", "s"), "color": ("wine | red",), "empty": ()},
    attributes=(),
    nouns=("lamp", "lamp"),
    image="https://example.org/lamp.jpg",
    option_images={"xl": "https://example.org/xl.jpg"},
)
PRODUCTS = [RICH, *shelf(40)]
GOALS = {
    "train": [
        goal(each.asin, text=f"Find {number}", price_upper=10.0 * number) for number, each in enumerate(PRODUCTS)
    ],
    "test": [
        goal(RICH.asin, options={"size": "xl", "color": "wine | red"}, weight=0.05299377134820173),
        goal(RICH.asin, options=(), attributes=(), price_upper=1_000_000),
    ],
    "empty": [],
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Store]:
    with stored(tmp_path, PRODUCTS, GOALS) as store:
        yield store


def folder(tmp_path: Path) -> Path:
    return tmp_path / "catalogue"


def test_store_is_a_catalogue(shop: Store) -> None:
    catalogue: Catalogue = shop
    assert catalogue.n_products == len(PRODUCTS)
    assert len(catalogue.digest) == 64


def test_products_come_out_as_they_went_in(shop: Store) -> None:
    assert [shop.product(each.asin) for each in PRODUCTS] == PRODUCTS
    assert list(shop.products()) == sorted(PRODUCTS, key=lambda each: each.asin)
    assert list(shop.product(RICH.asin).options) == ["size", "color", "empty"]


def test_product_is_found_by_its_asin_in_lower_case(shop: Store) -> None:
    assert shop.product("b0rich0001") == RICH
    for unknown in ("b0rich000", "", "%", "b0rich0001 "):
        with pytest.raises(KeyError):
            shop.product(unknown)


def test_heads_are_in_the_order_asked_for(shop: Store) -> None:
    ordered = sorted(PRODUCTS, key=lambda each: each.asin)
    rows = [5, 0, 40, 5]
    assert list(shop.heads(rows)) == [ordered[row].head for row in rows]
    assert list(shop.heads([])) == []
    with pytest.raises(KeyError):
        shop.heads([41])


def test_goals_come_out_as_they_went_in(shop: Store) -> None:
    for split, goals in GOALS.items():
        found = shop.goals(split)
        assert len(found) == len(goals) and list(found) == goals
        assert [found[index] for index in range(len(goals))] == goals
    assert isinstance(shop.goals("test")[0].options, dict)
    assert isinstance(shop.goals("test")[1].options, tuple)
    assert shop.splits == ("train", "test", "empty")


def test_goals_outside_are_refused(shop: Store) -> None:
    train = shop.goals("train")
    assert train[-1] == GOALS["train"][-1] and list(train[1:3]) == GOALS["train"][1:3]
    for index in (41, -42):
        with pytest.raises(IndexError, match=r"valid: 0\.\.40"):
            train[index]
    with pytest.raises(KeyError, match="valid: train, test, empty"):
        shop.goals("dev")


def test_repeated_searches_and_products_are_remembered_within_bounds(shop: Store) -> None:
    assert shop.search(["red"]) is shop.search(["red"])
    assert shop.product(RICH.asin) is shop.product(RICH.asin)
    for number in range(2_000):
        shop.search([f"word{number}"])
    assert shop._recent_search.cache_info().currsize <= 512


def test_long_queries_are_not_remembered(shop: Store) -> None:
    assert shop.search(["red", "x" * 5_000]) == shop.search(["red"])
    assert shop._recent_search.cache_info().currsize == 1
    assert max(len(term) for term in terms("x" * 5_000)) <= 255


def test_threads_get_the_same_answers(shop: Store) -> None:
    queries = [[first, second] for first in WORDS for second in WORDS]
    expected = {tuple(query): shop._search(" ".join(query)) for query in queries}

    def visit(query: list[str]) -> bool:
        rows = shop._search(" ".join(query))
        return rows == expected[tuple(query)] and all(shop.product(head.asin) for head in shop.heads(rows[:10]))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(visit, queries * 3))


def test_whole_store_is_verified(shop: Store, tmp_path: Path) -> None:
    verify(folder(tmp_path))


def test_store_opens_from_a_path_with_odd_characters(shop: Store, tmp_path: Path) -> None:
    odd = tmp_path / "a ?mode=rw#%20ü"
    shutil.copytree(folder(tmp_path), odd)
    with open_store(odd) as store:
        assert store.product(RICH.asin) == RICH


def test_store_cannot_be_written(shop: Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        shop._connection.execute("DELETE FROM item")


def change_product(products: list[Product], goals: dict[str, list[Goal]]) -> None:
    products[3] = replace(products[3], description="other")


def change_price(products: list[Product], goals: dict[str, list[Goal]]) -> None:
    products[0] = replace(products[0], price=26.74537481220039)


def change_bound(products: list[Product], goals: dict[str, list[Goal]]) -> None:
    goals["train"][7] = replace(goals["train"][7], price_upper=71.0)


def move_goal(products: list[Product], goals: dict[str, list[Goal]]) -> None:
    goals["empty"] = [goals["train"].pop()]


@pytest.mark.parametrize("change", [change_product, change_price, change_bound, move_goal])
def test_digest_tells_of_any_change(change: object, shop: Store, tmp_path: Path) -> None:
    products, goals = list(PRODUCTS), {split: list(each) for split, each in GOALS.items()}
    assert callable(change)
    change(products, goals)
    with stored(tmp_path / "other", products, goals) as other:
        assert other.digest != shop.digest


def test_digest_does_not_depend_on_the_order_of_products(shop: Store, tmp_path: Path) -> None:
    with stored(tmp_path / "other", PRODUCTS[::-1], GOALS) as other:
        assert other.digest == shop.digest


@pytest.mark.parametrize("name", ["catalog.sqlite", "index/docs.npy", "index/norms.npy", "index/indptr.npy"])
def test_missing_and_cut_files_are_refused(name: str, shop: Store, tmp_path: Path) -> None:
    path = folder(tmp_path) / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(StoreError, match=r"damaged or unfinished; remove .* and build it again"):
        open_store(folder(tmp_path))
    path.unlink()
    with pytest.raises(StoreError, match="missing"):
        open_store(folder(tmp_path))


def test_folder_without_a_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no catalogue"):
        open_store(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_other_file_in_place_of_the_catalogue_is_refused(content: bytes, shop: Store, tmp_path: Path) -> None:
    (folder(tmp_path) / "catalog.sqlite").write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        open_store(folder(tmp_path))


@pytest.mark.parametrize("name", ["catalog.sqlite", "index/docs.npy", "index/impacts.npy", "index/idf.npy"])
def test_changed_bytes_are_found_by_verification(name: str, shop: Store, tmp_path: Path) -> None:
    path = folder(tmp_path) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2 + 40] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        verify(folder(tmp_path))


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("content", [bytes, lambda size: b"\x93NUMPY\x01\x00" + b"\xff" * (size - 8), b"{".ljust])
def test_other_bytes_in_an_array_are_refused_when_it_is_opened(
    name: str, content: Callable[[int], bytes], shop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder(tmp_path) / "index" / f"{name}.npy"
    path.write_bytes(content(path.stat().st_size))
    for checked in (1 << 30, 0):
        monkeypatch.setattr(store_module, "_CHECKED_BYTES", checked)
        with pytest.raises(StoreError, match=rf"{folder(tmp_path)}.*damaged.*remove .* and build it again"):
            open_store(folder(tmp_path))


def test_a_changed_byte_of_a_small_index_is_found_when_it_is_opened(shop: Store, tmp_path: Path) -> None:
    path = folder(tmp_path) / "index/impacts.npy"
    content = bytearray(path.read_bytes())
    content[-9] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"impacts\.npy is damaged; remove"):
        open_store(folder(tmp_path))


@pytest.mark.parametrize("key", ["sizes", "checksums", "goals", "digest", "format"])
@pytest.mark.parametrize("value", [None, "", "3", "[1]", '{"a": []}', '{"other.npy": ""}', "\0\0"])
def test_other_facts_in_a_catalogue_are_refused(key: str, value: str | None, shop: Store, tmp_path: Path) -> None:
    with sqlite3.connect(folder(tmp_path) / "catalog.sqlite") as database:
        database.execute("DELETE FROM meta WHERE key = ?", (key,))
        if value is not None:
            database.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
    database.close()
    with pytest.raises(StoreError, match=f"{folder(tmp_path)}.*build it again"):
        verify(folder(tmp_path))


def test_swapped_price_is_found_by_verification(shop: Store, tmp_path: Path) -> None:
    with sqlite3.connect(folder(tmp_path) / "catalog.sqlite") as database:
        database.execute("UPDATE goal SET price_upper = price_upper + 10 WHERE split = 'train' AND idx = 3")
    database.close()
    with pytest.raises(StoreError, match="damaged"):
        verify(folder(tmp_path))


def test_newer_format_is_refused(shop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "FORMAT", 0)
    with pytest.raises(StoreError, match=r"has format 1; this version reads 0: build it again, or use the version"):
        open_store(folder(tmp_path))

"""Building: complete or not at all, once however many ask, and on from where it stopped."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envhub.envs.webshop import build as build_module
from envhub.envs.webshop import postings
from envhub.envs.webshop.build import build, document
from envhub.envs.webshop.catalogue import Catalogue, Product
from envhub.envs.webshop.store import StoreError, open_store, verify
from tests.webshop.shelves import PlainSearch, goal, product, shelf

META = {"name": "test", "seed": 7}


def test_first_bullet_and_options_are_searched_the_rest_is_not() -> None:
    lamp = product(
        "A1",
        "Red Lamp",
        description="It SHINES",
        bullets=("Bright", "hidden"),
        options={"size": ("xl", "s"), "color": ("red",)},
    )
    assert document(lamp) == "red lamp it shines bright size: xl, s, and color: red"
    assert document(product("A1", "Lamp")) == "lamp   "


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "index").iterdir()}


@pytest.mark.parametrize("shard_size", [1, 13, 40, 1000])
def test_result_does_not_depend_on_shards(shard_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    products = shelf(40)
    whole = build(products, {}, tmp_path / "whole", meta=META)
    monkeypatch.setattr(postings, "_BLOCK", 50)
    dealt = build(products[::-1], {}, tmp_path / "dealt", meta=META, shard_size=shard_size)
    assert read_all(dealt) == read_all(whole)
    with open_store(whole) as one, open_store(dealt) as other:
        assert one.digest == other.digest
    verify(dealt)


def test_meta_tells_what_is_in_it(tmp_path: Path) -> None:
    out = build(shelf(40), {"train": []}, tmp_path / "out", meta=META)
    with open_store(out) as store:
        assert store.meta["name"] == "test" and store.meta["seed"] == 7
        assert store.meta["counts"] == {"products": 40, "terms": 18}


def test_nothing_is_left_beside_the_result(tmp_path: Path) -> None:
    build(shelf(5), {}, tmp_path / "out", meta=META)
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".out.lock"}


def test_catalogue_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    out = build(shelf(5), {}, tmp_path / "out", meta=META)
    before = written(out / "catalog.sqlite")
    unread: Iterator[Product] = iter(shelf(5))
    assert build(unread, {}, out, meta=META) == out
    assert len(list(unread)) == 5
    assert written(out / "catalog.sqlite") == before


def written(file: Path) -> tuple[int, int, int]:
    """Which file it is and when it was written: reading it, which may change the rest, changes none of these."""
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def test_nothing_is_written_beside_a_catalogue_that_is_there(tmp_path: Path) -> None:
    out = build(shelf(5), {}, tmp_path / "out", meta=META)
    (tmp_path / ".out.lock").unlink()
    build([], {}, out, meta=META)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["digest", "format", "goals"])
def test_meta_cannot_say_what_the_store_says_itself(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"meta cannot say {name}"):
        build(shelf(5), {}, tmp_path / "out", meta={name: 1})


def test_other_catalogue_in_the_way_is_refused(tmp_path: Path) -> None:
    out = build(shelf(5), {}, tmp_path / "out", meta=META)
    with pytest.raises(
        StoreError, match=r"holds another catalogue .seed 7 instead of 8.; remove it or choose another folder"
    ):
        build(shelf(5), {}, out, meta={"name": "test", "seed": 8})


class Interrupted(Exception):
    pass


def interrupted(products: list[Product], after: int) -> Iterator[Product]:
    yield from products[:after]
    raise Interrupted


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    real = build_module.terms

    def counted(text: str, **memory: object) -> list[str]:
        texts.append(text)
        return real(text, **memory)

    monkeypatch.setattr(build_module, "terms", counted)
    return texts


def test_interrupted_build_goes_on_where_it_stopped(tmp_path: Path, analysed: list[str]) -> None:
    products = shelf(45)
    with pytest.raises(Interrupted):
        build(interrupted(products, 35), {}, tmp_path / "out", meta=META, shard_size=10)
    assert not (tmp_path / "out").exists()
    assert len(analysed) == 30
    out = build(products, {}, tmp_path / "out", meta=META, shard_size=10)
    assert len(analysed) == 45
    assert read_all(out) == read_all(build(products, {}, tmp_path / "whole", meta=META))
    verify(out)


def test_other_products_than_before_the_interruption_are_worked_off_anew(tmp_path: Path) -> None:
    before, products = shelf(45, seed=2), shelf(25, seed=3)
    with pytest.raises(Interrupted):
        build(interrupted([*products[:10], *before], 45), {}, tmp_path / "out", meta=META, shard_size=10)
    out = build(products, {}, tmp_path / "out", meta=META, shard_size=10)
    assert read_all(out) == read_all(build(products, {}, tmp_path / "whole", meta=META))
    verify(out)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    "name", ["items.sqlite", "terms.txt", "indptr.npy", "docs.npy", "counts.npy", "lengths.npy", "seal"]
)
def test_damaged_work_of_an_interrupted_build_is_done_anew(
    name: str, damage: str, tmp_path: Path, analysed: list[str]
) -> None:
    products = shelf(15)
    with pytest.raises(Interrupted):
        build(interrupted(products, 12), {}, tmp_path / "out", meta=META, shard_size=5)
    DAMAGE[damage](tmp_path / ".out.building" / "shard-00000" / name)
    verify(build(products, {}, tmp_path / "out", meta=META, shard_size=5))
    assert len(analysed) == 10 + 5 + 5


def test_files_in_the_way_of_a_build_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".out.building").write_text("")
    verify(build(shelf(5), {}, tmp_path / "out", meta=META))


def test_full_disk_is_an_os_error_whoever_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(build_module, "write_items", full)
    with pytest.raises(OSError, match="out cannot be written: database or disk is full"):
        build(shelf(5), {}, tmp_path / "out", meta=META)


def test_interruption_of_something_else_is_forgotten(tmp_path: Path, analysed: list[str]) -> None:
    products = shelf(20)
    with pytest.raises(Interrupted):
        build(interrupted(products, 15), {}, tmp_path / "out", meta=META, shard_size=5)
    build(products, {}, tmp_path / "out", meta={**META, "seed": 8}, shard_size=5)
    assert len(analysed) == 15 + 20


def _build_with_others(out: Path, barrier: object, results: object) -> None:
    n_read = 0

    def stream() -> Iterator[Product]:
        nonlocal n_read
        for each in shelf(300):
            n_read += 1
            yield each

    barrier.wait()  # type: ignore[attr-defined]
    build(stream(), {}, out, meta=META, shard_size=50)
    results.put(n_read)  # type: ignore[attr-defined]


def test_of_processes_that_build_at_once_one_does_the_work(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")  # a copy of this process would inherit what its threads hold
    barrier, results = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_build_with_others, args=(tmp_path / "out", barrier, results)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    n_read = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert n_read == [0, 0, 300]
    verify(tmp_path / "out")


@pytest.mark.parametrize("second", ["A7", "a7"])
def test_repeated_asin_is_refused(second: str, tmp_path: Path) -> None:
    products = [product("A7", "one"), *shelf(9), product(second, "two")]
    with pytest.raises(ValueError, match=r"more than one product has the asin [aA]7"):
        build(products, {}, tmp_path / "out", meta=META, shard_size=4)
    assert not (tmp_path / "out").exists()


def test_goal_for_an_unknown_product_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="goal 1 of split 'test' wants B7, which is not among the products"):
        build([product("A7")], {"test": [goal("A7"), goal("B7")]}, tmp_path / "out", meta=META)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("price", [float("nan"), float("inf")])
def test_price_that_is_no_number_is_refused(price: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="A7 has the price"):
        build([product("A7", price=price)], {}, tmp_path / "out", meta=META)


def test_catalogue_without_products_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no products"):
        build([], {}, tmp_path / "out", meta=META)


def test_products_without_words_can_be_stored(tmp_path: Path) -> None:
    out = build([product("A1", "the"), product("A2", "")], {}, tmp_path / "out", meta=META, shard_size=1)
    with open_store(out) as store:
        assert store.search(["the"]) == ()


def test_goals_can_be_made_from_the_built_catalogue(tmp_path: Path) -> None:
    products = shelf(30)

    def made(catalogue: Catalogue) -> dict[str, list]:
        best = catalogue.heads(catalogue.search(["lamp"]))[0]
        return {"test": [goal(best.asin, price_upper=catalogue.product(best.asin).price)]}

    out = build(products, made, tmp_path / "out", meta=META)
    with open_store(out) as store:
        assert store.goals("test")[0].asin == PlainSearch(products).best("lamp")[0]
    verify(out)


def test_whole_numbers_are_stored_as_prices(tmp_path: Path) -> None:
    out = build([product("A1", price=9)], {"test": [goal("A1", price_upper=20, weight=1)]}, tmp_path / "out", meta=META)
    verify(out)
    with open_store(out) as store:
        assert isinstance(store.product("A1").price, float)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    build(shelf(25), {"test": []}, tmp_path / "out", meta=META, shard_size=10, progress=lambda *each: told.append(each))
    assert told[:3] == [("products", 10), ("products", 20), ("products", 25)]
    assert [stage for stage, _ in told[3:]] == ["catalogue", "index", "goals"]

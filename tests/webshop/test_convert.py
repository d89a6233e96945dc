"""Official files into catalogues and back: splits, seeds, refusals, resumption."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from envhub.envs.webshop import official
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.convert import ALL, DIVISIONS, GoalKind, convert, divide, export
from envhub.envs.webshop.goals import Listing, n_human_goals, n_synthetic_goals
from envhub.envs.webshop.official import OfficialFiles, find_official
from envhub.envs.webshop.store import StoreError, open_store
from envhub.envs.webshop.tasks import Tasks, open_tasks
from tests.webshop.published_data import FOLDER, as_goal, published

GOALS = [Goal(f"B{number}", f"goal {number}", ("soft",), (), 10.0) for number in range(12_087)]


def write_files(folder: Path, n_products: int) -> OfficialFiles:
    """Made-up products in the official form, every second one with an instruction."""
    items = [
        {
            "asin": f"B{number:04}",
            "name": f"Lamp {number}",
            "full_description": "",
            "small_description": ["bright"],
            "pricing": "$5.00 - $9.00",
            "images": [],
            "product_category": "Home › Lamps",
            "category": "garden",
            "query": "lamps",
            "customization_options": {"Color": [{"value": "Red/Blue"}]},
        }
        for number in range(n_products)
    ]
    human = {
        f"B{number:04}": [
            {
                "instruction": f"i want lamp {number}.",
                "instruction_attributes": ["bright"],
                "instruction_options": ["red | blue"],
            }
        ]
        for number in range(0, n_products, 2)
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("items_shuffle", items),
        ("items_ins_v2", {item["asin"]: {"attributes": ["bright"]} for item in items}),
        ("items_human_ins", human),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return find_official(folder)


def test_official_splits_are_the_published_ranges() -> None:
    splits = divide(GOALS)
    assert splits["official-test"] == GOALS[:500]
    assert splits["official-dev"] == GOALS[500:1500]
    assert splits["official-train"] == GOALS[1500:]
    assert splits["agentbench-std"] == GOALS[:200]
    assert splits["agentbench-dev"] == GOALS[200:280]
    assert splits["agentbench-train"] == GOALS[1000:12_000]


@pytest.mark.parametrize("division", ["official", "agentbench"])
def test_splits_of_one_division_share_no_goal(division: str) -> None:
    texts = [goal.text for split, goals in divide(GOALS).items() if split.startswith(division) for goal in goals]
    assert len(set(texts)) == len(texts)


def test_the_two_divisions_overlap_where_it_is_written_that_they_do() -> None:
    splits = divide(GOALS)
    dev = {goal.text for goal in splits["official-dev"]}
    assert [goal for goal in splits["agentbench-train"] if goal.text in dev] == GOALS[1000:1500]


def test_fewer_goals_than_the_splits_need_are_refused_aloud() -> None:
    with pytest.raises(ValueError, match=r"goals 0\.\.6909, and the official splits go up to 11999"):
        divide(GOALS[:6910])
    with pytest.raises(ValueError, match="no product of the catalogue has an instruction"):
        divide([], partial=True)
    assert divide(GOALS[:6910], partial=True) == {ALL: GOALS[:6910]}
    assert ALL not in DIVISIONS


def test_missing_files_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"(?s)items_shuffle\.json.*gdown"):
        find_official(tmp_path)


def test_a_conversion_is_fixed_by_its_seed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", 40)
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        with open_store(convert(files, tmp_path / name, seed=seed, partial=True)) as store:
            digests.append(store.digest)
            assert len(store.goals(ALL)) == 20 and store.meta["seed"] == seed
    assert digests[0] == digests[1] != digests[2]


def test_an_interrupted_conversion_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path / "files", 40)
    whole = convert(files, tmp_path / "whole", partial=True)

    whole_listings = official.read_listings

    def cut(files: OfficialFiles, rng: random.Random, *, limit: int | None) -> Iterator[Listing]:
        yield from islice(whole_listings(files, rng, limit=limit), 25)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(official, "read_listings", cut)
        with pytest.raises(KeyboardInterrupt):
            convert(files, tmp_path / "cut", partial=True)
    assert not (tmp_path / "cut").exists()
    with open_store(convert(files, tmp_path / "cut", partial=True)) as finished, open_store(whole) as expected:
        assert finished.digest == expected.digest


def test_a_changed_file_of_the_same_size_is_another_catalogue(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", 10)
    convert(files, tmp_path / "out", partial=True)
    files.products.write_text(files.products.read_text("utf-8").replace("Lamp 3", "Vase 3"), "utf-8")
    with pytest.raises(StoreError, match="holds another catalogue"):
        convert(files, tmp_path / "out", partial=True)


@pytest.mark.parametrize(
    ("goals", "partial", "reason"),
    [("human", False, r"goals 0\.\.9, .*\(--partial\)"), ("synthetic", True, "there are no goals")],
)
def test_too_few_goals_are_refused_before_anything_is_built(
    goals: GoalKind, partial: bool, reason: str, tmp_path: Path
) -> None:
    files = write_files(tmp_path / "files", 20)
    with pytest.raises(ValueError, match=reason):
        convert(files, tmp_path / "out", goals=goals, partial=partial)
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_counted_goals_are_those_that_are_made() -> None:
    listings = published().listings
    assert sum(map(n_synthetic_goals, listings)) == len(published().synthetic)
    assert sum(map(n_human_goals, listings)) == len(published().human)


def test_a_limit_takes_the_first_products(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", 40)
    with open_store(convert(files, tmp_path / "some", limit=10, partial=True)) as store:
        assert [product.asin for product in store.products()] == [f"B{number:04}" for number in range(10)]


def test_a_converted_catalogue_can_be_played(tmp_path: Path) -> None:
    convert(write_files(tmp_path / "files", 40), tmp_path / "out", partial=True)
    tasks = open_tasks(str(tmp_path / "out"))
    assert tasks.name == "official-human" and tasks.default_split == ALL
    tasks.close()


def test_a_catalogue_goes_out_and_comes_back(tmp_path: Path, tiny: Tasks) -> None:
    """What was drawn from a range is drawn anew; all else survives."""
    files = export(tiny.catalogue, tmp_path / "files")
    assert find_official(tmp_path / "files") == files
    with open_store(convert(files, tmp_path / "back", partial=True)) as back:
        for before, after in zip(tiny.catalogue.products(), back.products(), strict=True):
            assert replace(after, price=before.price) == before
            assert after.price == before.price or " to " in before.price_tag
        wanted = {
            (goal.asin, tuple(goal.attributes), tuple(goal.options)) for split in tiny.splits.values() for goal in split
        }
        returned = list(back.goals(ALL))
        assert {(goal.asin, goal.attributes, tuple(goal.options)) for goal in returned} == wanted
        assert all(goal.text.count("price lower than") <= 1 for goal in returned)


def test_the_published_products_give_the_published_goals(tmp_path: Path) -> None:
    recorded = published()
    out = convert(find_official(FOLDER), tmp_path / "out", goals="synthetic", partial=True)
    with open_store(out) as store:
        goals = list(store.goals(ALL))
        assert goals == [as_goal(raw) for raw in recorded.golden["synthetic_goals"]]
        assert store.n_products == 1000

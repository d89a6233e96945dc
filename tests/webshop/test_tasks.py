"""Catalogues by name: made once, opened by all, the same tasks in every process. Covers B047."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from envhub.cli import main
from envhub.core.errors import InvalidRequestError
from envhub.envs.webshop import build as build_module
from envhub.envs.webshop import tasks as tasks_module
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.env import create
from envhub.envs.webshop.store import CATALOG
from envhub.envs.webshop.tasks import Tasks, open_tasks, unreachable
from tests.webshop.shelves import goal, product, stored

_TELL = """
import asyncio, hashlib, json, sys
from envhub.core.types import TaskRef
from envhub.envs import registry

async def main():
    environment = registry.create("webshop", json.loads(sys.argv[1]))
    info = environment.info()
    told = [info.dataset_hash]
    for index in range(info.splits["test"]):
        episode = await environment.open(TaskRef("webshop", "test", index), seed=int(sys.argv[2]), options=dict(info.options))
        observation = await episode.reset()
        goal = environment.goal(TaskRef("webshop", "test", index))
        told += [observation.messages[1].content, goal.price_upper, list(goal.options)]
    print(hashlib.sha256(json.dumps(told).encode()).hexdigest())

asyncio.run(main())
"""


def worker(cache: Path, seed: int) -> subprocess.Popen[str]:
    settings = json.dumps({"catalogue": "tiny", "cache": str(cache)})
    return subprocess.Popen([sys.executable, "-c", _TELL, settings, str(seed)], stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return output.strip()


def test_an_index_is_the_same_task_in_every_worker_and_after_a_restart(tmp_path: Path) -> None:
    """B047. The three also make the catalogue at once; one of them does."""
    workers = [worker(tmp_path, seed) for seed in (1, 2, 3)]
    first, *others = [told(process) for process in workers]
    assert others == [first, first]
    assert told(worker(tmp_path, 4)) == first
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [next(tmp_path.glob("tiny-*")).name]


def test_a_machine_of_its_own_makes_the_same_catalogue(tmp_path: Path, tiny: Tasks) -> None:
    other = open_tasks("tiny", cache=tmp_path)
    assert other.dataset_hash == tiny.dataset_hash
    other.close()


def test_a_second_opening_makes_nothing(catalogues: Path, tiny: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module.making, "make", lambda *args: pytest.fail("made again"))
    open_tasks("tiny", cache=catalogues).close()


def test_a_catalogue_without_a_name_is_a_folder(tmp_path: Path) -> None:
    stored(tmp_path, [product("B1")], {"official-test": [goal("B1")], "a": [goal("B1")]}).close()
    found = open_tasks(str(tmp_path / "catalogue"))
    assert found.name == "test" and dict(found.splits).keys() == {"official-test", "a"}
    assert found.default_split == "official-test"
    found.close()


def test_what_is_no_catalogue_is_refused_with_advice(tmp_path: Path, catalogues: Path, tiny: Tasks) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"neither a name \(tiny, small, medium, large\).*envhub webshop convert"
    ):
        open_tasks("huge")
    with pytest.raises(InvalidRequestError, match="holds no catalogue"):
        open_tasks(str(tmp_path))
    stored(tmp_path, [product("B1")]).close()
    with pytest.raises(InvalidRequestError, match="no goals"):
        open_tasks(str(tmp_path / "catalogue"))


def test_a_damaged_catalogue_is_refused_with_advice(tmp_path: Path) -> None:
    open_tasks("tiny", cache=tmp_path).close()
    catalog = next(tmp_path.glob(f"tiny-*/{CATALOG}"))
    catalog.write_bytes(catalog.read_bytes()[:-5000])
    with pytest.raises(InvalidRequestError, match="damaged or unfinished; remove"):
        open_tasks("tiny", cache=tmp_path)


def test_a_machine_without_a_cache_folder_plays_from_a_scratch_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Tasks
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = open_tasks("tiny")
    assert found.dataset_hash == tiny.dataset_hash
    assert list(tmp_path.glob("envhub-webshop-*"))
    found.close()
    assert not list(tmp_path.glob("envhub-webshop-*"))


def test_a_full_disk_is_told_in_words_or_left_for_a_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Tasks
) -> None:
    write_items = build_module.write_items

    def full(shard: Path, items: Iterable[tuple[str, str, str, bytes, bytes]]) -> None:
        if shard.is_relative_to(tmp_path / "full"):
            raise sqlite3.OperationalError("database or disk is full")
        write_items(shard, items)

    monkeypatch.setattr(build_module, "write_items", full)
    with pytest.raises(InvalidRequestError, match=r"'tiny' of webshop cannot be opened: .*database or disk is full"):
        open_tasks("tiny", cache=tmp_path / "full")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    found = open_tasks("tiny")
    assert found.dataset_hash == tiny.dataset_hash
    found.close()


def test_an_empty_folder_of_a_named_catalogue_is_named(tmp_path: Path, tiny: Tasks) -> None:
    folder = tmp_path / tiny.catalogue.folder.name
    (folder / "index").mkdir(parents=True)
    with pytest.raises(InvalidRequestError, match=f"{folder} is empty or incomplete; remove this folder"):
        open_tasks("tiny", cache=tmp_path)


def test_a_folder_may_be_said_from_home(catalogues: Path, tiny: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(catalogues))
    monkeypatch.setattr(tasks_module.making, "make", lambda *args: pytest.fail("made again"))
    create({"catalogue": "tiny", "cache": "~"})._tasks.close()
    create({"catalogue": f"~/{tiny.catalogue.folder.name}"})._tasks.close()
    with pytest.raises(InvalidRequestError, match="home"):
        create({"catalogue": "tiny", "cache": "~nobody-of-this-name/cache"})


def test_a_cache_folder_that_was_asked_for_must_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequestError, match="cannot be opened"):
        open_tasks("tiny", cache=tmp_path / "file")


def test_goals_that_the_published_reward_cannot_pay_are_listed(tmp_path: Path) -> None:
    """A colour inside a value is found on the bought side only ("1877brown")."""
    shoes = product("B1", options={"color": ("1877brown", "red")}, attributes=("soft",))
    goals = [
        Goal("B1", "f", ("soft",), {"color": "1877brown"}, 20.0),
        Goal("B1", "g", ("soft",), {"color": "red"}, 20.0),
        Goal("B1", "h", ("soft",), ("1877brown",), 20.0),
    ]
    stored(tmp_path, [shoes], {"test": goals}).close()
    found = open_tasks(str(tmp_path / "catalogue"))
    assert [index for index, _ in unreachable(found, "test")] == [0]
    found.close()


def test_generated_goals_can_all_be_paid(small: Tasks) -> None:
    assert not [problem for split in small.splits for problem in unreachable(small, split)]


def test_a_hash_names_the_goals_too(tmp_path: Path) -> None:
    digests = set()
    for number, bound in enumerate((20.0, 30.0)):
        folder = tmp_path / str(number)
        stored(folder, [product("B1")], {"test": [goal("B1", price_upper=bound)]}).close()
        found = open_tasks(str(folder / "catalogue"))
        digests.add(found.dataset_hash)
        found.close()
    assert len(digests) == 2


def told_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(list(arguments))
    output = capsys.readouterr()
    return code, output.out + output.err


def test_the_command_line_makes_and_measures_catalogues(
    catalogues: Path, tiny: Tasks, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ("--cache", str(catalogues))
    code, said = told_by(capsys, "webshop", "make", "tiny", *cache)
    assert code == 0
    assert said == f"tiny: 200 products, goals: train 40, dev 20, test 40; hash {tiny.dataset_hash}\n"
    code, said = told_by(capsys, "webshop", "report", "tiny", *cache)
    assert code == 0 and "dev: the oracle earns 1 for 20 of 20 goals" in said and "'type 0.5'" in said


def test_the_command_line_finds_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = ("--cache", str(tmp_path))
    open_tasks("tiny", cache=tmp_path).close()
    catalog = next(tmp_path.glob(f"tiny-*/{CATALOG}"))
    with closing(sqlite3.connect(catalog)) as database, database:
        database.execute("UPDATE goal SET price_upper = price_upper + 10 WHERE split = 'test' AND idx = 3")
    for arguments in (("make", "tiny"), ("report", "tiny"), ("export", "tiny", str(tmp_path / "files"))):
        code, said = told_by(capsys, "webshop", *arguments, *cache)
        assert (
            code == 2 and f"{catalog} is damaged; remove {catalog.parent} and build it again" in said.splitlines()[-1]
        )


def test_the_command_line_tells_of_a_broken_official_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "items_shuffle.json").write_text('[{"asin": "B01", "name": null}]')
    (tmp_path / "items_ins_v2.json").write_text("{}")
    code, said = told_by(capsys, "webshop", "convert", str(tmp_path), str(tmp_path / "out"), "--partial")
    assert code == 2 and "items_shuffle.json, position 0 (asin 'B01')" in said and said.count("\n") == 1


def test_the_command_line_converts_what_it_exported(
    catalogues: Path, tiny: Tasks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, out = str(tmp_path / "files"), str(tmp_path / "out")
    assert told_by(capsys, "webshop", "export", "tiny", files, "--cache", str(catalogues))[0] == 0
    code, said = told_by(capsys, "webshop", "convert", files, out)
    assert code == 2 and "the official splits go up to 11999" in said
    code, said = told_by(capsys, "webshop", "convert", files, out, "--partial", "--seed", "3")
    assert code == 0 and "official-human: 200 products, goals: official-all 100" in said
    code, said = told_by(capsys, "webshop", "convert", str(tmp_path), out)
    assert code == 2 and "gdown" in said

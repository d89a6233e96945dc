"""Task sets: shipped files, the official layout and its index, AgentBench's lists, and clear errors for what is wrong."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envhub.core.errors import TaskUnusableError
from envhub.envs.alfworld import official, tasks
from envhub.envs.alfworld.game import Family, Game, Goal, Receptacle, Thing, Trait
from envhub.envs.alfworld.official import AGENTBENCH_LISTS, INDEX_FILE, Index, load_list, open_index
from envhub.envs.alfworld.pddl import GameFile, UnsupportedGameError
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.unpack import unpack
from envhub.envs.alfworld.world import build
from tests.alfworld import real
from tests.require import lacking

TWO_SOAPBARS = (
    "json_2.1.1/valid_unseen/pick_two_obj_and_place-SoapBar-None-Cabinet-424/trial_T20190909_081746_857594/game.tw-pddl"
)


def shared(path: str) -> Path:
    found = real.shared() / "data" / path
    if not found.exists():
        lacking("shared", f"no data/{path} in {real.shared()}")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Thirty official games in a folder of their own."""
    shutil.copytree(
        shared("alfworld/json_2.1.1"), tmp_path / "data/json_2.1.1", copy_function=shutil.copyfile, dirs_exist_ok=True
    )
    for folder, _, _ in os.walk(tmp_path / "data"):
        os.chmod(folder, 0o755)
    return tmp_path / "data"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """The complete official train and valid_seen splits."""
    root = tmp_path_factory.mktemp("official")
    unpack(shared("alfworld/official_2.1.2_train_seen.tar.xz"), root)
    return open_index(root)


def change(root: Path, path: str, edit: Callable[[dict[str, Any]], None]) -> None:
    record = json.loads((root / path).read_text())
    edit(record)
    (root / path).write_text(json.dumps(record))


# Shipped files


def tiny(**changes: Any) -> Game:
    """A mug on a desk, to be put on a shelf."""
    game = Game(
        id="pick_and_place_simple-Mug-None-Shelf-301/0",
        task="put a mug in shelf.",
        goal=Goal(Family.PLACE, "Mug", "Shelf"),
        start="9|0|0|0",
        receptacles=(Receptacle("Desk|01", "Desk", "0|0|0|0"), Receptacle("Shelf|01", "Shelf", "1|0|0|0")),
        things=(Thing("Mug|01", "Mug", ("0|0|0|0",), ("Desk|01",), frozenset({Trait.PICKUPABLE, Trait.HEATABLE})),),
        walkthrough=("go to desk 1", "take mug 1 from desk 1", "go to shelf 1", "move mug 1 to shelf 1"),
    )
    return replace(game, **changes)


def written(folder: Path, *games: Game) -> Path:
    tasks.write_dataset(folder, {"train": games}, name="alfworld", version="1", generator={})
    return folder


def test_a_dataset_read_back_is_the_one_written(tmp_path: Path) -> None:
    games = [tiny(), tiny(id="other")]
    loaded = tasks.load_split(written(tmp_path, *games), "train")
    assert list(loaded) == games and len(loaded) == 2 and loaded[1] == games[1]
    assert loaded.path(0) is None and loaded.suspects == ()
    again = written(tmp_path / "again", *games)
    assert (again / "train.jsonl.gz").read_bytes() == (tmp_path / "train.jsonl.gz").read_bytes()


def test_a_file_that_is_not_what_the_manifest_says_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, tiny())
    manifest = json.loads((folder / "manifest.json").read_text())
    written(tmp_path / "other", tiny(id="other"))
    shutil.copy(tmp_path / "other/train.jsonl.gz", folder / "train.jsonl.gz")
    with pytest.raises(ValueError, match="sha256"):
        tasks.load_split(folder, "train")
    shutil.copy(tmp_path / "other/manifest.json", folder / "manifest.json")
    with pytest.raises(KeyError, match="valid: train"):
        tasks.load_split(folder, "test")
    manifest["format"] = 99
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="format 99"):
        tasks.load_split(folder, "train")


def test_two_games_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 games of the id"):
        written(tmp_path, tiny(), tiny())


def test_an_index_outside_the_split_is_an_index_error(tmp_path: Path) -> None:
    loaded = tasks.load_split(written(tmp_path, tiny()), "train")
    for index in (-1, 1):
        with pytest.raises(IndexError, match=r"valid: 0\.\.0"):
            loaded[index]


def test_the_solution_is_one_call_a_command() -> None:
    messages = tasks.solution(tiny())
    assert messages is not None
    calls = [call for message in messages for call in message.tool_calls]
    assert [json.loads(call.arguments)["action"] for call in calls] == list(tiny().walkthrough)
    assert len({call.id for call in calls}) == 4 and {call.name for call in calls} == {"take_action"}
    assert tasks.solution(tiny(walkthrough=())) is None


MUG = tiny().things[0]
LAMP = Thing("DeskLamp|01", "DeskLamp", ("0|0|0|0",), ("Desk|01",), frozenset({Trait.TOGGLEABLE}))


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (tiny(), None),
        (tiny(goal=Goal(Family.LIGHT, "Mug", "DeskLamp"), things=(MUG, LAMP)), None),
        (tiny(things=()), "only 0 can be taken"),
        (tiny(things=(replace(MUG, receptacles=()),)), "only 0 can be taken"),
        (tiny(things=(replace(MUG, traits=frozenset()),)), "only 0 can be taken"),
        (tiny(goal=Goal(Family.TWO, "Mug", "Shelf")), "wants 2 Mug, and only 1"),
        (tiny(goal=Goal(Family.LIGHT, "Mug", "DeskLamp")), "no DeskLamp can be used"),
        (tiny(goal=Goal(Family.LIGHT, "Mug", "DeskLamp"), things=(MUG, replace(LAMP, receptacles=()))), "no DeskLamp"),
        (tiny(goal=Goal(Family.PLACE, "Mug", "Bed")), "the room has no Bed"),
        (tiny(goal=Goal(Family.HEAT, "Mug", "Shelf")), "the room has no Microwave"),
        (
            tiny(
                goal=Goal(Family.COOL, "Mug", "Shelf"),
                receptacles=(*tiny().receptacles, Receptacle("Fridge|01", "Fridge", "2|0|0|0", True)),
            ),
            "no Mug is coolable",
        ),
        (
            tiny(
                receptacles=(*tiny().receptacles, Receptacle("Bed|01", "Bed", "2")),
                goal=Goal(Family.PLACE, "Mug", "Bed"),
            ),
            "no Mug can be put into a Bed",
        ),
    ],
)
def test_what_makes_a_game_impossible_is_named(game: Game, reason: str | None) -> None:
    found = tasks.obstacle(game)
    assert found is None if reason is None else found is not None and reason in found


# The official layout


def test_official_games_are_in_order_of_path(root: Path) -> None:
    index = open_index(root)
    assert list(index.games) == sorted(index.games) and len(index.games) == 30
    train = official.load_split(index, "train", partial=True)
    assert [train.path(number) for number in range(12)] == sorted(root.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    assert len({game.goal.family for game in train}) == 6
    for number, game in enumerate(train):
        assert game.id == str((train.path(number) or root).parent.relative_to(root))


def test_order_does_not_depend_on_the_file_system(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B070: the index of a task is the same on every machine."""
    first = open_index(root)
    scandir = os.scandir

    def shuffled(path: Any) -> Iterator[os.DirEntry[str]]:
        entries = list(scandir(path))
        random.Random(3).shuffle(entries)
        return iter(entries)

    monkeypatch.setattr(os, "scandir", shuffled)
    second = open_index(root, file=tmp_path / "second.json")
    assert list(second.games.items()) == list(first.games.items())
    hashes = [official.load_split(index, "train", partial=True).dataset_hash for index in (first, second)]
    assert hashes[0] == hashes[1]


def test_a_second_start_walks_nothing_and_reads_no_game(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_index(root)

    def forbidden(*_: object) -> None:
        raise AssertionError("walked")

    monkeypatch.setattr(os, "scandir", forbidden)
    monkeypatch.setattr(GameFile, "of", forbidden)
    assert open_index(root) == first


def test_the_index_can_be_read_by_the_workers_of_any_user(root: Path) -> None:
    open_index(root)
    assert (root / "json_2.1.1" / INDEX_FILE).stat().st_mode & 0o777 == 0o644


def test_a_stale_index_is_made_again_from_what_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_index(root)
    task = root / TWO_SOAPBARS.rsplit("/", 2)[0]
    (task / "trial_new").mkdir()
    unfinished = open_index(root)
    assert unfinished.games == before.games
    shutil.copyfile(root / TWO_SOAPBARS, task / "trial_new/game.tw-pddl")
    parsed: list[str] = []
    read = GameFile.of
    monkeypatch.setattr(GameFile, "of", lambda text: parsed.append(text) or read(text))
    after = open_index(root)
    assert set(after.games) - set(before.games) == {f"{TWO_SOAPBARS.rsplit('/', 2)[0]}/trial_new/game.tw-pddl"}
    assert len(parsed) == 1
    shutil.rmtree(task)
    assert len(open_index(root).games) == 29
    shutil.rmtree(root / "json_2.1.1/valid_seen")
    assert len(open_index(root).games) == 23


def test_an_index_that_cannot_be_read_or_kept_is_no_failure(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = open_index(root)
    kept = root / "json_2.1.1" / INDEX_FILE
    whole_index = kept.read_bytes()
    other_format = json.dumps(json.loads(whole_index) | {"format": 2, "games": []}).encode()
    for content in (whole_index[: len(whole_index) // 2], b"[]", b'{"format": 1, "games": [[1]]}', other_format):
        kept.write_bytes(content)
        assert open_index(root) == expected
        assert kept.read_bytes() == whole_index
    with caplog.at_level(logging.WARNING):
        assert open_index(root, file=tmp_path / "no such folder/index.json") == expected
    assert "cannot be kept" in caplog.text

    def fail(*_: object) -> None:
        raise OSError("disk full")

    kept.unlink()
    monkeypatch.setattr(os, "replace", fail)
    assert open_index(root) == expected and not kept.exists(), "half an index must never be seen"


def test_absent_games_are_told_with_the_way_to_get_them(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileNotFoundError, match="alfworld-download"):
            open_index(folder)
    (tmp_path / "json_2.1.1/train/some_task/trial").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="alfworld-download"):
        open_index(tmp_path)


def test_a_half_unpacked_folder_is_not_taken_as_complete(root: Path) -> None:
    """B070."""
    with pytest.raises(ValueError, match="holds 12 of 134 games: the folder is not whole"):
        official.load_split(open_index(root), "valid_unseen")
    assert len(official.load_split(open_index(root), "valid_unseen", partial=True)) == 12
    with pytest.raises(KeyError, match="valid: train, valid_seen, valid_unseen"):
        official.load_split(open_index(root), "valid_train")
    content = (root / TWO_SOAPBARS).read_bytes()
    (root / TWO_SOAPBARS).write_bytes(content[: len(content) // 2])
    (root / "json_2.1.1" / INDEX_FILE).unlink()
    with pytest.raises(ValueError, match=r"1 of 30 game files .* half unpacked"):
        open_index(root)
    (root / TWO_SOAPBARS).write_bytes(content)
    assert len(open_index(root).games) == 30


def test_a_game_that_changed_since_it_was_indexed_is_refused(root: Path) -> None:
    index = open_index(root)
    assert index.game(TWO_SOAPBARS).goal == Goal(Family.TWO, "SoapBar", "Cabinet")
    content = (root / TWO_SOAPBARS).read_bytes()
    (root / TWO_SOAPBARS).write_bytes(content.replace(b"Cabinet", b"Drawers"))
    with pytest.raises(TaskUnusableError, match="wrong sha256"):
        index.game(TWO_SOAPBARS)
    (root / TWO_SOAPBARS).unlink()
    with pytest.raises(TaskUnusableError, match="cannot be read"):
        index.game(TWO_SOAPBARS)


def test_progress_is_logged(root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(official, "_REPORT_EVERY", 10)
    with caplog.at_level(logging.INFO):
        open_index(root)
    assert "indexing 30 games" in caplog.text and "20 of 30 games" in caplog.text


# AgentBench's lists


def test_an_agentbench_list_keeps_its_numbers_when_games_are_missing(root: Path) -> None:
    index = open_index(root)
    file = shared("agentbench/data/alfworld") / AGENTBENCH_LISTS["agentbench-std"]
    listed = load_list(file, index)
    paths = [path for games in json.loads(file.read_text()).values() for path in games]
    assert len(listed) == len(paths) == 109
    assert [listed.path(number) for number in range(109)] == [root / path for path in paths]
    present = [number for number, path in enumerate(paths) if path in index.games]
    assert len(present) >= 8
    for number in present:
        assert listed[number].id + "/game.tw-pddl" == paths[number]
    defects = list(tasks.lint(listed, environment="alfworld", split="agentbench-std"))
    assert [defect.task.index for defect in defects] == [n for n in range(109) if n not in present]
    assert all(not defect.usable and "is not in the data folder" in defect.problem for defect in defects)


@pytest.mark.parametrize("content", ["", "[]", '{"a": [1]}', '{"a": ["train"]}', '{"a": null}', "{}"])
def test_a_file_that_is_no_agentbench_list_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "list.json").write_text(content)
    with pytest.raises(ValueError, match=r"list\.json"):
        load_list(tmp_path / "list.json", Index(tmp_path, {}, {}))


def test_games_that_cannot_be_won_or_played_are_named(root: Path) -> None:
    """Two of a kind are wanted and one can be taken; the expert failed though nothing is in the way; rules we do not know."""
    impossible, unsolved, foreign = (
        TWO_SOAPBARS,
        TWO_SOAPBARS.replace("_081746", "_2"),
        TWO_SOAPBARS.replace("_081746", "_3"),
    )
    for path in (unsolved, foreign):
        (root / path).parent.mkdir()
        shutil.copyfile(root / impossible, root / path)

    def take_one_away(record: dict[str, Any]) -> None:
        lines = record["pddl_problem"].split("\n")
        inside = [line for line in lines if "(inReceptacle SoapBar_" in line]
        record["pddl_problem"] = "\n".join(line for line in lines if line not in inside[1:])
        record["solvable"] = False

    change(root, impossible, take_one_away)
    change(root, unsolved, lambda record: record.update(solvable=False, walkthrough=[]))
    change(root, foreign, lambda record: record.update(pddl_domain=record["pddl_domain"] + "\n(:action fly)"))
    (root / "list.json").write_text(json.dumps({"pick_two_obj": [impossible, unsolved, foreign]}))
    index = open_index(root)
    listed = load_list(root / "list.json", index)
    first, second, third = tasks.lint(listed, environment="alfworld", split="x")
    assert first.usable and "wants 2 SoapBar, and only 1 can be taken" in first.problem
    assert second.usable and "nothing stands in the way" in second.problem
    assert not third.usable and "rules or texts other than" in third.problem
    with pytest.raises(UnsupportedGameError):
        listed[2]
    split = official.load_split(index, "valid_unseen", partial=True)
    assert [split.path(number) for number in range(len(split))].count(root / unsolved) == 0
    foreign_at = [split.path(number) for number in range(len(split))].index(root / foreign)
    assert split.suspects == (foreign_at,)


def test_sliced_and_movable_games_are_not_in_the_official_splits(root: Path) -> None:
    for name in (
        "pick_heat_then_place_in_recep-AppleSliced-None-Fridge-10",
        "pick_and_place_with_movable_recep-Fork-Bowl-Fridge-10",
    ):
        folder = root / "json_2.1.1/valid_unseen" / name / "trial"
        folder.mkdir(parents=True)
        shutil.copyfile(root / TWO_SOAPBARS, folder / "game.tw-pddl")
    index = open_index(root)
    assert len(index.games) == 32
    assert len(official.load_split(index, "valid_unseen", partial=True)) == 12


def test_the_whole_official_set_is_indexed_in_the_published_sizes(whole: Index) -> None:
    train, seen = official.load_split(whole, "train"), official.load_split(whole, "valid_seen")
    assert (len(train), len(seen)) == (3553, 140) and train.suspects == seen.suspects == ()
    listed = load_list(shared("agentbench/data/alfworld/train_valid.json"), whole)
    assert len(listed) == 3150 and len(listed.suspects) == 3150 - 2714
    for number in (0, 1775, 3552):
        play = Play(build(train[number]))
        for command in train[number].walkthrough:
            assert play.step(command)
        assert play.won


# Unpacking


def archive_of(root: Path, path: Path) -> Path:
    games = sorted(root.glob("json_2.1.1/*/*/*/*"))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for game in games:
                zipped.write(game, game.relative_to(root))
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}") as tarred:
        for game in games:
            tarred.add(game, str(game.relative_to(root)))
    return path


@pytest.mark.parametrize("name", ["games.zip", "games.tar.gz", "games.tar.xz"])
def test_a_cut_archive_leaves_nothing_and_a_whole_one_unpacks(root: Path, tmp_path: Path, name: str) -> None:
    """B070: interrupted at half, then run again."""
    archive = archive_of(root, tmp_path / name)
    half = tmp_path / f"half-{name}"
    half.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    target = tmp_path / "target"
    with pytest.raises(ValueError, match="cut short"):
        unpack(half, target)
    assert list(target.iterdir()) == []
    (target / ".json_2.1.1.unpacking/json_2.1.1/train").mkdir(parents=True)
    assert unpack(archive, target) == 30
    assert [path.name for path in target.iterdir()] == ["json_2.1.1"]
    assert list(open_index(target).games) == list(open_index(root).games)
    with pytest.raises(FileExistsError, match="remove it"):
        unpack(archive, target)


def test_an_archive_with_another_hash_or_without_games_is_refused(root: Path, tmp_path: Path) -> None:
    archive = archive_of(root, tmp_path / "games.zip")
    with pytest.raises(ValueError, match="download it again"):
        unpack(archive, tmp_path / "target", sha256="0" * 64)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as zipped:
        zipped.writestr("json_2.1.1/train/../../game.tw-pddl", "{}")
        zipped.writestr("readme.txt", "no games")
    with pytest.raises(ValueError, match="holds no "):
        unpack(tmp_path / "other.zip", tmp_path / "target")
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "nowhere.zip", tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []
    (tmp_path / "page.zip").write_text("<html>404</html>")
    with pytest.raises(ValueError, match="damaged"):
        unpack(tmp_path / "page.zip", tmp_path / "target")

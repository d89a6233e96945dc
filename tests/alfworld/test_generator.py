"""The shipped ALFWorld games: sizes, reproducibility, held-out rooms, and every game won by its walkthrough and by nothing less."""

from __future__ import annotations

import filecmp
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.alfworld import engine, expert
from envhub.envs.alfworld.env import create
from envhub.envs.alfworld.game import Family, Game, Trait, decode, encode
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.tables import ACCEPTS
from envhub.envs.alfworld.tasks import SPLITS, load_split, obstacle
from envhub.envs.alfworld.world import build
from envhub.envs.datasets import read_manifest

DATASET = Path(__file__).resolve().parents[2] / "datasets" / "alfworld"
FAMILIES = (Family.LIGHT, Family.PLACE, Family.CLEAN, Family.COOL, Family.HEAT, Family.TWO)
SIZES = {
    "train": (308, 790, 650, 533, 459, 813),
    "valid_seen": (13, 35, 27, 25, 16, 24),
    "valid_unseen": (18, 24, 31, 21, 23, 17),
}
HELD_OUT = {10, 219, 308, 424}
TURNS = 20
WORDINGS = {
    Family.PLACE: r"put (a|some) {0} (in|on) {1}\.",
    Family.LIGHT: r"(look at {0} under the {1}|examine the {0} with the {1})\.",
    Family.CLEAN: r"(put a clean {0} in {1}|clean some {0} and put it in {1})\.",
    Family.HEAT: r"(put a hot {0} in {1}|heat some {0} and put it in {1})\.",
    Family.COOL: r"(put a cool {0} in {1}|cool some {0} and put it in {1})\.",
    Family.TWO: r"(put two {0} in {1}|find two {0} and put them in {1})\.",
}

Games = dict[str, list[Game]]


@pytest.fixture(scope="module")
def games() -> Games:
    return {split: list(load_split(DATASET, split)) for split in SPLITS}


@pytest.fixture(scope="module")
def every(games: Games) -> list[Game]:
    return [game for split in SPLITS for game in games[split]]


def scene(game: Game) -> int:
    return int(game.id.split("/")[0].rsplit("-", 1)[1])


def arrangement(game: Game) -> tuple[object, ...]:
    return (scene(game), *sorted((each.kind or "", each.receptacles) for each in game.things))


def n_takeable(game: Game) -> int:
    return sum(bool(each.receptacles) and Trait.PICKUPABLE in each.traits for each in game.things)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    script = DATASET / "generate" / "main.py"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    subprocess.run(
        [sys.executable, script, "--seed", "2026", "--out", tmp_path], check=True, env=environment, timeout=100
    )
    files = ["manifest.json", *(f"{split}.jsonl.gz" for split in SPLITS)]
    assert filecmp.cmpfiles(DATASET, tmp_path, files, shallow=False) == (files, [], [])


def test_the_shipped_files_are_small() -> None:
    assert sum(path.stat().st_size for path in DATASET.glob("*.gz")) < 3 << 20


def test_the_readme_names_the_hashes_of_the_shipped_files() -> None:
    readme = (DATASET.parent / "README.md").read_text("utf-8")
    assert all(entry.sha256 in readme for entry in read_manifest(DATASET).splits.values())


def test_splits_have_the_official_sizes_and_families(games: Games) -> None:
    for split, sizes in SIZES.items():
        found = Counter(game.goal.family for game in games[split])
        assert tuple(found[family] for family in FAMILIES) == sizes
    assert {split: entry.n_tasks for split, entry in read_manifest(DATASET).splits.items()} == {
        split: sum(sizes) for split, sizes in SIZES.items()
    }


def test_the_held_out_rooms_are_in_valid_unseen_alone(games: Games) -> None:
    assert {scene(game) for game in games["valid_unseen"]} == HELD_OUT
    seen = {scene(game) for game in games["train"]}
    assert not seen & HELD_OUT and len(seen) == 108
    assert {scene(game) for game in games["valid_seen"]} <= seen


def test_no_game_occurs_twice(every: list[Game]) -> None:
    assert len({game.id for game in every}) == len(every)
    assert len({arrangement(game) for game in every}) == len(every)


def test_every_game_is_won_by_its_walkthrough_and_by_no_single_command(every: list[Game]) -> None:
    for game in every:
        world = build(game)
        play = Play(world)
        assert not play.won, f"{game.id} is won by doing nothing"
        for command, action in play.actions.items():
            assert not engine.won(world, engine.apply(world, play.state, action)), f"{game.id} is won by {command!r}"
        for command in game.walkthrough:
            assert not play.won, f"{game.id} is won before {command!r}"
            assert play.step(command), f"{game.id}: {command!r} is not admissible"
        assert play.won, f"{game.id} is not won"


@pytest.mark.parametrize(("split", "every_nth"), [("train", 25), ("valid_seen", 1), ("valid_unseen", 1)])
async def test_sessions_pay_the_solution_in_time_and_an_idle_agent_nothing(split: str, every_nth: int) -> None:
    environment = create({})
    info = environment.info()
    idle = [Message.assistant(None, ToolCall("call", "take_action", '{"action": "look"}'))] * TURNS
    for index in range(0, info.splits[split], every_nth):
        task = TaskRef(info.name, split, index)
        for messages, reward in ((environment.solution(task), 1.0), (idle, 0.0)):
            assert messages is not None and len(messages) <= TURNS
            episode = await environment.open(task, seed=1, options=info.options)
            await episode.reset()
            results = [await episode.step(message) for message in messages]
            await episode.close()
            assert sum(result.reward for result in results) == reward
            assert [result.terminated for result in results] == [False] * (len(results) - 1) + [reward == 1.0]


def test_the_expert_needs_no_more_commands_than_the_walkthrough(games: Games) -> None:
    for game in games["valid_seen"] + games["valid_unseen"]:
        commands = expert.plan(build(game))
        assert commands is not None and len(commands) <= len(game.walkthrough)


def test_no_game_is_won_by_what_an_idle_player_says(games: Games) -> None:
    for game in games["valid_unseen"]:
        play = Play(build(game))
        for command in ("look", "inventory", "help", "", "examine mug 1", "nothing") * 4:
            play.step(command)
            assert not play.won


def test_every_walkthrough_fits_the_turns_of_an_episode(every: list[Game]) -> None:
    lengths = [len(game.walkthrough) for game in every]
    assert min(lengths) >= 3 and max(lengths) <= 11 < TURNS
    assert statistics.median(lengths) == 6


def test_goals_are_possible_and_worded_as_the_official_ones(every: list[Game]) -> None:
    for game in every:
        assert obstacle(game) is None
        goal = game.goal
        assert re.fullmatch(WORDINGS[goal.family].format(goal.object.lower(), goal.target.lower()), game.task)
        assert game.id.startswith(f"{goal.family.value}-{goal.object}-None-{goal.target}-")
        assert goal.family is Family.LIGHT or goal.object in ACCEPTS[goal.target]


def test_both_wordings_of_a_family_are_used(games: Games) -> None:
    shapes = Counter(
        (game.goal.family, game.task.replace(game.goal.object.lower(), "_", 1).split("_")[0]) for game in games["train"]
    )
    assert len(shapes) == 12 and min(shapes.values()) > 100


def test_no_room_starts_with_what_the_goal_asks_for(every: list[Game]) -> None:
    for game in every:
        wanted = [each for each in game.things if each.kind == game.goal.object]
        kinds = {each.id: each.kind for each in game.receptacles}
        if game.goal.family in (Family.PLACE, Family.TWO):
            assert all(kinds[name] != game.goal.target for each in wanted for name in each.receptacles)
        if game.goal.family is Family.COOL:
            assert all(Trait.COOL not in each.traits for each in wanted)
        assert game.start not in {each.place for each in game.receptacles}


@pytest.mark.parametrize(
    ("measure", "official_median"),
    [
        (lambda game: len(game.receptacles), 21),
        (lambda game: len(game.things), 42),
        (n_takeable, 27),
        (lambda game: len(game.walkthrough), 6),
        (lambda game: sum(each.openable for each in game.receptacles), 9),
    ],
    ids=["receptacles", "things", "takeable", "walkthrough", "openable"],
)
def test_the_train_split_is_like_the_official_one(
    games: Games, measure: Callable[[Game], int], official_median: int
) -> None:
    found = statistics.median(map(measure, games["train"]))
    assert abs(found - official_median) <= 0.1 * official_median


def test_goals_are_spread_over_kinds(games: Games) -> None:
    objects = Counter((game.goal.family, game.goal.object) for game in games["train"])
    pairs = Counter(game.goal for game in games["train"])
    assert len(objects) > 100 and len(pairs) > 500
    assert max(objects.values()) < 0.03 * len(games["train"])


def test_the_compact_form_keeps_every_game(games: Games) -> None:
    for game in games["valid_unseen"]:
        assert decode(encode(game)) == game

"""Native play answers as the real packages did when the goldens were recorded (see record_goldens.py)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envhub.envs.alfworld.game import Family, decode
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.world import build

GOLDENS: list[dict[str, Any]] = json.loads(gzip.decompress(Path(__file__).with_name("goldens.json.gz").read_bytes()))[
    "games"
]


@pytest.mark.parametrize("record", GOLDENS, ids=[record["game"]["id"] for record in GOLDENS])
def test_native_play_answers_as_textworld_did(record: dict[str, Any]) -> None:
    world = build(decode(record["game"]))
    for trace in record["traces"]:
        play = Play(world)
        for command, observation, admissible, won in trace:
            if command is not None:
                play.step(command.strip())
            assert play.observation == observation, f"after {command!r}"
            assert play.admissible == admissible, f"after {command!r}"
            assert play.won == won, f"after {command!r}"


def test_goldens_are_enough() -> None:
    families = Counter(record["game"]["goal"][0] for record in GOLDENS)
    assert set(families) == set(Family) and min(families.values()) >= 10
    assert {record["game"]["text"] for record in GOLDENS} == {"2.1.1", "2.1.2"}
    for record in GOLDENS:
        walkthrough, walk, _ = record["traces"]
        assert walkthrough[-1][3], "a walkthrough must win"
        assert len(walk) == 41
    answers = [row[1] for record in GOLDENS for trace in record["traces"] for row in trace[1:]]
    assert answers.count("Nothing happens.") > 500
    for rare in (
        "a hot sliced",
        "a hot and clean sliced",
        "cool sliced",
        "a cold",
        "a sliced",
        "Next to it, you see a",
        "turn on",
    ):
        assert sum(rare in answer for answer in answers) >= 5, rare


@pytest.mark.parametrize("record", GOLDENS[::7], ids=[record["game"]["id"] for record in GOLDENS[::7]])
def test_an_inadmissible_command_changes_nothing(record: dict[str, Any]) -> None:
    play = Play(build(decode(record["game"])))
    for command, *_ in record["traces"][1][1:]:
        before, admissible = play.state, play.actions
        if not play.step(command.strip()):
            assert play.state is before and play.actions == admissible

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
        walkthrough, walk = record["traces"]
        assert walkthrough[-1][3], "a walkthrough must win"
        assert len(walk) == 41
    answers = [row[1] for record in GOLDENS for row in record["traces"][1][1:]]
    assert sum(answer == "Nothing happens." for answer in answers) > 300


@pytest.mark.parametrize("record", GOLDENS[::7], ids=[record["game"]["id"] for record in GOLDENS[::7]])
def test_an_inadmissible_command_changes_nothing(record: dict[str, Any]) -> None:
    play = Play(build(decode(record["game"])))
    for command, *_ in record["traces"][1][1:]:
        before, admissible = play.state, play.actions
        if not play.step(command.strip()):
            assert play.state is before and play.actions == admissible

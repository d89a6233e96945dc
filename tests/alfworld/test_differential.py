"""Fresh random walks each time, natively and with the real packages, without a difference."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from envhub.envs.alfworld.game import Game
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.stage import Stage
from envhub.envs.alfworld.world import build
from tests.alfworld.differential import Tally, compare, fuzz
from tests.alfworld.real import find_data, real_python
from tests.alfworld.test_engine import BY_LAMP, KITCHEN, LIT_TWICE, MOVED_ON, REHEATED

SECONDS = float(os.environ.get("ENVHUB_TEST_ALFWORLD_FUZZ_S", "30"))


@pytest.mark.alfworld
@pytest.mark.timeout(SECONDS + 300)
def test_native_play_answers_as_textworld_does() -> None:
    python = real_python()
    seed = int(os.environ.get("ENVHUB_TEST_ALFWORLD_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
    print(f"ENVHUB_TEST_ALFWORLD_FUZZ_SEED={seed}")
    tally = fuzz(python, seed=seed, seconds=SECONDS, data=find_data())
    print(f"{tally.n_games} games, {tally.n_states} states")
    assert tally.n_games, "no game could be compared in the time given"
    assert not tally.differences, f"seed {seed}: {tally.differences[0]}"


@pytest.mark.alfworld
@pytest.mark.timeout(300)
def test_the_kitchen_where_every_rule_shows_is_the_same_in_textworld() -> None:
    stage, tally, rng = Stage(python=real_python()), Tally(), random.Random(7)
    try:
        for place in (KITCHEN.start, *(each.place for each in KITCHEN.receptacles[:3])):
            compare(stage, replace(KITCHEN, start=place), rng, tally, n_commands=60)
    finally:
        stage.close()
    assert not tally.differences, str(tally.differences[0])
    assert min(tally.kinds[verb] for verb in ("slice", "heat", "cool", "clean", "use", "examine", "take", "move")) > 0


@pytest.mark.alfworld
@pytest.mark.parametrize(("game", "commands"), [(KITCHEN, MOVED_ON), (KITCHEN, REHEATED), (BY_LAMP, LIT_TWICE)])
def test_rare_sequences_are_the_same_in_textworld(game: Game, commands: Sequence[str]) -> None:
    stage, play = Stage(python=real_python()), Play(build(game))
    try:
        stage.pose(game)
        for command in commands:
            view = stage.step(command)
            play.step(command)
            assert (play.observation, play.admissible, play.won) == (view.observation, list(view.admissible), view.won)
    finally:
        stage.close()

"""Fresh random walks each time, natively and with the real packages, without a difference."""

from __future__ import annotations

import os
import random

import pytest

from tests.alfworld.differential import fuzz
from tests.alfworld.real import find_data, real_python

SECONDS = float(os.environ.get("ENVHUB_ALFWORLD_FUZZ_S", "30"))


@pytest.mark.alfworld
@pytest.mark.timeout(SECONDS + 300)
def test_native_play_answers_as_textworld_does() -> None:
    python = real_python()
    seed = int(os.environ.get("ENVHUB_ALFWORLD_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
    print(f"ENVHUB_ALFWORLD_FUZZ_SEED={seed}")
    tally = fuzz(python, seed=seed, seconds=SECONDS, data=find_data())
    print(f"{tally.n_games} games, {tally.n_states} states")
    assert tally.n_games, "no game could be compared in the time given"
    assert not tally.differences, f"seed {seed}: {tally.differences[0]}"

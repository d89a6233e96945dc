"""More household games, by the hub's own generator: many, and in rooms small enough that finding things takes skill more than luck.

Invariant: equal sizes give equal games; no game is in two splits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from envhub.envs.alfworld.game import Family, Game
from envhub.envs.alfworld.tasks import write_dataset

GENERATOR = Path(__file__).resolve().parents[2] / "datasets" / "alfworld" / "generate"
FAMILIES = (Family.PLACE, Family.LIGHT)
"""The two families with the shortest solutions."""
MAX_RECEPTACLES = 10
_FIRST_SEED = 100
"""The shipped dataset has another."""


def write_games(root: Path, sizes: Mapping[str, int]) -> None:
    """A dataset ``alfworld`` below ``root`` with splits of these sizes, if it is not there."""
    folder, part = root / "alfworld", root / "alfworld.part"
    if folder.exists():
        return
    games = _small_games()
    splits = {split: list(islice(games, size)) for split, size in sizes.items()}
    write_dataset(part, splits, name="alfworld", version="1", generator={"seeds_from": _FIRST_SEED})
    part.rename(folder)


def _small_games() -> Iterator[Game]:
    """Endless; of one seed after the other, each arrangement once."""
    sys.path.insert(0, str(GENERATOR))
    try:
        from layout import arrangement
        from main import generate
    finally:
        sys.path.remove(str(GENERATOR))

    seen = set()
    for seed in count(_FIRST_SEED):
        for game in generate(seed, ("train",))["train"]:
            small = game.goal.family in FAMILIES and len(game.receptacles) <= MAX_RECEPTACLES
            if small and arrangement(game) not in seen:
                seen.add(arrangement(game))
                yield replace(game, id=f"{game.id}-{seed}")

"""Writes the dataset: ``python main.py --seed 2026 --out datasets/alfworld``.

Invariant: equal seeds give equal bytes; every game is won by its walkthrough in the engine and by no single command; the rooms
of the four held-out scenes occur in ``valid_unseen`` alone, and no arrangement of a room occurs twice.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
from goals import RULES, goals, task_text
from layout import arrangement, furnish
from oracle import with_walkthrough
from rooms import HELD_OUT_SCENES, Room, RoomType, rooms

from envhub.envs.alfworld.game import Family, Game, Goal
from envhub.envs.alfworld.tasks import write_dataset

VERSION = "1.0.0"
SIZES: Mapping[str, Mapping[Family, int]] = {
    split: dict(
        zip((Family.LIGHT, Family.PLACE, Family.CLEAN, Family.COOL, Family.HEAT, Family.TWO), counts, strict=True)
    )
    for split, counts in {
        "train": (308, 790, 650, 533, 459, 813),
        "valid_seen": (13, 35, 27, 25, 16, 24),
        "valid_unseen": (18, 24, 31, 21, 23, 17),
    }.items()
}
"""Games by split and family, as many as the official data have."""
MAX_DRAWS = 1000


def generate(seed: int, splits: Sequence[str] = tuple(SIZES)) -> dict[str, list[Game]]:
    """Each split depends on the seed and its own name alone. Raises RuntimeError when an arrangement occurs twice."""
    made = {split: _split(seed, split) for split in splits}
    counts = Counter(arrangement(game) for games in made.values() for game in games)
    if max(counts.values()) > 1:
        raise RuntimeError("two games have the same arrangement; use another seed")
    return made


def _split(seed: int, split: str) -> list[Game]:
    wanted = [family for family, n_games in SIZES[split].items() for _ in range(n_games)]
    random.Random(f"{seed}/{split}").shuffle(wanted)
    pool = [room for room in rooms() if (room.scene in HELD_OUT_SCENES) == (split == "valid_unseen")]
    choices = {family: _rooms_for(family, pool) for family in Family}
    return [
        _game(family, choices[family], random.Random(f"{seed}/{split}/{number}"), f"{split}-{number:04d}")
        for number, family in enumerate(wanted)
    ]


_Choices = Mapping[RoomType, Sequence[tuple[Room, Sequence[Goal]]]]


def _rooms_for(family: Family, pool: Sequence[Room]) -> _Choices:
    """The rooms that suit a family, with their goals, by type of room."""
    found: dict[RoomType, list[tuple[Room, Sequence[Goal]]]] = {}
    for room in pool:
        if suitable := goals(family, room):
            found.setdefault(room.type, []).append((room, suitable))
    return found


def _game(family: Family, choices: _Choices, rng: random.Random, name: str) -> Game:
    """Drawn again until the things lie well and the game is sound."""
    types = list(choices)
    for _ in range(MAX_DRAWS):
        room_type = rng.choices(types, [RULES[family].rooms[each] for each in types])[0]
        room, suitable = rng.choice(choices[room_type])
        wanted = rng.choice(sorted({goal.object for goal in suitable}))
        goal = rng.choice([goal for goal in suitable if goal.object == wanted])
        identifier = f"{family.value}-{goal.object}-None-{goal.target}-{room.scene}/{name}"
        game = furnish(room, goal, rng, name=identifier, task=task_text(goal, rng))
        if game is not None:
            return with_walkthrough(game)
    raise RuntimeError(f"no {family.value} game in {MAX_DRAWS} draws")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=Path("datasets/alfworld"))
    arguments = parser.parse_args()
    write_dataset(
        arguments.out,
        generate(arguments.seed),
        name="alfworld",
        version=VERSION,
        generator={"seed": arguments.seed, "version": VERSION, "script": "datasets/alfworld/generate/main.py"},
    )


if __name__ == "__main__":
    main()

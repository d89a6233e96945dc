"""Plays one game natively and with the real packages, command by command, and tells every difference.

    python -m tests.alfworld.differential --python INTERPRETER --seconds 1200 [--data FOLDER] [--seed N]

plays random walks, mixed with the expert's moves and with missions, on shipped games and, with ``--data``, official ones.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envhub.envs.alfworld import expert
from envhub.envs.alfworld.game import Game
from envhub.envs.alfworld.pddl import GameFile, parse_game
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.stage import Stage, View
from envhub.envs.alfworld.tasks import TaskSet, load_split
from envhub.envs.alfworld.textworld_backend import POSED_TEXT
from envhub.envs.alfworld.world import build
from envhub.envs.datasets import dataset_dir, read_manifest
from tests.alfworld.missions import MISSIONS
from tests.alfworld.walks import Walk

N_COMMANDS = 40
_P_EXPERT, _P_MISSION = 0.3, 0.15


@dataclass(frozen=True, slots=True)
class Difference:
    game: str
    commands: tuple[str, ...]
    what: str
    native: object
    real: object


@dataclass(slots=True)
class Tally:
    """``kinds`` counts the admissible commands by their first word; the times are TextWorld's processor times."""

    n_games: int = 0
    n_states: int = 0
    differences: list[Difference] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    load_s: list[float] = field(default_factory=list)
    reset_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)


def compare(
    stage: Stage, source: Path | Game, rng: random.Random, tally: Tally, *, n_commands: int = N_COMMANDS
) -> None:
    """Play a game of an official file, or any other, on both sides."""
    if isinstance(source, Path):
        game = parse_game(GameFile.of(source.read_text()), name="/".join(source.parts[-3:-1]))
        play, view = Play(build(game)), stage.load(source)
    else:
        game = source
        play, view = Play(build(game, POSED_TEXT)), stage.pose(game)
    tally.n_games += 1
    tally.load_s.append(view.seconds["load_s"])
    tally.reset_s.append(view.seconds["reset_s"])
    walk = Walk(rng, view.observation)
    mission: Iterator[str] = iter(())
    commands: list[str] = []
    while _agree(game, play, view, commands, tally) and len(commands) < n_commands:
        command = next(mission, None)
        if command is None:
            mission = rng.choice(MISSIONS)(play, rng) if rng.random() < _P_MISSION else iter(())
            command = walk.command(view.observation, view.admissible)
            if rng.random() < _P_EXPERT and (plan := expert.plan(play.world, play.state)):
                command = plan[0]
        commands.append(command)
        tally.kinds[command.split(" ")[0]] += play.step(command.strip())
        view = stage.step(command)
        tally.step_s.append(view.seconds["step_s"])


def _agree(game: Game, play: Play, view: View, commands: Sequence[str], tally: Tally) -> bool:
    tally.n_states += 1
    sides = (
        ("observation", play.observation, view.observation),
        ("admissible", play.admissible, list(view.admissible)),
        ("won", play.won, view.won),
    )
    for what, native, real in sides:
        if native != real:
            tally.differences.append(Difference(game.id, tuple(commands), what, native, real))
    return all(native == real for _, native, real in sides)


def fuzz(
    python: str, *, seed: int, seconds: float, data: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> Tally:
    """Compare game after game until the time is over; one in any case."""
    rng, tally = random.Random(seed), Tally()
    until = time.monotonic() + seconds
    stage = Stage(python=python, timeout_s=600)
    try:
        for number, source in enumerate(_sources(rng, data)):
            if number and time.monotonic() > until:
                return tally
            compare(stage, source, rng, tally)
            say(f"{tally.n_games} games, {tally.n_states} states, {len(tally.differences)} differences")
    finally:
        stage.close()
    return tally


def shipped() -> list[TaskSet]:
    folder = dataset_dir("alfworld")
    return [load_split(folder, split) for split in read_manifest(folder).splits]


def _sources(rng: random.Random, data: Path | None) -> Iterator[Path | Game]:
    sets = shipped()
    files = sorted(data.rglob("game.tw-pddl")) if data else []
    while True:
        games = rng.choice(sets)
        yield rng.choice(files) if files and rng.random() < 0.5 else games[rng.randrange(len(games))]


def main() -> int:
    parser = argparse.ArgumentParser(description="compare native play with the real packages")
    parser.add_argument("--python", required=True)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    shown = [0]

    def say(line: str) -> None:
        shown[0] += 1
        if shown[0] % 10 == 0:
            print(line, flush=True)

    tally = fuzz(args.python, seed=args.seed, seconds=args.seconds, data=args.data, say=say)
    for difference in tally.differences:
        print(difference)
    print(dict(tally.kinds))
    print(f"{tally.n_games} games, {tally.n_states} states, {len(tally.differences)} differences (seed {args.seed})")
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())

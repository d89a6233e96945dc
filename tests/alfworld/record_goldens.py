"""Records what the real packages answer, for the replay in test_goldens.py.

    python tests/alfworld/record_goldens.py --python INTERPRETER --data FOLDER --logic FOLDER

``INTERPRETER`` has alfworld==0.4.2 and textworld[pddl]==1.7.0; ``--data`` holds the official games (``train``,
``valid_seen``, ``valid_unseen``), ``--logic`` the alfred.pddl and alfred.twl2 of version 2.1.1. Per game: its walkthrough,
then 40 commands of a random player, then a mission of each kind. Equal seeds give equal files.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from envhub.envs.alfworld.game import Family, Game, encode
from envhub.envs.alfworld.pddl import GameFile, parse_game
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.stage import Stage, View
from envhub.envs.alfworld.world import build
from tests.alfworld.missions import MISSIONS
from tests.alfworld.walks import Walk

OUT = Path(__file__).with_name("goldens.json.gz")
N_RANDOM, N_MISSIONS = 40, 50
PER_FAMILY: Mapping[str, int] = {"official": 10, "2.1.1": 2, "package": 1}
"""Games of each family, by the rules they are recorded under: their own, those of 2.1.1, those of the package."""

Logic = tuple[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description="record golden traces of the real packages")
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logic", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    logics: dict[str, Logic | None] = {
        "official": None,
        "2.1.1": _read_logic(args.logic),
        "package": _read_logic(_package_logic(args.python)),
    }
    records = []
    stage = Stage(python=args.python, timeout_s=600)
    try:
        for path, rules in _choose(args.data, rng):
            records.append(record(stage, path, logics[rules], rng))
            print(f"{len(records)}: {rules} {records[-1]['game']['id']}", flush=True)
    finally:
        stage.close()
    content = json.dumps({"seed": args.seed, "games": records}, separators=(",", ":")).encode()
    OUT.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{OUT.name}: {len(records)} games, {OUT.stat().st_size / 1024:.0f} KiB")
    return 0


def record(stage: Stage, path: Path, logic: Logic | None, rng: random.Random) -> dict[str, Any]:
    """The three traces of one game; a trace is a list of [command or null, observation, admissible, won]."""
    with tempfile.TemporaryDirectory() as folder:
        if logic is not None:
            path = rewritten(path, Path(folder), logic)
        file = GameFile.of(path.read_text())
        game = parse_game(file, name="/".join(path.parts[-3:-1]) if logic is None else path.stem)
        players = iter_player(game.walkthrough), random_player(rng), mission_player(game, rng)
        return {"game": encode(game), "traces": [_trace(stage, path, player) for player in players]}


def rewritten(path: Path, folder: Path, logic: Logic) -> Path:
    """The same game under the rules and texts of another version."""
    raw = json.loads(path.read_text())
    game = parse_game(GameFile.of(path.read_text()), name="")
    raw["pddl_domain"] = logic[0]
    raw["grammar"] = logic[1].replace("UNKNOWN GOAL.", game.task)
    if "put {o} in/on {r}" in logic[1]:
        raw["walkthrough"] = [_older(command) for command in raw["walkthrough"]]
    target = folder / f"{path.parts[-3]}.tw-pddl"
    target.write_text(json.dumps(raw))
    return target


def _older(command: str) -> str:
    if not command.startswith("move "):
        return command
    thing, _, receptacle = command.removeprefix("move ").partition(" to ")
    return f"put {thing} in/on {receptacle}"


Player = Callable[[View], str | None]
"""The next command after a view; None when there are no more."""


def iter_player(commands: Iterable[str]) -> Player:
    rest = iter(commands)
    return lambda _: next(rest, None)


def random_player(rng: random.Random) -> Player:
    walks: list[Walk] = []
    numbers = iter(range(N_RANDOM))

    def player(view: View) -> str | None:
        if not walks:
            walks.append(Walk(rng, view.observation))
        return walks[0].command(view.observation, view.admissible) if next(numbers, None) is not None else None

    return player


def mission_player(game: Game, rng: random.Random) -> Player:
    """Every mission once, guided by native play; at most so many commands in all."""
    play = Play(build(game))
    commands = islice((command for mission in MISSIONS for command in mission(play, rng)), N_MISSIONS)

    def player(_: View) -> str | None:
        command = next(commands, None)
        if command is not None:
            play.step(command)
        return command

    return player


def _trace(stage: Stage, path: Path, player: Player) -> list[list[Any]]:
    view = stage.load(path)
    trace = [_row(None, view)]
    while (command := player(view)) is not None:
        view = stage.step(command)
        trace.append(_row(command, view))
    return trace


def _row(command: str | None, view: View) -> list[Any]:
    return [command, view.observation, list(view.admissible), view.won]


def _choose(data: Path, rng: random.Random) -> Iterator[tuple[Path, str]]:
    for family in Family:
        paths = sorted(data.glob(f"*/{family}-*/*/game.tw-pddl"))
        for rules, number in PER_FAMILY.items():
            for path in rng.sample(paths, number):
                yield path, rules


def _read_logic(folder: Path) -> Logic:
    return (folder / "alfred.pddl").read_text(), (folder / "alfred.twl2").read_text()


def _package_logic(python: str) -> Path:
    program = "import importlib.util as u; print(u.find_spec('alfworld').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip()) / "data"


if __name__ == "__main__":
    raise SystemExit(main())

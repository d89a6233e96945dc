"""Records what the real packages answer, for the replay in test_goldens.py.

    python tests/alfworld/record_goldens.py --python INTERPRETER --data FOLDER --logic FOLDER

``INTERPRETER`` has alfworld==0.4.2 and textworld[pddl]==1.7.0; ``--data`` holds the official games (``train``,
``valid_seen``, ``valid_unseen``), ``--logic`` the alfred.pddl and alfred.twl2 of version 2.1.1. Per game: its walkthrough,
then 40 commands of a random player. Equal seeds give equal files.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envhub.envs.alfworld.game import Family, encode
from envhub.envs.alfworld.pddl import GameFile, parse_game
from envhub.envs.alfworld.stage import Stage, View
from tests.alfworld.walks import Walk

OUT = Path(__file__).with_name("goldens.json.gz")
N_RANDOM = 40
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
    """Both traces of one game; a trace is a list of [command or null, observation, admissible, won]."""
    with tempfile.TemporaryDirectory() as folder:
        if logic is not None:
            path = rewritten(path, Path(folder), logic)
        file = GameFile.of(path.read_text())
        game = parse_game(file, name="/".join(path.parts[-3:-1]) if logic is None else path.stem)
        walkthrough = _trace(stage, path, list(game.walkthrough), None)
        return {"game": encode(game), "traces": [walkthrough, _trace(stage, path, [""] * N_RANDOM, rng)]}


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


def _trace(stage: Stage, path: Path, commands: Sequence[str], rng: random.Random | None) -> list[list[Any]]:
    view = stage.load(path)
    trace = [_row(None, view)]
    walk = Walk(rng, view.observation) if rng else None
    for planned in commands:
        command = walk.command(view.observation, view.admissible) if walk else planned
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

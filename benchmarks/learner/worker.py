"""The parts of the benchmark that need PyTorch, as programs: make a warm start, do one run, draw the plots.

Invariant: a file appears under its name only when it is whole, so that an interrupted benchmark goes on where it stood.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

for place in (Path(__file__).parents[1], Path(__file__).parents[2]):
    sys.path.insert(0, str(place))

import torch  # noqa: E402  # the folders of this benchmark come first
from learner import settings  # noqa: E402
from learner.environments import courses  # noqa: E402
from learner.model import Policy, Shape  # noqa: E402
from learner.run import Variant, examined, run  # noqa: E402
from learner.text import Tokenizer  # noqa: E402
from learner.warm_start import demonstrations, lesson, new_policy, tokenizer_of, train  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("warm", "run", "plots"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variant", type=Variant, default=Variant.FULL)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path())
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    chosen = settings.QUICK if args.quick else settings.FULL
    _check(args.work, chosen)
    match args.part:
        case "warm":
            warm(args.work, chosen)
        case "run":
            one(args.work, args.variant, args.seed, chosen)
        case "plots":
            plots(args.work, args.out)
    return 0


def warm(work: Path, chosen: settings.Settings) -> None:
    began, reading = time.monotonic(), chosen.warm_start
    tuned = courses(work, chosen.sizes, validation=True)
    shown = asyncio.run(demonstrations(tuned, reading))
    tokenizer = tokenizer_of(shown, reading.vocabulary)
    policy = new_policy(tokenizer, seed=reading.seed)

    def enough() -> bool:
        with torch.random.fork_rng():
            found = asyncio.run(examined(chosen.plan, tuned, (policy, tokenizer), seed=reading.seed))
        report(f"validation: {found}")
        return all(found[f"success/{name}"] >= share for name, share in reading.until.items())

    lessons = [lesson(each, tokenizer) for each in shown]
    n_read = train(policy, lessons, reading, enough=enough, report=report)
    _whole(work / "tokenizer.json", tokenizer.save)
    _whole(work / "policy.pt", lambda path: torch.save(policy.state_dict(), path))
    record = {
        "seed": reading.seed,
        "demonstrations": len(shown),
        "tokens_read": n_read,
        "parameters": sum(each.numel() for each in policy.parameters()),
        "seconds": round(time.monotonic() - began, 1),
    }
    _whole(work / "warm.json", lambda path: path.write_text(json.dumps(record)))
    report(f"warm start: {record}")


def one(work: Path, variant: Variant, seed: int, chosen: settings.Settings) -> None:
    tokenizer = Tokenizer.load(work / "tokenizer.json")
    policy = Policy(Shape(tokenizer.size))
    policy.load_state_dict(torch.load(work / "policy.pt"))
    learned = courses(work, chosen.sizes)
    record = asyncio.run(run(variant, chosen.plan, learned, (policy, tokenizer), seed=seed, report=report))
    _whole(work / f"run-{variant}-{seed}.json", lambda path: path.write_text(json.dumps(record)))


def plots(work: Path, out: Path) -> None:
    from learner.plots import draw
    from learner.summary import stored

    for path in draw(stored(work), out):
        report(f"{path.name}: {path.stat().st_size} bytes")


def _check(work: Path, chosen: settings.Settings) -> None:
    """Runs of other settings, or of other code, must not be mixed with them."""
    path, ours = work / "settings.txt", f"{chosen}\n{_code()}\n"
    if not path.exists():
        _whole(path, lambda part: part.write_text(ours))
    if path.read_text() != ours:
        raise SystemExit(f"{work} was filled with other settings or by other code: name another folder, or empty it")


def _code() -> str:
    """A hash of what decides a result besides the settings: this benchmark, the adapter, the generator of games, the environments."""
    root = Path(__file__).parents[2]
    folders = ("benchmarks/learner", "trainer_adapter", "datasets/alfworld/generate", "envhub/envs/alfworld")
    files = (path for folder in folders for path in sorted((root / folder).glob("*.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def report(line: str) -> None:
    print(line, flush=True)


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    made = path.with_suffix(".part")
    write(made)
    made.replace(path)


if __name__ == "__main__":
    sys.exit(main())

"""Does it learn: a small policy, trained with the adapter's algorithms on two environments of a real hub, on a CPU.

A transformer of a million parameters reads some of the hub's reference solutions, then plays: rollouts, queue, engines (one of
them stale), weight updates, group advantages and task normalization are the trainer adapter's, the engine and the loss are here
(``learner/``). Measured on tasks that neither part of the training sees, for the whole and without each of three parts.

Run: ``python benchmarks/learning.py [--quick] [--json] [--work DIR] [--jobs N]``. What is done is kept in the folder ``--work``, run
by run; a benchmark that was interrupted goes on there. PyTorch comes from this interpreter or from ``make trainer-cpu``.

Claims: ``success_gain_min``, success on held-out tasks after the last step less that of the warm start, of the environment
where it is least, median over seeds; ``trajectories_unaccounted``, runs whose queue admitted trajectories that were neither
trained, dropped nor live at the end.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness import RESULTS, Claim, arguments, finish
from learner.summary import ENVIRONMENTS, Run, least_gain, stored, table

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).parent / "learner" / "worker.py"
TRAINER = ROOT / ".venv-trainer" / "bin" / "python"
VARIANTS = ("full", "no_task_norm", "no_cross_policy", "synchronous")
SEEDS = (1, 2, 3)
_ENVIRON = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
"""One thread for each run, and an allocator that keeps its pages: tensors that come and go would cost page faults."""


def main() -> int:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir(), "envhub-learning"),
        help="folder of warm starts and finished runs; what is there is not done again",
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each on one thread")
    args = parser.parse_args()
    python = _python()
    if python is None:
        print(
            "torch, tokenizers and matplotlib are neither in this interpreter nor in .venv-trainer: run `make trainer-cpu` first"
        )
        return 2
    if args.quick:
        with tempfile.TemporaryDirectory() as folder:
            return _quick(Work(Path(folder), python, ("--quick",)), args)
    args.work.mkdir(parents=True, exist_ok=True)
    with (args.work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another benchmark works in {args.work}: name another folder with --work")
            return 2
        return _full(Work(args.work, python), args)


class Work:
    """The folder of a benchmark and the programs that fill it."""

    def __init__(self, folder: Path, python: str, flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self._python = python
        self._flags = flags

    def warm(self) -> None:
        if not (self.folder / "warm.json").exists():
            self.do("warm")

    def run(self, variant: str, seed: int) -> None:
        if not (self.folder / f"run-{variant}-{seed}.json").exists():
            self.do("run", "--variant", variant, "--seed", str(seed))

    def do(self, *command: str) -> None:
        """Stops the program with the end of the log where it fails."""
        words = [self._python, str(WORKER), *command, "--work", str(self.folder), *self._flags]
        log = self.folder / f"{command[0]}-{time.monotonic_ns()}.log"
        with log.open("w") as out:
            done = subprocess.run(
                words, env={**os.environ, **_ENVIRON}, stdout=out, stderr=subprocess.STDOUT, check=False
            )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()[-2_000:]}")


def _quick(work: Work, args: argparse.Namespace) -> int:
    """That all parts work together: it is far too short to learn anything, and claims nothing about learning."""
    work.warm()
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda variant: work.run(variant, 1), ("full", "synchronous")))
    runs = stored(work.folder)
    return finish("learning", args, {"trajectories_unaccounted": _unaccounted(runs)}, {})


def _full(work: Work, args: argparse.Namespace) -> int:
    began = time.monotonic()
    work.warm()
    with ThreadPoolExecutor(args.jobs) as pool:
        pairs = [(variant, seed) for seed in SEEDS for variant in VARIANTS]
        list(pool.map(lambda pair: work.run(*pair), pairs))
    runs = stored(work.folder)
    work.do("plots", "--out", str(RESULTS))
    claims = {"success_gain_min": Claim(least_gain(_of(runs, "full")), 0.1, at_least=True)}
    details: dict[str, Any] = {
        "held_out_success": table(runs),
        "seconds_of_this_call": round(time.monotonic() - began),
        "runs": _curves(runs),
    }
    for variant, found in details["held_out_success"].items():
        print(f"     {variant}: " + "; ".join(f"{name} {_shown(found[name])}" for name in ENVIRONMENTS))
    return finish("learning", args, {**claims, "trajectories_unaccounted": _unaccounted(runs)}, details)


def _of(runs: Sequence[Run], variant: str) -> list[Run]:
    return [run for run in runs if run["variant"] == variant]


def _unaccounted(runs: Sequence[Run]) -> Claim:
    return Claim(sum(run["account"]["unaccounted"] for run in runs), 0)


def _shown(row: Mapping[str, Any]) -> str:
    before, after = row["success_before"], row["success_after"]
    return (
        f"{before['mean']:.3f} -> {after['mean']:.3f} (seeds {', '.join(f'{value:.3f}' for value in after['values'])})"
    )


def _curves(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What is kept of every run: its evaluations, its account and a few numbers of each batch."""
    kept = ("step", "success/", "turns/", "tokens/", "staleness/mean", "ratio/", "clipped", "kl_loss")
    return [
        {
            **{name: run[name] for name in ("variant", "seed", "evaluations", "account", "seconds", "cpu_seconds")},
            "batches": [
                {name: round(value, 4) for name, value in batch.items() if name.startswith(kept)}
                for batch in run["batches"]
            ],
        }
        for run in runs
    ]


def _python() -> str | None:
    """An interpreter that has PyTorch and the rest."""
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "tokenizers", "matplotlib")):
        return sys.executable
    return str(TRAINER) if TRAINER.exists() else None


if __name__ == "__main__":
    sys.exit(main())

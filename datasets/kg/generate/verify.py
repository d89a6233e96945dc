"""Plays every reference solution in the KG environment: ``python verify.py [--splits train dev test]``.

Invariant: a task passes when its solution, played call by call, earns the full reward and every call on the way is accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
from envhub.core.types import TaskRef
from envhub.envs.kg.env import OPTIONS, KGEnvironment, create

ROOT = Path(__file__).resolve().parents[2]


async def check(environment: KGEnvironment, split: str) -> list[str]:
    """One line for each task whose solution does not earn the reward."""
    problems = []
    for index in range(environment.info().splits[split]):
        problem = await _play(environment, TaskRef("kg", split, index))
        if problem:
            problems.append(f"{split} {index}: {problem}")
    return problems


async def _play(environment: KGEnvironment, task: TaskRef) -> str:
    episode = await environment.open(task, seed=0, options=OPTIONS)
    try:
        await episode.reset()
        for message in environment.solution(task) or ():
            result = await episode.step(message)
            for answer in result.messages:
                if "Error" in (answer.content or ""):
                    return f"refused: {answer.content}"
            if result.terminated:
                return "" if result.reward == 1.0 else f"reward {result.reward}"
        return "no answer"
    finally:
        await episode.close()


async def _check_all(root: Path, splits: list[str]) -> int:
    environment = create({"datasets": str(root), "cache": "memory"})
    n_problems = 0
    try:
        for split in splits:
            problems = await check(environment, split)
            n_problems += len(problems)
            n_tasks = environment.info().splits[split]
            sys.stdout.write(
                "".join(f"{line}\n" for line in problems) + f"{split}: {n_tasks - len(problems)}/{n_tasks}\n"
            )
    finally:
        await environment.close()
    return n_problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=Path, default=ROOT, help="folder that holds kg/")
    parser.add_argument("--splits", nargs="+", default=["train", "dev", "test"])
    arguments = parser.parse_args()
    sys.exit(1 if asyncio.run(_check_all(arguments.datasets, arguments.splits)) else 0)


if __name__ == "__main__":
    main()

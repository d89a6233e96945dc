"""Plays the drafts in real sandboxes: ``python verify.py --splits dev test``.

Invariant: every task is shown to be solved by its reference solution, whose last script prints the gold, to be unsolved when
nothing is done, and not to be satisfied by any of its slips; each play has a sandbox of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from main import SIZES, Made, drafts, task

from envhub.core.clock import SystemClock
from envhub.core.sandbox import CommandStatus, Sandbox, SandboxDriver, SandboxSpec
from envhub.envs.os.env import set_up
from envhub.envs.os.judge import GradingLimits, grade
from envhub.envs.os.matching import matches
from envhub.envs.os.tasks import OSTask
from envhub.sandbox.choose import choose

LIMITS = GradingLimits()
TIMEOUT_S = 30.0


async def problems(driver: SandboxDriver, made: Made, problem: OSTask, *, slips: bool) -> list[str]:
    """What is wrong with a task, in words."""
    found = await _solved(driver, made, problem)
    if await _passes(driver, problem, (), None):
        found.append("doing nothing passes")
    for number, slip in enumerate(made.draft.slips if slips else ()):
        if problem.answer is not None:
            right = any(matches(problem.answer.kind, gold, slip) for gold in problem.answer.golds)
        else:
            right = await _passes(driver, problem, (slip,), None)
        if right:
            found.append(f"slip {number} passes: {slip[:300]!r}")
    return [f"{problem.id} {made.template.name}: {each}" for each in found]


async def _solved(driver: SandboxDriver, made: Made, problem: OSTask) -> list[str]:
    sandbox = await driver.start(SandboxSpec(image=problem.image))
    try:
        await set_up(problem, sandbox, seed=0)
        output = await _run(sandbox, problem.solution)
        verdict = await grade(problem, problem.final_answer, sandbox, mode="strict", limits=LIMITS)
    finally:
        await sandbox.close()
    found = [] if verdict.correct else [f"the solution fails: {verdict.reason}; it printed {output!r}"]
    if problem.answer is not None and not matches(problem.answer.kind, made.draft.gold, output):
        found.append(f"the solution prints {output[-300:]!r}, the gold is {made.draft.gold!r}")
    return found


async def _passes(driver: SandboxDriver, problem: OSTask, scripts: Sequence[str], answer: str | None) -> bool:
    sandbox = await driver.start(SandboxSpec(image=problem.image))
    try:
        await set_up(problem, sandbox, seed=0)
        await _run(sandbox, scripts)
        return (await grade(problem, answer, sandbox, mode="strict", limits=LIMITS)).correct
    finally:
        await sandbox.close()


async def _run(sandbox: Sandbox, scripts: Sequence[str]) -> str:
    """The output of the last script."""
    output = ""
    for script in scripts:
        result = await sandbox.run(script, timeout_s=TIMEOUT_S, max_bytes=64 << 10)
        output = result.output if result.status is CommandStatus.OK else f"[{result.status}] {result.output}"
    return output


async def verify(seed: int, splits: Sequence[str], *, most: int | None, only: str, slips: bool, jobs: int) -> int:
    """How many problems were found; they are written as they come."""
    driver = choose("bubblewrap", clock=SystemClock())
    made = drafts(seed)
    queue = iter(
        [
            (each, task(f"{split}-{number:04d}", each))
            for split in splits
            for number, each in enumerate(made[split][:most])
            if only in (each.template.name, each.template.family, "")
        ]
    )
    n_wrong, done = 0, Counter[str]()

    async def work() -> None:
        nonlocal n_wrong
        for each, problem in queue:
            try:
                found = await problems(driver, each, problem, slips=slips)
            except Exception as error:  # boundary: a broken set-up or check is a finding, and the others go on
                found = [f"{problem.id} {each.template.name}: {type(error).__name__}: {error}"]
            n_wrong += len(found)
            done["tasks"] += 1
            if done["tasks"] % 100 == 0:
                sys.stderr.write(f"{done['tasks']} tasks played, {n_wrong} problems\n")
            for line in found:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()

    started = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(work())
    finally:
        await driver.close()
    sys.stdout.write(f"{done['tasks']} tasks, {n_wrong} problems, {time.monotonic() - started:.1f} s\n")
    return n_wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--splits", nargs="+", choices=sorted(SIZES), default=["dev"])
    parser.add_argument("--most", type=int, help="tasks of each split, from the first on")
    parser.add_argument("--only", default="", help="a template or a family")
    parser.add_argument("--no-slips", action="store_true")
    parser.add_argument("--jobs", type=int, default=4)
    given = parser.parse_args()
    wrong = verify(
        given.seed, given.splits, most=given.most, only=given.only, slips=not given.no_slips, jobs=given.jobs
    )
    return 1 if asyncio.run(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())

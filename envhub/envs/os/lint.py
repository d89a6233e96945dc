"""What is wrong with OS tasks: from their facts alone, and by playing them in a sandbox.

Invariant: a defect names a reason; ``usable`` is False only for a task that nobody could be graded on fairly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from envhub.core.errors import EnvhubError, TaskUnusableError
from envhub.core.sandbox import Sandbox
from envhub.core.types import Defect, TaskRef
from envhub.envs.os import judge, official_checks
from envhub.envs.os.judge import GradingLimits
from envhub.envs.os.matching import check_gold, matches, tidy
from envhub.envs.os.scripts import complaint, printed, run_script
from envhub.envs.os.tasks import OSTask, TaskSet

RANDOM_ANSWER = "qzx-7f31-vwk"
_INSTALLS = re.compile(r"\bapt(-get)?\b.*\b(install|update)\b")
_NETWORK = re.compile(r"\b(curl|wget)\b.*https?:|\bpip3? install\b|\bgit clone\b")
_CLOCK = re.compile(r"-[mca](time|min)\b|-newer|\bdate\b|\bsystime\b|\buptime\b")
_PROCESSES = re.compile(r"(?<![\w.])(ps|pgrep|pidof|top|free|who)(?=\s+-|\s*\|)")
_USERS = re.compile(
    r"\b[ug]id=[1-9]\d*\b"
    r"|(?:^|[;&|])\s*(?:chown(?:\s+-\S+)*\s+(?!root\b|0\b|-)[\w$.:{]|chgrp(?:\s+-\S+)*\s+(?!root\b|0\b|-)[\w$]|(?:chpasswd|runuser|su)\s+-?\s*[a-z])",
    re.MULTILINE,
)
"""Where a file is given to others than root, or a command run as one; to make a user only writes files, and works."""
NO_USERS = "it needs a sandbox with several users: run the worker as root, or use the docker driver"
_CHANCE = re.compile(r"\$\{?RANDOM|/dev/u?random|\bshuf\b")


def lint(tasks: TaskSet, *, environment: str, split: str, installs: bool, users: bool = True) -> Iterator[Defect]:
    """What the tasks themselves show, in index order.

    ``installs``: the userlands can install packages without a network; ``users``: sandboxes have others than root.
    """
    first_seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        ref = TaskRef(environment, split, index)
        if _needs_network(task):
            yield Defect(ref, "it fetches something from the network, which a session has not", usable=False)
        elif _installs(task):
            yield Defect(ref, "it installs packages, which needs a prepared userland with them", usable=installs)
        if not users and needs_users(task):
            yield Defect(ref, NO_USERS, usable=False)
        for problem in _bad_golds(task):
            yield Defect(ref, problem, usable=False)
        earlier = first_seen.setdefault(repr((task.description, task.init, task.start, task.published)), index)
        if earlier != index:
            yield Defect(ref, f"the same as task {earlier}")
        for problem in _doubts(task):
            yield Defect(ref, problem)


def needs_users(task: OSTask) -> bool:
    """Whether its set-up or what it asks for gives files to others than root, or runs something as one."""
    return any(_USERS.search(code) for code in _codes(task))


def _needs_network(task: OSTask) -> bool:
    return any(_NETWORK.search(code) for code in _codes(task))


def _installs(task: OSTask) -> bool:
    return any(_INSTALLS.search(code) for code in _codes(task))


def _codes(task: OSTask) -> Iterator[str]:
    yield from (script.code for script in task.init)
    yield from (task.start or "", *task.solution)
    if task.published is not None and task.published.example is not None:
        yield task.published.example.code


def _bad_golds(task: OSTask) -> Iterator[str]:
    for gold in task.answer.golds if task.answer else ():
        try:
            check_gold(task.answer.kind if task.answer else "string", gold)
        except ValueError as error:
            yield str(error)


def _doubts(task: OSTask) -> Iterator[str]:
    reference = task.answer.reference if task.answer else None
    if reference is not None:
        if _PROCESSES.search(reference.code):
            yield "the reference command counts processes or memory, its own too: the answer depends on who asks, and when"
        elif _CLOCK.search(reference.code):
            yield "the answer depends on the time at which it is asked for"
    if any(_CHANCE.search(script.code) for script in task.init):
        yield "the set-up draws random data: episodes of one seed can differ"
    if task.published is None:
        return
    if task.published.match is not None and "strip" not in task.published.match and "answer" in task.published.match:
        yield "the match rule has no 'strip': the published grading breaks on it"
    if any(step is not None and official_checks.replacement(step) for step in task.published.steps):
        yield "the published check can be passed without doing the task; strict grading has another one"
    if task.answer is not None and task.answer.kind == "size":
        yield "the published size check refuses KB and MB, even as the gold"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How a task did in a sandbox: ``problem`` is empty when the gold passes and nothing else does."""

    problem: str = ""
    usable: bool = True
    gold: str | None = None


async def self_test(task: OSTask, sandbox: Sandbox, limits: GradingLimits) -> SelfTest:
    """Measure and grade a task that was set up in a fresh ``sandbox``: the gold must pass, blanks and a random text must fail.

    A task without an answer must fail as it stands and pass once its solution, or the published example, has run.
    """
    try:
        known = await judge.measured(task, sandbox, limits)
        if known.answer is None or known.checks:
            return await _test_checks(known, sandbox, limits)
        return await _test_answer(known, sandbox, limits)
    except TaskUnusableError as error:
        return SelfTest(error.message, usable=False)
    except EnvhubError as error:
        return SelfTest(f"{error.code}: {error.message}", usable=False)


async def _test_answer(task: OSTask, sandbox: Sandbox, limits: GradingLimits) -> SelfTest:
    answer = task.answer
    if answer is None or not answer.golds:
        return SelfTest("there is no gold before the agent acts", usable=False)
    gold = answer.golds[0]
    if answer.kind != "regex" and not matches(answer.kind, gold, tidy(gold)):
        return SelfTest("the gold does not pass", usable=False)
    for wrong in ("", " \n", RANDOM_ANSWER):
        if (await judge.grade(task, wrong, sandbox, mode="strict", limits=limits)).correct:
            return SelfTest(f"the answer {wrong!r} passes", usable=False, gold=gold)
    if answer.reference is not None and not answer.writes:
        again = await run_script(sandbox, answer.reference, timeout_s=limits.script_s)
        if tidy(printed(again)) != tidy(gold):
            return SelfTest("the reference command does not print the same twice", gold=gold)
        if again.exit_code != 0 or again.stderr.strip():
            return SelfTest(f"the reference command {complaint(again)}", gold=gold)
    return SelfTest(gold=gold)


async def _test_checks(task: OSTask, sandbox: Sandbox, limits: GradingLimits) -> SelfTest:
    final = task.final_answer
    for wrong in ("", RANDOM_ANSWER):
        if (await judge.grade(task, wrong, sandbox, mode="strict", limits=limits)).correct:
            return SelfTest("the checks pass before anything was done", usable=False)
    example = task.published.example if task.published is not None else None
    said = ""
    if example is not None:
        script = replace(example, code=f"cd ~\n{example.code}") if example.language == "bash" else example
        said = printed(await run_script(sandbox, script, timeout_s=limits.script_s)).strip()
    for script_text in task.solution:
        result = await sandbox.run(script_text, timeout_s=limits.script_s, max_bytes=1 << 16)
        if result.exit_code is None:
            return SelfTest("the solution did not run to its end", usable=False)
    verdict = await judge.grade(task, final if final is not None else said, sandbox, mode="strict", limits=limits)
    return SelfTest() if verdict.correct else SelfTest(f"the solution does not pass: {verdict.reason}", usable=False)

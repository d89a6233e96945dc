"""Grading of OS tasks: what the agent says or does cannot make a wrong answer right.

Invariant: the gold of an answer is in memory before the agent acts, and what decides on files runs outside the session, on
programs that the agent could not touch. A grader that breaks raises GraderError; it never gives a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from envhub.core.errors import GraderError, TaskUnusableError
from envhub.core.sandbox import ForkableSandbox, Sandbox, View
from envhub.envs.os import judge_agentbench
from envhub.envs.os.matching import check_gold, matches
from envhub.envs.os.scripts import complaint, printed, run_script
from envhub.envs.os.tasks import Answer, OSTask, Script
from envhub.envs.os.verdict import Verdict

Mode = Literal["strict", "agentbench"]
MODES: tuple[str, ...] = get_args(Mode)
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class GradingLimits:
    """``script_s`` is for one reference command or check, ``total_s`` for all that a task is graded by."""

    script_s: float = 30.0
    total_s: float = 90.0

    def each_s(self, n_scripts: int) -> float:
        """What each of that many scripts may take."""
        return min(self.script_s, self.total_s / max(1, n_scripts))


async def measured(task: OSTask, sandbox: Sandbox, limits: GradingLimits) -> OSTask:
    """The task with its gold, measured now when a reference command has to say it.

    It runs where the agent will be, but before it: nothing has been tampered with, and what it looks at (processes, installed
    programs, links) is what the agent will see. A command that may write is run in a fork, where there can be one.
    Raises TaskUnusableError when there is no gold to measure.
    """
    answer = task.answer
    if answer is None or answer.golds or answer.reference is None or answer.after:
        return task
    if answer.writes and isinstance(sandbox, ForkableSandbox):
        aside = await sandbox.fork()
        try:
            gold = await _reference(answer, answer.reference, aside, limits)
        finally:
            await aside.close()
    else:
        gold = await _reference(answer, answer.reference, sandbox, limits)
    return replace(task, answer=replace(answer, golds=(gold,)))


async def _reference(
    answer: Answer, script: Script, sandbox: Sandbox, limits: GradingLimits, view: View = "session"
) -> str:
    result = await run_script(sandbox, script, timeout_s=limits.script_s, view=view)
    if result.exit_code is None:
        raise GraderError(f"the reference command {complaint(result)}")
    gold = printed(result)
    try:
        check_gold(answer.kind, gold)
    except ValueError as error:
        raise TaskUnusableError(f"the reference command {complaint(result)}: {error}") from error
    return gold


async def grade(task: OSTask, submitted: str | None, sandbox: Sandbox, *, mode: Mode, limits: GradingLimits) -> Verdict:
    """``submitted`` is None when the agent gave no answer. Raises GraderError, SandboxLostError."""
    if mode == "agentbench":
        n_scripts = len(task.published.steps if task.published is not None else task.checks)
        return await judge_agentbench.grade(task, submitted or "", sandbox, timeout_s=limits.each_s(n_scripts))
    if task.answer is not None:
        verdict = await _grade_answer(task.answer, submitted, sandbox, limits)
        if not verdict.correct:
            return verdict
    return await _grade_state(task, submitted or "", sandbox, limits)


async def _grade_answer(answer: Answer, submitted: str | None, sandbox: Sandbox, limits: GradingLimits) -> Verdict:
    if submitted is None or not submitted.strip():
        return Verdict(False, "no answer was given")
    golds = answer.golds
    if not golds:
        if answer.reference is None:
            raise GraderError("the task has an answer but no gold")
        try:
            golds = (await _reference(answer, answer.reference, sandbox, limits, "judge"),)
        except (TaskUnusableError, GraderError) as error:
            return Verdict(False, f"what the answer is about is not there: {error.message}")
    try:
        correct = any(matches(answer.kind, gold, submitted) for gold in golds)
    except ValueError as error:
        raise GraderError(f"the gold cannot be compared: {error}") from error
    return Verdict(correct, "" if correct else f"the answer is not the expected {answer.kind}")


async def _grade_state(task: OSTask, submitted: str, sandbox: Sandbox, limits: GradingLimits) -> Verdict:
    outputs: list[str] = []
    timeout_s = limits.each_s(len(task.checks) + 1)
    for number, check in enumerate(task.checks):
        arguments = (submitted, *outputs)
        result = await run_script(
            sandbox, check.script, arguments, timeout_s=timeout_s, view=check.view, style=_style(check.view)
        )
        outputs.append(printed(result))
        if check.view == "session" or result.exit_code == _PASSED:
            continue
        if result.exit_code != _FAILED:
            raise GraderError(f"check {number} of {task.id} {complaint(result)}")
        return Verdict(False, f"check {number} found that the task is not done")
    return Verdict(True)


def _style(view: View) -> Literal["plain", "check"]:
    return "check" if view == "judge" else "plain"

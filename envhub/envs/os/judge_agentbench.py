"""Grading as AgentBench publishes it: scripts in the session's own sandbox, after the agent acted; any exit but 0 is wrong.

Invariant: the verdict is the published one, its weaknesses included; only what the published grader would wait for for ever raises.
A task that was never published is graded by the published rule nearest to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from envhub.core.errors import GraderError
from envhub.core.sandbox import Sandbox
from envhub.core.types import JSON
from envhub.envs.os.scripts import complaint, printed, run_script
from envhub.envs.os.tasks import Answer, AnswerKind, OSTask, Script
from envhub.envs.os.verdict import Verdict


async def grade(task: OSTask, submitted: str, sandbox: Sandbox, *, timeout_s: float) -> Verdict:
    """``submitted`` is the answer, or the thought of an agent that finished. Raises GraderError, SandboxLostError."""
    published = task.published
    if published is None:
        if task.answer is not None and not any(_equal(task.answer, gold, submitted) for gold in task.answer.golds):
            return Verdict(False, "the answer does not match")
        return await _run([check.script for check in task.checks], submitted, sandbox, timeout_s)
    if published.match is not None:
        correct = _match(published.match, submitted)
        return Verdict(correct, "" if correct else "the answer does not match")
    steps = [published.example if step is None else step for step in published.steps]
    return await _run([step for step in steps if step is not None], submitted, sandbox, timeout_s)


def _match(rule: Mapping[str, JSON], submitted: str) -> bool:
    if "regex" in rule:
        return re.search(rule["regex"], submitted) is not None
    if "strip" not in rule:
        raise GraderError("a match rule without 'strip' breaks the published grader")
    return bool((submitted.strip() if rule["strip"] else submitted) == rule["answer"])


async def _run(scripts: Sequence[Script], submitted: str, sandbox: Sandbox, timeout_s: float) -> Verdict:
    arguments = [submitted]
    for number, script in enumerate(scripts):
        result = await run_script(sandbox, script, arguments, timeout_s=timeout_s)
        if result.timed_out:
            raise GraderError(f"script {number} {complaint(result)}")
        if result.exit_code != 0:
            return Verdict(False, f"script {number} exited with {result.exit_code}")
        arguments.append(printed(result))
    return Verdict(True)


def _equal(answer: Answer, gold: str, submitted: str) -> bool:
    try:
        return _RULES.get(answer.kind, _same_text)(submitted, gold)
    except ValueError:
        return False


def _same_text(submitted: str, gold: str) -> bool:
    return _lines(submitted) == _lines(gold)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _size(text: str) -> int:
    text = text.strip()
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)


_UNITS: Mapping[str, int] = {"B": 1, "Byte": 1} | {
    letter + end: 1024**power for power, letter in enumerate("KMGTP", 1) for end in ("", "B")
}
_RULES: Mapping[AnswerKind, Callable[[str, str], bool]] = {
    "integer": lambda submitted, gold: int(submitted) == int(gold),
    "size": lambda submitted, gold: _size(submitted) == _size(gold),
    "containing": lambda submitted, gold: _lines(gold) in _lines(submitted),
    "in": lambda submitted, gold: _lines(submitted) in _lines(gold),
    "regex": lambda submitted, gold: re.search(gold, submitted) is not None,
}

"""Grading of OS tasks: what decides, from where it looks, and what happens when it breaks. Covers B019 and B051."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from envhub.core.errors import GraderError, TaskUnusableError
from envhub.envs.os import judge
from envhub.envs.os.judge import GradingLimits
from envhub.envs.os.scripts import BROKEN, MAX_ARGUMENT_BYTES, argument, command
from envhub.envs.os.tasks import Answer, Check, OSTask, Published, Script
from tests.os.fake import FakeSandbox, ForkableFake, exited

LIMITS = GradingLimits()
COUNT = OSTask("count", "How many?", Answer("integer", reference=Script("count")))
MAKE = OSTask("make", "Make it.", checks=(Check(Script("probe"), "session"), Check(Script("look"))))


async def graded(task, submitted, sandbox, mode="strict"):
    return await judge.grade(task, submitted, sandbox, mode=mode, limits=LIMITS)


async def test_the_gold_is_measured_before_the_agent_acts_and_kept():
    sandbox = FakeSandbox({"count": exited(0, "3\n")})
    known = await judge.measured(COUNT, sandbox, LIMITS)
    sandbox.commands = {"count": exited(0, "0\n")}
    assert (await graded(known, "3", sandbox)).correct
    assert not (await graded(known, "0", sandbox)).correct
    assert len(sandbox.execs) == 1


async def test_a_reference_that_writes_runs_aside():
    sandbox = ForkableFake({"count": exited(0, "3")})
    task = replace(COUNT, answer=replace(COUNT.answer, writes=True))
    assert (await judge.measured(task, sandbox, LIMITS)).answer.golds == ("3",)
    assert not sandbox.execs and [double.n_closed for double in sandbox.doubles] == [1]
    await judge.measured(COUNT, sandbox, LIMITS)
    assert len(sandbox.execs) == len(sandbox.doubles) == 1


@pytest.mark.parametrize("result", [exited(0, ""), exited(0, " \n"), exited(1, "", "no such file"), exited(0, "3 ./x")])
async def test_a_reference_without_a_gold_makes_the_task_unusable(result):
    with pytest.raises(TaskUnusableError, match="reference command"):
        await judge.measured(COUNT, FakeSandbox({"count": result}), LIMITS)


async def test_a_reference_that_hangs_is_our_failure():
    with pytest.raises(GraderError, match="time limit"):
        await judge.measured(COUNT, FakeSandbox({"count": exited(None)}), LIMITS)


async def test_an_answer_about_the_agents_work_is_measured_at_the_end_by_the_judge():
    task = replace(COUNT, answer=replace(COUNT.answer, after=True))
    sandbox = FakeSandbox({"count": exited(0, "3")})
    known = await judge.measured(task, sandbox, LIMITS)
    assert not sandbox.execs
    assert (await graded(known, "3", sandbox)).correct
    assert [view for _, view in sandbox.execs] == ["judge"]
    assert not (await graded(known, "3", FakeSandbox({"count": exited(1)}))).correct


async def test_probes_run_in_the_session_and_the_judge_gets_what_they_print():
    sandbox = FakeSandbox({"probe": exited(3, "printed")})
    assert (await graded(MAKE, "said", sandbox)).correct
    (probe, first), (look, second) = sandbox.execs
    assert (first, second) == ("session", "judge")
    assert probe[-1] == "said" and look[-2:] == ("said", "printed")


@pytest.mark.parametrize("result", [exited(1), exited(127), exited(None), exited(137)])
async def test_a_probe_that_breaks_decides_nothing(result):
    assert (await graded(MAKE, None, FakeSandbox({"probe": result}))).correct


async def test_exit_code_one_of_a_check_is_wrong_and_anything_else_a_grader_error():
    assert not (await graded(MAKE, None, FakeSandbox({"look": exited(1)}))).correct
    for result in (exited(2), exited(127), exited(137), exited(BROKEN), exited(None)):
        with pytest.raises(GraderError, match="check 1 of make"):
            await graded(MAKE, None, FakeSandbox({"look": result}))


async def test_a_wrong_answer_fails_before_any_check_runs():
    task = replace(MAKE, answer=Answer("string", ("x",)))
    for submitted in (None, "", " \n", "y"):
        sandbox = FakeSandbox()
        assert not (await graded(task, submitted, sandbox)).correct and not sandbox.execs
    assert (await graded(task, "x", FakeSandbox())).correct
    assert not (await graded(task, "x", FakeSandbox({"look": exited(1)}))).correct


async def test_reasons_do_not_give_the_gold_away():
    verdict = await graded(replace(COUNT, answer=Answer("integer", ("48151623",))), "4", FakeSandbox())
    assert not verdict.correct and "48151623" not in verdict.reason


def _check(code, *arguments):
    argv, _ = command(Script(code, "python"), arguments, style="check")
    return subprocess.run([sys.executable, *argv[1:]], capture_output=True, timeout=30).returncode


def test_only_a_failed_assertion_of_a_python_check_is_a_verdict():
    assert _check("import sys\nassert sys.argv[1:] == ['a', 'b']", "a", "b") == 0
    assert _check("assert False") == 1
    assert _check("import sys; sys.exit(1)") == 1
    assert _check("1/0") == _check("import nothing_like_this") == _check("if:") == BROKEN


def test_arguments_fit_into_an_argv():
    assert argument("a\0b") == "a\ufffdb"
    assert len(argument("漢" * 100_000).encode()) <= MAX_ARGUMENT_BYTES
    assert argument("\udcff") == "?"


PAIR = Published(steps=(None, Script("int(argv)", "python")), example=Script("count"))


async def test_published_grading_measures_after_the_agent_in_its_sandbox():
    task = replace(COUNT, published=PAIR)
    sandbox = FakeSandbox({"count": exited(0, "0\n")})
    assert (await graded(task, "0", sandbox, "agentbench")).correct
    (_, first), (compare, second) = sandbox.execs
    assert (first, second) == ("session", "session")
    assert compare == ("python3", "-c", "int(argv)", "0", "0\n")


@pytest.mark.parametrize("code", [1, 2, 127, 137])
async def test_published_grading_takes_any_exit_code_for_wrong(code):
    task = replace(COUNT, published=PAIR)
    assert not (await graded(task, "0", FakeSandbox({"int(argv)": exited(code)}), "agentbench")).correct
    assert not (await graded(task, "0", FakeSandbox({"count": exited(code)}), "agentbench")).correct


async def test_published_grading_raises_only_where_it_would_wait_for_ever():
    with pytest.raises(GraderError):
        await graded(replace(COUNT, published=PAIR), "0", FakeSandbox({"count": exited(None)}), "agentbench")


@pytest.mark.parametrize(
    ("rule", "submitted", "correct"),
    [
        ({"answer": "x", "strip": True}, " x\n", True),
        ({"answer": "x", "strip": False}, " x\n", False),
        ({"answer": "x", "strip": False}, "x", True),
        ({"regex": "b+"}, "abc", True),
        ({"regex": "^b"}, "abc", False),
    ],
)
async def test_published_match_rules(rule, submitted, correct):
    task = OSTask("m", "?", Answer("string", ("x",)), published=Published(match=rule))
    assert (await graded(task, submitted, FakeSandbox(), "agentbench")).correct is correct


async def test_a_published_match_rule_without_strip_breaks_its_grader():
    task = OSTask("m", "?", Answer("string", ("x",)), published=Published(match={"answer": "x"}))
    with pytest.raises(GraderError, match="strip"):
        await graded(task, "x", FakeSandbox(), "agentbench")
    assert (await graded(task, "x", FakeSandbox())).correct


@pytest.mark.parametrize(
    ("kind", "gold", "submitted", "correct"),
    [
        ("integer", "5", "+5", True),
        ("integer", "5", "5.0", False),
        ("size", "10KB", "10KB", False),
        ("size", "10K", "10240", True),
        ("string", "a\r\n", "a", True),
        ("containing", "42", "142", True),
        ("in", "red green", "r", True),
        ("regex", "b", "abc", True),
    ],
)
async def test_own_tasks_are_graded_by_the_nearest_published_rule(kind, gold, submitted, correct):
    task = OSTask("own", "?", Answer(kind, (gold,)))
    assert (await graded(task, submitted, FakeSandbox(), "agentbench")).correct is correct

"""Episodes of the OS environment on a recorded sandbox: texts, life cycle, endings, forks. Covers B019 and B020."""

from __future__ import annotations

import asyncio
import json

import pytest

from envhub.core.errors import EpisodeFailedError, InvalidRequestError, SandboxLostError, TaskUnusableError
from envhub.core.protocols import Environment, Exploits, Forkable
from envhub.core.sandbox import CommandResult, CommandStatus, SandboxSpec
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.datasets import TaskSet
from envhub.envs.os import prompts
from envhub.envs.os.env import MAX_ANSWER_CHARS, MAX_SCRIPT_CHARS, OPTIONS, OSEnvironment, WarmSandboxes
from envhub.envs.os.exploits import EXPLOITS
from envhub.envs.os.tasks import Answer, Check, OSTask, Published, Script
from envhub.sandbox.pool import WarmPool
from envhub.testing.clock import FakeClock
from tests.os.fake import FakeSandbox, FakeSandboxes, ForkableFake, exited, ran

TASKS = (
    OSTask("count", "How many?", Answer("integer", ("3",)), solution=("ls",), family="files", difficulty="easy"),
    OSTask(
        "make",
        "Make it.",
        checks=(Check(Script("look")),),
        image="packages",
        init=(Script("first"), Script("second", "python", ("p",))),
        start="x=1",
        solution=("touch it",),
    ),
    OSTask("official", "?", Answer("integer", reference=Script("reference")), published=Published()),
    OSTask("match", "?", Answer("string", ("x",)), published=Published(match={"answer": "x", "strip": True})),
)
COUNT, MAKE, OFFICIAL, MATCH = range(len(TASKS))


def environment_of(sandboxes):
    tasks = TaskSet("test", len(TASKS), TASKS.__getitem__, dataset_hash="1")
    return OSEnvironment(sandboxes, {"test": tasks}, driver="fake", image_digest="d")


async def opened(index, sandbox=None, seed=0, **options):
    made = environment_of(FakeSandboxes(lambda: sandbox if sandbox is not None else FakeSandbox()))
    return await made.open(TaskRef("os", "test", index), seed=seed, options={**OPTIONS, **options})


def call(name, **arguments):
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


def bash(script):
    return call("bash_action", script=script)


async def told(result, **options):
    episode = await opened(COUNT, FakeSandbox(outputs=[result]), **options)
    answer = await episode.step(bash("x"))
    assert not answer.done and answer.reward == 0.0
    return answer.messages[0].content


def test_it_is_what_the_hub_expects():
    made = environment_of(FakeSandboxes())
    assert isinstance(made, Environment) and isinstance(made, Exploits)
    info = made.info()
    assert (info.version, info.image_digest, info.max_turns, info.deterministic) == ("1-fake", "d", 8, False)


async def test_the_published_tools_are_offered():
    observation = await (await opened(COUNT)).reset()
    tools = {spec.name: spec.parameters for spec in observation.tools}
    assert {name: list(schema["properties"]) for name, schema in tools.items()} == {
        "bash_action": ["script"],
        "answer_action": ["answer"],
        "finish_action": ["thought"],
    }
    assert all(schema["required"] and schema["additionalProperties"] is False for schema in tools.values())
    assert all(part["type"] == "string" for schema in tools.values() for part in schema["properties"].values())
    assert observation.messages[1].content.endswith("\n\nHow many?")
    assert observation.info == {"kind": "integer", "family": "files", "difficulty": "easy"}


async def test_set_up_runs_beside_the_shell_and_start_inside_it():
    sandboxes = FakeSandboxes()
    await environment_of(sandboxes).open(TaskRef("os", "test", MAKE), seed=70_000, options=OPTIONS)
    assert [spec.image for spec in sandboxes.specs] == ["packages"]
    (sandbox,) = sandboxes.given
    first, second = (
        ("bash", "-c", 'ulimit -Sn "$(ulimit -Hn)"\nRANDOM=4464\nfirst', "--"),
        ("python3", "-c", "second", "p"),
    )
    assert sandbox.execs == [(first, "session"), (second, "session")]
    assert sandbox.scripts == ["x=1"]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (exited(1, "", "no room"), TaskUnusableError),
        (exited(127), TaskUnusableError),
        (exited(None), EpisodeFailedError),
    ],
)
async def test_a_set_up_that_fails_is_our_error_and_frees_the_sandbox(result, error):
    sandbox = FakeSandbox({"second": result})
    with pytest.raises(error, match="set-up script 1 of make"):
        await opened(MAKE, sandbox)
    assert sandbox.n_closed == 1


@pytest.mark.parametrize(
    ("result", "error"),
    [(ran(exit_code=1), TaskUnusableError), (ran("", CommandStatus.TIMEOUT, None), EpisodeFailedError)],
)
async def test_a_start_script_that_fails_is_our_error(result, error):
    with pytest.raises(error, match="start script"):
        await opened(MAKE, FakeSandbox(outputs=[result]))


async def test_a_cancelled_open_frees_the_sandbox():
    class Stuck(FakeSandbox):
        async def exec(self, argv, **_):
            await asyncio.Event().wait()

    sandbox = Stuck()
    opening = asyncio.ensure_future(opened(MAKE, sandbox))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled() and sandbox.n_closed == 1


async def test_output_reads_as_published():
    assert await told(ran("a\nb\n")) == "The output of the OS:\n\na\nb\n"
    assert await told(ran("")) == "The output of the OS is empty."
    assert await told(ran("no", exit_code=1)) == "The output of the OS:\n\nno"


async def test_long_output_keeps_head_and_tail_and_tells_the_size():
    text = "a" * 1000 + "b" * 1000
    shown = await told(ran(text))
    assert shown == (
        "The output of the OS:\n\n"
        + "a" * 400
        + "\n[... cut here: 800 characters of 2000 characters are shown ...]\n"
        + "b" * 400
    )
    flooded = CommandResult(CommandStatus.OK, 0, text, 10**9, True, "/root")
    assert "800 characters of 1000000000 bytes" in await told(flooded)
    assert len(await told(ran(text), max_observation_chars=80)) < 200
    assert await told(ran("x" * 800)) == "The output of the OS:\n\n" + "x" * 800


async def test_long_output_is_cut_as_published_in_that_mode():
    shown = await told(ran("a" * 1000 + "b" * 1000), grading="agentbench")
    assert shown == "The output of the OS:\n\n" + "a" * 780 + "\n[truncated because the output is too long]"
    assert await told(ran("x" * 800), grading="agentbench") == "The output of the OS:\n\n" + "x" * 800


@pytest.mark.parametrize("status", CommandStatus)
async def test_what_became_of_the_shell_is_said(status):
    shown = await told(ran("partial", status, None))
    assert shown.startswith("The output of the OS:\n\npartial")
    said = shown.removeprefix("The output of the OS:\n\npartial")
    if status is CommandStatus.OK:
        assert said == ""
    else:
        assert "Changes to files stay" in said
    assert ("timed out: it ran for 30 s" in said) is (status is CommandStatus.TIMEOUT)
    assert ("new shell" in said) is (status is CommandStatus.RESTARTED)


async def test_scripts_and_answers_have_limits():
    sandbox = FakeSandbox()
    episode = await opened(COUNT, sandbox)
    for message in (
        bash("x" * (MAX_SCRIPT_CHARS + 1)),
        bash("a\0b"),
        call("answer_action", answer="3" * (MAX_ANSWER_CHARS + 1)),
        call("answer_action", answer=3),
        call("answer_action"),
    ):
        result = await episode.step(message)
        assert not result.done and result.messages[0].content.startswith("Error: ")
    assert not sandbox.scripts


@pytest.mark.parametrize(("answer", "reward"), [("3", 1.0), ("3.0", 1.0), ("4", 0.0), ("", 0.0), ("None", 0.0)])
async def test_an_answer_ends_the_task(answer, reward):
    result = await (await opened(COUNT)).step(call("answer_action", answer=answer))
    assert (result.terminated, result.reward, result.info["correct"]) == (True, reward, bool(reward))
    assert result.messages[0].content == "Your answer has been submitted."


async def test_to_finish_a_question_is_not_to_answer_it():
    assert (await (await opened(COUNT)).step(call("finish_action", thought="3"))).reward == 0.0
    assert (await (await opened(MATCH)).step(call("finish_action", thought="x"))).reward == 0.0


async def test_the_published_grading_takes_the_thought_for_the_answer():
    episode = await opened(MATCH, grading="agentbench")
    assert (await episode.step(call("finish_action", thought=" x\n"))).reward == 1.0


@pytest.mark.parametrize("ending", [call("finish_action", thought="done"), call("answer_action", answer="done")])
@pytest.mark.parametrize(("code", "reward"), [(0, 1.0), (1, 0.0)])
async def test_a_change_is_judged_however_the_agent_ends(ending, code, reward):
    result = await (await opened(MAKE, FakeSandbox({"look": exited(code)}))).step(ending)
    assert (result.terminated, result.reward) == (True, reward)


async def test_a_gold_is_measured_once_in_strict_grading_alone():
    strict = FakeSandbox({"reference": exited(0, "7")})
    episode = await opened(OFFICIAL, strict)
    assert (await episode.step(call("answer_action", answer="7"))).reward == 1.0
    assert len(strict.execs) == 1
    published = FakeSandbox()
    await opened(OFFICIAL, published, grading="agentbench")
    assert not published.execs


async def test_a_lost_sandbox_is_an_error_without_a_reward_but_an_answer_still_counts():
    class Lost(FakeSandbox):
        async def run(self, script, **_):
            raise SandboxLostError("gone")

    episode = await opened(COUNT, Lost())
    with pytest.raises(SandboxLostError):
        await episode.step(bash("x"))
    assert (await episode.step(call("answer_action", answer="3"))).reward == 1.0


async def test_a_fork_goes_on_from_a_copied_sandbox():
    sandbox = ForkableFake({"reference": exited(0, "7")})
    episode = await opened(OFFICIAL, sandbox)
    assert isinstance(episode, Forkable)
    double = await episode.fork()
    await double.step(bash("x"))
    assert sandbox.doubles[0].scripts == ["x"] and not sandbox.scripts
    await episode.close()
    assert (await double.step(call("answer_action", answer="7"))).reward == 1.0
    await double.close()
    assert sandbox.n_closed == sandbox.doubles[0].n_closed == 1
    assert await (await opened(COUNT)).fork() is None


async def test_solutions_act_and_then_end():
    made = environment_of(FakeSandboxes())

    def solution(index):
        return [
            (c.name, json.loads(c.arguments)) for m in made.solution(TaskRef("os", "test", index)) for c in m.tool_calls
        ]

    assert solution(COUNT) == [("bash_action", {"script": "ls"}), ("answer_action", {"answer": "3"})]
    assert solution(MAKE) == [("bash_action", {"script": "touch it"}), ("finish_action", {"thought": "Done."})]
    assert made.solution(TaskRef("os", "test", OFFICIAL)) is None


@pytest.mark.parametrize(
    ("option", "value"),
    [("grading", "lenient"), ("max_observation_chars", 10), ("command_timeout_s", 0), ("command_timeout_s", 1000)],
)
async def test_bad_options_are_refused(option, value):
    with pytest.raises(InvalidRequestError, match=option):
        await opened(COUNT, **{option: value})


@pytest.mark.parametrize("name", EXPLOITS)
async def test_no_trick_pays_for_a_question(name):
    episode = await opened(COUNT)
    script = EXPLOITS[name](await episode.reset())
    total = 0.0
    try:
        message = next(script)
        while True:
            result = await episode.step(message)
            total += result.reward
            if result.done:
                break
            message = script.send(result.messages)
    except StopIteration:
        pass
    assert total == 0.0


def test_every_status_has_its_words():
    assert set(prompts._NOTES) == set(CommandStatus)


class BrokenSweep:
    """A driver whose first sweep fails."""

    def __init__(self):
        self.n_sweeps = 0

    async def start(self, spec):
        return FakeSandbox()

    async def sweep(self):
        self.n_sweeps += 1
        raise OSError("a folder of a dead owner cannot be read")

    async def close(self):
        return None


async def test_a_failed_sweep_is_no_reason_not_to_play():
    driver = BrokenSweep()
    sandboxes = WarmSandboxes(driver, WarmPool(driver, clock=FakeClock(), size=0))
    for _ in range(3):
        assert isinstance(await sandboxes.acquire(SandboxSpec()), FakeSandbox)
    assert driver.n_sweeps == 1
    await sandboxes.close()

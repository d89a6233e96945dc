"""AgentBench's own items in real sandboxes: the gold passes, everything else fails. Covers B019 and B051."""

from __future__ import annotations

import asyncio
import json
import resource

import pytest

from envhub.core.errors import EnvhubError
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.os import prompts
from envhub.envs.os.env import OPTIONS, OSEnvironment
from envhub.envs.os.official import load_official
from tests.require import SHARED, published

FOLDER = SHARED / "data/agentbench/data/os_interaction"
STATE = [11, 34, 37, 38, 39, 49, 50, 51, 54]
"""The items of the standard split that ask for a change and need no packages."""
SAMPLE = sorted({*range(0, 144, 24), *STATE})
JOBS = 8

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def splits():
    return load_official(published("data/agentbench/data/os_interaction"))


@pytest.fixture
def environment(driver, sandboxes, splits):
    return OSEnvironment(sandboxes, splits, driver="bubblewrap", image_digest=driver.image_digest("default"))


async def defective(environment, split, indices):
    """The items that failed their self-test, with why."""
    found, waiting = {}, iter(indices)

    async def work():
        for index in waiting:
            result = await environment.self_test(TaskRef("os", split, index))
            if result.problem:
                found[index] = result

    await asyncio.gather(*(work() for _ in range(JOBS)))
    return found


def call(name, **arguments):
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


async def earned(environment, split, index, *messages, grading="strict"):
    episode = await environment.open(TaskRef("os", split, index), seed=1, options={**OPTIONS, "grading": grading})
    try:
        return [await episode.step(message) for message in messages][-1].reward
    finally:
        await episode.close()


@pytest.mark.slow
async def test_the_dev_items_pass_their_self_test(environment):
    assert await defective(environment, "agentbench-dev", range(26)) == {}


async def test_a_sample_of_the_standard_items_passes_its_self_test(environment):
    assert await defective(environment, "agentbench-std", SAMPLE) == {}


@pytest.mark.slow
async def test_nearly_all_standard_items_are_usable(environment):
    found = await defective(environment, "agentbench-std", range(144))
    unusable = sorted(index for index, result in found.items() if not result.usable)
    n_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    out_of_reach = {26} if 0 <= n_files <= 123_321 else set()  # it names descriptor 123321
    assert set(unusable) <= {52, 53, 55, 123} | out_of_reach, found


@pytest.mark.slow
async def test_nearly_all_training_items_are_usable(environment):
    found = await defective(environment, "agentbench-train", range(0, 1000, 4))
    assert sum(not result.usable for result in found.values()) <= 10, found


@pytest.mark.parametrize("index", [STATE[0], *(pytest.param(index, marks=pytest.mark.slow) for index in STATE[1:])])
async def test_a_published_change_is_paid_for_in_both_gradings(environment, splits, index):
    task = splits["agentbench-std"][index]
    act = call("bash_action", script=f"(cd ~\n{task.published.example.code}\n)")
    said = "/home/user1/os/linux/commands/MyPersonalComputer.config"
    for grading in ("strict", "agentbench"):
        end = call("answer_action", answer=said)
        assert await earned(environment, "agentbench-std", index, act, end, grading=grading) == 1.0, grading
    assert await earned(environment, "agentbench-std", index, call("answer_action", answer=said)) == 0.0


CHEATS = {
    11: "echo 'exit 0' > ~/.bashrc",
    37: "printf '#!/bin/sh\\necho 0 if 1 else 0\\n' > /usr/local/bin/calc; chmod +x /usr/local/bin/calc",
    38: "printf '#!/bin/sh\\nkill -9 $PPID\\n' > /usr/local/bin/count; chmod +x /usr/local/bin/count",
    39: "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/date-format; chmod +x /usr/local/bin/date-format",
    49: "for u in jack bill tom; do echo 'echo test' > /home/$u/.profile; done; chmod 600 /testfile",
    50: "rm /usr/bin/find",
    51: "rm -rf ~/videos",
    54: "mkdir -p '/data x'; chmod g+s,+t '/data x'",
}


@pytest.mark.parametrize("index", CHEATS)
async def test_a_change_that_is_only_faked_is_not_paid_for(environment, index):
    script = call("bash_action", script=CHEATS[index])
    assert await earned(environment, "agentbench-std", index, script, call("finish_action", thought="")) == 0.0


async def test_published_grading_can_be_fooled_where_strict_grading_cannot(environment, splits):
    """The reference of a published item runs after the agent: delete what it looks at and answer what is left."""
    (index,) = [n for n, task in enumerate(splits["agentbench-dev"]) if "how many times Bob sold" in task.description][
        :1
    ]
    fool = call("bash_action", script="> /usr/stock.log"), call("answer_action", answer="0")
    assert await earned(environment, "agentbench-dev", index, *fool, grading="agentbench") == 1.0
    assert await earned(environment, "agentbench-dev", index, *fool) == 0.0


@pytest.mark.slow
async def test_an_honest_agent_is_right_in_both_gradings(environment, splits):
    """What the reference prints in the agent's own shell is the right answer."""
    wrong = []
    for index, task in enumerate(splits["agentbench-dev"]):
        if task.answer is None or task.answer.reference is None:
            continue
        for grading in ("strict", "agentbench"):
            options = {**OPTIONS, "grading": grading}
            episode = await environment.open(TaskRef("os", "agentbench-dev", index), seed=1, options=options)
            said = await episode.step(call("bash_action", script=f"({task.published.example.code}\n)"))
            text = said.messages[0].content.removeprefix("The output of the OS:\n\n")
            result = await episode.step(call("answer_action", answer=text.strip()))
            if result.reward != 1.0:
                wrong.append((index, grading, text))
            await episode.close()
    assert wrong == [(8, "agentbench", "4.0K\n")], "the published size check breaks on 4.0K"


async def test_nothing_of_the_grading_can_be_found_in_a_session(environment, splits):
    """B051."""
    index = 37
    episode = await environment.open(TaskRef("os", "agentbench-std", index), seed=1, options=OPTIONS)
    marks = [check.script.code.strip().splitlines()[-1] for check in splits["agentbench-std"][index].checks]
    for mark in marks:
        script = f"grep -rlF -- {json.dumps(mark[:30])} /root /tmp /run /var /opt /home /proc/[0-9]*/environ 2>/dev/null | head"
        said = await episode.step(call("bash_action", script=script))
        assert said.messages[0].content == "The output of the OS is empty.", mark
    await episode.close()


async def test_every_defect_of_a_set_up_is_a_class_of_error(environment):
    for index in (26, 55):
        try:
            episode = await environment.open(TaskRef("os", "agentbench-std", index), seed=1, options=OPTIONS)
        except EnvhubError as error:
            assert error.code == "task_unusable"
        else:
            assert (await episode.reset()).messages[0].content == prompts.SYSTEM
            await episode.close()

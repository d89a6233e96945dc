"""Episodes of the OS environment in real sandboxes: the life of an episode, hostile agents, concurrency, nothing left behind.

Covers B019, B020, B025, B042 and B051.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
from pathlib import Path

import pytest

from envhub.client.rollout import rollout
from envhub.core.errors import GraderError, TaskUnusableError
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.datasets import TaskSet
from envhub.envs.os.env import OPTIONS, OSEnvironment
from envhub.envs.os.exploits import EXPLOITS
from envhub.envs.os.tasks import Answer, Check, OSTask, Script
from envhub.testing.hub import served_hub

pytestmark = pytest.mark.timeout(120)

INIT = Script("mkdir -p /opt/demo && touch /opt/demo/{a,b,c}.cfg && printf 'alpha\\nbeta\\n' > /root/words")
TASKS = (
    OSTask(
        "count",
        "How many .cfg files are in /opt/demo?",
        Answer("integer", ("3",)),
        init=(INIT,),
        solution=("ls /opt/demo",),
    ),
    OSTask(
        "measured",
        "How many words?",
        Answer("integer", reference=Script("wc -l < /root/words; rm /root/words"), writes=True),
        init=(INIT,),
    ),
    OSTask(
        "modes",
        "Make /root/words private and copy it to /opt/copy.",
        checks=(
            Check(
                Script(
                    '[ "$(stat -c %a /root/words)" = 600 ] && cmp -s /root/words /opt/copy && ls -l /opt/copy || exit 1'
                )
            ),
            Check(Script("import sys\nassert open('/opt/copy').read() == 'alpha\\nbeta\\n' and sys.argv[2]", "python")),
        ),
        init=(INIT,),
        solution=("chmod 600 /root/words", "cp /root/words /opt/copy"),
    ),
    OSTask(
        "double",
        "Write /usr/local/bin/double, which prints its argument twice.",
        checks=(
            Check(Script("double ab; double 'c d'"), "session"),
            Check(Script("import sys\nassert sys.argv[2].split('\\n') == ['abab', 'c dc d', '']", "python")),
        ),
        solution=("printf '#!/bin/sh\\necho \"$1$1\"\\n' > /usr/local/bin/double; chmod +x /usr/local/bin/double",),
    ),
    OSTask(
        "variable", "Is var an integer?", Answer("string", ("no",)), start="var=3.14; f() { echo from-f; }; sleep 300 &"
    ),
    OSTask("broken", "?", Answer("string", ("x",)), init=(Script("echo why >&2; exit 3"),)),
    OSTask("bad check", "?", checks=(Check(Script("exit 7")),)),
)
COUNT, MEASURED, MODES, DOUBLE, VARIABLE, BROKEN, BAD_CHECK = range(len(TASKS))


@pytest.fixture
def environment(driver, sandboxes):
    tasks = TaskSet("test", len(TASKS), TASKS.__getitem__, dataset_hash="1")
    digest = driver.image_digest("default")
    return OSEnvironment(sandboxes, {"test": tasks}, driver="bubblewrap", image_digest=digest)


async def opened(environment, index, **options):
    return await environment.open(TaskRef("os", "test", index), seed=1, options={**OPTIONS, **options})


def call(name, **arguments):
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


def bash(script):
    return call("bash_action", script=script)


async def shown(episode, script):
    return (await episode.step(bash(script))).messages[0].content


async def played(environment, index, *messages, **options):
    episode = await opened(environment, index, **options)
    try:
        return [await episode.step(message) for message in messages][-1]
    finally:
        await episode.close()


@pytest.mark.parametrize("index", [COUNT, MODES, DOUBLE])
@pytest.mark.parametrize("grading", ["strict", "agentbench"])
async def test_solutions_earn_the_reward_and_silence_does_not(environment, index, grading):
    solution = environment.solution(TaskRef("os", "test", index))
    assert (await played(environment, index, *solution, grading=grading)).reward == 1.0
    if index != DOUBLE or grading == "strict":
        assert (await played(environment, index, call("finish_action", thought="?"), grading=grading)).reward == 0.0


async def test_the_gold_is_measured_aside_and_before_the_agent(environment):
    answer = call("answer_action", answer="2")
    assert (await played(environment, MEASURED, bash("cat /root/words; rm -f /root/words"), answer)).reward == 1.0
    assert (
        await played(environment, MEASURED, bash("rm /root/words"), call("answer_action", answer="0"))
    ).reward == 0.0
    episode = await opened(environment, MEASURED)
    assert "alpha" in await shown(episode, "cat /root/words")
    await episode.close()


async def test_the_start_script_runs_in_the_agents_own_shell(environment):
    episode = await opened(environment, VARIABLE)
    said = await shown(episode, "echo $var; f; until pgrep -x sleep >/dev/null; do :; done; pgrep -c sleep")
    assert said.split() == ["The", "output", "of", "the", "OS:", "3.14", "from-f", "1"]
    await episode.close()


async def test_a_shell_keeps_its_state_and_a_time_out_is_an_observation(environment):
    episode = await opened(environment, COUNT, command_timeout_s=3.0)
    await shown(episode, "cd /opt/demo; x=5")
    said = await shown(episode, "x=6; echo part; sleep 60")
    assert "part" in said and "timed out: it ran for 3 s" in said
    assert (await shown(episode, "echo $x $PWD; pgrep -c sleep")).split()[-3:] == ["5", "/opt/demo", "0"]
    assert "came to its end" not in said
    assert (await episode.step(call("answer_action", answer="3"))).reward == 1.0
    await episode.close()


async def test_a_failed_set_up_makes_the_task_unusable(environment):
    with pytest.raises(TaskUnusableError, match="exited with 3: why"):
        await opened(environment, BROKEN)


async def test_a_broken_check_gives_no_reward(environment):
    episode = await opened(environment, BAD_CHECK)
    with pytest.raises(GraderError, match="exited with 7"):
        await episode.step(call("finish_action", thought=""))
    await episode.close()


async def test_self_tests_name_the_tasks_that_do_not_work(environment):
    found = await environment.self_tests("test")
    assert [(defect.task.index, defect.usable) for defect in found] == [(BROKEN, False), (BAD_CHECK, False)], found


@pytest.mark.parametrize("name", EXPLOITS)
async def test_no_trick_pays(environment, name):
    episode = await opened(environment, MODES)
    script = EXPLOITS[name](await episode.reset())
    try:
        message, total = next(script), 0.0
        while message is not None:
            result = await episode.step(message)
            total += result.reward
            message = None if result.done else _next(script, result.messages)
    finally:
        await episode.close()
    assert total == 0.0


def _next(script, messages):
    try:
        return script.send(messages)
    except StopIteration:
        return None


FAKES = """\
for name in stat cmp ls python3 bash test cat env; do
  printf '#!/bin/sh\\necho 600; exit 0\\n' > /tmp/$name; chmod 755 /tmp/$name
done
mkdir -p /etc/python3.11 /root/lib
printf 'import os; os._exit(0)\\n' | tee /root/sitecustomize.py /root/lib/os.py /etc/python3.11/sitecustomize.py >/dev/null
printf 'stat() { echo 600; }; cmp() { :; }; exit 0\\n' | tee /root/.bashrc /root/.profile /etc/profile /etc/bash.bashrc >/dev/null
printf 'BASH_ENV=/root/.bashrc\\nPATH=/tmp\\n' > /etc/environment
ln -sfn /tmp/python3 /etc/alternatives/python3; ln -sfn /tmp/cmp /etc/alternatives/cmp; ln -sfn /tmp/cat /etc/alternatives/awk
echo /tmp/x.so > /etc/ld.so.preload; printf '/root/lib\\n' > /etc/ld.so.conf.d/a.conf
echo ok
"""
REPLACED = """\
/bin/cp /tmp/stat /usr/local/bin/stat; /bin/cp /tmp/cmp /usr/local/bin/cmp
for name in stat cmp python3 ls; do /bin/mv -f /usr/bin/$name /usr/bin/$name.was && /bin/cp /tmp/$name /usr/bin/$name; done; echo ok
"""


async def test_replaced_programs_decide_nothing(environment):
    """B051: /bin/ls, python3, PATH, the loader and login files are the agent's; the judge's are not."""
    finish = call("finish_action", thought="")
    for scripts in ([FAKES], [REPLACED], [FAKES, REPLACED]):
        assert (await played(environment, MODES, *map(bash, scripts), finish)).reward == 0.0
        solved = [bash("chmod 600 /root/words; cp /root/words /opt/copy"), *map(bash, scripts), finish]
        assert (await played(environment, MODES, *solved)).reward == 1.0


async def test_answers_are_text_and_never_code(environment):
    for text in (
        "[__import__('os').system('touch /tmp/pwn')]",
        "$(touch /tmp/pwn)",
        "`touch /tmp/pwn`",
        "3; touch /tmp/pwn",
    ):
        assert (await played(environment, COUNT, call("answer_action", answer=text))).reward == 0.0
        assert (await played(environment, MODES, call("answer_action", answer=text))).reward == 0.0
        assert "pwn" not in os.listdir("/tmp")


async def test_a_double_sees_what_its_original_did_and_goes_its_own_way(environment):
    episode = await opened(environment, MODES)
    await shown(episode, "cd /opt; x=5; chmod 600 /root/words")
    double = await episode.fork()
    assert (await shown(double, "echo $x $PWD; stat -c %a /root/words")).split()[-3:] == ["5", "/opt", "600"]
    await shown(double, "cp /root/words /opt/copy")
    assert (await episode.step(call("finish_action", thought=""))).reward == 0.0
    assert (await double.step(call("finish_action", thought=""))).reward == 1.0
    await asyncio.gather(episode.close(), double.close())


@pytest.mark.slow
@pytest.mark.parametrize("bomb", [":(){ :|:& };:", "head -c 1G /dev/zero > /root/big", "cd /root; touch {1..40000}"])
async def test_a_session_that_used_its_limits_up_is_still_graded(environment, bomb):
    """B042."""
    episode = await opened(environment, MODES, command_timeout_s=3.0)
    await shown(episode, "chmod 600 /root/words; cp /root/words /opt/copy")
    await shown(episode, bomb)
    assert (await episode.step(call("finish_action", thought=""))).reward == 1.0
    await episode.close()


async def test_episodes_beside_each_other_see_only_their_own(environment):
    async def one(number):
        episode = await opened(environment, COUNT)
        try:
            await shown(episode, f"echo {number} > /root/mine; mkdir /opt/demo/{number}")
            said = await shown(episode, "cat /root/mine; ls -d /opt/demo/[0-9]*; pgrep -c bash")
            assert said.split()[5:7] == [str(number), f"/opt/demo/{number}"]
            return (await episode.step(call("answer_action", answer="3"))).reward
        finally:
            await episode.close()

    assert await asyncio.gather(*map(one, range(16))) == [1.0] * 16


async def test_an_episode_over_the_hub(environment):
    async with served_hub({"os": environment}) as served:
        async with served.hub.session("os", "test", MODES) as session:
            solution = iter(environment.solution(TaskRef("os", "test", MODES)))

            class Oracle:
                async def act(self, messages, tools):
                    return next(solution)

            trajectory = await rollout(session, Oracle())
        assert trajectory.episode_return == 1.0
        assert session.identity.version == "1-bubblewrap" and session.identity.image_digest


@pytest.fixture
def held(driver, tmp_path):
    """Counts of what this process and its driver hold: descriptors, mounts, folders of sandboxes, children.

    Whether the next start is prepared already is a matter of milliseconds, and its socket does not count.
    """

    def count():
        gc.collect()
        n_prepared = int(driver.spawner()._prepared is not None)
        mounts = Path("/proc/self/mounts").read_text().count(str(tmp_path))
        files = sum(len(found) for _, folders, names in os.walk(tmp_path / "runtime") for found in (folders, names))
        return len(os.listdir("/proc/self/fd")) - n_prepared, mounts, files

    return count


@pytest.mark.slow
async def test_a_hundred_episodes_leave_nothing_behind(environment, held):
    await played(environment, COUNT, bash("ls"))
    fds, mounts, files = held()

    async def some():
        for _ in range(10):
            await played(environment, COUNT, bash("sleep 100 & ls"), call("answer_action", answer="3"))

    await asyncio.gather(*(some() for _ in range(10)))
    assert held() == (fds, mounts, files) and mounts == 0


async def test_cancelled_episodes_leave_nothing_behind(environment, held):
    """B025."""
    await played(environment, COUNT, bash("ls"))
    before = held()
    for delay in (0.0, 0.005, 0.02, 0.05, 0.2):
        running = asyncio.ensure_future(played(environment, MODES, bash("sleep 30"), call("finish_action", thought="")))
        await asyncio.sleep(delay)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert held() == before

"""What an agent leaves behind for the judge: in strict mode it earns 0 or, where the task is done, 1; never an error, never a hang.

Covers B019, B042 and B051.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time

import pytest

from envhub.core.errors import SandboxLostError
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.datasets import TaskSet
from envhub.envs.os.env import OPTIONS, OSEnvironment
from envhub.envs.os.judge import GradingLimits
from envhub.envs.os.tasks import Answer, Check, OSTask, Script
from envhub.sandbox.owner import start_time

pytestmark = pytest.mark.timeout(120)

INIT = Script("mkdir -p /opt/demo; printf 'alpha\\nbeta\\n' > /root/words")
TASKS = (
    OSTask(
        "copy",
        "Copy /root/words to /opt/copy and make it private.",
        checks=(
            Check(Script('[ "$(stat -c %a /opt/copy)" = 600 ] && grep -q beta /opt/copy && cat /opt/copy || exit 1')),
            Check(Script("import sys\nassert open('/opt/copy').read() == 'alpha\\nbeta\\n' == sys.argv[2]", "python")),
            Check(Script("import json\nassert json.load(open('/opt/report.json')) == {'n': 2}", "python")),
        ),
        init=(INIT,),
        solution=("cp /root/words /opt/copy; chmod 600 /opt/copy; echo '{\"n\": 2}' > /opt/report.json",),
    ),
    OSTask(
        "count after",
        "Remove a line of /root/words; how many are left?",
        Answer("integer", reference=Script("wc -l < /root/words"), after=True),
        init=(INIT,),
        solution=("sed -i 1d /root/words",),
    ),
)
COPY, COUNT = range(len(TASKS))
SOLVED = TASKS[COPY].solution[0]
FORK_BOMB = ":(){ :|:& }; :"

SPOILED = {
    "fifo": "mkfifo /opt/copy; chmod 600 /opt/copy; mkfifo /opt/report.json",
    "folder": "mkdir -m 600 /opt/copy /opt/report.json",
    "loop": "ln -s /opt/copy /opt/copy; ln -s report.json /opt/report.json",
    "device": "ln -s /dev/zero /opt/copy; ln -s /dev/zero /opt/report.json",
    "standard input": "ln -s /dev/stdin /opt/copy; ln -s /dev/stdin /opt/report.json",
    "socket": "python3 -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"/opt/copy\")'; chmod 600 /opt/copy",
    "huge": "truncate -s 8T /opt/copy; chmod 600 /opt/copy; truncate -s 8T /opt/report.json",
    "no text": "printf '\\377\\376beta\\n' > /opt/copy; chmod 600 /opt/copy; printf '\\377' > /opt/report.json",
    "deep": f"{SOLVED}; python3 -c 'print(\"[\" * 200000)' > /opt/report.json",
    "digits": f"{SOLVED}; python3 -c 'print(\"1\" * 100000)' > /opt/report.json",
    "no report": "cp /root/words /opt/copy; chmod 600 /opt/copy",
    "report is no json": f"{SOLVED}; echo '{{' > /opt/report.json",
    "no mode": f"{SOLVED}; chmod 0 /opt /opt/report.json; rm /opt/copy",
    "parent is a file": "rm -rf /opt; echo beta > /opt",
    "parent is a link": "rm -rf /opt; ln -s /proc/1/root /opt",
    "full disk": "head -c 1G /dev/zero > /root/big; ln -s /root/big /opt/copy",
    "no inodes": "cd /root; touch {1..40000}; ln -s /root/1 /opt/copy",
    "fork bomb": FORK_BOMB,
}
"""None of these solves the task."""

HARMLESS = {
    "root is a link": "cp -a /root /var/elsewhere; cd /; rm -rf /root; ln -s /var/elsewhere /root",
    "no root": "cd /; rm -rf /root",
    "no bash": "rm -f /bin/bash /usr/bin/bash /bin/sh /usr/bin/sh",
    "no libraries": "rm -rf /usr/lib/x86_64-linux-gnu/libc.so.6 /lib64/ld-linux-x86-64.so.2",
    "other libraries": "mv /usr/lib /usr/lib.was; mkdir /usr/lib; ln -s /dev/zero /usr/lib/x",
    "other shell": "sed -i 's#^root:.*#root:x:0:0:root:/:/bin/false#' /etc/passwd; echo 'root::0:0::/:/none' >> /etc/passwd",
    "no users": "rm -f /etc/passwd /etc/group /etc/nsswitch.conf /etc/shadow; mkdir /etc/passwd; mkfifo /etc/group",
    "preload": "echo LD_PRELOAD=/tmp/x.so > /etc/environment; echo /tmp/x.so > /etc/ld.so.preload; mkfifo /etc/ld.so.cache",
    "loader": "rm -f /etc/ld.so.cache; mkdir /etc/ld.so.cache /etc/ld.so.preload; echo 'include /dev/zero' > /etc/ld.so.conf",
    "locale": "rm -rf /usr/lib/locale /usr/share/zoneinfo; mkfifo /etc/localtime /etc/locale.alias",
    "no etc": "rm -rf /etc; ln -s /proc/self/fd /etc",
    "etc is a fifo": "rm -rf /etc; mkfifo /etc",
    "tmp is a link": "rm -rf /tmp; ln -s /proc/1/fd /tmp",
    "tmp is full": "head -c 1G /dev/zero > /tmp/big; cd /tmp; touch {1..40000}",
    "no var": "rm -rf /var /srv /home /mnt /media",
    "many folders": "cd /; mkdir a{1..600}",
    "odd names": "cd /; mkdir -- $'new\\nline' '-rf' '--args' $'\\377' ' ' '--bind' 'a:b' 'a,b' \"$(printf 'x%.0s' {1..255})\"",
    "run is a file": "rm -rf /run; echo x > /run; rm -rf /sys; echo > /sys; rm -rf /usr; echo x > /usr",
    "leftovers": "(while :; do rm -f /opt/copy; sleep 0.01; ln -s /dev/zero /opt/copy; done) & sleep 0.05; kill -STOP $!; "
    "until [[ $(ps -o stat= $!) == T* ]]; do :; done; while ps -o stat= --ppid $! | grep -qv Z; do :; done; "
    + f"rm -f /opt/copy; {SOLVED}",
    "fork bomb": FORK_BOMB,
    "full disk": "head -c 1G /dev/zero > /root/big",
    "python": "for f in json sys os encodings/utf_8; do mkdir -p /root/encodings; echo 'raise SystemExit(1)' > /root/$f.py; done",
}
"""None of these undoes the task once it is solved."""


OVERWRITE = """\
import re
for line in open("/proc/1/maps"):
    start, end, mode = re.match(r"(\\w+)-(\\w+) (....)", line).groups()
    if "w" in mode:
        memory = open("/proc/1/mem", "r+b", 0)
        memory.seek(int(start, 16))
        memory.write(b"\\xff" * (int(end, 16) - int(start, 16)))
"""
CRASHES = {
    "out of memory": "echo 1000 > /proc/1/oom_score_adj; head -c 2G /dev/zero | tail -n 1 | wc -c",
    "overwritten": f"python3 - <<'END'\n{OVERWRITE}END\nbash -c 'kill -9 -1'",
}
"""These would end the first process of the session, if its /proc took writes."""


HASTY = GradingLimits(script_s=5.0, total_s=30.0)
"""For what may hang. What must be found right has as long as ever, however busy the machine."""


@pytest.fixture
def hasty_grading(monkeypatch):
    monkeypatch.setattr("envhub.envs.os.env._GRADING", HASTY)


@pytest.fixture
def environment(driver, sandboxes):
    tasks = TaskSet("test", len(TASKS), TASKS.__getitem__, dataset_hash="1")
    return OSEnvironment(sandboxes, {"test": tasks}, driver="bubblewrap", image_digest=driver.image_digest("default"))


def quick_of(names, *quick):
    """All of them take a minute: most are left to the full suite."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # it asks the kernel, which sends no events
            await asyncio.sleep(0.01)


def call(name, **arguments):
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


async def reward(environment, index, *scripts, answer=None):
    options = {**OPTIONS, "command_timeout_s": 5.0 if FORK_BOMB in scripts else 30.0}
    episode = await environment.open(TaskRef("os", "test", index), seed=1, options=options)
    try:
        for script in scripts:
            result = await episode.step(call("bash_action", script=script))
            if result.done:
                return result.reward
        final = call("finish_action", thought="") if answer is None else call("answer_action", answer=answer)
        return (await episode.step(final)).reward
    finally:
        await episode.close()


@pytest.mark.parametrize("name", quick_of(SPOILED, "folder", "no text", "no report"))
async def test_what_is_left_unsolved_earns_nothing(environment, hasty_grading, name):
    began = time.monotonic()
    assert await reward(environment, COPY, SPOILED[name]) == 0.0
    assert time.monotonic() - began < 100


@pytest.mark.parametrize("name", quick_of(HARMLESS, "no bash", "preload", "odd names"))
async def test_what_is_left_beside_a_solution_changes_nothing(environment, name):
    assert await reward(environment, COPY, SOLVED, HARMLESS[name]) == 1.0


@pytest.mark.parametrize("name", quick_of(CRASHES, "out of memory"))
async def test_a_session_cannot_bring_itself_down_by_proc(environment, name):
    assert await reward(environment, COPY, SOLVED, CRASHES[name]) == 1.0


async def test_a_session_whose_own_first_process_ends_earns_nothing(environment):
    episode = await environment.open(TaskRef("os", "test", COPY), seed=1, options=OPTIONS)
    await episode.step(call("bash_action", script=SOLVED))
    init = episode._sandbox.identity["init"]
    os.kill(init, signal.SIGKILL)  # as if the session had found a way
    await until(lambda: start_time(init) is None)
    ended = await episode.step(call("finish_action", thought=""))
    assert (ended.done, ended.reward) == (True, 0.0)
    await episode.close()


@pytest.mark.slow
async def test_a_reference_that_hangs_on_what_was_left_earns_nothing(environment, monkeypatch):
    assert await reward(environment, COUNT, "sed -i 1d /root/words", answer="1") == 1.0
    monkeypatch.setattr("envhub.envs.os.env._GRADING", HASTY)
    assert await reward(environment, COUNT, "rm /root/words; mkfifo /root/words", answer="1") == 0.0


async def test_a_sandbox_that_we_lose_gives_no_reward(environment, driver):
    episode = await environment.open(TaskRef("os", "test", COPY), seed=1, options=OPTIONS)
    spawner, init = driver.spawner().pid, episode._sandbox.identity["init"]
    os.kill(spawner, signal.SIGKILL)
    await until(lambda: start_time(init) is None)
    with pytest.raises(SandboxLostError):
        await episode.step(call("bash_action", script="echo"))
    await episode.close()

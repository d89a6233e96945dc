"""The docker driver against a real engine: what a session may do, what it may not, and what is left of it afterwards."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import (
    EnvhubError,
    EpisodeFailedError,
    SandboxFileError,
    SandboxLostError,
    SandboxUnavailableError,
    UnavailableError,
)
from envhub.core.sandbox import CommandStatus, ForkableSandbox, ProcessResult, SandboxLimits, SandboxSpec
from envhub.sandbox import docker as docker_module
from envhub.sandbox.docker import DockerDriver, DockerSandbox
from envhub.sandbox.docker_api import DEFAULT_URL, ask
from envhub.sandbox.docker_reach import EngineReach
from envhub.sandbox.owner import Owner
from tests.require import lacking

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120), pytest.mark.xdist_group("docker")]

SMALL = SandboxLimits(memory_bytes=256 << 20, n_processes=64, disk_bytes=16 << 20, n_inodes=500)


def driver(owner: Owner | None = None) -> DockerDriver:
    made = DockerDriver(clock=SystemClock(), owner=owner)
    try:
        made.capabilities()
        made.image_digest("default")
    except EnvhubError as error:
        lacking("docker", f"docker: {error}")
    return made


@pytest.fixture
async def docker() -> AsyncIterator[DockerDriver]:
    made = driver()
    yield made
    await made.close()


@pytest.fixture
async def box(docker: DockerDriver) -> DockerSandbox:
    return await docker.start(SandboxSpec(limits=SMALL, environment={"GREETING": "good day"}))


async def out(box: DockerSandbox, script: str, *, timeout_s: float = 20.0) -> str:
    return (await box.run(script, timeout_s=timeout_s, max_bytes=100_000)).output.strip()


async def judged(box: DockerSandbox, script: str) -> ProcessResult:
    return await box.exec(["bash", "-c", script], timeout_s=20, view="judge")


def containers(owner: Owner) -> list[dict[str, Any]]:
    filters = json.dumps({"label": [f"envhub.owner={owner.label}"]})
    found: list[dict[str, Any]] = ask(DEFAULT_URL, f"/containers/json?all=1&filters={filters.replace(' ', '')}")
    return found


async def test_shell_keeps_its_state_and_has_the_spec(box: DockerSandbox) -> None:
    assert await out(box, "pwd; echo $GREETING; id -u; cd /opt; X=5") == "/root\ngood day\n0"
    assert await out(box, "pwd; echo $X") == "/opt\n5"


async def test_session_may_write_everywhere_within_its_disk(box: DockerSandbox) -> None:
    assert (
        await out(box, "echo hi | tee /usr/bin/x /etc/y /z /var/w /srv/v >/dev/null && cat /usr/bin/x /z") == "hi\nhi"
    )
    assert (
        await out(box, "echo 1.2.3.4 h >> /etc/hosts && tail -1 /etc/hosts && rm /etc/hosts && echo gone")
        == "1.2.3.4 h\ngone"
    )
    assert "No space left" in await out(box, "dd if=/dev/zero of=/opt/big bs=1M count=40; rm /opt/big")
    assert "No space left" in await out(
        box, "mkdir /many; for i in {1..600}; do : > /many/$i || break; done; rm -r /many"
    )
    assert "Read-only" in await out(box, "echo > /dev/big")
    assert await out(box, "echo again > /opt/small; cat /opt/small") == "again"


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /mnt",
        "umount /sys/firmware",
        "umount -l /proc/sys",
        "mknod /tmp/sda b 8 0",
        "chroot /tmp /bin/sh",
        "unshare -Ur true",
        "nsenter -t 1 -m true",
        "ls /sys/firmware/media",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "dmesg",
        "cat /proc/kcore",
        "curl -m 2 http://1.1.1.1",
        "ls /var/run/docker.sock",
        "su -s /bin/sh nobody -c 'cat /etc/shadow'",
        "date -s 2001-01-01",
        "hostname other",
    ],
)
async def test_no_way_out(docker: DockerDriver, box: DockerSandbox, attempt: str) -> None:
    done = await box.run(attempt, timeout_s=10, max_bytes=10_000)
    if attempt.startswith("ls /sys") or "kcore" in attempt:
        assert done.exit_code != 0 or done.output == ""
    else:
        assert done.exit_code != 0, done.output


async def test_only_loopback_is_there(box: DockerSandbox) -> None:
    assert re.findall(r"^\d+: (\w+)", await out(box, "ip link"), re.M) in (["lo"], ["lo", "sit0"])
    script = (
        "python3 -m http.server 8099 >/dev/null 2>&1 & sleep 1; curl -s -o /dev/null -w %{http_code} localhost:8099"
    )
    assert await out(box, script) == "200"


async def test_limits_are_in_the_container_before_it_starts(docker: DockerDriver, box: DockerSandbox) -> None:
    (found,) = containers(docker._owner)
    host = ask(DEFAULT_URL, f"/containers/{found['Id']}/json")["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (256 << 20, 256 << 20, 67)
    assert (host["NanoCpus"], host["NetworkMode"], host["CapDrop"]) == (10**9, "none", ["ALL"])
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["ReadonlyRootfs"] and not host["Privileged"]
    assert host["LogConfig"]["Type"] == "none"


async def test_process_beside_the_shell(box: DockerSandbox) -> None:
    done = await box.exec(["sh", "-c", "cat; pwd; echo bad >&2; sleep 300 & exit 3"], timeout_s=10, stdin=b"given\n")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"given\n/root\n", b"bad\n")
    assert await out(box, "pgrep -c sleep") == "1"
    assert (await box.exec(["sh", "-c", "kill -SEGV $$"], timeout_s=10)).exit_code == 139
    assert (await box.exec(["no-such-program"], timeout_s=10)).exit_code == 127
    many = await box.exec(["head", "-c", "3000000", "/dev/zero"], timeout_s=10)
    assert len(many.stdout) == 1 << 20


async def test_process_beside_the_shell_dies_at_its_time(box: DockerSandbox) -> None:
    await out(box, "sleep 1000 & sleep 0.1")
    done = await box.exec(["sh", "-c", "echo part; setsid sleep 300 & sleep 301"], timeout_s=1)
    assert done.timed_out and done.stdout == b"part\n"
    assert await out(box, "pgrep -a sleep | cut -d' ' -f2-") == "sleep 1000"


async def test_judge_has_the_images_programs_and_the_sessions_files(box: DockerSandbox) -> None:
    await out(
        box,
        "printf '#!/bin/sh\\necho 666\\n' > /usr/bin/wc; cp /usr/bin/wc /usr/local/bin/ls; cp /usr/bin/wc /usr/bin/python3",
    )
    await out(
        box,
        "echo /tmp/evil.so > /etc/ld.so.preload; for d in /etc/python3*; do echo 'print(666)' > $d/sitecustomize.py; done",
    )
    await out(
        box,
        "mkdir -p /etc/perl /data && echo 'print 666;' > /etc/perl/strict.pm && echo kept > /data/file; rm -r /home",
    )
    await out(
        box,
        "mkdir -p ~/.local/lib/python3.11/site-packages; echo 'print(666)' > ~/.local/lib/python3.11/site-packages/usercustomize.py",
    )
    await out(box, "mv /lib64 /lib64.old; ln -s /tmp /lib64")
    done = await judged(box, "ls /data | wc -l; python3 -c 'print(1)'; perl -e 'use strict; print 2'; cat /data/file")
    assert (done.stdout.split(), done.stderr) == ([b"1", b"1", b"2kept"], b"")
    assert (await judged(box, "cat /run/session/usr/bin/wc /run/session/etc/ld.so.preload")).stdout.endswith(
        b"/tmp/evil.so\n"
    )
    assert (await judged(box, "test -e /home")).exit_code == 1
    assert b"Read-only" in (await judged(box, "echo x > /data/file")).stderr
    assert (await judged(box, "echo x > /tmp/own && cat /tmp/own")).stdout == b"x\n"


async def test_judge_sees_each_time_what_is_there_now_and_nobody_of_the_session(box: DockerSandbox) -> None:
    await out(box, "echo one > /root/f; sleep 987 &")
    assert (await judged(box, "cat /root/f; pgrep -c -f 'sleep 98[7]'")).stdout == b"one\n0\n"
    await out(box, "echo two > /root/f; mkdir /root/new; rm -r /opt")
    assert (
        await judged(box, "cat /root/f; ls -d /root/new; test -d /opt || echo gone")
    ).stdout == b"two\n/root/new\ngone\n"
    seen = await judged(box, "cat /run/session/proc/*/cmdline | tr '\\0' ' '")
    assert b"sleep 987" in seen.stdout


async def test_judge_that_takes_too_long_is_gone_and_the_next_one_works(box: DockerSandbox) -> None:
    assert (await box.exec(["sleep", "100"], timeout_s=0.5, view="judge")).timed_out
    assert (await judged(box, "pgrep -c sleep; echo next")).stdout.endswith(b"next\n")


async def test_files_in_and_out(box: DockerSandbox) -> None:
    data = bytes(range(256)) * 5000
    await box.put("/a/b c/d", data, mode=0o750)
    assert await box.get("/a/b c/d", max_bytes=2_000_000) == data
    assert (
        await out(box, "stat -c %a '/a/b c/d'; ln -s /etc/passwd /a/link; mkfifo /a/fifo; ln -s /a/fifo /a/tofifo")
        == "750"
    )
    assert (await box.get("/a/link", max_bytes=100_000)).startswith(b"root:")
    for path in ("/none", "/a", "/a/fifo", "/a/tofifo", "relative", "/dev/zero"):
        with pytest.raises(SandboxFileError):
            await box.get(path, max_bytes=10)
    with pytest.raises(SandboxFileError, match="more than 100 bytes"):
        await box.get("/a/b c/d", max_bytes=100)
    with pytest.raises(SandboxFileError):
        await box.put("/a/fifo", b"x")


async def test_fork_copies_files_and_shell(box: DockerSandbox) -> None:
    assert isinstance(box, ForkableSandbox)
    await out(box, "mkdir /data; cd /data; X=5; f() { echo F$X; }; echo one > file; rm /etc/motd; chown 12:34 file")
    copy = await box.fork()
    assert (
        await out(copy, "pwd; f; cat file; stat -c %u:%g file; test -e /etc/motd || echo gone")
        == "/data\nF5\none\n12:34\ngone"
    )
    await out(copy, "echo two > file")
    assert await out(box, "cat file; f") == "one\nF5"
    await copy.close()
    assert await out(box, "echo still here") == "still here"


async def test_lost_container_is_said_and_touches_no_other(docker: DockerDriver, box: DockerSandbox) -> None:
    other = await docker.start(SandboxSpec(limits=SMALL))
    assert box._container is not None
    await docker.engine.call("POST", f"/containers/{box._container.id}/kill")
    for call in (box.run("echo", timeout_s=5, max_bytes=100), box.exec(["true"], timeout_s=5)):
        with pytest.raises(SandboxLostError) as lost:
            await call
        assert not lost.value.by_session
    assert await out(other, "echo fine") == "fine"
    await box.close()


async def test_close_is_idempotent_and_leaves_nothing(docker: DockerDriver, box: DockerSandbox) -> None:
    await judged(box, "true")
    assert len(containers(docker._owner)) == 2
    assert box._container is not None
    disk = box._container.disk
    await asyncio.gather(box.close(), box.close())
    await box.close()
    assert containers(docker._owner) == []
    assert disk not in {volume["Name"] for volume in ask(DEFAULT_URL, "/volumes")["Volumes"] or ()}
    with pytest.raises(SandboxLostError):
        await box.run("echo", timeout_s=5, max_bytes=100)


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1, 0.2, 0.3])
async def test_start_given_up_at_any_time_leaves_nothing(after_s: float) -> None:
    docker = driver()
    starting = asyncio.create_task(docker.start(SandboxSpec(limits=SMALL)))
    await asyncio.sleep(after_s)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await docker.close()
    assert containers(docker._owner) == []


async def test_start_that_fails_leaves_nothing(docker: DockerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: object, action: str, *arguments: str) -> None:
        raise EpisodeFailedError("no mount today")

    monkeypatch.setattr("envhub.sandbox.docker_reach.NativeReach.mount", broken)
    monkeypatch.setattr("envhub.sandbox.docker_reach.EngineReach.mount", broken)
    with pytest.raises(EpisodeFailedError, match="no mount today"):
        await docker.start(SandboxSpec(limits=SMALL))
    assert containers(docker._owner) == []
    with pytest.raises(SandboxUnavailableError, match="envhub images build os --image none --docker"):
        await docker.start(SandboxSpec(image="none"))
    with pytest.raises(SandboxUnavailableError):
        docker.image_digest("none")


async def test_sweep_removes_what_a_dead_owner_left_and_only_that(docker: DockerDriver) -> None:
    living, dead = Owner.current(), replace(Owner.current(), started=1)
    left, kept = driver(dead), driver(living)
    try:
        await judged(await left.start(SandboxSpec(limits=SMALL)), "true")
        await kept.start(SandboxSpec(limits=SMALL))
        await docker.sweep()
        assert containers(dead) == []
        assert len(containers(living)) == 1
    finally:
        await left.close()
        await kept.close()


async def test_hub_that_is_not_root_on_the_engines_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_module, "is_native", lambda container: False)
    docker = driver()
    try:
        box = await docker.start(SandboxSpec(limits=SMALL))
        assert isinstance(docker._reach, EngineReach)
        await out(box, "echo hi > /usr/bin/x; sleep 1000 & sleep 0.1; cd /opt")
        assert (await box.run("sleep 600", timeout_s=1, max_bytes=100)).status is CommandStatus.TIMEOUT
        assert (await out(box, "pgrep -a sleep; pwd")).endswith("sleep 1000\n/opt")
        copy = await box.fork()
        assert await out(copy, "cat /usr/bin/x") == "hi"
        await box.run(":(){ :|:& };:", timeout_s=3, max_bytes=1000)
        await out(box, ":")
        assert "ok" in (await out(box, "echo ok")).splitlines()
        assert (await judged(box, "cat /usr/bin/x; cat /run/session/usr/bin/x")).stdout == b"hi\n"
    finally:
        await docker.close()
    assert containers(docker._owner) == []


async def test_many_sessions_leak_nothing(docker: DockerDriver) -> None:
    async def session() -> None:
        box = await docker.start(SandboxSpec(limits=SMALL))
        assert await out(box, "echo ok") == "ok"
        await box.close()

    await session()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await asyncio.gather(*(session() for _ in range(4)))
    assert len(os.listdir("/proc/self/fd")) <= before + 8, "connections are kept for reuse, not for ever"
    assert containers(docker._owner) == []


async def test_engine_that_is_down_is_unavailable() -> None:
    docker = DockerDriver(clock=SystemClock(), url="unix:///nonexistent/docker.sock")
    with pytest.raises(UnavailableError):
        docker.capabilities()
    with pytest.raises(UnavailableError):
        await docker.start(SandboxSpec())
    await docker.close()

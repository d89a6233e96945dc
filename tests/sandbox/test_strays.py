"""What a bwrap leaves that died between making its child and releasing it: a child that waits for ever, in no group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.sandbox import SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.bubblewrap_sandbox import BubblewrapSandbox
from envhub.sandbox.owner import Owner, start_time
from envhub.sandbox.probe import Machine
from tests.sandbox.test_bubblewrap import out, owner_in

pytestmark = pytest.mark.timeout(60)


def orphan(bwrap: Path, folder: Path) -> int:
    """The child of a bwrap that was killed while its child waited for a user map; its arguments name ``folder``."""
    told, tell = os.pipe()
    block, never_written = os.pipe()
    argv = [str(bwrap), "--unshare-user", "--unshare-pid", "--info-fd", str(tell), "--userns-block-fd", str(block)]
    argv += ["--ro-bind", "/", "/", "--bind", f"{folder}/disk/up/root", "/root", "--", "true"]
    monitor = subprocess.Popen(argv, pass_fds=(tell, block))
    os.close(tell)
    with open(told, "rb") as info:
        child = int(json.loads(info.read())["child-pid"])
    monitor.kill()
    monitor.wait()
    os.close(block)
    os.close(never_written)
    assert start_time(child) is not None, "the child of this bwrap ended with it: there is nothing to test"
    return child


def started_as(name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([name, *arguments], executable=sys.executable)


@pytest.fixture
def stray(machine: Machine) -> Iterator[Callable[[Path], int]]:
    made: list[tuple[int, int | None]] = []

    def make(folder: Path) -> int:
        pid = orphan(machine.bwrap, folder)
        made.append((pid, start_time(pid)))
        return pid

    yield make
    for pid, started in made:
        if started is not None and start_time(pid) == started:
            os.kill(pid, 9)


@pytest.fixture
def dead() -> Owner:
    """An owner whose process has ended."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return Owner(int(ended.stdout), 1, "0badcafe")


async def test_a_sweep_removes_the_stray_of_a_dead_owner_whose_folder_may_be_gone(
    bubblewrap: BubblewrapDriver, runtime: Path, dead: Owner, stray: Callable[[Path], int]
) -> None:
    left = [stray(runtime / dead.label), stray(runtime / dead.label)]
    assert await bubblewrap.sweep() >= 2  # what other tests' dead left on this machine counts too
    assert [start_time(pid) for pid in left] == [None, None]


async def test_a_sweep_spares_all_others(
    bubblewrap: BubblewrapDriver, runtime: Path, tmp_path: Path, dead: Owner, stray: Callable[[Path], int]
) -> None:
    """A living owner's, one below another runtime folder, and programs that are no bwrap, whatever they call themselves."""
    spared = [stray(runtime / Owner.current().label), stray(tmp_path / "another" / dead.label)]
    code = ["-c", "import time; time.sleep(60)", f"{runtime}/{dead.label}/disk"]
    others = [started_as(name, code) for name in (sys.executable, "bwrap")]
    try:
        await bubblewrap.sweep()
        assert all(start_time(pid) is not None for pid in spared)
        assert [each.poll() for each in others] == [None, None]
    finally:
        for each in others:
            each.kill()
            each.wait()


async def test_a_sandbox_that_did_not_start_takes_its_stray_along_and_spares_its_siblings(
    bubblewrap: BubblewrapDriver, runtime: Path, stray: Callable[[Path], int]
) -> None:
    sibling = await bubblewrap.start(SandboxSpec())
    setting = sibling.setting  # type: ignore[attr-defined]
    failed = BubblewrapSandbox.prepared(bubblewrap, setting, label=owner_in(runtime), clock=SystemClock())
    left = stray(runtime / owner_in(runtime))
    await failed.close()
    assert start_time(left) is None
    assert await out(sibling, "echo untouched") == "untouched\n"


async def test_a_sandbox_that_ends_as_usual_looks_for_nothing(
    bubblewrap: BubblewrapDriver, runtime: Path, stray: Callable[[Path], int]
) -> None:
    box = await bubblewrap.start(SandboxSpec())
    left = stray(runtime / owner_in(runtime))
    await box.close()
    assert start_time(left) is not None
    await bubblewrap.close()
    assert start_time(left) is None

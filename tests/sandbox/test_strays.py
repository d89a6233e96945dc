"""What a bwrap leaves that died between making its child and releasing it: a child that waits for ever, in no group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envhub.core.errors import EpisodeError
from envhub.core.sandbox import SandboxSpec
from envhub.sandbox import strays
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.owner import Owner, start_time
from envhub.sandbox.probe import Machine, bundled_bwrap
from tests.sandbox.test_bubblewrap import out

pytestmark = pytest.mark.timeout(60)

Stray = Callable[[Path], int]


def waiting_bwrap(bwrap: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A bwrap and its child, which waits for a user map that is never written; its arguments name ``folder``."""
    told, tell = os.pipe()
    block, never = os.pipe()
    argv = [str(bwrap), "--unshare-user", "--unshare-pid", "--info-fd", str(tell), "--userns-block-fd", str(block)]
    argv += ["--ro-bind", "/", "/", "--bind", f"{folder}/disk/up/root", "/root", "--", "true"]
    monitor = subprocess.Popen(argv, pass_fds=(tell, block))
    os.close(tell)
    with open(told, "rb") as info:
        child = int(json.loads(info.read())["child-pid"])
    os.close(block)
    monitor.never = never  # type: ignore[attr-defined]
    return monitor, child


@pytest.fixture
def stray(machine: Machine) -> Iterator[Stray]:
    """Makes the child of a bwrap that was killed: an orphan."""
    made: list[int] = []

    def make(folder: Path) -> int:
        monitor, child = waiting_bwrap(machine.bwrap, folder)
        made.append(child)
        monitor.kill()
        monitor.wait()
        os.close(monitor.never)  # type: ignore[attr-defined]
        assert start_time(child) is not None, "this bwrap's child ends with it: nothing to test"
        return child

    yield make
    for pid in made:
        if b"bwrap" in cmdline(pid):
            os.kill(pid, 9)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def dead() -> Owner:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return Owner(int(ended.stdout), 1, "0badcafe")

"""Which processes a session has, and how those of one command are killed from outside.

Invariant: decisions are taken on stopped processes, so a process that forks faster than it is killed does not get away.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envhub.sandbox.cgroups import Group
from envhub.sandbox.owner import start_time

_REAP_S = 10.0


class LostError(Exception):
    """The session's first process is gone."""


@dataclass(frozen=True, slots=True)
class Session:
    """A sandbox that runs. ``monitor``: bwrap outside of it; ``init``: its first process; pids as the host sees them."""

    group: Group
    monitor: int
    init: int

    def check(self, spawner: int) -> None:
        """Raises LostError unless both are the processes we started and not later ones with their ids."""
        monitor, init = process(self.monitor), process(self.init)
        if monitor is None or init is None or monitor.parent != spawner or init.parent != self.monitor:
            raise LostError(f"the first process of sandbox {self.group.name} is gone")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    started: int


def process(pid: int) -> Process | None:
    """None for one that is gone or only waits to be collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else Process(pid, int(fields[1]), int(fields[19]))


def members(session: Session) -> dict[int, Process]:
    """Every live process inside, the first one included."""
    pids: Iterable[int] | None = session.group.members()
    if pids is None:
        pids = _in_namespace(session.init)
    found = {pid: known for pid in pids if (known := process(pid)) is not None}
    found.pop(session.monitor, None)
    return found


def reap(session: Session, runner: int | None) -> None:
    """Kill ``runner`` (host pid) and what started at or after it, except its ancestors; all but the first process with None."""
    started = start_time(runner) if runner is not None else 0
    if started is None:
        return
    spared = {session.init}
    if runner is not None:
        spared |= _ancestors(runner, members(session))
    until = time.monotonic() + _REAP_S
    while True:
        with stopped(session) as alive:
            doomed = [
                one.pid
                for one in alive.values()
                if (one.started, one.pid) >= (started, runner or 0) and one.pid not in spared
            ]
            _kill(doomed, signal.SIGKILL)
        if not doomed:
            return
        if time.monotonic() > until:
            raise LostError(f"processes of sandbox {session.group.name} cannot be killed: {doomed[:5]}")
        time.sleep(0.002)


@contextmanager
def stopped(session: Session) -> Iterator[Mapping[int, Process]]:
    """The session's processes, none of which runs meanwhile."""
    frozen = session.group.freeze()
    signalled: list[int] = []
    try:
        if not frozen:
            signalled = _stop_all(session)
        yield members(session)
    finally:
        session.group.thaw()
        _kill(signalled, signal.SIGCONT)


def host_pid(session: Session, seen: int) -> int | None:
    """The host's id of the process that the session knows as ``seen``."""
    return next((pid for pid in members(session) if namespace_pids(pid)[-1:] == [seen]), None)


def namespace_pids(pid: int) -> list[int]:
    """The ids of a process from our namespace inwards; none when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return []
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    return [int(each) for each in line.split()[1:]]


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]
    except OSError:
        return []


def _stop_all(session: Session) -> list[int]:
    """Without a freezer: stop signals, until nothing new has appeared."""
    signalled: set[int] = set()
    while fresh := set(members(session)) - signalled - {session.init}:
        _kill(fresh, signal.SIGSTOP)
        signalled |= fresh
    return sorted(signalled)


def _ancestors(pid: int, alive: Mapping[int, Process]) -> set[int]:
    found: set[int] = set()
    current = alive.get(pid)
    while current is not None and current.parent in alive and current.parent not in found:
        found.add(current.parent)
        current = alive.get(current.parent)
    return found


def _in_namespace(init: int) -> list[int]:
    try:
        wanted = os.readlink(f"/proc/{init}/ns/pid")
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/ns/pid") == wanted:
                    found.append(int(name))
            except OSError:
                continue
    return found


def _kill(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

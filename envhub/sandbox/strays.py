"""Processes of bwrap that outlived whoever started them, found by what they are and removed.

A bwrap that dies between making its child and releasing it leaves a child that waits for ever: it is in no group yet and has not
asked to die with its parent. Its arguments still name the folder of its owner.

Invariant: only a bwrap of this user whose arguments name a folder of that very owner is ever killed, and it is looked at through
a handle that no later process can take over.
"""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envhub.sandbox.owner import Owner
from envhub.sandbox.reaping import process

_BWRAP = "bwrap"
_GONE_MS = 5000


def kill(runtime: Path, doomed: Callable[[Owner], bool], *, outside: int | None = None) -> int:
    """Kill bwraps whose owner, one with a folder in ``runtime``, is ``doomed``; how many there were.

    With ``outside``, those that descend from that process are spared.
    """
    killed = []
    for pid in _pids():
        with _held(pid) as handle:
            owner = _owner(pid, runtime) if handle is not None else None
            if handle is None or owner is None or not doomed(owner) or (outside and _descends(pid, outside)):
                continue
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            killed.append(os.dup(handle))
    for handle in killed:
        _await_end(handle)
    return len(killed)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


@contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """A handle on that process; None when it is gone or nothing that may be looked at."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield handle
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _owner(pid: int, runtime: Path) -> Owner | None:
    """Whose bwrap that is; None for any other process."""
    folder = Path("/proc", str(pid))
    try:
        arguments = (folder / "cmdline").read_bytes().split(b"\0")
        if os.path.basename(arguments[0]) != _BWRAP.encode() or not _is_own(folder):
            return None
        executed = os.readlink(folder / "exe").removesuffix(" (deleted)")
    except OSError:
        return None
    if os.path.basename(executed) != _BWRAP:
        return None
    below = re.compile(re.escape(os.fsencode(f"{runtime}/")) + rb"([^/]+)/")
    named = (found[1].decode("utf-8", "replace") for each in arguments if (found := below.match(each)))
    return next((owner for label in named if (owner := Owner.parse(label)) is not None), None)


def _is_own(folder: Path) -> bool:
    lines = (folder / "status").read_text("utf-8", "replace").splitlines()
    line = next(line for line in lines if line.startswith("Uid:"))
    return int(line.split()[1]) == os.geteuid()


def _descends(pid: int, ancestor: int) -> bool:
    seen: set[int] = set()
    while pid not in seen and (found := process(pid)) is not None:
        if found.parent == ancestor:
            return True
        seen.add(pid)
        pid = found.parent
    return False


def _await_end(handle: int) -> None:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    poller.poll(_GONE_MS)
    os.close(handle)

"""How a child of the spawner answers, and how it watches over a process that has a time limit.

Invariant: a watched process ends with its time limit, or as soon as nobody waits for the answer any more.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any


def answer(fd: int, **fields: Any) -> None:
    """One line on the request's first descriptor; nobody may be there to read it."""
    try:
        tell(fd, **fields)
    except OSError:
        pass


def tell(fd: int, **fields: Any) -> None:
    """As ``answer``. Raises OSError when nobody is there to read it."""
    os.write(fd, json.dumps(fields).encode() + b"\n")


def ends_in_time(pid: int, timeout_s: float, listener: int) -> bool:
    """Wait for a child; False when it still runs at its limit, or when who listens for the answer has gone."""
    until = time.monotonic() + timeout_s
    watched = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(watched, select.POLLIN)
    poller.register(listener, 0)
    try:
        events = poller.poll(max(0.0, until - time.monotonic()) * 1000)
        return any(fd == watched for fd, _ in events)
    finally:
        os.close(watched)


def exit_code(pid: int) -> int:
    """Collect a child; 128 + n when signal n ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code

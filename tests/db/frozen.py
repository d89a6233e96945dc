"""Processes that are alive and answer nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def freeze(pid: int) -> None:
    """Returns once every thread has stopped: when ``kill`` returns, the signal is only on its way, and some may still answer."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + 20
    while set(_states(pid)) != {"T"}:
        assert time.monotonic() < until, f"process {pid} does not stop"
        time.sleep(0.001)


def _states(pid: int) -> list[str]:
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            states.append((thread / "stat").read_text("utf-8").rpartition(")")[2].split()[0])
    return states

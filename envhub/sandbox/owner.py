"""Who owns a sandbox: one process, named so that a later process can tell whether it still lives.

Invariant: a label is never given twice, and a process id that was reused is not taken for its dead owner.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

_LABEL = re.compile(r"eh-(\d+)-(\d+)-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Owner:
    """``started``: when the process began, in the kernel's ticks since boot."""

    pid: int
    started: int
    token: str

    @classmethod
    def current(cls) -> Owner:
        pid = os.getpid()
        started = start_time(pid)
        assert started is not None
        return cls(pid, started, secrets.token_hex(4))

    @classmethod
    def parse(cls, label: str) -> Owner | None:
        """The owner of that label, or None if it is no label of ours."""
        found = _LABEL.fullmatch(label)
        return cls(int(found[1]), int(found[2]), found[3]) if found else None

    @property
    def label(self) -> str:
        return f"eh-{self.pid}-{self.started}-{self.token}"

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """When that process began, in ticks since boot; None when there is none, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else int(fields[19])

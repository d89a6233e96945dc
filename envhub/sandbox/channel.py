"""What the shell needs of a driver: the two pipes of its program, a way to kill what a command started, a place to ask who runs.

Invariant: a channel belongs to one shell; nobody else reads or writes it.
"""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    async def send(self, data: bytes) -> None:
        """Write all of it to the program's stdin. Raises SandboxLostError."""

    async def receive(self) -> bytes:
        """The next bytes of stdout and stderr, in order; ``b""`` once the program is gone. At most 64 KiB at a time."""

    async def reap(self, runner: int | None) -> None:
        """Kill ``runner`` (a pid as the session sees it) and every process that started at or after it, its ancestors spared;
        with None, everything but the session's first process. Returns when they are gone; works under a fork bomb.

        Raises SandboxLostError.
        """

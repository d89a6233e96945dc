"""The two ends of a link, as the parts above it see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from envhub.link.frames import Frame, Hello

EventSink = Callable[[Frame], None]
"""Receives Opened, Closed, Finished, Draining, Failed and Bye frames; must not block."""


class WorkerEnd(Protocol):
    """What a worker offers to whoever links it to a controller."""

    def hello(self) -> Hello: ...

    async def handle(self, op: str, session: str, body: bytes) -> tuple[int, bytes]:
        """Run one call; the status and the JSON body of its answer. Never raises for anything a client sent."""

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Deliver events to ``sink`` until the returned function is called; unstored results are repeated first."""

    def stored(self, session_id: str) -> None:
        """A controller has this result safely."""

    def abandon(self, session_ids: Iterable[str]) -> None:
        """Close sessions whose clients were already told that they are lost."""

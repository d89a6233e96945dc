"""The two ends of a link, as the parts above it see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


class Attachment(Protocol):
    """One attached connection of a worker, on the controller's side."""

    def receive(self, frames: Sequence[Frame]) -> None: ...

    def detach(self) -> None:
        """The connection is gone; the worker may come back."""

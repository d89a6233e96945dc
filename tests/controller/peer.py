"""A controller's parts on a test's clock, and workers that are nothing but their frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envhub import wire
from envhub.controller.workers import LivenessSettings, Worker, Workers
from envhub.core.types import EnvironmentInfo
from envhub.link.frames import Call, Closed, Finished, Frame, Hello, Opened, Outbox, Reply, SessionNote, decode
from envhub.testing.clock import FakeClock


def info(name: str) -> EnvironmentInfo:
    return EnvironmentInfo(name, "1", "For tests.", {"test": 10}, "cafe")


def note(session_id: str, *, environment: str = "game", key: str | None = None, **tags: str) -> SessionNote:
    return SessionNote(session_id, environment, "test", 0, 1.0, key, tags)


def record(session_id: str, **changes: Any) -> wire.EpisodeRecord:
    fields: dict[str, Any] = {
        "session_id": session_id,
        "environment": "game",
        "split": "test",
        "task": 0,
        "seed": 1,
        "worker": session_id.partition(".")[0],
        "identity": {},
        "tags": {},
        "started_at": 1.0,
        "ended_at": 2.0,
        "turns": 1,
        "episode_return": 1.0,
        "terminated": True,
        "truncated": False,
        "stop_reason": "completed",
        "error": None,
        "reason": None,
        "info": {},
        "trace": b'{"messages":[],"tools":[],"steps":[]}',
    }
    return wire.EpisodeRecord(**(fields | changes))


class Peer:
    """One worker, linked by hand. ``sent`` holds the frames that the controller sent it."""

    def __init__(
        self, workers: Workers, name: str = "wone1", capacity: int = 2, environments: Sequence[str] = ("game",)
    ):
        self._workers = workers
        self.name, self.capacity, self.environments = name, capacity, environments
        self.sessions: dict[str, SessionNote] = {}
        self.draining = False
        self.worker: Worker | None = None
        self.outbox = Outbox()
        self.sent: list[Frame] = []
        self._pumps: list[asyncio.Task[None]] = []

    def hello(self) -> Hello:
        infos = [wire.info_to_json(info(name)) for name in self.environments]
        return Hello(1, self.name, "0", self.capacity, infos, list(self.sessions.values()), self.draining, {}, [])

    def link(self) -> list[str]:
        """Attach on a new connection; the sessions that the controller wants ended."""
        self.outbox = Outbox()
        self.worker, cancel = self._workers.attach(self.hello(), self.outbox)
        self._workers.attached(self.worker)
        self._pumps.append(asyncio.create_task(self.outbox.pump(self._receive)))
        return cancel

    def unlink(self) -> None:
        assert self.worker is not None
        self._workers.detach(self.worker, self.outbox)

    async def _receive(self, message: bytes) -> None:
        self.sent += decode(message)

    def say(self, *frames: Frame) -> None:
        assert self.worker is not None
        self._workers.receive(self.worker, frames)

    def opens(self, session_id: str, **fields: Any) -> None:
        self.sessions[session_id] = note(session_id, **fields)
        self.say(Opened(self.sessions[session_id]))

    def closes(self, session_id: str) -> None:
        del self.sessions[session_id]
        self.say(Closed(session_id))

    def finishes(self, session_id: str, **changes: Any) -> None:
        self.say(Finished(record(session_id, **changes)))

    @property
    def calls(self) -> list[Call]:
        return [frame for frame in self.sent if isinstance(frame, Call)]

    def answer(self, call: Call, body: Any = None, status: int = 200) -> None:
        self.say(Reply(call.id, status, msgspec.json.encode({} if body is None else body)))

    def starts(self, call: Call, **fields: Any) -> None:
        """Do what a start asks for."""
        self.opens(call.session, **fields)
        self.answer(call, {"session_id": call.session})


@dataclass
class Room:
    """Workers whose events are kept in lists; ``forbidden`` sessions are to be ended."""

    clock: FakeClock = field(default_factory=FakeClock)
    finished: list[tuple[wire.EpisodeRecord, Callable[[], None]]] = field(default_factory=list)
    lost: list[tuple[str, list[str], str]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.workers = Workers(
            clock=self.clock,
            settings=LivenessSettings(),
            on_finished=lambda record, stored: self.finished.append((record, stored)),
            on_lost=self._on_lost,
            on_sessions=self._on_sessions,
        )

    def peer(self, name: str = "wone1", capacity: int = 2, environments: Sequence[str] = ("game",)) -> Peer:
        """A worker that is linked."""
        peer = Peer(self.workers, name, capacity, environments)
        peer.link()
        return peer

    async def pass_time(self, seconds: float, *, alive: Iterable[str] = ()) -> None:
        """Let time pass in seconds, with a look at the workers after each; ``alive`` send their heartbeats."""
        for _ in range(round(seconds)):
            await self.clock.advance(1.0)
            for name in alive:
                self.workers.heartbeat(name)
            self.workers.tick()

    def _on_lost(self, worker: Worker, notes: Sequence[SessionNote], reason: str) -> None:
        self.lost.append((worker.id, sorted(each.session_id for each in notes), reason))

    def _on_sessions(self, worker: Worker, notes: Iterable[SessionNote]) -> list[str]:
        return [each.session_id for each in notes if each.session_id in self.forbidden]

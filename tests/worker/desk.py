"""A worker on a test's clock, spoken to as a controller would."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import msgspec

from envhub.link.frames import Frame
from envhub.testing.clock import FakeClock, settle
from envhub.worker.service import WorkerService
from envhub.worker.table import TableSettings
from tests.worker.scripted import ScriptedEnvironment, ScriptedEpisode


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any

    @property
    def code(self) -> str | None:
        """Of the error; None for an answer."""
        return self.body["error"]["code"] if self.status >= 400 else None

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])

    @property
    def details(self) -> dict[str, Any]:
        return dict(self.body["error"]["details"])


class Desk:
    """``frames``: what the worker published. The reaper runs only when a test lets it."""

    def __init__(self, settings: TableSettings = TableSettings(), **environment: Any) -> None:  # noqa: B008
        self.clock = FakeClock()
        self.environment = ScriptedEnvironment(self.clock, **environment)
        self.service = WorkerService(
            {"scripted": self.environment},
            worker_id="wtest1",
            clock=self.clock,
            rng=random.Random(7),
            settings=settings,
        )
        self.frames: list[Frame] = []
        self.service.subscribe(self.frames.append)

    @property
    def table(self) -> Any:
        return self.service.table

    @property
    def log(self) -> Any:
        return self.environment.log

    @property
    def episode(self) -> ScriptedEpisode:
        """The one opened last."""
        return self.environment.log.opened[-1]

    def kinds(self) -> list[str]:
        return [type(frame).__name__ for frame in self.frames]

    async def call(self, op: str, session: str = "s1", body: Any = None) -> Reply:
        status, answer = await self.service.handle(op, session, b"" if body is None else msgspec.json.encode(body))
        return Reply(status, msgspec.json.decode(answer))

    async def start(self, session: str = "s1", **fields: Any) -> Reply:
        return await self.call("start", session, {"environment": "scripted", "task": 0, "seed": 1} | fields)

    async def say(self, text: str, turn: int = 0, session: str = "s1") -> Reply:
        return await self.call("interact", session, {"turn": turn, "message": {"content": text}})

    def saying(self, text: str, turn: int = 0, session: str = "s1") -> asyncio.Task[Reply]:
        return asyncio.create_task(self.say(text, turn, session))

    async def cancel(self, session: str = "s1", reason: str = "no more") -> Reply:
        return await self.call("cancel", session, {"reason": reason})

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, one look of the reaper at its end."""
        await self.clock.advance(seconds)
        self.table.tick()
        await settle()

    def record(self, session: str = "s1") -> Any:
        """The finished episode that waits to be stored."""
        (record,) = [each.record for each in self.table.unstored() if each.record.session_id == session]
        return record

    def check_all_closed(self) -> None:
        assert not self.log.breaches, self.log.breaches
        assert not self.log.live
        assert self.table.n_slots_taken == 0

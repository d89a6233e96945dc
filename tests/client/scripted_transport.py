"""A transport that gives the answers it was told to, and a hub behind it on a test's clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envhub import wire
from envhub.client.hub import Hub
from envhub.core.errors import EnvhubError, UnavailableError
from envhub.core.types import Identity
from envhub.testing.clock import FakeClock, settle
from envhub.transport import HttpAnswer

STARTED = wire.Started(
    "wone1." + "a" * 16,
    "calculator",
    "test",
    3,
    7,
    0,
    [{"role": "user", "content": "go"}],
    [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
    20,
    300.0,
    wire.identity_to_json(Identity("calculator", "1", "aa")),
    {},
)


def ok(value: object) -> HttpAnswer:
    return HttpAnswer(200, wire.dumps(value))


def stepped(turn: int, **changes: Any) -> HttpAnswer:
    fields: dict[str, Any] = {"turn": turn, "messages": [], "reward": 0.0, "terminated": False, "truncated": False}
    return ok(wire.Stepped(**(fields | {"stop_reason": None, "info": {}} | changes)))


def error(raised: EnvhubError, retry_after_s: float | None = None) -> HttpAnswer:
    return HttpAnswer(raised.status, wire.error_body(raised), retry_after_s)


NO_ANSWER = UnavailableError("no answer", retry_after_s=0.2)
HANG = "hang"


@dataclass
class ScriptedTransport:
    """``script`` maps the last part of a path to its answers in turn; the last one is repeated."""

    script: dict[str, list[Any]]
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    closed: bool = False

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        self.requests.append((method, path, msgspec.json.decode(body) if body else None))
        answers = self.script[path.rpartition("/")[2]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is HANG:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, HttpAnswer)
        return answer

    async def close(self) -> None:
        self.closed = True

    def verbs(self) -> list[str]:
        return [path.rpartition("/")[2] for _, path, _ in self.requests]

    def bodies(self, verb: str) -> list[Any]:
        return [body for _, path, body in self.requests if path.endswith(verb)]


def hub(clock: FakeClock, retry_for_s: float = 60.0, **script: Any) -> tuple[Hub, ScriptedTransport]:
    answers: dict[str, list[Any]] = {"sessions": [ok(STARTED)], "cancel": [ok({})], "interact": [stepped(1)]}
    for verb, given in script.items():
        answers[verb] = list(given) if isinstance(given, list) else [given]
    transport = ScriptedTransport(answers)
    return Hub(transport=transport, clock=clock, retry_for_s=retry_for_s), transport


async def passing(clock: FakeClock, task: asyncio.Task[Any], limit_s: float = 1000.0) -> float:
    """Let time pass until the task is done; the seconds that took."""
    began = clock.now()
    await settle()
    while not task.done():
        assert clock.now() - began < limit_s, "it never ended"
        await clock.advance(0.05)
    return clock.now() - began

"""An environment that misbehaves on request, for tests of the hub. Its counters say what was opened, stepped and closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envhub.controller.archive import MemoryArchive
from envhub.core.errors import EpisodeFailedError, UnavailableError
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, StepResult, TaskRef, ToolSpec
from envhub.embedded import EmbeddedHub
from envhub.wire import EpisodeRecord

log = logging.getLogger(__name__)

OPTIONS: Mapping[str, JSON] = {
    "open_s": 0.0,
    "reset_s": 0.0,
    "close_s": 0.0,
    "fail": "",
    "observation_bytes": 0,
    "number": 0,
}


@dataclass(slots=True)
class Counts:
    """``live``: episodes opened and not closed; ``closes`` of one episode are counted each time."""

    opens: int = 0
    closes: int = 0
    steps: int = 0
    aborted_steps: int = 0
    live: set[int] = field(default_factory=set)
    closed_twice: int = 0
    stepped_after_close: int = 0


class ProbeEpisode:
    """Does what the text of each message says; see ``step``."""

    def __init__(self, counts: Counts, options: Mapping[str, JSON], gate: asyncio.Event) -> None:
        self._counts = counts
        self._options = options
        self._gate = gate
        self._closed = False
        counts.opens += 1
        counts.live.add(id(self))

    async def reset(self) -> Observation:
        await asyncio.sleep(self._options["reset_s"])
        if self._options["fail"] == "reset":
            raise RuntimeError("reset failed")
        text = {"surrogate": "bad \ud800 text"}.get(self._options["fail"], "say something")
        info = {"object": object()} if self._options["fail"] == "observation" else {}
        size = int(self._options["observation_bytes"])
        return Observation(
            (Message.user(text + "x" * size),), (ToolSpec("noop", "Nothing.", {"type": "object"}),), info
        )

    async def step(self, message: Message) -> StepResult:
        self._counts.steps += 1
        if self._closed:
            self._counts.stepped_after_close += 1
        command, _, argument = (message.content or "").partition(" ")
        try:
            return await self._do(command, argument)
        except asyncio.CancelledError:
            self._counts.aborted_steps += 1
            raise

    async def close(self) -> None:
        if self._closed:
            self._counts.closed_twice += 1
        self._closed = True
        await asyncio.sleep(self._options["close_s"])
        self._counts.closes += 1
        self._counts.live.discard(id(self))
        if self._options["fail"] == "close":
            raise RuntimeError("close failed")

    async def _do(self, command: str, argument: str) -> StepResult:
        if command == "done":
            return StepResult((Message.user("over"),), float(argument or 1.0), terminated=True)
        if command in _SLOW:
            log.info("a step begins: %s %s", command, argument)  # what tests of programs wait for
        if command == "hold":
            await self._gate.wait()
        elif command == "sleep":
            await asyncio.sleep(float(argument))
        elif command == "block":
            time.sleep(float(argument))  # noqa: ASYNC251  # what an environment must not do
        elif command == "thread":
            await asyncio.to_thread(time.sleep, float(argument))
        elif command == "swallow":
            await _swallow(float(argument))
        elif command == "raise":
            raise RuntimeError(argument)
        elif command == "fail":
            raise EpisodeFailedError(argument)
        elif command == "reward":
            return StepResult((Message.user("paid"),), float(argument))
        elif command == "truncate":
            return StepResult((), truncated=True)
        elif command == "nothing":
            return None  # type: ignore[return-value]
        return StepResult((Message.user(_TEXTS.get(command, f"heard {command}")),), info=_info(command, argument))


_SLOW = ("hold", "sleep", "block", "thread", "swallow")
_TEXTS = {"surrogate": "bad \ud800 text", "control": "\x00\x1b[31m\x7f\u2028"}


def _info(command: str, argument: str) -> Mapping[str, JSON]:
    values: Mapping[str, JSON] = {
        "bigint": 10**30,
        "object": object(),
        "nan": float("nan"),
        "surrogate": "\ud800",
        "huge": "x" * int(argument or 0) if command == "huge" else "",
    }
    return {"value": values[command]} if command in values else {}


async def _swallow(seconds: float) -> None:
    """Ignores the first cancellation."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(seconds)


class ProbeEnvironment:
    """``fail`` (an option) names the call that raises; ``open_s``, ``reset_s``, ``close_s`` make calls slow.

    While ``gate`` is closed, opening and the command ``hold`` take until it opens.
    """

    def __init__(self, name: str = "probe", *, max_turns: int = 50) -> None:
        self.counts = Counts()
        self.gate = asyncio.Event()
        self.gate.set()
        self._info = EnvironmentInfo(
            name, "1", "Misbehaves on request.", {"test": 100, "train": 10}, "cafe", OPTIONS, max_turns=max_turns
        )

    def info(self) -> EnvironmentInfo:
        return self._info

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> ProbeEpisode:
        await asyncio.sleep(options["open_s"])
        await self.gate.wait()
        if options["fail"] == "open":
            raise RuntimeError("open failed")
        if options["fail"] == "unavailable":
            raise UnavailableError("not now", retry_after_s=0.1)
        return ProbeEpisode(self.counts, options, self.gate)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        return (Message.assistant("done 1"),)

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        pass


def records(hub: EmbeddedHub) -> list[EpisodeRecord]:
    """What a hub with an archive in memory has finished, oldest first."""
    assert isinstance(hub.archive, MemoryArchive)
    return hub.archive.all()

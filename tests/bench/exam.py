"""An environment whose tasks pass, fail or break by their index, and agents that play it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from envhub import wire
from envhub.bench.agents import Player, Spent
from envhub.client.hub import Hub
from envhub.core.errors import EpisodeFailedError
from envhub.core.types import (
    JSON,
    Defect,
    EnvironmentInfo,
    Identity,
    Message,
    Observation,
    StopReason,
    TaskRef,
    ToolCall,
    ToolSpec,
)
from envhub.envs.toolkit import End, Outcome, ToolEpisode, tool


class ExamEpisode(ToolEpisode):
    def __init__(self, exam: ExamEnvironment, index: int) -> None:
        self._exam = exam
        self._index = index

    async def reset(self) -> Observation:
        return Observation((Message.user(f"task {self._index}"),), self.tools)

    @tool
    async def answer(self, text: str) -> End:
        """Answer."""
        if self._exam.breaks[self._index] > 0:
            self._exam.breaks[self._index] -= 1
            raise EpisodeFailedError("the sandbox broke")
        if text == "leave":
            return End(0.0, "over", StopReason.CANCELLED)
        return End(float(text == "right"), "over")

    async def on_text(self, content: str) -> Outcome:
        """Say something."""
        return End(1.0) if self._exam.pays_silence else await super().on_text(content)

    async def close(self) -> None:
        self._exam.closed += 1


class ExamEnvironment:
    """``breaks`` says how often an answer to a task breaks its episode."""

    def __init__(
        self,
        *,
        breaks: Mapping[int, int] | None = None,
        version: str = "1",
        dataset_hash: str = "exam-1",
        pays_silence: bool = False,
    ) -> None:
        self.pays_silence = pays_silence
        self.breaks: Counter[int] = Counter(breaks or {})
        self.opened: Counter[int] = Counter()
        self.closed = 0
        self._version = version
        self._dataset_hash = dataset_hash

    def info(self) -> EnvironmentInfo:
        return EnvironmentInfo("exam", self._version, "An exam.", {"test": 10}, self._dataset_hash, max_turns=3)

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> ExamEpisode:
        self.opened[task.index] += 1
        return ExamEpisode(self, task.index)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        return None if task.index == 9 else (answering("right"),)

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        pass


def answering(text: str) -> Message:
    return Message.assistant(None, ToolCall("c", "answer", f'{{"text": "{text}"}}'))


class Pupil:
    """Passes tasks below ``passes``; has the session of task 9 cancelled by somebody else when ``hub`` is given."""

    name = "pupil"
    definition: Mapping[str, JSON] = {"kind": "pupil"}

    def __init__(self, passes: int = 10, *, hub: Hub | None = None, pause_s: float = 0.0) -> None:
        self._passes = passes
        self._hub = hub
        self._pause_s = pause_s
        self.playing = 0
        self.most_playing = 0
        self.ten_play = asyncio.Event()

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        return _Sitting(self, task.index, "right" if task.index < self._passes else "wrong")

    async def wait(self, index: int) -> None:
        self.playing += 1
        self.most_playing = max(self.playing, self.most_playing)
        if self.playing == 10:
            self.ten_play.set()
        try:
            if self._pause_s:
                await asyncio.sleep(self._pause_s)
            if self._hub is not None and index == 9:
                await _cancel(self._hub, index)
        finally:
            self.playing -= 1


async def _cancel(hub: Hub, index: int) -> None:
    live = wire.loads_json(await hub.request("GET", "/v1/sessions"))["sessions"]
    (session_id,) = [each["session_id"] for each in live if each["task"] == index]
    await hub.request("POST", f"/v1/sessions/{session_id}/cancel", b"{}")


class _Sitting:
    def __init__(self, pupil: Pupil, index: int, text: str) -> None:
        self._pupil = pupil
        self._index = index
        self._text = text

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        await self._pupil.wait(self._index)
        return answering(self._text)

    def spent(self) -> Spent:
        return Spent()

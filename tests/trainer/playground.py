"""An environment, engines and a hub connection for tests of rollouts: what was asked, sampled and sent can be read afterwards."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from envhub.client.hub import Hub
from envhub.core.errors import EpisodeFailedError
from envhub.core.types import (
    JSON,
    Defect,
    EnvironmentInfo,
    Message,
    Observation,
    StepResult,
    StopReason,
    TaskRef,
    ToolSpec,
)
from envhub.embedded import EmbeddedHub
from envhub.testing.clock import FakeClock
from envhub.transport import AsgiTransport, HttpAnswer
from tests.trainer.tokenizers import ByteTokenizer
from trainer_adapter.chat import ChatFormat
from trainer_adapter.engines import Draw, EnginePlan, EnginePool
from trainer_adapter.queue import Ticket
from trainer_adapter.rollout import Rollout, RolloutSettings
from trainer_adapter.tokens import Completion, FinishReason, Trajectory

END = "<|im_end|>"
TOOLS = (ToolSpec("noop", "Nothing.", {"type": "object"}),)
OPTIONS: Mapping[str, JSON] = {"observation": "Go.", "fail_reset": False}


class NoteEpisode:
    """Does what the last line of a message says: ``say N`` (answers N characters), ``pay R``, ``note TEXT`` (answers all notes),
    ``done R``, ``invalid``, ``raise``, ``sleep S``."""

    def __init__(self, environment: NoteEnvironment, options: Mapping[str, JSON]) -> None:
        self._environment = environment
        self._options = options
        self._notes: list[str] = []
        self._is_open = True
        environment.n_live += 1

    async def reset(self) -> Observation:
        if self._options["fail_reset"]:
            raise EpisodeFailedError("no start")
        return Observation((Message.user(str(self._options["observation"])),), TOOLS)

    async def step(self, message: Message) -> StepResult:
        self._environment.n_steps += 1
        if self._environment.clock is not None:
            await self._environment.clock.advance(3.0)
        command, _, argument = (message.content or "").split("\n")[-1].partition(" ")
        match command:
            case "done":
                return StepResult((Message.user("over"),), _number(argument), terminated=True)
            case "invalid":
                return StepResult((), terminated=True, stop_reason=StopReason.INVALID_ACTION)
            case "pay":
                return StepResult((Message.user("paid"),), _number(argument))
            case "raise":
                raise EpisodeFailedError("broken")
            case "sleep":
                await asyncio.sleep(_number(argument))
            case "note":
                self._notes.append(argument)
                return StepResult((Message.user(f"noted: {' '.join(self._notes)}"),))
        return StepResult((Message.user("z" * int(_number(argument)) if command == "say" else "what?"),))

    async def close(self) -> None:
        self._environment.n_live -= self._is_open
        self._environment.n_closed += self._is_open
        self._is_open = False


def _number(text: str) -> float:
    """The number a text begins with, 0 where it begins with none: completions are cut off anywhere."""
    found = re.match(r"[0-9]+(\.[0-9]+)?", text)
    return float(found[0]) if found else 0.0


class NoteEnvironment:
    def __init__(self, *, max_turns: int = 50, clock: FakeClock | None = None) -> None:
        self.clock = clock
        self.n_live = self.n_closed = self.n_steps = 0
        self._info = EnvironmentInfo(
            "notes", "1", "Does what it is told.", {"test": 1000}, "cafe", OPTIONS, max_turns=max_turns
        )

    def info(self) -> EnvironmentInfo:
        return self._info

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> NoteEpisode:
        return NoteEpisode(self, options)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        return None

    def lint(self, split: str) -> Iterable[Defect]:
        return ()

    async def close(self) -> None:
        pass


class CountedTransport:
    """Counts calls by what they ask for."""

    def __init__(self, inner: AsgiTransport) -> None:
        self._inner = inner
        self.sent: Counter[str] = Counter()

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        self.sent[f"{method} {path.split('?')[0].rsplit('/', 1)[1]}"] += 1
        return await self._inner.request(method, path, body, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def connected(hub: EmbeddedHub) -> tuple[Hub, CountedTransport]:
    transport = CountedTransport(AsgiTransport(hub.app))
    return Hub(transport=transport), transport


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of an engine."""

    prompt: tuple[int, ...]
    max_tokens: int
    completion: Completion


Say = Callable[[str], str]
"""From the whole text so far to what is said next."""


@dataclass(slots=True)
class ScriptedEngine:
    """Samples what ``say`` says, and an end of turn; cut off at ``max_tokens``. Log-probs count up, so that none is like another."""

    tokenizer: ByteTokenizer
    say: Say
    number: int = 0
    version: int = 0
    finish: FinishReason | None = None
    on_sample: Callable[[ScriptedEngine], None] = lambda engine: None
    clock: FakeClock | None = None
    asked: list[Asked] = field(default_factory=list)

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion:
        assert max_tokens > 0, "a budget must be positive"
        version = self.version
        prompt = tuple(ids)
        self.on_sample(self)
        if self.clock is not None:
            await self.clock.advance(2.0)
        await asyncio.sleep(0)
        whole = self.tokenizer.ids(self.say(self.tokenizer.decode(prompt)) + END)
        sampled = tuple(whole[:max_tokens])
        finish = self.finish or (FinishReason.STOP if len(sampled) == len(whole) else FinishReason.LENGTH)
        logprobs = tuple(-(len(prompt) + n) / 1000.0 for n in range(len(sampled)))
        text = self.tokenizer.decode(sampled).removesuffix(END)
        completion = Completion(sampled, logprobs, text, finish, self.number, version)
        self.asked.append(Asked(prompt, max_tokens, completion))
        return completion


class BrokenEngine:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion:
        raise self._error


def rollout(
    chat: ChatFormat, *engines: ScriptedEngine | BrokenEngine, clock: FakeClock | None = None, **settings: Any
) -> Rollout:
    pool = EnginePool(EnginePlan(len(engines)), engines, Draw(EnginePlan(len(engines)), seed=0))
    return Rollout(pool, chat, RolloutSettings(**settings), clock=clock or FakeClock())


def ticket(index: int = 0, attempt: int = 0) -> Ticket:
    return Ticket(f"g{index}", 0, TaskRef("notes", "test", index), attempt)


def script(*turns: str) -> Say:
    """Says one text after another, whatever it reads."""
    left = iter(turns)
    return lambda text: next(left)


def check(trajectory: Trajectory, asked: Sequence[Asked]) -> None:
    """Every sequence is, at each place where an engine was asked, what that engine saw; then come its tokens and log-probs."""
    positions = iter([each for each in asked if each.completion.ids])
    for sequence in trajectory.sequences:
        n = len(sequence)
        assert n == len(sequence.mask) == len(sequence.logprobs) == len(sequence.engines) == len(sequence.versions)
        assert set(sequence.mask) <= {0, 1} and sequence.n_actions > 0 and sequence.mask[-1] == 1
        assert all(map(math.isfinite, sequence.logprobs))
        position = 0
        while position < n:
            if not sequence.mask[position]:
                assert (sequence.logprobs[position], sequence.engines[position]) == (0.0, -1)
                position += 1
                continue
            call = next(positions)
            end = position + len(call.completion.ids)
            assert sequence.ids[:position] == call.prompt
            assert sequence.ids[position:end] == call.completion.ids
            assert sequence.logprobs[position:end] == call.completion.logprobs
            assert set(sequence.mask[position:end]) == {1}
            assert set(sequence.engines[position:end]) == {call.completion.engine}
            assert set(sequence.versions[position:end]) == {call.completion.version}
            position = end
    with suppress(StopIteration):
        raise AssertionError(f"sampled and not in the trajectory: {next(positions)}")
    assert trajectory.n_actions == sum(len(each.completion.ids) for each in asked)

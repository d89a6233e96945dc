"""Records that cross every boundary of the hub; OpenAI-shaped, immutable.

Invariant: nothing here does I/O, and a record once made never changes. Fields typed ``Mapping`` are read-only by convention.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

JSON = Any
"""A value that came from, or goes to, JSON. The one place where ``Any`` is honest."""

Role = Literal["system", "user", "assistant", "tool"]


class StopReason(StrEnum):
    """Why an episode ended. Failures of ours are errors, not stop reasons."""

    COMPLETED = "completed"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    INVALID_ACTION = "invalid_action"
    CONTEXT_LIMIT = "context_limit"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One function call of an assistant message.

    ``arguments`` is the JSON text exactly as the model wrote it. ``problem`` is set when the call itself was malformed on
    the wire (no name, arguments not a string, ...); such a call is answered with that text and never executed.
    """

    id: str
    name: str
    arguments: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. Only assistant messages carry ``tool_calls``; only tool messages carry ``tool_call_id``."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @staticmethod
    def system(content: str) -> Message:
        return Message("system", content)

    @staticmethod
    def user(content: str) -> Message:
        return Message("user", content)

    @staticmethod
    def assistant(content: str | None = None, *calls: ToolCall) -> Message:
        return Message("assistant", content, calls)

    @staticmethod
    def tool(call_id: str, content: str) -> Message:
        return Message("tool", content, (), call_id)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function the agent may call; ``parameters`` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, order=True)
class TaskRef:
    """One problem: environment, split and its 0-based index in that split."""

    environment: str
    split: str
    index: int

    def __str__(self) -> str:
        return f"{self.environment}/{self.split}/{self.index}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a reset shows the agent."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    info: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The environment's answer to one assistant message.

    ``reward`` belongs to this step; the return of an episode is the sum. An Episode sets ``terminated`` (and, with it,
    ``stop_reason`` when the end is not an ordinary completion); ``truncated`` is set by the worker session alone.
    """

    messages: tuple[Message, ...] = ()
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    stop_reason: StopReason | None = None
    info: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class Identity:
    """What a result was measured on. Results of different identities are not comparable."""

    environment: str
    version: str
    dataset_hash: str
    grading: str = "strict"
    options: Mapping[str, JSON] = field(default_factory=dict)
    image_digest: str | None = None

    @property
    def digest(self) -> str:
        """12 hex characters that change when any field changes."""
        record = [
            self.environment,
            self.version,
            self.dataset_hash,
            self.grading,
            dict(self.options),
            self.image_digest,
        ]
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


LIMIT_OPTIONS = ("max_turns", "max_episode_s")
"""What every session may be given as options besides its environment's own."""


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """What an environment says of itself.

    ``splits`` maps a split name to its number of tasks; ``default_split`` is the one to measure on. ``options`` maps an option
    name to its default; a session may override those and no others. ``max_turns`` and ``max_episode_s`` are the limits a
    session gets unless it asks for less or, by option, more.
    """

    name: str
    version: str
    description: str
    splits: Mapping[str, int]
    dataset_hash: str
    options: Mapping[str, JSON] = field(default_factory=dict)
    max_turns: int = 20
    max_episode_s: float = 3600.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    deterministic: bool = True
    image_digest: str | None = None
    default_split: str = "test"


@dataclass(frozen=True, slots=True)
class Defect:
    """A task that a careful reader would not trust, and why. ``usable`` says whether it can be played at all."""

    task: TaskRef
    problem: str
    usable: bool = True

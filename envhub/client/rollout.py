"""The one rollout loop: a policy plays a session to its end.

Invariant: a failure of the hub is raised and never becomes a reward; what the agent did not manage in time is an outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envhub.client.hub import HubSession
from envhub.core.types import JSON, Identity, Message, StopReason, TaskRef, ToolSpec


class Policy(Protocol):
    """Chooses what to say next."""

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        """The next assistant message, given the whole conversation."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of an episode. ``messages`` is the whole conversation; ``rewards`` has one entry per turn."""

    task: TaskRef
    seed: int
    session_id: str
    identity: Identity
    messages: tuple[Message, ...]
    rewards: tuple[float, ...]
    terminated: bool
    truncated: bool
    stop_reason: StopReason | None
    info: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def episode_return(self) -> float:
        return sum(self.rewards)

    @property
    def turns(self) -> int:
        return len(self.rewards)


async def rollout(session: HubSession, policy: Policy) -> Trajectory:
    """Play a session from its start to its end, and cancel it when the policy fails. Raises EnvhubError."""
    async with session:
        messages = list(session.messages)
        rewards: list[float] = []
        while True:
            action = await policy.act(messages, session.tools)
            result = await session.interact(action)
            messages += [action, *result.messages]
            rewards.append(result.reward)
            if result.done:
                break
        return Trajectory(
            session.task,
            session.seed,
            session.id,
            session.identity,
            tuple(messages),
            tuple(rewards),
            result.terminated,
            result.truncated,
            result.stop_reason,
            result.info,
        )

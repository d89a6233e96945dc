"""Trajectories for tests."""

from __future__ import annotations

from collections.abc import Sequence

from envhub.core.types import TaskRef
from trainer_adapter.queue import Ticket
from trainer_adapter.tokens import Completion, Failure, FailureKind, FinishReason, TokenTrack, Trajectory

TASK = TaskRef("db", "train", 0)


def completion(*ids: int, engine: int = 0, version: int = 0, text: str = "") -> Completion:
    return Completion(ids, tuple(-0.5 for _ in ids), text, FinishReason.STOP, engine, version)


def played(
    ticket: Ticket, reward: float = 1.0, *, versions: Sequence[int] = (0,), engines: Sequence[int] = ()
) -> Trajectory:
    """One turn of two tokens for each version."""
    track = TokenTrack()
    track.observe([1, 2, 3])
    for turn, version in enumerate(versions):
        track.act(completion(4, 5, version=version, engine=engines[turn] if engines else 0))
        track.observe([6])
    return Trajectory(ticket.group, ticket.member, ticket.task, (track.sequence(),), reward, reward)


def failed(ticket: Ticket, kind: FailureKind = FailureKind.INFRASTRUCTURE, code: str = "session_lost") -> Trajectory:
    return Trajectory(ticket.group, ticket.member, ticket.task, failure=Failure(kind, code, "its worker is gone"))

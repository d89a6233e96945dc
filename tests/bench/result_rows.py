"""Rows made by hand."""

from __future__ import annotations

from typing import Any

from envhub.bench.results import Failure, Row, Status
from envhub.core.types import Identity, StopReason

ONE = Identity("db", "1", "hash-1")
TWO = Identity("db", "2", "hash-2")


def graded(task: int, reward: float, repeat: int = 0, **fields: Any) -> Row:
    known: dict[str, Any] = {
        "agent": "a",
        "environment": "db",
        "split": "test",
        "seed": 1,
        "identity": ONE.digest,
        "turns": 2,
        "stop_reason": StopReason.COMPLETED,
        "terminated": True,
        "hub_s": 0.01,
    }
    return Row(
        **(known | fields),
        task=task,
        repeat=repeat,
        status=Status.GRADED,
        episode_return=reward,
        success=reward >= 1.0,
    )


def failed(task: int, repeat: int = 0, *, code: str = "episode_failed", message: str = "broke", **fields: Any) -> Row:
    known: dict[str, Any] = {"agent": "a", "environment": "db", "split": "test", "seed": 1}
    return Row(**(known | fields), task=task, repeat=repeat, status=Status.ERROR, error=Failure("hub", code, message))


def cancelled(task: int, repeat: int = 0) -> Row:
    return Row(
        agent="a", environment="db", split="test", seed=1, task=task, repeat=repeat, status=Status.CANCELLED, turns=1
    )

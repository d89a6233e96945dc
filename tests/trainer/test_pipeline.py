"""The asynchronous pipeline: batches as they come, nothing left behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from envhub.core.types import TaskRef
from envhub.testing.clock import FakeClock, settle
from tests.trainer.makers import failed, played
from trainer_adapter.pipeline import Pipeline
from trainer_adapter.queue import InfrastructureDownError, QueueSettings, Ticket, TrajectoryQueue
from trainer_adapter.tokens import Trajectory


def tasks(n: int | None = None) -> Iterator[TaskRef]:
    return (TaskRef("db", "train", index) for index in (itertools.count() if n is None else range(n)))


def queue(**changes: Any) -> TrajectoryQueue:
    return TrajectoryQueue(
        QueueSettings(
            **({"group_size": 2, "b_min": 2, "b_max": 4, "max_staleness": 1, "max_failure_rate": 1.0} | changes)
        )
    )


class Stage:
    """Plays a ticket for as long as ``seconds`` says, at the version the queue has when it begins."""

    def __init__(self, made: TrajectoryQueue, seconds: dict[int, float] | None = None) -> None:
        self.clock = FakeClock()
        self.queue = made
        self.seconds = seconds or {}
        self.live = self.most = 0
        self.cancelled: list[Ticket] = []

    async def play(self, ticket: Ticket) -> Trajectory:
        version = self.queue.version
        self.live += 1
        self.most = max(self.most, self.live)
        try:
            await self.clock.sleep(self.seconds.get(ticket.task.index, 1.0))
        except asyncio.CancelledError:
            self.cancelled.append(ticket)
            raise
        finally:
            self.live -= 1
        return played(ticket, float(ticket.member), versions=(version,))


async def test_training_goes_on_while_the_longest_episode_is_played() -> None:
    made = queue(max_staleness=3)
    stage = Stage(made, {0: 3.5})
    async with Pipeline(made, tasks(), stage.play, max_live=16) as pipeline:
        for step in range(1, 4):
            waiting = asyncio.create_task(pipeline.batch())
            await stage.clock.advance(1.0)
            batch = await waiting
            assert batch is not None and all(group.task.index for group in batch.groups)
            pipeline.advance(step)
        await stage.clock.advance(1.0)
        batch = await pipeline.batch()
        assert batch is not None
        stale = dict(zip((group.task.index for group in batch.groups), batch.staleness, strict=True))
        assert stale[0] == 3
    assert made.account().balanced


async def test_no_more_are_played_at_once_than_allowed() -> None:
    made = queue(max_staleness=9)
    stage = Stage(made)
    async with Pipeline(made, tasks(), stage.play, max_live=5):
        for _ in range(6):
            await stage.clock.advance(1.0)
    assert stage.most == 5 and stage.live == 0


async def test_a_run_ends_with_what_is_left_and_then_with_none() -> None:
    made = queue()
    stage = Stage(made)
    trained = []
    async with Pipeline(made, tasks(3), stage.play, max_live=16) as pipeline:
        for step in range(1, 5):
            waiting = asyncio.create_task(pipeline.batch())
            await stage.clock.advance(1.0)
            if (batch := await waiting) is None:
                break
            trained += [group.task.index for group in batch.groups]
            pipeline.advance(step)
    assert sorted(trained) == [0, 1, 2] and made.account().trained == 6 and made.account().live == 0


async def test_a_failed_trajectory_is_played_again() -> None:
    made = queue(b_min=1)
    tried: list[Ticket] = []

    async def play(ticket: Ticket) -> Trajectory:
        tried.append(ticket)
        return failed(ticket) if ticket.member == 1 and ticket.attempt < 2 else played(ticket)

    async with Pipeline(made, tasks(1), play, max_live=4) as pipeline:
        batch = await pipeline.batch()
    assert batch is not None and batch.n_trajectories == 2
    assert [(ticket.member, ticket.attempt) for ticket in tried] == [(0, 0), (1, 0), (1, 1), (1, 2)]


async def test_a_run_whose_infrastructure_is_down_tells_whoever_waits_b015() -> None:
    made = queue(failure_window=6, max_failure_rate=0.5)

    async def play(ticket: Ticket) -> Trajectory:
        return failed(ticket)

    async with Pipeline(made, tasks(), play, max_live=4) as pipeline:
        with pytest.raises(InfrastructureDownError, match="6 of the last 6"):
            await pipeline.batch()


async def test_a_bug_in_a_player_reaches_whoever_waits_b055() -> None:
    made = queue()

    async def play(ticket: Ticket) -> Trajectory:
        raise KeyError("a bug")

    async with Pipeline(made, tasks(), play, max_live=4) as pipeline:
        with pytest.raises(KeyError):
            await pipeline.batch()


async def test_what_can_no_longer_be_trained_is_aborted_and_its_place_given_away() -> None:
    made = queue(b_min=1, max_staleness=1)
    stage = Stage(made, {0: 1.0})
    first: list[Ticket] = []

    async def play(ticket: Ticket) -> Trajectory:
        if ticket.task.index == 0 and ticket.member == 1:
            first.append(ticket)
            stage.seconds[0] = 100.0
        return await stage.play(ticket)

    async with Pipeline(made, tasks(), play, max_live=4) as pipeline:
        await stage.clock.advance(1.0)
        pipeline.advance(1)
        assert not stage.cancelled
        pipeline.advance(2)
        await settle()
        assert stage.cancelled == first and stage.live == 4
    assert made.account().balanced


async def test_leaving_early_leaves_nobody_playing() -> None:
    made = queue()
    stage = Stage(made)
    async with Pipeline(made, tasks(), stage.play, max_live=8) as pipeline:
        await settle()
        assert stage.live == pipeline.n_live == 8
    assert stage.live == 0 and made.account().balanced and made.account().live == 0

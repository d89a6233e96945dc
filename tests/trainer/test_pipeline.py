"""The asynchronous pipeline: batches as they come, nothing left behind."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from envhub.core.types import TaskRef
from envhub.testing.clock import FakeClock, settle
from tests.trainer.makers import failed, played
from trainer_adapter.pipeline import Pipeline
from trainer_adapter.queue import InfrastructureDownError, OnFailure, QueueSettings, Ticket, TrajectoryQueue
from trainer_adapter.tokens import FailureKind, Trajectory


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


@pytest.mark.parametrize("abort", [True, False])
async def test_the_siblings_of_a_lost_trajectory_are_not_played_to_the_end(abort: bool) -> None:
    made = queue(group_size=4, b_min=1, n_retries=0)
    stage = Stage(made, {0: 50.0})
    begun: list[Ticket] = []

    async def play(ticket: Ticket) -> Trajectory:
        begun.append(ticket)
        if ticket.task.index == 0 and ticket.member == 0:
            await stage.clock.sleep(0.5)
            return failed(ticket)
        return await stage.play(ticket)

    async with Pipeline(made, tasks(1), play, max_live=3, abort_hopeless=abort):
        await stage.clock.advance(1.0)
        assert [ticket.member for ticket in stage.cancelled] == ([1, 2] if abort else [])
        assert stage.live == (0 if abort else 2)
    assert [ticket.member for ticket in begun] == [0, 1, 2], "the fourth had not begun"
    assert made.account().balanced and made.account().dropped == {"failed": 4}


async def test_leaving_early_leaves_nobody_playing() -> None:
    made = queue()
    stage = Stage(made)
    async with Pipeline(made, tasks(), stage.play, max_live=8) as pipeline:
        await settle()
        assert stage.live == pipeline.n_live == 8
    assert stage.live == 0 and made.account().balanced and made.account().live == 0


async def test_a_task_stream_that_breaks_reaches_whoever_waits() -> None:
    made = queue(b_min=1, b_max=1, max_staleness=0)

    def broken() -> Iterator[TaskRef]:
        yield TaskRef("db", "train", 0)
        raise OSError("no more disk")

    async def play(ticket: Ticket) -> Trajectory:
        await asyncio.sleep(0)
        return failed(ticket, FailureKind.UNTRAINABLE)

    async with Pipeline(made, broken(), play, max_live=4) as pipeline:
        with pytest.raises(OSError, match="disk"):
            async with asyncio.timeout(20):
                await pipeline.batch()


async def test_the_worked_example_of_one_long_episode_and_63_short_ones() -> None:
    """30 steps against 5 of 1.5 s: waiting for all takes 45 s, 37.5 of them idle; with B_min 16, training, which takes as long as a
    short episode, makes 5 to 6 updates meanwhile, and the long episode is 1 to 6 versions stale when it ends."""
    made = queue(group_size=1, b_min=16, b_max=64, max_staleness=6, min_group=1)
    kinds = itertools.chain(["alfworld"], itertools.repeat("db"))
    stream = (TaskRef(kind, "train", index) for index, kind in enumerate(kinds))
    clock, updates, stale_long = FakeClock(), [], []
    began = clock.now()

    async def play(ticket: Ticket) -> Trajectory:
        version = made.version
        await clock.sleep(1.5 * (30 if ticket.task.environment == "alfworld" else 5))
        return played(ticket, versions=(version,))

    async with Pipeline(made, stream, play, max_live=64) as pipeline:

        async def train() -> None:
            while (batch := await pipeline.batch()) is not None:
                stale_long.extend(
                    staleness
                    for group, staleness in zip(batch.groups, batch.staleness, strict=True)
                    if group.task.environment == "alfworld"
                )
                updates.append(clock.now() - began)
                await clock.sleep(5 * 1.5)
                pipeline.advance(made.version + 1)

        training = asyncio.create_task(train())
        for _ in range(30):
            await clock.advance(1.5)
        training.cancel()
        await asyncio.gather(training, return_exceptions=True)
    assert updates[0] == 7.5, "waiting for all 64 would have begun at 45"
    assert len([at for at in updates if at <= 45.0]) in (5, 6)
    assert len(stale_long) == 1 and 1 <= stale_long[0] <= 6
    assert made.account().balanced


@pytest.mark.parametrize("seed", range(25))
async def test_every_trajectory_is_accounted_for_whatever_players_do(seed: int) -> None:
    """They end, fail, cannot be trained, hang, are cancelled from outside, or are given up; the run ends anywhere."""
    rng = random.Random(seed)
    made = queue(
        group_size=rng.randint(1, 4), b_min=rng.choice([1, 2, 4]), b_max=4, max_staleness=rng.randint(0, 3), min_group=1,
        on_failure=rng.choice([OnFailure.RETRY, OnFailure.SURVIVORS]), n_retries=rng.randint(0, 2), filter_flat=rng.random() < 0.3,
    )  # fmt: skip
    clock = FakeClock()
    trained: list[tuple[str, int]] = []

    async def play(ticket: Ticket) -> Trajectory:
        version = made.version
        await clock.sleep(rng.expovariate(1.0))
        match rng.randrange(12):
            case 0 | 1:
                return failed(ticket)
            case 2:
                return failed(ticket, FailureKind.UNTRAINABLE, "no_action")
            case 3:
                await asyncio.Event().wait()
            case 4:
                return failed(ticket, FailureKind.CANCELLED, "cancelled")
        return played(ticket, float(rng.randrange(2)), versions=(version, made.version))

    async with Pipeline(
        made, tasks(), play, max_live=rng.randint(2, 24), abort_hopeless=rng.random() < 0.7
    ) as pipeline:

        async def train() -> None:
            while (batch := await pipeline.batch()) is not None:
                assert max(batch.staleness) <= made.settings.max_staleness
                trained.extend((each.group, each.member) for group in batch.groups for each in group.trajectories)
                await clock.sleep(rng.random())
                pipeline.advance(made.version + 1)

        training = asyncio.create_task(train())
        for _ in range(60):
            await clock.advance(0.25)
            assert made.account().balanced
            if pipeline.n_live and rng.random() < 0.1:
                made.cancel([rng.choice(list(made._open))] if made._open else [])
        assert not training.done() or training.exception() is None
        training.cancel()
        await asyncio.gather(training, return_exceptions=True)
    account = made.account()
    assert account.balanced and not account.live and not account.ready and not pipeline.n_live
    assert account.trained == len(trained) == len(set(trained))


@pytest.mark.parametrize("left_by", ["a lost group", "the end of the run", "an impatient caller"])
async def test_a_trajectory_that_is_given_up_has_the_time_to_end_its_session_b001(left_by: str) -> None:
    """However many others of its group end meanwhile, and however often the run is told to stop."""
    made = queue(group_size=8, b_min=1, n_retries=0)
    clock = FakeClock()
    n_cancels: dict[Ticket, int] = {}
    ended: list[Ticket] = []
    lost = asyncio.Event()

    async def play(ticket: Ticket) -> Trajectory:
        if ticket.member == 0:
            await lost.wait()
            return failed(ticket, FailureKind.UNTRAINABLE)
        try:
            await asyncio.Event().wait()
            raise AssertionError
        except asyncio.CancelledError:
            until = clock.now() + ticket.member
            while clock.now() < until:
                try:
                    await clock.sleep(until - clock.now())
                except asyncio.CancelledError:
                    n_cancels[ticket] = n_cancels.get(ticket, 0) + 1
            ended.append(ticket)
            raise

    async def run() -> None:
        async with Pipeline(made, tasks(1), play, max_live=16):
            await settle()
            if left_by == "a lost group":
                lost.set()
                await clock.sleep(4.5)

    running = asyncio.create_task(run())
    await settle()
    while not running.done():
        if left_by == "an impatient caller":
            running.cancel()
        await clock.advance(1.0)
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled() == (left_by == "an impatient caller")
    assert sorted(ticket.member for ticket in ended) == list(range(1, 8)) and n_cancels == {}
    assert made.account().balanced and made.account().live == 0

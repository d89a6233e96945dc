"""The asynchronous pipeline around the trajectory queue: one coroutine per trajectory, a trainer that never waits for the slowest.

Invariants: every ticket that the queue hands out is played to a trajectory that comes back to it; every coroutine is owned and
awaited here; a failure that ends the run reaches whoever waits for a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType

from envhub.core.endings import ended
from envhub.core.types import TaskRef
from trainer_adapter.queue import Batch, Ticket, TrajectoryQueue
from trainer_adapter.tokens import Failure, FailureKind, Trajectory

Play = Callable[[Ticket], Awaitable[Trajectory]]


class Pipeline:
    """``async with Pipeline(...) as pipeline: batch = await pipeline.batch(); ...; pipeline.advance(version)``.

    ``max_live`` trajectories are played at once. ``abort_hopeless`` cancels those that can no longer be trained, because they are too
    stale or their group is gone; without it they play on and are thrown away. Those that have not begun never do.
    """

    def __init__(
        self,
        queue: TrajectoryQueue,
        tasks: Iterator[TaskRef],
        play: Play,
        *,
        max_live: int,
        abort_hopeless: bool = True,
    ) -> None:
        if max_live < 1:
            raise ValueError("max_live must be at least 1")
        self.queue = queue
        self._tasks = tasks
        self._play = play
        self._max_live = max_live
        self._abort_hopeless = abort_hopeless
        self._waiting: list[Ticket] = []
        self._playing: dict[asyncio.Task[None], Ticket] = {}
        self._changed = asyncio.Event()
        self._exhausted = False
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Pipeline:
        self._fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def batch(self) -> Batch | None:
        """The next batch as soon as there is one; None when the tasks are used up and nothing is left.

        Raises what ended the run: InfrastructureDownError, or a bug.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            done = self._exhausted and not self._playing and not self._waiting
            if (found := self.queue.drain(last=done)) is not None:
                self._fill()
                return found
            if done:
                return None
            self._fill()
            self._changed.clear()
            await self._changed.wait()

    def advance(self, version: int) -> None:
        """The trainer has made a step; engines have, or are getting, this version."""
        for group in self.queue.advance(version):
            self._give_up(group)
        self._fill()

    async def close(self) -> None:
        """Cancel what is played and wait until it has ended, even where this is cancelled itself. Idempotent."""
        self._exhausted = True
        self._waiting.clear()
        self.queue.cancel()
        for task in self._playing:
            _cancel_once(task)
        await ended(list(self._playing))

    @property
    def n_live(self) -> int:
        return len(self._playing)

    def _fill(self) -> None:
        """Start what may be started: repetitions first, then new groups within the window."""
        while self.queue.retries:
            self._waiting.insert(0, self.queue.retries.popleft())
        while not self._exhausted and self.queue.may_admit and len(self._waiting) + len(self._playing) < self._max_live:
            task = next(self._tasks, None)
            if task is None:
                self._exhausted = True
            else:
                self._waiting += self.queue.admit(task)
        while self._waiting and len(self._playing) < self._max_live and self._failure is None:
            ticket = self._waiting.pop(0)
            playing = asyncio.create_task(self._one(ticket), name=f"{ticket.group}/{ticket.member}")
            self._playing[playing] = ticket
            playing.add_done_callback(self._ended)

    async def _one(self, ticket: Ticket) -> None:
        try:
            trajectory = await self._play(ticket)
        except asyncio.CancelledError:
            failure = Failure(FailureKind.CANCELLED, "cancelled", "the run gave this trajectory up")
            self.queue.put(Trajectory(ticket.group, ticket.member, ticket.task, failure=failure))
            raise
        self.queue.put(trajectory)

    def _ended(self, task: asyncio.Task[None]) -> None:
        group = self._playing.pop(task).group
        if not self.queue.is_open(group):
            self._give_up(group)
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            self._failure = error
        try:
            self._fill()
        except Exception as error:  # boundary: nobody else hears of what is raised in a callback
            self._failure = self._failure or error
        self._changed.set()

    def _give_up(self, group: str) -> None:
        self._waiting = [ticket for ticket in self._waiting if ticket.group != group]
        for task, ticket in self._playing.items():
            if self._abort_hopeless and ticket.group == group:
                _cancel_once(task)


def _cancel_once(task: asyncio.Task[None]) -> None:
    """One that is being cancelled is ending its session."""
    if not task.cancelling():
        task.cancel()

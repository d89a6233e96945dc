"""The store's asynchronous front: records are taken at once, written in batches by one thread, and reported when committed.

Invariant: every record that ``submit`` took is pending until exactly one of its callbacks is called; at most the limits'
records and bytes are pending, and what does not fit is not taken. A record that is offered again while it is pending takes no
room.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EnvhubError, InvalidRequestError, UnavailableError
from envhub.wire import EpisodeRecord

log = logging.getLogger(__name__)

RETRY_MIN_S: Final = 0.5
RETRY_MAX_S: Final = 30.0


class Sink(Protocol):
    """What the writer needs of an EpisodeStore."""

    def put(self, records: list[EpisodeRecord], /) -> None: ...


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """A batch goes out when it has ``batch`` records or its oldest is ``flush_after_s`` old. A record bigger than a bytes limit
    is taken, or written, alone."""

    batch: int = 100
    batch_bytes: int = 32 * 1024**2
    flush_after_s: float = 1.0
    max_pending: int = 10_000
    max_pending_bytes: int = 512 * 1024**2


@dataclass(frozen=True, slots=True)
class WriterStats:
    """``pending`` + ``stored`` + ``refused`` is the number of records taken. ``failed_writes`` counts attempts, not records.

    ``last_error`` stays after the database came back; ``failing`` says whether the newest attempt failed.
    """

    pending: int
    pending_bytes: int
    stored: int
    refused: int
    failed_writes: int
    failing: bool
    last_error: str | None


@dataclass(frozen=True, slots=True)
class _Callbacks:
    on_stored: Callable[[], None] | None
    on_refused: Callable[[EnvhubError], None] | None


@dataclass(frozen=True, slots=True)
class _Pending:
    record: EpisodeRecord
    size: int
    taken_at: float
    callbacks: list[_Callbacks]


class EpisodeWriter:
    """Belongs to one event loop: all methods but the thread's own are called there. Whoever makes one awaits ``close``."""

    def __init__(self, store: Sink, *, limits: WriterLimits | None = None, clock: Clock | None = None) -> None:
        self._store = store
        self._limits = limits or WriterLimits()
        self._clock = clock or SystemClock()
        self._queue: deque[_Pending] = deque()
        self._newest: dict[str, _Pending] = {}  # by session, of those in the queue
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="episode-writer")
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._pending_bytes = 0
        self._stored = 0
        self._refused = 0
        self._failed_writes = 0
        self._failing = False
        self._last_error: str | None = None

    @property
    def accepts(self) -> bool:
        """Whether the next ``submit`` of an ordinary record would be taken."""
        full = len(self._queue) >= self._limits.max_pending or self._pending_bytes >= self._limits.max_pending_bytes
        return not self._closed and not full

    @property
    def stats(self) -> WriterStats:
        counts = self._stored, self._refused, self._failed_writes
        return WriterStats(len(self._queue), self._pending_bytes, *counts, self._failing, self._last_error)

    def submit(
        self,
        record: EpisodeRecord,
        on_stored: Callable[[], None] | None = None,
        on_refused: Callable[[EnvhubError], None] | None = None,
    ) -> bool:
        """Take a record, or return False when full or closed: then its owner keeps it and asks again later.

        Later, in this loop, ``on_stored`` after the commit that holds it, or ``on_refused`` when it is malformed and no
        repetition would help.
        """
        callbacks = _Callbacks(on_stored, on_refused)
        known = self._newest.get(record.session_id)
        if known is not None and known.record == record and not self._closed:
            known.callbacks.append(callbacks)
            return True
        size = len(record.trace)
        if not self.accepts or (self._queue and self._pending_bytes + size > self._limits.max_pending_bytes):
            return False
        pending = _Pending(record, size, self._clock.now(), [callbacks])
        self._queue.append(pending)
        self._newest[record.session_id] = pending
        self._pending_bytes += size
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="episode-writer")
            self._task.add_done_callback(_log_crash)
        if len(self._queue) == 1 or self._is_full():
            self._changed.set()
        return True

    async def flush(self) -> None:
        """Return when every record taken before now is stored or refused.

        Tries once, also in the middle of a back-off. Raises UnavailableError when that fails; the records stay pending.
        """
        async with self._writing:
            target = self._stored + self._refused + len(self._queue)
            while self._stored + self._refused < target:
                await self._write()

    async def close(self) -> None:
        """Write what is pending, in one attempt, and take no more. Idempotent. What could not be written was never reported
        as stored, so its owners still have it."""
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            if self._queue:
                await self.flush()
        except UnavailableError:
            log.warning(
                "episodes left unstored at close", extra={"pending": len(self._queue), "error": self._last_error}
            )
        finally:
            self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        delay_s = RETRY_MIN_S
        while True:
            await self._due()
            try:
                async with self._writing:
                    if self._queue:
                        await self._write()
            except UnavailableError:
                await self._back_off(delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
            else:
                delay_s = RETRY_MIN_S

    async def _due(self) -> None:
        """Until a batch is full, or its oldest record old enough."""
        while not self._queue:
            self._changed.clear()
            await self._changed.wait()
        due_at = self._queue[0].taken_at + self._limits.flush_after_s
        while self._queue and not self._is_full() and (left_s := due_at - self._clock.now()) > 0:
            await self._sleep_or_change(left_s)

    def _is_full(self) -> bool:
        return len(self._queue) >= self._limits.batch or self._pending_bytes >= self._limits.batch_bytes

    async def _back_off(self, delay_s: float) -> None:
        """Wait; less when a flush has shown meanwhile that the database is back."""
        until = self._clock.now() + delay_s
        while self._failing and (left_s := until - self._clock.now()) > 0:
            await self._sleep_or_change(left_s)

    async def _sleep_or_change(self, seconds: float) -> None:
        self._changed.clear()
        waits = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _write(self) -> None:
        """Write the head of the queue; the caller holds ``_writing``. Raises UnavailableError.

        When cancelled, the thread still finishes its transaction; the records stay queued, and storing them again changes
        nothing.
        """
        batch = self._head()
        try:
            refusals = await asyncio.get_running_loop().run_in_executor(self._thread, self._put, batch)
        except UnavailableError as error:
            self._note_failure(error)
            raise
        self._failing = False
        self._changed.set()
        for each, refusal in zip(batch, refusals, strict=True):
            self._queue.popleft()
            self._pending_bytes -= each.size
            self._settle(each, refusal)

    def _head(self) -> list[_Pending]:
        batch: list[_Pending] = []
        size = 0
        for each in islice(self._queue, self._limits.batch):
            size += each.size
            if batch and size > self._limits.batch_bytes:
                break
            batch.append(each)
        return batch

    def _put(self, batch: list[_Pending]) -> list[EnvhubError | None]:
        """In the thread: store all at once; when one of them is refused, each alone, so that the others are stored."""
        try:
            self._put_records([each.record for each in batch])
        except InvalidRequestError as refusal:
            if len(batch) == 1:
                return [refusal]
            return [outcome for each in batch for outcome in self._put([each])]
        return [None] * len(batch)

    def _put_records(self, records: list[EpisodeRecord]) -> None:
        try:
            self._store.put(records)
        except (InvalidRequestError, UnavailableError):
            raise
        except Exception as error:  # boundary: a surprise of the store must not end the writer, nor lose a record
            raise UnavailableError(f"{type(error).__name__}: {error}") from error

    def _note_failure(self, error: UnavailableError) -> None:
        self._failed_writes += 1
        self._last_error = error.message
        if not self._failing:
            log.error("episodes cannot be stored", extra={"pending": len(self._queue)}, exc_info=error)
        self._failing = True

    def _settle(self, pending: _Pending, refusal: EnvhubError | None) -> None:
        session_id = pending.record.session_id
        if self._newest[session_id] is pending:
            del self._newest[session_id]
        if refusal is None:
            self._stored += 1
        else:
            self._refused += 1
            self._last_error = refusal.message
            log.warning("episode refused by the store", extra={"session_id": session_id, "error": refusal.message})
        for each in pending.callbacks:
            try:
                if refusal is None and each.on_stored is not None:
                    each.on_stored()
                elif refusal is not None and each.on_refused is not None:
                    each.on_refused(refusal)
            except Exception:  # boundary: a callback's bug must not stop the writing of other episodes
                log.exception("callback of a stored episode failed", extra={"session_id": session_id})


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the episode writer stopped", exc_info=error)

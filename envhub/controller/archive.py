"""Where a controller keeps finished episodes: in memory for tests and short runs, in a database otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError
from envhub.store.episodes import EpisodeStore
from envhub.store.writer import EpisodeWriter
from envhub.wire import EpisodeRecord

log = logging.getLogger(__name__)

_CLOSE_S = 8.0


class MemoryArchive:
    """The last ``most`` episodes, in this process only."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._records: OrderedDict[str, EpisodeRecord] = OrderedDict()

    def submit(self, record: EpisodeRecord, on_stored: Callable[[], None]) -> None:
        self._records[record.session_id] = record
        while len(self._records) > self._most:
            self._records.popitem(last=False)
        on_stored()

    async def get(self, session_id: str) -> EpisodeRecord | None:
        return self._records.get(session_id)

    @property
    def n_pending(self) -> int:
        return 0

    async def close(self) -> None:
        pass

    def all(self) -> list[EpisodeRecord]:
        """Oldest first."""
        return list(self._records.values())


class StoreArchive:
    """Finished episodes in a database, written in batches off the event loop."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        self._store = EpisodeStore(url, clock=clock)
        self._store.open()
        self._clock = clock
        self._writer: EpisodeWriter | None = None
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="episode-reader")

    def submit(self, record: EpisodeRecord, on_stored: Callable[[], None]) -> None:
        """A record that does not fit now is not acknowledged; its worker offers it again."""
        if self._writer is None:
            self._writer = EpisodeWriter(self._store, clock=self._clock)

        def refused(error: EnvhubError) -> None:
            log.error("episode %s cannot be stored: %s", record.session_id, error)
            on_stored()

        self._writer.submit(record, on_stored, refused)

    async def get(self, session_id: str) -> EpisodeRecord | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._store.get, session_id)

    @property
    def n_pending(self) -> int:
        return self._writer.stats.pending if self._writer is not None else 0

    async def close(self) -> None:
        """What is not stored within a few seconds stays with its worker."""
        if self._writer is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self._writer.close()
            except TimeoutError:
                log.warning("the store does not answer; %d episodes stay with their workers", self.n_pending)
        self._readers.shutdown(wait=False)
        self._store.close()

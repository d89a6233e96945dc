"""The client for programs without an event loop: the same calls, blocking.

Invariant: all of a SyncHub's calls run on one event loop in one thread, which ends with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar

from envhub.client.hub import DEFAULT_URL, Hub, HubSession
from envhub.core.types import EnvironmentInfo, Identity, Message, Observation, StepResult, TaskRef
from envhub.transport import Transport

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="envhub-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; interrupted, it is cancelled first."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5.0)
        if not self._thread.is_alive():
            self._loop.close()


class SyncHub:
    """``with SyncHub(url) as hub``; see ``envhub.client.hub.Hub``."""

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, transport: Transport | None = None) -> None:
        self._thread = LoopThread()
        self._hub = Hub(url, key=key, transport=transport)

    def __enter__(self) -> SyncHub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._thread.run(self._hub.close())
        self._thread.close()

    def environments(self) -> tuple[EnvironmentInfo, ...]:
        return self._thread.run(self._hub.environments())

    def session(
        self, environment: str, split: str | None = None, task: int | None = None, **settings: Any
    ) -> SyncSession:
        """Same arguments as ``Hub.session``."""
        return SyncSession(self._thread, self._hub.session(environment, split, task, **settings))


class SyncSession:
    """See ``envhub.client.hub.HubSession``."""

    def __init__(self, thread: LoopThread, session: HubSession) -> None:
        self._thread = thread
        self._session = session

    def __enter__(self) -> SyncSession:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def start(self) -> Observation:
        return self._thread.run(self._session.start())

    def interact(self, message: Message) -> StepResult:
        return self._thread.run(self._session.interact(message))

    def fork(self, *, lease_s: float | None = None, tags: Mapping[str, str] | None = None) -> SyncSession:
        return SyncSession(self._thread, self._thread.run(self._session.fork(lease_s=lease_s, tags=tags)))

    def renew(self, lease_s: float | None = None) -> None:
        self._thread.run(self._session.renew(lease_s))

    def cancel(self) -> None:
        self._thread.run(self._session.cancel())

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def task(self) -> TaskRef:
        return self._session.task

    @property
    def identity(self) -> Identity:
        return self._session.identity

    @property
    def done(self) -> bool:
        return self._session.done

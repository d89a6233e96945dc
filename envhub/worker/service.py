"""The worker as a controller sees it: calls by name, events out.

Invariant: every call gets an answer in the public API's shape; nothing a client sent can raise out of ``handle``.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping

from envhub import __version__, wire
from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError, InternalError, InvalidRequestError
from envhub.core.protocols import Environment
from envhub.link.frames import PROTOCOL_VERSION, Failed, Frame, Hello
from envhub.link.protocols import EventSink
from envhub.worker.session import Abort, Answer
from envhub.worker.table import SessionTable, TableSettings

log = logging.getLogger(__name__)

_REAP_EVERY_S = 1.0


class WorkerService:
    """Serves a SessionTable on any number of links. Implements ``envhub.link.protocols.WorkerEnd``."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        worker_id: str,
        clock: Clock,
        rng: random.Random,
        settings: TableSettings = TableSettings(),  # noqa: B008
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.table = SessionTable(environments, settings, worker_id=worker_id, clock=clock, rng=rng, emit=self._publish)
        self.failures: list[str] = []
        self._labels = dict(labels or {})
        self._incarnation = f"{rng.getrandbits(64):016x}"
        self._clock = clock
        self._sinks: list[EventSink] = []
        self._calls = {
            "start": self._start,
            "fork": self._fork,
            "interact": self._interact,
            "renew": self._renew,
            "cancel": self._cancel,
            "give_up": self._give_up,
            "detach": self._detach,
            "describe": self._describe,
            "trace": self._trace,
            "drain": self._drain,
        }

    # --- WorkerEnd --------------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        infos = [wire.info_to_json(info) for info in self.table.infos.values()]
        return Hello(
            PROTOCOL_VERSION,
            self.worker_id,
            __version__,
            self.table.settings.capacity,
            infos,
            self.table.notes(),
            self.table.draining,
            self._labels,
            self.failures,
            self._incarnation,
        )

    async def handle(self, op: str, session: str, body: bytes) -> tuple[int, bytes]:
        call = self._calls.get(op)
        try:
            if call is None:
                raise InvalidRequestError(f"unknown operation {op!r}")
            answer = await call(session, body)
        except EnvhubError as error:
            answer = Answer.of(error)
        except Exception as error:  # boundary: a bug of ours must not cost the link
            log.exception("operation %s failed", op)
            answer = Answer.of(InternalError(f"{type(error).__name__}: {error}"))
        return answer.status, answer.body

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        for finished in self.table.unstored():
            sink(finished)
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    def stored(self, session_id: str) -> None:
        self.table.stored(session_id)

    def abandon(self, session_ids: Iterable[str]) -> None:
        self.table.abandon(session_ids)

    # --- life -------------------------------------------------------------------------------------------------------

    async def reap(self) -> None:
        """End overdue sessions until cancelled. A failing pass is recorded and the next one runs all the same."""
        while True:
            await self._clock.sleep(_REAP_EVERY_S)
            try:
                self.table.tick()
            except Exception as error:  # boundary: the reaper must outlive any one session's fault
                log.exception("the reaper failed")
                self.failures = [*self.failures[-9:], f"reaper: {type(error).__name__}: {error}"]
                self._publish(Failed(self.failures))

    def _publish(self, frame: Frame) -> None:
        for sink in self._sinks:
            sink(frame)

    # --- calls ------------------------------------------------------------------------------------------------------

    async def _start(self, session: str, body: bytes) -> Answer:
        return await self.table.start(session, wire.loads(body, wire.StartRequest))

    async def _fork(self, session: str, body: bytes) -> Answer:
        return await self.table.fork(session, wire.loads(body, wire.ForkCall))

    async def _interact(self, session: str, body: bytes) -> Answer:
        found = self.table.find(session)
        request = wire.loads(body, wire.InteractRequest)
        return await found.interact(request.turn, wire.assistant_from_json(request.message))

    async def _renew(self, session: str, body: bytes) -> Answer:
        request = wire.loads(body, wire.RenewRequest)
        lease_s = self.table.find(session).renew(request.lease_s)
        return Answer(200, wire.dumps({"session_id": session, "lease_s": lease_s}))

    async def _cancel(self, session: str, body: bytes) -> Answer:
        request = wire.loads(body, wire.CancelRequest)
        found = await self.table.cancel(session, Abort.CANCELLED, request.reason)
        if found is None:
            return Answer(200, wire.dumps({"session_id": session, "state": "ended"}))
        return Answer(200, wire.dumps(found.state()))

    async def _give_up(self, session: str, body: bytes) -> Answer:
        await self.table.give_up(session, wire.loads(body, wire.CancelRequest).reason)
        return Answer(200, b"{}")

    async def _detach(self, session: str, body: bytes) -> Answer:
        self.table.find(session).detach(self.table.settings.detach_grace_s)
        return Answer(200, b"{}")

    async def _describe(self, session: str, body: bytes) -> Answer:
        return Answer(200, wire.dumps(self.table.find(session).state()))

    async def _trace(self, session: str, body: bytes) -> Answer:
        return Answer(200, self.table.trace(session))

    async def _drain(self, session: str, body: bytes) -> Answer:
        self.table.drain()
        return Answer(200, wire.dumps({"worker": self.worker_id, "draining": True, "sessions": self.table.n_live}))

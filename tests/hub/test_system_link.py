"""The link under nonsense: wrong keys, wrong protocols, garbage, two hellos. The controller stays up and its workers linked."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.main import build, listen, running, serving
from envhub.controller.workers import LivenessSettings
from envhub.core.clock import SystemClock
from envhub.core.errors import SessionLostError
from envhub.core.types import Message
from envhub.embedded import EmbeddedHub
from envhub.link.dial import Address, Dialer
from envhub.link.frames import (
    BAD_DATA,
    PROTOCOL_VERSION,
    Bye,
    Call,
    Closed,
    Hello,
    Opened,
    Reply,
    SessionNote,
    Stored,
    encode,
)
from envhub.testing.clock import FakeClock
from envhub.testing.hub import served_hub
from envhub.worker.service import WorkerService
from tests.hub.environments import ProbeEnvironment


def hello(**changes: Any) -> Hello:
    plain = Hello(PROTOCOL_VERSION, "wstranger", "0", 4, [], [], False, {}, [])
    return msgspec.structs.replace(plain, **changes)


NOTE = SessionNote("wstranger.aaaaaaaaaaaaaaaa", "probe", "test", 0, 0.0, None, {})

NONSENSE: dict[str, str | bytes] = {
    "text": "hello",
    "empty": b"",
    "random": os.urandom(200),
    "not a list": msgspec.msgpack.encode({"a": 1}),
    "no frames": msgspec.msgpack.encode([]),
    "unknown tag": msgspec.msgpack.encode([["destroy", 1]]),
    "no hello": encode([Bye("x")]),
    "other protocol": encode([hello(protocol=99)]),
    "bad id": encode([hello(worker_id="../../x")]),
    "no capacity": encode([hello(capacity=0)]),
    "bad environment": encode([hello(environments=[{}])]),
    "bad environment type": encode([hello(environments=[{"name": 5, "version": []}])]),
    "truncated": encode([hello()])[:-3],
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_link_that_speaks_nonsense_is_closed_with_a_reason(name: str) -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as hub, aiohttp.ClientSession(hub.url) as http:
        async with http.ws_connect("/v1/link") as socket:
            message = NONSENSE[name]
            await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
            async with asyncio.timeout(20):
                closed = await socket.receive()
            assert closed.type is aiohttp.WSMsgType.CLOSE and closed.data == BAD_DATA
        await still_good(hub)


async def test_nonsense_after_a_good_hello_is_ignored_or_closes_that_link_only() -> None:
    rng = random.Random(7)
    frames: list[list[Any]] = [
        [hello()],
        [Reply(999, 200, b"x"), Reply(-1, 99999, b"")],
        [Closed("nobody"), Closed("")],
        [Opened(NOTE), Opened(NOTE)],
        [Opened(msgspec.structs.replace(NOTE, session_id="\x00"))],
        [Stored("x"), Call(1, "start", "x", b"")],
        [Bye("bye"), Bye("again"), Opened(NOTE)],
    ]
    async with served_hub({"probe": ProbeEnvironment()}) as hub, aiohttp.ClientSession(hub.url) as http:
        for _ in range(40):
            async with http.ws_connect("/v1/link") as socket:
                await socket.send_bytes(encode([hello(sessions=[NOTE])]))
                for each in rng.sample(frames, 3):
                    await socket.send_bytes(encode(each))
                await socket.send_bytes(os.urandom(rng.randrange(60)))
        await still_good(hub)


async def test_a_hello_that_names_a_linked_worker_and_is_bad_does_not_cost_that_worker_its_link() -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as hub, aiohttp.ClientSession(hub.url) as http:
        async with http.ws_connect("/v1/link") as socket:
            good = hub.worker.hello()
            await socket.send_bytes(encode([msgspec.structs.replace(good, environments=[{}])]))
            assert (await socket.receive()).data == BAD_DATA
        await still_good(hub)


async def test_a_refused_worker_says_so_and_asks_again_slowly(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(port=0, client_key="a", worker_key="b")
    app, service = build(settings, clock=SystemClock(), archive=MemoryArchive())
    worker = new_worker(ProbeEnvironment())
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        clock = Naps()
        dialer = Dialer(Address(url, "wrong"), worker, clock=clock, rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        for n_refusals in (1, 2):
            await until(lambda: len(clock.naps) == n_refusals)  # noqa: B023  # awaited here
            assert len([each for each in caplog.records if "refused this worker" in each.message]) == n_refusals
            assert clock.naps[-1] > 1.0 and not service.workers.all()
            await clock.advance(clock.naps[-1])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_events_between_hello_and_welcome_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends while the controller is still reading the hello must not stay in its books."""
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    worker = new_worker(ProbeEnvironment())
    session_id = f"{worker.worker_id}.{'a' * 16}"
    other_id = f"{worker.worker_id}.{'b' * 16}"
    start = msgspec.json.encode({"environment": "probe"})
    assert (await worker.handle("start", session_id, start))[0] == 200
    hello, events = worker.hello, list[asyncio.Task[Any]]()

    def hello_and_events() -> Hello:
        said = hello()
        if not events:
            events.append(asyncio.create_task(worker.handle("cancel", session_id, b"")))
            events.append(asyncio.create_task(worker.handle("start", other_id, start)))
        return said

    monkeypatch.setattr(worker, "hello", hello_and_events)
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        dialer = Dialer(Address(url), worker, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        async with asyncio.timeout(20):
            await dialer.linked.wait()
            await asyncio.gather(*events)
            while {*service.workers.all()[0].sessions} != {other_id}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await worker.table.shutdown()
        await dialer.close("over")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_was_finished_without_a_link_is_stored_with_the_first_one() -> None:
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    worker = new_worker(ProbeEnvironment())
    session_id = f"{worker.worker_id}.{'a' * 16}"
    await worker.handle("start", session_id, msgspec.json.encode({"environment": "probe"}))
    await worker.handle("cancel", session_id, b"")
    assert len(worker.table.unstored()) == 1
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url, dialed(url, worker):
        await until(lambda: not worker.table.unstored())
        assert service.workers.all()[0].sessions == {}


async def test_a_worker_that_the_controller_forgot_dials_again() -> None:
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    service.workers.settings = LivenessSettings(heartbeat_s=0.1)
    worker = new_worker(ProbeEnvironment())
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        dialer = Dialer(Address(url), worker, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        async with asyncio.timeout(20):
            await dialer.linked.wait()
            (before,) = service.workers.all()
            service.workers._workers.clear()
            while not service.workers.all():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert service.workers.all()[0] is not before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Naps(FakeClock):
    """Remembers how long it was asked to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await super().sleep(seconds)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


def new_worker(environment: ProbeEnvironment, *, seed: int = 1) -> WorkerService:
    return WorkerService({"probe": environment}, worker_id="wtested1", clock=SystemClock(), rng=random.Random(seed))


async def still_good(hub: EmbeddedHub) -> None:
    assert not hub.controller.failures
    (info,) = await hub.hub.environments()
    assert info.name == "probe"
    async with hub.hub.session("probe") as session:
        assert (await session.interact(Message.assistant("done"))).terminated
    assert hub.worker.worker_id in [each.id for each in hub.controller.workers.all()]


async def test_a_worker_started_again_under_its_name_loses_the_old_sessions_at_once_b034() -> None:
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    environment = ProbeEnvironment()
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url, Hub(url) as hub:
        async with dialed(url, new_worker(environment, seed=1)):
            session = hub.session("probe")
            await session.start()
            turn = asyncio.create_task(session.interact(Message.assistant("sleep 60")))
            await until(lambda: environment.counts.steps == 1)
        async with dialed(url, new_worker(ProbeEnvironment(), seed=2)):
            async with asyncio.timeout(20):
                with pytest.raises(SessionLostError):
                    await turn
            with pytest.raises(SessionLostError):
                await hub.request("POST", f"/v1/sessions/{session.id}/renew")
            assert [len(worker.sessions) for worker in service.workers.all()] == [0]


async def test_two_workers_of_one_name_do_not_push_each_other_out(caplog: pytest.LogCaptureFixture) -> None:
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    async with (
        running(service),
        serving(app, listen("127.0.0.1", 0)) as url,
        Hub(url) as hub,
        dialed(url, new_worker(ProbeEnvironment(), seed=1)) as first,
    ):
        session = hub.session("probe")
        await session.start()
        second = Dialer(Address(url), new_worker(ProbeEnvironment(), seed=2), clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(second.run())
        await until(lambda: any("is linked already" in each.getMessage() for each in caplog.records))
        assert first.linked.is_set() and not second.linked.is_set()
        assert not (await session.interact(Message.assistant("on"))).done
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def dialed(url: str, worker: WorkerService) -> AsyncIterator[Dialer]:
    """Linked, until it is cut off without a word."""
    dialer = Dialer(Address(url), worker, clock=SystemClock(), rng=random.Random(1))
    task = asyncio.create_task(dialer.run())
    async with asyncio.timeout(20):
        await dialer.linked.wait()
    try:
        yield dialer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

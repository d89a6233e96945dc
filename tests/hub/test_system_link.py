"""The link under nonsense: wrong keys, wrong protocols, garbage, two hellos. The controller stays up and its workers linked."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import aiohttp
import msgspec
import pytest

from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.main import build, listen, running, serving
from envhub.controller.workers import LivenessSettings
from envhub.core.clock import SystemClock
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
            async with asyncio.timeout(5):
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
            await socket.send_bytes(encode([hello(worker_id=hub.worker.worker_id, environments=[{}])]))
            assert (await socket.receive()).data == BAD_DATA
        await still_good(hub)


async def test_a_refused_worker_says_so_and_asks_again_slowly(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(port=0, client_key="a", worker_key="b")
    app, service = build(settings, clock=SystemClock(), archive=MemoryArchive())
    worker = new_worker(ProbeEnvironment())
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        dialer = Dialer(Address(url, "wrong"), worker, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        await asyncio.sleep(1.0)
        assert len([each for each in caplog.records if "refused this worker" in each.message]) == 1
        assert not service.workers.all()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_events_between_hello_and_welcome_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends while the controller is still reading the hello must not stay in its books."""
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    worker = new_worker(ProbeEnvironment())
    attach = service.workers.attach
    session_id = f"{worker.worker_id}.{'a' * 16}"
    other_id = f"{worker.worker_id}.{'b' * 16}"
    start = msgspec.json.encode({"environment": "probe"})
    assert (await worker.handle("start", session_id, start))[0] == 200
    ends: list[asyncio.Task[Any]] = []

    def slow_attach(*arguments: Any) -> Any:
        ends.append(asyncio.create_task(worker.handle("cancel", session_id, b"")))
        ends.append(asyncio.create_task(worker.handle("start", other_id, start)))
        return attach(*arguments)

    monkeypatch.setattr(service.workers, "attach", slow_attach)
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        dialer = Dialer(Address(url), worker, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        async with asyncio.timeout(5):
            await dialer.linked.wait()
            await asyncio.gather(*ends)
            while {*service.workers.all()[0].sessions} != {other_id}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await worker.table.shutdown()
        await dialer.close("over")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_worker_that_the_controller_forgot_dials_again() -> None:
    app, service = build(Settings(port=0), clock=SystemClock(), archive=MemoryArchive())
    service.workers.settings = LivenessSettings(heartbeat_s=0.1)
    worker = new_worker(ProbeEnvironment())
    async with running(service), serving(app, listen("127.0.0.1", 0)) as url:
        dialer = Dialer(Address(url), worker, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        async with asyncio.timeout(5):
            await dialer.linked.wait()
            (before,) = service.workers.all()
            service.workers._workers.clear()
            while not service.workers.all():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert service.workers.all()[0] is not before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def new_worker(environment: ProbeEnvironment) -> WorkerService:
    return WorkerService({"probe": environment}, worker_id="wtested1", clock=SystemClock(), rng=random.Random(1))


async def still_good(hub: EmbeddedHub) -> None:
    assert not hub.controller.failures
    (info,) = await hub.hub.environments()
    assert info.name == "probe"
    async with hub.hub.session("probe") as session:
        assert (await session.interact(Message.assistant("done"))).terminated
    assert hub.worker.worker_id in [each.id for each in hub.controller.workers.all()]

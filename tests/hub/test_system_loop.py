"""The event loop stays free, and no task dies in silence."""

from __future__ import annotations

import ast
import asyncio
import gc
import random
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

import envhub
from envhub.controller.app import HubApp
from envhub.core.types import Message
from envhub.link.dial import Address, Dialer
from envhub.testing.clock import FakeClock
from envhub.testing.hub import local_hub, served_hub
from envhub.transport import AsgiTransport
from tests.hub.environments import ProbeEnvironment

ROOT = Path(envhub.__file__).parent
HUB = ("controller", "worker", "link", "client", "embedded.py", "up.py", "transport.py")


async def test_health_answers_while_300_starts_block_b036(slow_callbacks: list[str]) -> None:
    environment = ProbeEnvironment()
    async with (
        served_hub({"probe": environment}, capacity=300) as served,
        aiohttp.ClientSession(served.url) as http,
        aiohttp.ClientSession(served.url, connector=aiohttp.TCPConnector(limit=0)) as many,
    ):
        environment.gate.clear()
        start = {"environment": "probe"}
        starts = [asyncio.create_task(many.post("/v1/sessions", json=start)) for _ in range(300)]
        while served.worker.table.n_slots_taken < 300:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with asyncio.timeout(30):
            for _ in range(20):
                async with http.get("/healthz") as answer:
                    assert answer.status == 200
                async with http.post(f"/v1/workers/{served.worker.worker_id}/heartbeat") as answer:
                    assert await answer.json() == {"linked": True}
        assert environment.counts.opens == 0 and not slow_callbacks
        environment.gate.set()
        assert {answer.status for answer in await asyncio.gather(*starts)} == {200}


@pytest.fixture
def slow_callbacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Callbacks that took over 100 ms of this thread's CPU time, as asyncio's debug mode would name them by the wall clock.

    The wall clock would also count other programs of the machine; the collector of a whole test run is not ours either.
    """
    seen: list[str] = []
    plain = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        plain(handle)
        if (took_s := time.thread_time() - started) > 0.1:
            seen.append(f"{handle!r} took {took_s:.3f} s")

    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)
    gc.disable()
    yield seen
    gc.enable()


async def test_no_callback_holds_the_loop_under_200_mixed_sessions_b037(slow_callbacks: list[str]) -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}, capacity=200) as served:
        words = ["hello", "sleep 0.05", "huge 5000000", "surrogate", "control", "hello"]

        async def play(index: int) -> None:
            async with served.hub.session("probe") as session:
                for turn in range(5):
                    word = words[(index + turn) % len(words)]
                    await session.interact(
                        Message.assistant(word if index % 40 == 0 or "huge" not in word else "hello")
                    )
                await session.interact(Message.assistant("done"))

        await asyncio.gather(*(play(index) for index in range(200)))
    assert not slow_callbacks


async def test_a_callback_that_blocks_would_be_noticed_b037(slow_callbacks: list[str]) -> None:
    def block() -> None:
        until = time.thread_time() + 0.15
        while time.thread_time() < until:
            pass

    asyncio.get_running_loop().call_soon(block)
    await asyncio.sleep(0.01)
    assert len(slow_callbacks) == 1


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_every_task_is_kept_by_an_owner_b038() -> None:
    """A call that makes a task is never a statement of its own: its result is kept, awaited or passed on."""
    loose = []
    for name in HUB:
        path = ROOT / name
        for file in [path] if path.suffix else path.glob("**/*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _makes_task(node.value):
                    loose.append(f"{file.name}:{node.lineno}")
    assert not loose


def _makes_task(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("create_task", "ensure_future", "run_coroutine_threadsafe")


async def test_a_fault_in_the_controllers_watch_is_seen_in_health_and_survived_b038(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    async with local_hub({"probe": ProbeEnvironment()}, clock=clock) as hub:
        with monkeypatch.context() as patched:
            patched.setattr(hub.controller.workers, "tick", _broken)
            await clock.advance(1.5)
        status, health = await _health(hub.app)
        assert status == 500 and b"watch: RuntimeError: injected" in health
        before = len(hub.controller.failures)
        await clock.advance(5.0)
        assert len(hub.controller.failures) == before


async def test_a_fault_in_a_workers_reaper_is_seen_in_health_and_survived_b038(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}, clock=clock) as hub:
        session = hub.hub.session("probe", lease_s=10.0)
        await session.start()
        with monkeypatch.context() as patched:
            patched.setattr(hub.worker.table, "tick", _broken)
            await clock.advance(1.5)
        status, health = await _health(hub.app)
        assert status == 200 and b"reaper: RuntimeError: injected" in health
        assert hub.worker.hello().failures == ["reaper: RuntimeError: injected"]
        await clock.advance(12.0)
        assert hub.worker.table.n_slots_taken == 0 and environment.counts.closes == 1


async def test_a_fault_of_one_connection_does_not_end_the_workers_link_b038() -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as served:
        assert served.url is not None
        hello, calls = served.worker.hello, 0

        def faulty() -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise RuntimeError("injected")
            return hello()

        served.worker.hello = faulty  # type: ignore[method-assign,assignment]
        clock = FakeClock()
        dialer = Dialer(Address(served.url), served.worker, clock=clock, rng=random.Random(1))
        task = asyncio.create_task(dialer.run())
        async with asyncio.timeout(20):
            while calls == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while not dialer.linked.is_set():
                await clock.advance(1.0)
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _broken() -> None:
    raise RuntimeError("injected")


async def _health(app: HubApp) -> tuple[int, bytes]:
    answer = await AsgiTransport(app).request("GET", "/healthz", b"", 5.0)
    return answer.status, answer.body

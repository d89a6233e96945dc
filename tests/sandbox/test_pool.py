"""The warm pool: what is handed out, refilled, given up, and never leaked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from envhub.core.errors import EpisodeFailedError, SandboxLostError, ShuttingDownError, UnavailableError
from envhub.core.sandbox import CommandResult, CommandStatus, SandboxSpec
from envhub.sandbox.pool import CHECK_S, WarmPool
from envhub.testing.clock import FakeClock, settle

pytestmark = pytest.mark.timeout(20)

SPEC = SandboxSpec()


class FakeSandbox:
    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.healthy = True
        self.n_runs = 0
        self.closed = False
        self.hang: asyncio.Event | None = None

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        self.n_runs += 1
        if self.hang is not None:
            await self.hang.wait()
        if not self.healthy:
            raise SandboxLostError("gone")
        return CommandResult(CommandStatus.OK, 0, "", 0, False, "/root")

    async def close(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.closed = True


class FakeDriver:
    """Starts when told to (``gate``); counts what it started and what is still open."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.started: list[FakeSandbox] = []
        self.specs: list[SandboxSpec] = []
        self.n_starting = self.most_starting = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.kind = FakeSandbox

    async def start(self, spec: SandboxSpec) -> FakeSandbox:
        self.n_starting += 1
        self.most_starting = max(self.most_starting, self.n_starting)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            if self.error is not None:
                raise self.error
            sandbox = self.kind(self)
            self.started.append(sandbox)
            self.specs.append(spec)
            return sandbox
        finally:
            self.n_starting -= 1

    def n_open(self) -> int:
        return sum(not sandbox.closed for sandbox in self.started)


class Desk:
    def __init__(self, **options: float) -> None:
        self.clock = FakeClock()
        self.driver = FakeDriver(self.clock)
        settings: Mapping[str, float] = {"size": 3, "max_starts": 2, "ttl_s": 100.0, **options}
        self.pool = WarmPool(self.driver, clock=self.clock, **settings)  # type: ignore[arg-type]  # a partial driver


async def test_acquire_from_an_empty_pool_starts_directly_and_fills_up_behind() -> None:
    desk = Desk()
    taken = await desk.pool.acquire(SPEC)
    await settle()
    assert desk.pool.n_ready(SPEC) == 3
    assert desk.driver.most_starting <= 2
    assert not taken.closed
    await desk.pool.close()
    assert desk.driver.n_open() == 1


async def test_one_that_has_ended_meanwhile_is_not_handed_out() -> None:
    class Watched(FakeSandbox):
        alive = True

    desk = Desk()
    desk.driver.kind = Watched
    desk.pool.warm(SPEC)
    await settle()
    first, second, third = desk.driver.started
    first.alive = second.alive = False  # type: ignore[attr-defined]
    assert await desk.pool.acquire(SPEC) is third
    await settle()
    assert first.closed and second.closed and not third.closed
    await third.close()
    await desk.pool.close()
    assert desk.driver.n_open() == 0


async def test_no_sandbox_is_handed_out_twice_nor_after_a_command() -> None:
    desk = Desk()
    desk.pool.warm(SPEC)
    await settle()
    taken = []
    for _ in range(20):
        taken.append(await desk.pool.acquire(SPEC))
        await settle()
    assert len({id(one) for one in taken}) == 20
    assert all(one.n_runs == 0 for one in taken)
    await desk.pool.close()


async def test_starts_are_bounded_however_many_wait() -> None:
    desk = Desk(size=5)
    desk.driver.gate.clear()
    waiting = [asyncio.ensure_future(desk.pool.acquire(SPEC)) for _ in range(30)]
    await settle()
    assert desk.driver.n_starting == 2
    desk.driver.gate.set()
    taken = await asyncio.gather(*waiting)
    assert len({id(one) for one in taken}) == 30 and desk.driver.most_starting == 2
    await desk.pool.close()
    assert desk.driver.n_open() == 30


async def test_what_waits_is_looked_at_and_replaced_when_it_does_not_work() -> None:
    desk = Desk()
    desk.pool.warm(SPEC)
    await settle()
    bad = desk.driver.started[:2]
    for one in bad:
        one.healthy = False
    await desk.clock.advance(CHECK_S)
    assert all(one.closed for one in bad) and desk.pool.n_ready(SPEC) == 3
    assert await desk.pool.acquire(SPEC) not in bad
    await desk.pool.close()


async def test_who_asks_while_the_last_one_is_looked_at_does_not_wait_for_that() -> None:
    desk = Desk(size=1)
    desk.pool.warm(SPEC)
    await settle()
    sandbox = desk.driver.started[0]
    sandbox.hang = asyncio.Event()
    await desk.clock.advance(CHECK_S)
    waiting = asyncio.ensure_future(desk.pool.acquire(SPEC))
    await settle()
    assert (await waiting) is desk.driver.started[1]
    sandbox.hang.set()
    await settle()
    assert desk.pool.n_ready(SPEC) == 1 and (await desk.pool.acquire(SPEC)) is sandbox
    await desk.pool.close()
    assert desk.driver.n_open() == 2


async def test_a_start_that_ends_after_its_spec_was_forgotten_is_not_lost() -> None:
    desk = Desk(size=2, max_starts=1)
    desk.pool.warm(SPEC)
    await settle()
    desk.driver.started[1].healthy = False
    desk.driver.gate.clear()
    await desk.clock.advance(101.0)
    assert desk.driver.n_starting == 1
    desk.driver.gate.set()
    await settle()
    await desk.pool.close()
    assert desk.driver.n_open() == 0


async def test_specs_do_not_share_sandboxes() -> None:
    desk = Desk(size=1)
    other = SandboxSpec(image="ubuntu", environment={"A": "1"})
    await desk.pool.acquire(SPEC)
    await desk.pool.acquire(other)
    await settle()
    assert (desk.pool.n_ready(SPEC), desk.pool.n_ready(other)) == (1, 1)
    assert sum(spec == other for spec in desk.driver.specs) == 2
    await desk.pool.close()


async def test_failing_starts_surface_as_unavailable_and_back_off() -> None:
    desk = Desk()
    desk.driver.error = EpisodeFailedError("no cgroup")
    with pytest.raises(UnavailableError, match="no cgroup") as first:
        await desk.pool.acquire(SPEC)
    assert first.value.details["retry_after_s"] > 0
    with pytest.raises(UnavailableError):
        await desk.pool.acquire(SPEC)
    await settle()
    assert desk.driver.n_starting == 0
    desk.driver.error = None
    await desk.clock.advance(10.0)
    assert desk.pool.n_ready(SPEC) == 3
    await desk.pool.acquire(SPEC)
    await desk.pool.close()


async def test_idle_sandboxes_end_at_their_age_and_a_forgotten_spec_is_not_refilled() -> None:
    desk = Desk()
    desk.pool.warm(SPEC)
    await settle()
    first = list(desk.driver.started)
    await desk.clock.advance(101.0)
    assert all(one.closed for one in first)
    assert desk.pool.n_ready(SPEC) == 0 and desk.driver.n_open() == 0
    await desk.pool.acquire(SPEC)
    await desk.pool.close()


async def test_close_ends_waiting_callers_and_refuses_new_ones() -> None:
    desk = Desk()
    desk.driver.gate.clear()
    waiting = asyncio.ensure_future(desk.pool.acquire(SPEC))
    await settle()
    await desk.pool.close()
    await desk.pool.close()
    with pytest.raises(ShuttingDownError):
        await waiting
    with pytest.raises(ShuttingDownError):
        await desk.pool.acquire(SPEC)
    assert desk.driver.n_open() == 0 and desk.driver.n_starting == 0


async def test_B025_cancel_during_start_leaves_the_sandbox_to_the_pool() -> None:
    desk = Desk(size=1)
    desk.driver.gate.clear()
    waiting = asyncio.ensure_future(desk.pool.acquire(SPEC))
    await settle()
    waiting.cancel()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    desk.driver.gate.set()
    await settle()
    assert desk.pool.n_ready(SPEC) == desk.driver.n_open() == 1
    await desk.pool.close()
    assert desk.driver.n_open() == 0


async def test_B025_close_during_a_look_closes_the_sandbox() -> None:
    desk = Desk(size=1)
    desk.pool.warm(SPEC)
    await settle()
    sandbox = desk.driver.started[0]
    sandbox.hang = asyncio.Event()
    await desk.clock.advance(CHECK_S)
    await desk.pool.close()
    assert sandbox.closed and desk.driver.n_open() == 0


async def test_B025_close_goes_on_when_its_caller_is_cancelled_twice() -> None:
    desk = Desk()
    desk.pool.warm(SPEC)
    await settle()
    closing = asyncio.ensure_future(desk.pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await settle()
    assert desk.driver.n_open() == 0


@pytest.mark.parametrize("seed", range(20))
async def test_B024_cancels_at_any_moment_leak_nothing(seed: int) -> None:
    desk = Desk(size=2, max_starts=3)
    rng = random.Random(seed)
    taken: list[FakeSandbox] = []

    async def caller() -> None:
        taken.append(await desk.pool.acquire(SPEC))  # type: ignore[arg-type]  # the fake

    for _ in range(40):
        task = asyncio.ensure_future(caller())
        for _ in range(rng.randrange(12)):
            await asyncio.sleep(0)
        if rng.random() < 0.7:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if rng.random() < 0.5:
        await settle()
    await desk.pool.close()
    assert desk.driver.n_open() == len(taken) == len({id(one) for one in taken})
    assert desk.driver.n_starting == 0

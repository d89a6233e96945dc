"""The hostile inputs on every driver of this machine: the session survives, its neighbour does not notice, the worker stays small."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from _pytest.mark.structures import ParameterSet

from envhub.core.sandbox import CommandStatus, Sandbox, SandboxDriver, SandboxSpec
from envhub.testing.hostile import HOSTILE, HostileInput, survive
from tests.sandbox.drivers import NAMES, opened

pytestmark = [pytest.mark.timeout(60), pytest.mark.asyncio(loop_scope="module")]

FLOODS = ("yes", "cat /dev/zero", "seq 1 100000000", "head -c 2G /dev/urandom", "head -c 200M /dev/zero | tr '\\0' x")
HEAVY = ("fork bomb", "fork bomb of daemons", "yes", "busy daemon", "full disk", "no inodes", "2 GiB of memory")
QUICK = (
    "fork bomb",
    "yes",
    "background job",
    "kill everything",
    "exit",
    "full disk",
    "closed output",
    "replaced builtins",
)


def _param(hostile: HostileInput) -> ParameterSet:
    """All of them take a minute: most are left to the full suite."""
    marks = () if hostile.name in QUICK else pytest.mark.slow
    return pytest.param(hostile, id=hostile.name.replace(" ", "-"), marks=marks)


@pytest_asyncio.fixture(params=NAMES, scope="module", loop_scope="module")
async def driver(request: pytest.FixtureRequest) -> AsyncIterator[SandboxDriver]:
    async with opened(request) as found:
        yield found


@pytest.mark.parametrize("hostile", [_param(hostile) for hostile in HOSTILE])
async def test_session_survives(driver: SandboxDriver, hostile: HostileInput) -> None:
    sandbox = await driver.start(SandboxSpec())
    try:
        await survive(sandbox, hostile)
    finally:
        await sandbox.close()


async def test_there_are_38_inputs_with_names_of_their_own() -> None:
    assert len(HOSTILE) == len({hostile.name for hostile in HOSTILE}) == 38


@pytest.mark.slow
async def test_B042_neighbour_keeps_its_latency(driver: SandboxDriver) -> None:
    neighbour, victim = await driver.start(SandboxSpec()), await driver.start(SandboxSpec())
    by_name = {hostile.name: hostile for hostile in HOSTILE}
    try:
        quiet = await _p95_ms(neighbour, n=60)
        for name in HEAVY:
            attack = asyncio.create_task(survive(victim, by_name[name]))
            loud = await _p95_ms(neighbour, n=30)
            await attack
            await victim.close()
            victim = await driver.start(SandboxSpec())
            if loud >= max(20 * quiet, 400.0):  # the machine may have become busy meanwhile
                quiet = max(quiet, await _p95_ms(neighbour, n=60))
            assert loud < max(20 * quiet, 400.0), f"{name}: {quiet:.1f} ms became {loud:.1f} ms"
    finally:
        await neighbour.close()
        await victim.close()


@pytest.mark.slow
async def test_B022_twenty_floods_leave_the_worker_small(driver: SandboxDriver) -> None:
    spec = SandboxSpec()
    sandboxes = [await driver.start(spec) for _ in range(20)]
    try:
        await asyncio.gather(*(box.run("seq 1 100000", timeout_s=20.0, max_bytes=32768) for box in sandboxes))
        before = _rss_bytes()
        async with Peak() as peak:
            results = await asyncio.gather(
                *(box.run(FLOODS[i % len(FLOODS)], timeout_s=20.0, max_bytes=32768) for i, box in enumerate(sandboxes))
            )
        assert {result.status for result in results} <= {CommandStatus.FLOOD, CommandStatus.TIMEOUT}
        assert all(result.truncated and "bytes in all" in result.output for result in results)
        assert peak.bytes - before < 50 << 20
        for box in sandboxes:
            after = await box.run("echo ok", timeout_s=20.0, max_bytes=100)
            assert (after.status, after.output) == (CommandStatus.OK, "ok\n")
    finally:
        await asyncio.gather(*(box.close() for box in sandboxes))


async def _p95_ms(sandbox: Sandbox, *, n: int) -> float:
    taken = []
    for _ in range(n):
        began = time.perf_counter()
        result = await sandbox.run("echo ok", timeout_s=10.0, max_bytes=100)
        taken.append(1000 * (time.perf_counter() - began))
        assert result.output == "ok\n"
    return statistics.quantiles(taken, n=20)[-1]


class Peak:
    """The most memory this process was seen to have while the block ran."""

    def __init__(self) -> None:
        self.bytes = _rss_bytes()

    async def __aenter__(self) -> Peak:
        self._sampler = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sampler.cancel()
        await asyncio.gather(self._sampler, return_exceptions=True)

    async def _sample(self) -> None:
        while True:
            self.bytes = max(self.bytes, _rss_bytes())
            await asyncio.sleep(0.02)


def _rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

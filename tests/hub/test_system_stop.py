"""Programs that are told to stop: in bounded time, with code 0, and with an answer or an end for everyone who waits (B032)."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from envhub.client.hub import Hub
from envhub.core.errors import SessionLostError
from envhub.core.types import Message
from tests.hub.processes import Process, Processes, free_port, until, until_logged, until_ready
from tests.hub.test_system_recovery import until_records

pytestmark = pytest.mark.timeout(240)

STOP_S = 25.0
"""Far more than the 5 s that connections get which neither ask nor go, and far less than the 60 s for which the others wait."""
N_OF_EACH = 25
START = b'{"environment":"probe","wait_s":60}'


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Processes(tmp_path) as running:
        yield running


def request(method: str, path: str, body: bytes = b"", *, length: int | None = None) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: hub\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body


HELD = {
    "nothing said": b"",
    "half a head": b"POST /v1/sessions HTTP/1.1\r\nHost: hub\r\nContent-Le",
    "half a body": request("POST", "/v1/sessions", START[:9], length=len(START)),
    "no body": request("POST", "/v1/sessions", b"", length=len(START)),
    "a start that waits": request("POST", "/v1/sessions", START),
    "a start of what nobody plays": request("POST", "/v1/sessions", b'{"environment":"chess","wait_s":60}'),
    "an answered call": request("GET", "/healthz"),
    "a body for a slow lane": request("DELETE", "/v1/sessions?request_key=x", b"", length=3),
}
"""What is on 200 connections when the program is told to stop."""

REFUSED = b"HTTP/1.1 503 Service Unavailable"
ANSWERED = {
    "nothing said": b"",
    "half a head": b"",
    "half a body": REFUSED,
    "no body": REFUSED,
    "a start that waits": REFUSED,
    "a start of what nobody plays": REFUSED,
    "an answered call": b"HTTP/1.1 200 OK",
    "a body for a slow lane": b"HTTP/1.1 200 OK",
}


class Caller:
    """One connection that says something and then waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def at(cls, port: int, said: bytes) -> Caller:
        caller = cls(*await asyncio.open_connection("127.0.0.1", port))
        caller._writer.write(said)
        await caller._writer.drain()
        return caller

    async def begins(self, said: bytes) -> None:
        """Its answer has begun, so; the rest is left unread."""
        assert await self._reader.readexactly(len(said)) == said

    async def heard(self) -> bytes:
        """Everything until the other side hangs up."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""
        finally:
            self._writer.close()


def say(text: str) -> Message:
    return Message.assistant(text)


async def pestered(process: Process, limit_s: float, number: signal.Signals = signal.SIGTERM) -> int:
    """Told to stop again and again until it has; its exit code."""
    async with asyncio.timeout(limit_s):
        while (code := process.popen.poll()) is None:  # a process has no event
            process.signal(number)
            await asyncio.sleep(0.01)
    return code


async def until_read(port: int) -> None:
    """The program there has accepted every connection and read everything that was said on it."""

    async def read() -> bool:
        return unread_at(port) == 0

    await until(read)


def unread_at(port: int) -> int:
    """Bytes that wait on the connections there, and connections that were not accepted yet."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1].endswith(f":{port:04X}"))


async def test_every_connection_is_answered_or_closed_when_the_controller_stops_b032(processes: Processes) -> None:
    port = free_port()
    # while it collects its workers, who asks for what nobody plays waits as well
    controller = await processes.controller(port, liveness={"recovery_s": 600.0})
    processes.worker(port, capacity=1)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        taken = hub.session("probe")
        await taken.start()
        callers = [(kind, await Caller.at(port, said)) for kind, said in HELD.items() for _ in range(N_OF_EACH)]
        assert len(callers) == 200
        hearing = [asyncio.create_task(caller.heard()) for _, caller in callers]
        await until_read(port)
        began = time.monotonic()
        assert await pestered(controller, STOP_S + 4) == 0, controller.text()
        took_s = time.monotonic() - began
        async with asyncio.timeout(20):
            heard = await asyncio.gather(*hearing)
    for (kind, _), answer in zip(callers, heard, strict=True):
        status, _, rest = answer.partition(b"\r\n")
        expected = ANSWERED[kind]
        assert (status == expected) and (b'"shutting_down"' in rest) == (expected == REFUSED), (kind, answer)
    assert took_s < STOP_S
    assert "Traceback" not in controller.text() and "ERROR" not in controller.text(), controller.text()


@pytest.mark.slow
async def test_a_client_that_does_not_read_delays_the_end_by_little_b032(processes: Processes) -> None:
    port = free_port()
    controller = await processes.controller(port)
    processes.worker(port)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
    start = b'{"environment":"probe","options":{"observation_bytes":7000000}}'
    callers = [await Caller.at(port, request("POST", "/v1/sessions", start)) for _ in range(3)]
    for caller in callers:
        await caller.begins(b"HTTP/1.1 200 OK")
    began = time.monotonic()
    assert await pestered(controller, 2 * STOP_S) == 0, controller.text()
    assert time.monotonic() - began < STOP_S
    for caller in callers:
        await caller.heard()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_told_to_stop_again_and_again_still_ends_its_sessions_b032(
    processes: Processes, number: signal.Signals
) -> None:
    port = free_port()
    await processes.controller(port)
    worker = processes.worker(port, drain_s=0.2)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe", options={"close_s": 0.3}) for _ in range(100)]
        await asyncio.gather(*(session.start() for session in sessions))
        running = [asyncio.create_task(session.interact(say("sleep 60"))) for session in sessions]
        await until_logged(worker, "a step begins: sleep 60", 100)
        began = time.monotonic()
        assert await pestered(worker, STOP_S, number) == 0, worker.text()
        assert time.monotonic() - began < STOP_S
        assert {type(each) for each in await asyncio.gather(*running, return_exceptions=True)} == {SessionLostError}
        listed = json.loads(await hub.request("GET", "/v1/sessions"))["sessions"]
    assert listed == [] and "could not be handed" not in worker.text() and "Traceback" not in worker.text()


async def test_a_worker_without_a_controller_stops_as_well_b032(processes: Processes) -> None:
    worker = processes.worker(free_port(), drain_s=0.2)

    async def serves() -> bool:
        return "no link to" in worker.text()

    await until(serves, 60)
    assert await pestered(worker, STOP_S) == 0, worker.text()


@pytest.mark.slow
async def test_a_store_that_does_not_answer_keeps_no_controller_alive_b032(processes: Processes) -> None:
    """What it could not store stays with its worker, which offers it to the next controller."""
    port = free_port()
    controller = await processes.controller(port)
    processes.worker(port)
    file = processes.store_url(port).removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with Hub(f"http://127.0.0.1:{port}") as hub:
            await until_ready(hub, 1)
            session = hub.session("probe")
            await session.start()
            await session.interact(say("done 1"))
        await asyncio.sleep(1.0)
        controller.signal(signal.SIGTERM)
        assert await controller.exited(50) == 0, controller.text()
    await processes.controller(port)
    await until_records(processes.store_url(port), 1)


@pytest.mark.slow
async def test_a_thread_that_does_not_end_keeps_no_worker_alive_b032(processes: Processes) -> None:
    port = free_port()
    await processes.controller(port)
    worker = processes.worker(port, drain_s=0.2)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        session = hub.session("probe")
        await session.start()
        running = asyncio.create_task(session.interact(say("thread 120")))
        await until_logged(worker, "a step begins: thread 120")
        worker.signal(signal.SIGTERM)
        assert await worker.exited(40) == 0, worker.text()
        with pytest.raises(SessionLostError):
            await running
    assert "left behind" in worker.text()

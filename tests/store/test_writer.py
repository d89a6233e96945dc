"""The asynchronous front of the store."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from sqlalchemy import make_url

from envhub.core.errors import EnvhubError, InvalidRequestError, UnavailableError
from envhub.store.episodes import EpisodeStore
from envhub.store.writer import EpisodeWriter, WriterLimits
from envhub.wire import EpisodeRecord


class ScriptedSink:
    """A store that can be down, broken or held, and refuses records whose reason is "bad"."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.stored: list[int] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[str] = set()

    def put(self, records: list[EpisodeRecord]) -> None:
        self.threads.add(threading.current_thread().name)
        self.gate.wait(10)
        self.calls.append([record.task for record in records])
        if self.error is not None:
            raise self.error
        if any(record.reason == "bad" for record in records):
            raise InvalidRequestError("bad record")
        self.stored += [record.task for record in records]


@pytest.fixture
def sink() -> ScriptedSink:
    return ScriptedSink()


@asynccontextmanager
async def writing(sink: Any, clock: Any, **limits: Any) -> AsyncIterator[EpisodeWriter]:
    writer = EpisodeWriter(sink, limits=WriterLimits(**limits), clock=clock)
    try:
        yield writer
    finally:
        await writer.close()


async def until(condition: Callable[[], bool]) -> None:
    """Real time for the writer's thread; the clock under test stands still."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.001)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_full_batch_goes_out_at_once_in_the_writers_thread(sink: Any, clock: Any, make_record: Any) -> None:
    async with writing(sink, clock, batch=3) as writer:
        acked: list[int] = []
        for number in range(4):
            assert writer.submit(make_record(number), on_stored=lambda number=number: acked.append(number))
        await until(lambda: acked == [0, 1, 2])
        await settle()
        assert sink.calls == [[0, 1, 2]]
        assert writer.stats.pending == 1
        assert {name.rsplit("_", 1)[0] for name in sink.threads} == {"episode-writer"}
    assert sink.calls == [[0, 1, 2], [3]]
    assert acked == [0, 1, 2, 3]


async def test_lone_record_waits_no_longer_than_the_flush_time(sink: Any, clock: Any, make_record: Any) -> None:
    async with writing(sink, clock, flush_after_s=5.0) as writer:
        writer.submit(make_record(1))
        await settle()
        clock.advance(4.9)
        await settle()
        assert sink.calls == []
        clock.advance(0.2)
        await until(lambda: writer.stats.stored == 1)


async def test_callback_comes_after_the_commit_in_the_loop(sink: Any, clock: Any, make_record: Any) -> None:
    sink.gate.clear()
    async with writing(sink, clock, batch=1) as writer:
        where: list[tuple[list[int], threading.Thread]] = []
        writer.submit(make_record(1), lambda: where.append((list(sink.stored), threading.current_thread())))
        await settle()
        assert where == []
        assert writer.stats.pending == 1
        sink.gate.set()
        await until(lambda: bool(where))
        assert where == [([1], threading.current_thread())]


async def test_flush_stores_all_taken_before_it(sink: Any, clock: Any, make_record: Any) -> None:
    async with writing(sink, clock, batch=2, flush_after_s=1e9) as writer:
        for number in range(5):
            writer.submit(make_record(number))
        await writer.flush()
        assert sink.stored == [0, 1, 2, 3, 4]
        assert writer.stats.pending == writer.stats.pending_bytes == 0
        await writer.flush()


async def test_database_down_then_up_loses_and_repeats_nothing(sink: Any, clock: Any, make_record: Any) -> None:
    sink.error = UnavailableError("no database")
    acked: list[int] = []
    async with writing(sink, clock, batch=1, max_pending=3) as writer:
        for number in range(3):
            assert writer.accepts
            assert writer.submit(make_record(number), lambda number=number: acked.append(number))
        assert not writer.accepts
        assert not writer.submit(make_record(3), lambda: acked.append(3))
        await until(lambda: writer.stats.failed_writes == 1)
        assert (writer.stats.failing, writer.stats.last_error, writer.stats.pending) == (True, "no database", 3)
        for attempt, delay_s in enumerate((0.5, 1.0, 2.0), start=1):
            await settle()
            clock.advance(delay_s - 0.01)
            await settle()
            assert writer.stats.failed_writes == attempt
            clock.advance(0.02)
            await until(lambda attempt=attempt: writer.stats.failed_writes == attempt + 1)
        sink.error = None
        await settle()
        clock.advance(4.1)
        await until(lambda: writer.stats.stored == 3)
        assert writer.accepts
        assert not writer.stats.failing
    assert acked == sink.stored == [0, 1, 2]


async def test_back_off_is_bounded_and_starts_small_again(sink: Any, clock: Any, make_record: Any) -> None:
    sink.error = UnavailableError("no database")
    async with writing(sink, clock, batch=1) as writer:
        writer.submit(make_record(1))
        for attempt in range(1, 10):
            await until(lambda attempt=attempt: writer.stats.failed_writes == attempt)
            await settle()
            clock.advance(30.1)
        sink.error = None
        clock.advance(30.1)
        await until(lambda: writer.stats.stored == 1)
        sink.error = UnavailableError("again")
        failed = writer.stats.failed_writes
        writer.submit(make_record(2))
        await until(lambda: writer.stats.failed_writes == failed + 1)
        await settle()
        clock.advance(0.51)
        await until(lambda: writer.stats.failed_writes == failed + 2)


async def test_record_offered_again_while_pending_takes_no_room_and_every_offer_is_acked(
    sink: Any, clock: Any, make_record: Any
) -> None:
    sink.error = UnavailableError("no database")
    acked: list[str] = []
    async with writing(sink, clock, max_pending=2) as writer:
        assert writer.submit(make_record(1), lambda: acked.append("first"))
        assert writer.submit(make_record(1), lambda: acked.append("again"))
        assert writer.submit(make_record(1, episode_return=0.5), lambda: acked.append("changed"))
        assert not writer.submit(make_record(1), lambda: acked.append("back"))
        assert writer.submit(make_record(1, episode_return=0.5), lambda: acked.append("changed again"))
        assert writer.stats.pending == 2
        sink.error = None
        await writer.flush()
        assert acked == ["first", "again", "changed", "changed again"]
        assert writer.submit(make_record(1), lambda: acked.append("later"))
        await writer.flush()
    assert acked[-1] == "later"
    assert sink.stored == [1, 1, 1]


async def test_flush_tries_within_a_back_off_and_ends_it(sink: Any, clock: Any, make_record: Any) -> None:
    sink.error = UnavailableError("no database")
    async with writing(sink, clock, batch=1) as writer:
        writer.submit(make_record(1))
        await until(lambda: writer.stats.failed_writes == 1)
        with pytest.raises(UnavailableError):
            await writer.flush()
        sink.error = None
        await writer.flush()
        writer.submit(make_record(2))
        await until(lambda: sink.stored == [1, 2])  # the clock stood still: nobody waited for the back-off's end


async def test_pending_bytes_are_bounded_but_one_big_record_passes(sink: Any, clock: Any, make_record: Any) -> None:
    big = make_record(1, trace=b'{"a":"' + b"x" * 1000 + b'"}')
    async with writing(sink, clock, max_pending_bytes=500) as writer:
        assert writer.submit(big)
        assert not writer.accepts
        assert not writer.submit(make_record(2))
        await writer.flush()
        assert writer.submit(make_record(2))
        assert not writer.submit(big)


async def test_batches_are_bounded_in_bytes(sink: Any, clock: Any, make_record: Any) -> None:
    size = len(make_record(1).trace)
    async with writing(sink, clock, batch_bytes=2 * size) as writer:
        for number in range(5):
            writer.submit(make_record(number))
        await writer.flush()
    assert sink.calls == [[0, 1], [2, 3], [4]]


async def test_refused_record_does_not_hold_up_the_others(sink: Any, clock: Any, make_record: Any) -> None:
    outcomes: dict[int, EnvhubError | None] = {}
    async with writing(sink, clock) as writer:
        for number in range(5):
            writer.submit(
                make_record(number, reason="bad" if number == 2 else None),
                on_stored=lambda number=number: outcomes.setdefault(number, None),
                on_refused=lambda error, number=number: outcomes.setdefault(number, error),
            )
        await writer.flush()
        stats = writer.stats
    assert (stats.stored, stats.refused, stats.pending, stats.last_error) == (4, 1, 0, "bad record")
    assert sink.stored == [0, 1, 3, 4]
    assert isinstance(outcomes.pop(2), InvalidRequestError)
    assert outcomes == {0: None, 1: None, 3: None, 4: None}


async def test_surprise_in_the_store_is_retried_like_an_outage(sink: Any, clock: Any, make_record: Any) -> None:
    sink.error = RuntimeError("a bug")
    async with writing(sink, clock) as writer:
        writer.submit(make_record(1))
        with pytest.raises(UnavailableError, match="RuntimeError: a bug"):
            await writer.flush()
        sink.error = None
        await writer.flush()
        assert writer.stats.stored == 1


async def test_callback_that_raises_stops_nothing(
    sink: Any, clock: Any, make_record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with writing(sink, clock) as writer:
        writer.submit(make_record(1), on_stored=lambda: 1 // 0)
        writer.submit(make_record(2))
        await writer.flush()
        assert writer.stats.stored == 2
    assert "callback of a stored episode failed" in caplog.text


async def test_close_writes_what_is_pending_and_takes_no_more(sink: Any, clock: Any, make_record: Any) -> None:
    writer = EpisodeWriter(sink, clock=clock)
    await EpisodeWriter(sink, clock=clock).close()
    writer.submit(make_record(1))
    await writer.close()
    await writer.close()
    assert sink.stored == [1]
    assert not writer.accepts
    assert not writer.submit(make_record(2))


async def test_close_while_the_thread_writes_acks_once(sink: Any, clock: Any, make_record: Any) -> None:
    acked: list[int] = []
    sink.gate.clear()
    writer = EpisodeWriter(sink, limits=WriterLimits(batch=1), clock=clock)
    writer.submit(make_record(1), lambda: acked.append(1))
    await until(lambda: bool(sink.threads))
    closing_task = asyncio.create_task(writer.close())
    await settle()
    sink.gate.set()
    await closing_task
    assert acked == [1]


async def test_close_with_the_database_down_returns_and_acks_nothing(
    sink: Any, clock: Any, make_record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    acked: list[int] = []
    sink.error = UnavailableError("no database")
    writer = EpisodeWriter(sink, clock=clock)
    writer.submit(make_record(1), lambda: acked.append(1))
    await writer.close()
    assert acked == []
    assert writer.stats.pending == 1
    assert "episodes left unstored at close" in caplog.text


async def test_cancelled_flush_keeps_the_records(sink: Any, clock: Any, make_record: Any) -> None:
    acked: list[int] = []
    sink.gate.clear()
    async with writing(sink, clock, flush_after_s=1e9) as writer:
        writer.submit(make_record(1), lambda: acked.append(1))
        flush = asyncio.create_task(writer.flush())
        await until(lambda: bool(sink.threads))
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        assert writer.stats.pending == 1
        sink.gate.set()
        await writer.flush()
    assert acked == [1]


async def test_slow_database_does_not_hold_the_loop(sink: Any, clock: Any, make_record: Any) -> None:
    sink.gate.clear()
    async with writing(sink, clock, batch=1) as writer:
        writer.submit(make_record(1))
        await until(lambda: bool(sink.threads))
        assert writer.submit(make_record(2))
        await asyncio.sleep(0)
        sink.gate.set()


async def test_real_store_takes_batches(shared_url: str, make_record: Any, make_failure: Any) -> None:
    with closing(EpisodeStore(shared_url)) as store:
        writer = EpisodeWriter(store, limits=WriterLimits(batch=50))
        acked: list[str] = []
        for number in range(230):
            record = make_failure(number) if number % 10 == 0 else make_record(number)
            assert writer.submit(record, lambda record=record: acked.append(record.session_id))
        refused: list[EnvhubError] = []
        writer.submit(make_record(1000, ended_at=math.nan), on_refused=refused.append)
        await writer.close()
        assert acked == [f"w1-{number}" for number in range(230)]
        assert len(refused) == 1
        (group,) = store.summary()
        assert (group.n, group.errors) == (207, 23)


class Relay:
    """A TCP relay to the database that can be cut. It keeps its port from other programs while it is down."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port: int = self._kept.getsockname()[1]

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_port=True)

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
        for each in self._writers:
            each.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0)

    def close(self) -> None:
        self._kept.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers += [writer, far_writer]
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@pytest.mark.mysql
async def test_mysql_that_goes_away_and_comes_back_gets_every_record(mysql_url: str, make_record: Any) -> None:
    url = make_url(mysql_url)
    relay = Relay(url.host or "127.0.0.1", url.port or 3306)
    await relay.up()
    through = url.set(host="127.0.0.1", port=relay.port).render_as_string(hide_password=False)
    acked: list[str] = []
    with closing(EpisodeStore(through)) as store:
        writer = EpisodeWriter(store, limits=WriterLimits(batch=5, flush_after_s=0.01))

        def submit(numbers: range) -> None:
            for number in numbers:
                record = make_record(number)
                assert writer.submit(record, lambda record=record: acked.append(record.session_id))

        submit(range(10))
        await writer.flush()
        assert writer.stats.stored == 10
        await relay.down()
        submit(range(10, 30))
        await until(lambda: writer.stats.failing)
        assert "envhub:envhub" not in (writer.stats.last_error or "")
        assert len(acked) == writer.stats.stored
        await relay.up()
        await until(lambda: writer.stats.pending == 0)
        assert writer.stats.stored == 30
        await writer.close()
        await asyncio.to_thread(store.close)
        await relay.down()
        relay.close()
    with closing(EpisodeStore(mysql_url)) as store:
        assert [each.task for each in store.records()] == list(range(30))

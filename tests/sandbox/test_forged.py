"""What a session makes up on the pipe of its shell: bytes and markers, in any order, cost nobody but the command that wrote them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.core.sandbox import CommandResult, CommandStatus
from envhub.sandbox.program import Marker, MarkerStream, first_record
from envhub.sandbox.shell import FLOOD_BYTES, MARKER_BYTES, Shell, _Discard, _Run

pytestmark = pytest.mark.timeout(60)

TOKEN = "t" * 32
NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(
        ["9" * 5000, "1" * 8000, "", "0", "1", "٣", "²", "1_0", " 7", "+1", "0x10", "1e3", "nan", "4194304"]
    ),
)
NONCES = st.sampled_from(["NONCE", "PING", "n" * 32, "", ":", "\ufffd"])


def marker_text(kind: str, nonce: str, value: str, cwd: str) -> str:
    return f"\0TOKEN:{kind}:{nonce}:{value}:{cwd}\0"


FORGED = st.builds(
    marker_text,
    st.sampled_from(["S", "E", "D", "R", "X", "Q", "", "SE", "\0"]),
    NONCES,
    NUMBERS,
    st.text(max_size=8) | st.sampled_from(["/", "/" * 9000, "/\0"]),
)
PIECES = st.lists(
    st.binary(max_size=40)
    | FORGED.map(lambda text: text.encode("utf-8", "replace"))
    | st.sampled_from([b"\0TOKEN:", b"\0TOK", b"\0", b"\0TOKEN:S:NONCE:", b"x" * 9000]),
    max_size=8,
)


def made(pieces: list[bytes], token: str, nonce: str, ping: str) -> bytes:
    names = {b"TOKEN": token, b"NONCE": nonce, b"PING": ping}
    data = b"".join(pieces)
    for name, value in names.items():
        data = data.replace(name, value.encode())
    return data


def chunks(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    at = 0
    for cut in [*cuts, len(data)]:
        yield data[at : at + cut]
        at += cut


@given(PIECES, st.lists(st.integers(1, 60), max_size=12))
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_is_taken_in(pieces: list[bytes], cuts: list[int]) -> None:
    run = _Run(_Discard())
    stream = MarkerStream(TOKEN)
    for chunk in chunks(made(pieces, TOKEN, run.nonce, run.ping), cuts):
        for event in stream.feed(chunk):
            run.take(event)
            if isinstance(event, Marker) and event.kind in "SED":
                assert 0 <= event.value < 1 << 22
    assert run.runner is None or run.runner > 1
    assert run.exit_code is None or 0 <= run.exit_code < 256
    assert run.cwd == "" or run.cwd.startswith("/")


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(1, 60), max_size=12))
@settings(max_examples=200, deadline=None)
def test_bytes_without_the_token_come_out_as_they_went_in(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    stream = MarkerStream(TOKEN)
    out = b"".join(event for chunk in chunks(data, cuts) for event in stream.feed(chunk) if isinstance(event, bytes))
    out += b"".join(event for event in stream.feed(b"\0" + b"." * 40) if isinstance(event, bytes))
    assert out == data + b"\0" + b"." * 40


def test_made_up_markers_are_a_flood_before_they_are_dear() -> None:
    run = _Run(_Discard())
    run.take(Marker("S", run.nonce, 7, ""))
    for number in range(FLOOD_BYTES // MARKER_BYTES + 1):
        assert not run.is_over(), number
        run.take(Marker("E", "somebody", 0, "/"))
    assert run.is_over() and not run.is_ended()


class SwiftClock:
    """A hundred times as fast as real time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time() * 100

    def wall(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


class SpoiledChannel:
    """A shell that does what it should, on a pipe that its session writes ``junk`` into between any two of its own markers."""

    def __init__(self, junk: list[list[bytes]]) -> None:
        self.token = ""
        self.junk = junk
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._half = b""
        self._runner = 10

    async def send(self, data: bytes) -> None:
        if not self.token:
            self.token = data.split(b"__envhub_t=", 1)[1][:32].decode()
            data = data.removeprefix(first_record(self.token))
        *records, self._half = (self._half + data).split(b"\0")
        for record in records:
            nonce = record[1:33].decode()
            if record[:1] == b"P":
                self._write(f"\0{self.token}:R:{nonce}:/\0", nonce)
            elif record[:1] == b"C":
                self._runner += 2
                self._write(f"\0{self.token}:S:{nonce}:{self._runner}\0", nonce)
                self._write(record[34:].decode(), nonce)
                self._write(f"\0{self.token}:E:{nonce}:0:/\0", nonce)

    def _write(self, text: str, nonce: str) -> None:
        self._buffer += text.encode()
        if self.junk:
            self._buffer += made(self.junk.pop(), self.token, nonce, nonce)
        self._arrived.set()

    async def receive(self) -> bytes:
        await self._arrived.wait()
        data = bytes(self._buffer[:97])
        del self._buffer[:97]
        if not self._buffer:
            self._arrived.clear()
        return data

    async def reap(self, runner: int | None) -> None:
        if runner is None:  # nobody is left who could make anything up
            self.junk.clear()
            self._write(f"\0{self.token}:X:{self.token}:\0", self.token)


@given(st.lists(PIECES, max_size=8))
@settings(max_examples=80, deadline=None)
def test_the_next_command_works_whatever_was_made_up(junk: list[list[bytes]]) -> None:
    async def played() -> tuple[CommandResult, CommandResult]:
        channel = SpoiledChannel([])
        shell = Shell(channel, clock=SwiftClock())
        await shell.start()
        channel.junk = list(junk)
        first = await shell.run("first", timeout_s=20.0, max_bytes=1000)
        channel.junk.clear()
        await shell.run("settling", timeout_s=20.0, max_bytes=1000)
        second = await shell.run("second", timeout_s=20.0, max_bytes=1000)
        await shell.close()
        return first, second

    first, second = asyncio.run(played())
    assert isinstance(first.status, CommandStatus) and len(first.output.encode()) <= 1000
    assert (second.status, second.output, second.exit_code) == (CommandStatus.OK, "second", 0)

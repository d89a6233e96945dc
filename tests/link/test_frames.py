"""What travels on a link."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.core.types import StopReason
from envhub.link import frames
from envhub.link.frames import Call, Closed, Finished, Frame, Hello, Opened, Outbox, Reply, SessionNote, decode, encode
from envhub.testing.clock import settle
from envhub.wire import EpisodeRecord

text = st.text(max_size=8)
tags = st.dictionaries(text, text, max_size=2)
seconds = st.floats(allow_nan=False, allow_infinity=False)
note = st.builds(SessionNote, text, text, text, st.integers(0, 2**53), seconds, st.none() | text, tags)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
obj = st.dictionaries(text, json, max_size=2)
record = st.builds(
    EpisodeRecord,
    session_id=text,
    environment=text,
    split=text,
    task=st.integers(0, 2**53),
    seed=st.integers(0, 2**63 - 1),
    worker=text,
    identity=obj,
    tags=tags,
    started_at=seconds,
    ended_at=seconds,
    turns=st.integers(0, 100),
    episode_return=st.none() | seconds,
    terminated=st.booleans(),
    truncated=st.booleans(),
    stop_reason=st.none() | st.sampled_from(StopReason),
    error=st.none() | obj,
    reason=st.none() | text,
    info=obj,
    trace=st.binary(max_size=20),
)
number, status, body = st.integers(0, 2**60), st.integers(200, 599), st.binary(max_size=20)
ARGUMENTS: dict[type[Any], tuple[st.SearchStrategy[Any], ...]] = {
    frames.Hello: (
        number,
        text,
        text,
        st.integers(1, 10**6),
        st.lists(obj, max_size=2),
        st.lists(note, max_size=2),
        st.booleans(),
        tags,
        st.lists(text),
    ),
    frames.Welcome: (number, text, seconds, st.lists(text)),
    frames.Call: (number, text, text, body),
    frames.Reply: (number, status, body),
    frames.Opened: (note,),
    frames.Closed: (text,),
    frames.Finished: (record,),
    frames.Stored: (text,),
    frames.Draining: (st.booleans(),),
    frames.Failed: (st.lists(text),),
    frames.Bye: (text,),
}
any_frame = st.one_of([st.builds(kind, *arguments) for kind, arguments in ARGUMENTS.items()])


def test_every_kind_of_frame_is_tried() -> None:
    assert set(ARGUMENTS) == set(get_args(frames.Frame))


@given(st.lists(any_frame, max_size=4))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_frames_survive_the_link(sent: list[Frame]) -> None:
    assert decode(encode(sent)) == sent


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_garbage_is_a_decode_error(message: bytes) -> None:
    try:
        decode(message)
    except msgspec.DecodeError:
        pass


@given(st.lists(any_frame, min_size=1, max_size=2), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_damaged_message_is_decoded_or_a_decode_error(sent: list[Frame], data: st.DataObject) -> None:
    message = bytearray(encode(sent))
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (bytes(message), bytes(message[: data.draw(st.integers(0, len(message)))])):
        try:
            decode(damaged)
        except msgspec.DecodeError:
            pass


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "call",
        [1],
        [["call"]],
        [["call", "1", "op", "s", b""]],
        [["unknown", 1]],
        [[]],
        [["call", 1, "op", "s"]],
        [["hello", 1, "w", "0", "256", [], [], False, {}, []]],
    ],
)
def test_what_is_no_list_of_frames_is_a_decode_error(value: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(msgspec.msgpack.encode(value))


def test_deep_nesting_is_a_decode_error() -> None:
    deep = b"\x91" * 100_000
    with pytest.raises((msgspec.DecodeError, RecursionError)) as caught:
        decode(encode([Hello(1, "w", "0", 1, [], [], False, {}, [])])[:-1] + deep)
    assert isinstance(caught.value, msgspec.DecodeError)


# --- outbox ---------------------------------------------------------------------------------------------------------


class Wire:
    """What was sent, one list a message; ``hold`` makes the next send wait."""

    def __init__(self) -> None:
        self.messages: list[list[Frame]] = []
        self.free = asyncio.Event()
        self.free.set()
        self.broken = False

    async def send(self, message: bytes) -> None:
        await self.free.wait()
        if self.broken:
            raise ConnectionError
        self.messages.append(decode(message))


async def test_what_is_queued_travels_in_one_message_in_order() -> None:
    wire, outbox = Wire(), Outbox()
    for n in range(100):
        outbox.put(Closed(str(n)))
    pump = asyncio.create_task(outbox.pump(wire.send))
    await settle()
    assert wire.messages == [[Closed(str(n)) for n in range(100)]]
    outbox.put(Closed("later"))
    await settle()
    assert wire.messages[1:] == [[Closed("later")]]
    outbox.close()
    await pump


@pytest.mark.parametrize("kind", ["call", "reply", "finished"])
async def test_a_message_holds_about_a_mebibyte(kind: str) -> None:
    size = 300_000
    record_of_size = msgspec.structs.replace(RECORD, trace=b"x" * size)
    made: dict[str, Frame] = {
        "call": Call(1, "op", "s", b"x" * size),
        "reply": Reply(1, 200, b"x" * size),
        "finished": Finished(record_of_size),
    }
    wire, outbox = Wire(), Outbox()
    for _ in range(10):
        outbox.put(made[kind])
    outbox.close()
    await outbox.pump(wire.send)
    assert [len(message) for message in wire.messages] == [4, 4, 2]


async def test_a_frame_larger_than_a_message_travels_alone() -> None:
    wire, outbox = Wire(), Outbox()
    outbox.put(Reply(1, 200, b"x" * 3_000_000))
    outbox.put(Closed("s"))
    outbox.close()
    await outbox.pump(wire.send)
    assert [len(message) for message in wire.messages] == [1, 1]


async def test_closing_lets_what_is_queued_out_first() -> None:
    wire, outbox = Wire(), Outbox()
    wire.free.clear()
    pump = asyncio.create_task(outbox.pump(wire.send))
    outbox.put(Closed("1"))
    await settle()
    outbox.put(Closed("2"))
    outbox.close()
    await settle()
    assert not pump.done()
    wire.free.set()
    await pump
    assert wire.messages == [[Closed("1")], [Closed("2")]]


async def test_an_outbox_closed_before_it_is_pumped_ends_at_once() -> None:
    wire, outbox = Wire(), Outbox()
    outbox.close()
    await outbox.pump(wire.send)
    assert not wire.messages


async def test_a_broken_connection_ends_the_pump() -> None:
    wire, outbox = Wire(), Outbox()
    wire.broken = True
    outbox.put(Opened(SessionNote("s", "e", "t", 0, 1.0, None, {})))
    with pytest.raises(ConnectionError):
        await outbox.pump(wire.send)


RECORD = EpisodeRecord(
    session_id="s",
    environment="e",
    split="t",
    task=0,
    seed=1,
    worker="w",
    identity={},
    tags={},
    started_at=1.0,
    ended_at=2.0,
    turns=0,
    episode_return=None,
    terminated=False,
    truncated=False,
    stop_reason=None,
    error=None,
    reason=None,
    info={},
    trace=b"",
)

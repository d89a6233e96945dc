"""What becomes of a command's bytes: shortening, decoding, escape sequences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.sandbox.output import EscapeFilter, Output
from envhub.sandbox.program import Marker, MarkerStream

pytestmark = pytest.mark.timeout(60)

TOKEN, NONCE = "t" * 32, "n" * 32
pieces = st.lists(
    st.one_of(
        st.binary(max_size=8),
        st.sampled_from(
            [b"\x1b", b"\x1b[", b"\x1b[31m", b"\x1b]0;t\x07", b"\x1b]8;;u\x1b\\", b"\x1bPq", b"\x1b\\", b"\x07", b"\x18", b"\x1b(B",
             b"[?2004h", b"m", "ž🐍".encode(), b"\n"]
        ),
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def shown(*chunks: bytes, max_bytes: int = 10_000) -> tuple[str, bool, int]:
    output = Output(max_bytes)
    for chunk in chunks:
        output.feed(chunk)
    text, truncated = output.finish()
    return text, truncated, output.total_bytes


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"a\x1b[?2004hb\x1b[?2004l", "ab"),
        (b"\x1b[200~pasted\x1b[201~", "pasted"),
        (b"\x1b]0;title\x07x", "x"),
        (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;1;2\nabc\x1b\\z", "z"),
        (b"\x1b(B\x1b=\x1b7a\x1b8\x1bc", "a"),
        (b"ding\x07dong", "dingdong"),
        (b"\x1b[38;2;1;2;3m\x1b[1 qx", "x"),
        (b"\x1b]0;never closed\nnext", "]0;never closed\nnext"),
        (b"end\x1b", "end"),
        (b"end\x1b[31", "end[31"),
        (b"a\r\nb\tc\x08\x00", "a\r\nb\tc\x08\x00"),
        ("č[31m]0;".encode(), "č[31m]0;"),
    ],
)
def test_escape_sequences_are_removed_and_nothing_else(raw: bytes, clean: str) -> None:
    assert shown(raw)[0] == clean
    assert shown(*(raw[i : i + 1] for i in range(len(raw))))[0] == clean


@given(pieces, st.lists(st.integers(0, 1 << 30), max_size=12))
def test_removal_does_not_depend_on_the_chunks(data: bytes, cuts: list[int]) -> None:
    whole, split = EscapeFilter(), EscapeFilter()
    expected = whole.feed(data) + whole.finish()
    assert b"".join(split.feed(chunk) for chunk in chunked(data, cuts)) + split.finish() == expected


def test_an_endless_control_string_holds_no_memory() -> None:
    escape_filter = EscapeFilter()
    n_out = len(escape_filter.feed(b"\x1b]"))
    for _ in range(100):
        n_out += len(escape_filter.feed(b"x" * 1000))
    assert n_out > 95_000


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.text(max_size=300).map(str.encode), st.binary(max_size=300)),
    st.integers(1, 400),
    st.lists(st.integers(0, 1 << 30), max_size=6),
)
def test_the_cap_holds_and_chunks_do_not_matter(data: bytes, max_bytes: int, cuts: list[int]) -> None:
    text, truncated, total_bytes = shown(*chunked(data, cuts), max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes and total_bytes == len(data)
    assert (text, truncated, total_bytes) == shown(data, max_bytes=max_bytes)
    if not truncated:
        assert text == shown(data, max_bytes=10**6)[0]


def test_head_and_tail_are_kept_and_the_size_is_told() -> None:
    text, truncated, total_bytes = shown(b"begin ", *[b"m" * 1000] * 5000, b" end", max_bytes=500)
    assert truncated and total_bytes == 5_000_010
    assert text.startswith("begin mmm") and text.endswith("mmm end") and "5000010 bytes in all" in text


@pytest.mark.parametrize("max_bytes", range(150, 190))
def test_B022_no_character_is_cut(max_bytes: int) -> None:
    text, truncated, _ = shown("🐍žx".encode() * 100, max_bytes=max_bytes)
    assert truncated and "\ufffd" not in text and len(text.encode()) <= max_bytes


def test_B023_odd_bytes_become_replacement_characters() -> None:
    assert shown(b"\xff\xfe\x00", b"\xe2\x82")[0] == "\ufffd\ufffd\x00\ufffd"


@given(st.lists(st.integers(0, 1 << 30), max_size=12))
def test_markers_are_found_however_the_stream_is_cut(cuts: list[int]) -> None:
    intro = f"\0{TOKEN}:"
    data = (
        f"old\0\0{intro[:20]}{intro}S:{NONCE}:17\0out{intro}E:{NONCE}:3:/a b\0{intro}bad\0{intro}R:{NONCE}:/\0".encode()
    )
    stream = MarkerStream(TOKEN)
    plain, markers = b"", []
    for chunk in chunked(data, cuts):
        for event in stream.feed(chunk):
            if isinstance(event, Marker):
                markers.append(event)
            else:
                plain += event
    assert markers == [Marker("S", NONCE, 17, ""), Marker("E", NONCE, 3, "/a b"), Marker("R", NONCE, 0, "/")]
    assert plain == f"old\0\0{intro[:20]}out".encode() + b"bad\0"


def test_a_marker_that_never_ends_is_not_waited_for() -> None:
    stream = MarkerStream(TOKEN)
    n_out = 0
    for chunk in [f"\0{TOKEN}:E:".encode(), *[b"x" * 1000] * 20]:
        n_out += sum(len(event) for event in stream.feed(chunk) if isinstance(event, bytes))
    assert n_out >= 20_000

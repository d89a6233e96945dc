"""What a driver and its host processes say to each other: length-prefixed msgpack frames over a socket pair.

Invariant: frames hold plain data only; a reply carries the number of the request it answers, replies come in any order.
"""

from __future__ import annotations

import struct
from typing import Any, Literal

import msgspec

from envhub.envs.db.sqlite.columns import client_value
from envhub.envs.db.sqlite.kinds import T

HEADER = struct.Struct(">I")


class TableFrame(msgspec.Struct, array_like=True, frozen=True):
    """``columns``: name, type, is in the primary key."""

    name: str
    columns: list[tuple[str, str, bool]]
    rows: list[list[Any]]


class Request(msgspec.Struct, array_like=True, frozen=True):
    """``op``: open (tables), execute (sql, now, seed, bounds), dump, cancel, close."""

    number: int
    database: int
    op: Literal["open", "execute", "dump", "cancel", "close"]
    tables: list[TableFrame] = []
    sql: str = ""
    now: str = ""
    seed: int = 0
    timeout_s: float = 0.0
    max_rows: int = 0
    max_bytes: int = 0


class TypeFrame(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    scale: int
    whole: bool


class Block(msgspec.Struct, array_like=True, frozen=True):
    """Rows as stored, and the types that say what a client sees."""

    name: str
    columns: list[str]
    types: list[TypeFrame]
    rows: list[tuple[Any, ...]]


class Reply(msgspec.Struct, array_like=True, frozen=True):
    """``status``: ok, rows, done, error, timeout, or lost when the database is not there."""

    number: int
    status: str
    blocks: list[Block] = []
    affected: int = 0
    truncated: bool = False
    error_code: int = 0
    message: str = ""
    logged: bool = False


_encoder = msgspec.msgpack.Encoder()
read_request = msgspec.msgpack.Decoder(Request).decode
read_reply = msgspec.msgpack.Decoder(Reply).decode


def pack(frame: Request | Reply) -> bytes:
    body = _encoder.encode(frame)
    return HEADER.pack(len(body)) + body


def type_frames(types: list[T]) -> list[TypeFrame]:
    return [TypeFrame(t.kind, t.scale, t.whole) for t in types]


def client_rows(block: Block) -> tuple[tuple[object, ...], ...]:
    """The rows as a MySQL client returns them."""
    converters = [client_value(T(t.kind, t.scale, t.whole)) for t in block.types]  # type: ignore[arg-type]  # kinds come from T
    if not any(converters):
        return tuple(block.rows)
    return tuple(
        tuple(
            value if value is None or convert is None else convert(value)
            for value, convert in zip(row, converters, strict=True)
        )
        for row in block.rows
    )

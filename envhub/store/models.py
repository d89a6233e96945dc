"""The tables of the episode store, as the newest schema has them.

Invariant: text compares byte for byte on every engine, so that names differing in case or in trailing spaces stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Double, Index, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator, TypeEngine

from envhub.core.types import JSON
from envhub.wire import dumps, loads_json

SESSION_ID_BYTES = 255
NAME_BYTES = 512
TAG_KEY_BYTES = 256
TAG_VALUE_BYTES = 1024

TABLE_OPTIONS: Final[Mapping[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


class ExactText(TypeDecorator[str]):
    """Short text of at most ``n_bytes`` UTF-8 bytes: VARBINARY on MySQL, whose text types fold case or pad spaces."""

    impl = String
    cache_ok = True

    def __init__(self, n_bytes: int) -> None:
        super().__init__(n_bytes)
        self.n_bytes = n_bytes

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.VARBINARY(self.n_bytes))
        return dialect.type_descriptor(String(self.n_bytes))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        if value is not None and dialect.name == "mysql":
            return value.encode()
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return bytes(value).decode() if isinstance(value, (bytes, bytearray)) else value


LongText = Text().with_variant(mysql.LONGTEXT(), "mysql")


class JSONText(TypeDecorator[JSON]):
    """A JSON value as text; None is SQL's NULL."""

    impl = LongText
    cache_ok = True

    def process_bind_param(self, value: JSON, dialect: Dialect) -> str | None:
        return None if value is None else dumps(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> JSON:
        return None if value is None else loads_json(value.encode())


RowId = BigInteger().with_variant(Integer, "sqlite")
Blob = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")


class Base(DeclarativeBase):
    pass


class Episode(Base):
    """One finished episode. ``id`` grows with every new episode and is never used again: the cursor of a page.

    ``identity_digest`` is empty when the identity is unknown (the worker was lost before it told).
    """

    __tablename__ = "episodes"
    __table_args__ = (
        Index("episodes_by_environment", "environment", "identity_digest"),
        Index("episodes_by_end", "ended_at"),
        {**TABLE_OPTIONS, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=True)
    session_id: Mapped[str] = mapped_column(ExactText(SESSION_ID_BYTES), unique=True)
    environment: Mapped[str] = mapped_column(ExactText(NAME_BYTES))
    split: Mapped[str] = mapped_column(ExactText(NAME_BYTES))
    task: Mapped[int] = mapped_column(BigInteger)
    seed: Mapped[int] = mapped_column(BigInteger)
    worker: Mapped[str] = mapped_column(ExactText(NAME_BYTES))
    identity_digest: Mapped[str] = mapped_column(ExactText(64))
    identity: Mapped[JSON] = mapped_column(JSONText)
    tags: Mapped[JSON] = mapped_column(JSONText)
    started_at: Mapped[float] = mapped_column(Double)
    ended_at: Mapped[float] = mapped_column(Double)
    turns: Mapped[int] = mapped_column(BigInteger)
    episode_return: Mapped[float | None] = mapped_column(Double)
    terminated: Mapped[bool] = mapped_column(Boolean)
    truncated: Mapped[bool] = mapped_column(Boolean)
    stop_reason: Mapped[str | None] = mapped_column(ExactText(64))
    failed: Mapped[bool] = mapped_column(Boolean)
    error: Mapped[JSON] = mapped_column(JSONText, nullable=True)
    reason: Mapped[str | None] = mapped_column(LongText)
    info: Mapped[JSON] = mapped_column(JSONText)


class TracePart(Base):
    """A piece of an episode's zlib-compressed trace; the pieces in order are the trace."""

    __tablename__ = "trace_parts"
    __table_args__ = (dict(TABLE_OPTIONS),)

    session_id: Mapped[str] = mapped_column(ExactText(SESSION_ID_BYTES), primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    data: Mapped[bytes] = mapped_column(Blob)


class Tag(Base):
    """One tag of an episode, for finding it; the episode's own row holds them all."""

    __tablename__ = "tags"
    __table_args__ = (Index("tags_by_value", "tag", "value"), dict(TABLE_OPTIONS))

    session_id: Mapped[str] = mapped_column(ExactText(SESSION_ID_BYTES), primary_key=True)
    tag: Mapped[str] = mapped_column(ExactText(TAG_KEY_BYTES), primary_key=True)
    value: Mapped[str] = mapped_column(ExactText(TAG_VALUE_BYTES))

"""The store's schema version and the steps from each version to the next.

Invariant: steps run in order, one process at a time, and each may be run again after a crash in its middle; a database that
a newer envhub made is left untouched. ``models.py`` says where the steps lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
)

from envhub.core.clock import Clock
from envhub.core.errors import RequestError, UnavailableError
from envhub.store.engine import writing
from envhub.store.models import TABLE_OPTIONS, Blob, ExactText, JSONText, LongText, RowId

LOCK_WAIT_S: Final = 60

Step = Callable[[Connection], None]


class SchemaTooNewError(RequestError):
    """The database belongs to a newer envhub."""


def upgrade(engine: Engine, clock: Clock, steps: Sequence[Step] | None = None) -> None:
    """Bring the database to the newest version. Raises SchemaTooNewError, UnavailableError, SQLAlchemyError."""
    todo = STEPS if steps is None else steps
    with engine.begin() as connection:
        if _checked_version(connection, len(todo)) == len(todo):
            return
    with _alone(engine):
        while _upgrade_once(writing(engine), clock, todo):
            pass


def _upgrade_once(engine: Engine, clock: Clock, steps: Sequence[Step]) -> bool:
    with engine.begin() as connection:
        version = _checked_version(connection, len(steps))
        if version == len(steps):
            return False
        _create(connection, _versions)
        steps[version](connection)
        connection.execute(insert(_versions).values(version=version + 1, applied_at=clock.wall()))
        return True


def _checked_version(connection: Connection, newest: int) -> int:
    if not inspect(connection).has_table(_versions.name):
        return 0
    version = connection.execute(select(func.max(_versions.c.version))).scalar() or 0
    if version > newest:
        raise SchemaTooNewError(
            f"the episode store has schema version {version}, and this envhub knows versions up to {newest}; "
            "install the newer envhub or give it another database"
        )
    return version


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Keeps other processes from upgrading. SQLite needs no more than its write transactions; MySQL's DDL has none."""
    if engine.dialect.name == "sqlite":
        yield
        return
    name = "CONCAT('envhub.', MD5(DATABASE()))"
    with engine.connect() as connection:
        if connection.execute(text(f"SELECT GET_LOCK({name}, {LOCK_WAIT_S})")).scalar() != 1:
            raise UnavailableError("another process is upgrading the episode store", retry_after_s=5.0)
        try:
            yield
        finally:
            connection.execute(text(f"SELECT RELEASE_LOCK({name})"))


def _create(connection: Connection, table: Table) -> None:
    table.create(connection, checkfirst=True)
    for index in table.indexes:
        index.create(connection, checkfirst=True)


_versions = Table(
    "schema_version",
    MetaData(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", Double, nullable=False),
    **TABLE_OPTIONS,
)


# --- version 1: episodes and traces ---------------------------------------------------------------------------------

_episodes_1 = Table(
    "episodes",
    MetaData(),
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("session_id", ExactText(255), nullable=False, unique=True),
    Column("environment", ExactText(512), nullable=False),
    Column("split", ExactText(512), nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("worker", ExactText(512), nullable=False),
    Column("identity_digest", ExactText(64), nullable=False),
    Column("identity", JSONText, nullable=False),
    Column("tags", JSONText, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("episode_return", Double),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("stop_reason", ExactText(64)),
    Column("failed", Boolean, nullable=False),
    Column("error", JSONText),
    Column("reason", LongText),
    Column("info", JSONText, nullable=False),
    Index("episodes_by_environment", "environment", "identity_digest"),
    Index("episodes_by_end", "ended_at"),
    sqlite_autoincrement=True,
    **TABLE_OPTIONS,
)

_trace_parts_1 = Table(
    "trace_parts",
    MetaData(),
    Column("session_id", ExactText(255), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", Blob, nullable=False),
    **TABLE_OPTIONS,
)


def _to_1(connection: Connection) -> None:
    _create(connection, _episodes_1)
    _create(connection, _trace_parts_1)


# --- version 2: tags in a table of their own, so that finding by tag uses an index ----------------------------------

_tags_2 = Table(
    "tags",
    MetaData(),
    Column("session_id", ExactText(255), primary_key=True),
    Column("tag", ExactText(256), primary_key=True),
    Column("value", ExactText(1024), nullable=False),
    Index("tags_by_value", "tag", "value"),
    **TABLE_OPTIONS,
)


def _to_2(connection: Connection) -> None:
    _create(connection, _tags_2)
    connection.execute(delete(_tags_2))
    done = 0
    page = select(_episodes_1.c.id, _episodes_1.c.session_id, _episodes_1.c.tags).order_by(_episodes_1.c.id).limit(1000)
    while rows := connection.execute(page.where(_episodes_1.c.id > done)).all():
        tags = [
            {"session_id": row.session_id, "tag": tag, "value": value}
            for row in rows
            for tag, value in row.tags.items()
        ]
        if tags:
            connection.execute(insert(_tags_2), tags)
        done = rows[-1].id


STEPS: Final[tuple[Step, ...]] = (_to_1, _to_2)
"""``STEPS[n]`` leads from version n to version n + 1."""

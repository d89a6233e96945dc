"""The store of finished episodes.

Invariant: ``put`` stores all of its records or none; a session has one record, and one without a return (failed or
cancelled) never replaces one with it. Every
method blocks and may be called from any thread; each raises UnavailableError while the database cannot be reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final, Literal

import msgspec
from sqlalchemy import Select, case, delete, func, insert, select, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session, defer

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import InvalidRequestError, UnavailableError
from envhub.core.types import JSON
from envhub.store.engine import lost_a_race, open_engine, prepare, writing
from envhub.store.models import Base, Episode, Tag, TracePart
from envhub.store.rows import PART_BYTES, Rows, to_record, to_rows
from envhub.store.schema import upgrade
from envhub.wire import EpisodeRecord, dumps

PAGE: Final = 200
"""Rows per statement where a method walks over many."""

CONFLICTS: Final = 5
"""How often ``put`` looks again after another process stored one of its sessions between its look and its write."""


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes are meant; None and an empty mapping leave that side open.

    ``state`` "error" means our failure; a cancelled episode is "ok" and has no return.
    ``since`` (inclusive) and ``before`` (exclusive) are Unix seconds of the episode's end. All ``tags`` must match.
    """

    environment: str | None = None
    split: str | None = None
    state: Literal["ok", "error"] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    since: float | None = None
    before: float | None = None
    identity_digest: str | None = None


ALL: Final = EpisodeFilter()


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """An episode without its trace and info. ``cursor`` is what ``find`` takes as ``after``."""

    cursor: int
    session_id: str
    environment: str
    split: str
    task: int
    seed: int
    worker: str
    identity_digest: str
    tags: Mapping[str, str]
    started_at: float
    ended_at: float
    turns: int
    episode_return: float | None
    stop_reason: str | None
    error: Mapping[str, JSON] | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first. ``next`` is the ``after`` of the page that follows, None on the last one."""

    episodes: tuple[EpisodeSummary, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Episodes of one environment and identity. ``mean_return`` is over the ``n`` that have a return; ``errors`` and
    ``cancelled`` have none."""

    environment: str
    identity_digest: str
    n: int
    mean_return: float | None
    errors: int
    cancelled: int


class EpisodeStore:
    """Finished episodes in SQLite (``sqlite:///path``), MySQL or MariaDB. Whoever makes one closes it."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        """Connects to nothing yet. Raises InvalidRequestError (a URL it cannot use), MissingExtraError."""
        self._engine = open_engine(url)
        self._write_engine = writing(self._engine)
        self._clock = clock or SystemClock()
        self._is_open = False
        self._opening = threading.Lock()

    @property
    def url(self) -> str:
        """The database URL with its password hidden."""
        return self._engine.url.render_as_string(hide_password=True)

    def open(self) -> None:
        """Create or upgrade the tables. Every method does so when needed; calling it first tells early what is wrong.

        Raises SchemaTooNewError, UnavailableError.
        """
        with self._opening:
            if self._is_open:
                return
            with self._errors():
                prepare(self._engine)
                upgrade(self._engine, self._clock)
            self._is_open = True

    def put(self, records: Sequence[EpisodeRecord]) -> None:
        """Store in one transaction; a record that is there already is replaced. Raises InvalidRequestError."""
        rows = _newest([to_rows(record) for record in records])
        self.open()
        with self._errors():
            for _ in range(CONFLICTS):
                try:
                    return self._put(rows)
                except DBAPIError as error:
                    if not lost_a_race(error):
                        raise
            self._put(rows)

    def get(self, session_id: str) -> EpisodeRecord | None:
        return self._load(select(Episode).where(Episode.session_id == session_id))

    def find(self, where: EpisodeFilter = ALL, *, limit: int = 100, after: int | None = None) -> Page:
        query = (
            _matching(select(Episode), where).order_by(Episode.id.desc()).limit(limit + 1).options(defer(Episode.info))
        )
        if after is not None:
            query = query.where(Episode.id < after)
        with self._session() as session:
            found = [_summary(each) for each in session.scalars(query)]
        shown = tuple(found[:limit])
        return Page(shown, shown[-1].cursor if len(found) > limit and shown else None)

    def records(self, where: EpisodeFilter = ALL) -> Iterator[EpisodeRecord]:
        """Whole records, oldest first, read one by one: memory holds one trace, and no transaction stays open between them."""
        last = 0
        while True:
            query = _matching(select(Episode.id), where).where(Episode.id > last).order_by(Episode.id).limit(PAGE)
            with self._session() as session:
                ids = session.scalars(query).all()
            if not ids:
                return
            for each in ids:
                record = self._load(select(Episode).where(Episode.id == each))
                if record is not None:
                    yield record
            last = ids[-1]

    def export(self, stream: IO[bytes], where: EpisodeFilter = ALL) -> int:
        """Write JSON lines, oldest first: each an EpisodeRecord whose trace is a JSON object. Returns how many."""
        n_written = 0
        for record in self.records(where):
            stream.write(_line(record))
            n_written += 1
        return n_written

    def summary(self, where: EpisodeFilter = ALL) -> tuple[GroupSummary, ...]:
        """One group per environment and identity: results of different identities are not averaged together."""
        key = Episode.environment, Episode.identity_digest
        errors = func.sum(case((Episode.failed, 1), else_=0))
        returns = func.count(Episode.episode_return), func.avg(Episode.episode_return)
        query = select(*key, *returns, errors, func.count())
        with self._session() as session:
            groups = session.execute(_matching(query, where).group_by(*key).order_by(*key)).all()
        return tuple(
            GroupSummary(name, digest, n, mean, int(failed), cancelled=total - n - int(failed))
            for name, digest, n, mean, failed, total in groups
        )

    def delete_before(self, ended_before: float) -> int:
        """Delete what ended before that Unix time, in short transactions. Returns how many episodes went."""
        deleted = 0
        old = select(Episode.session_id).where(Episode.ended_at < ended_before).order_by(Episode.id).limit(PAGE)
        while True:
            with self._session(write=True) as session:
                ids = session.scalars(old.with_for_update()).all()
                _delete(session, (TracePart, Tag, Episode), ids)
            deleted += len(ids)
            if len(ids) < PAGE:
                return deleted

    def close(self) -> None:
        """Give the connections back. Idempotent."""
        self._engine.dispose()

    def _put(self, rows: Sequence[Rows]) -> None:
        with Session(self._write_engine) as session, session.begin():
            for start in range(0, len(rows), PAGE):
                _store(session, rows[start : start + PAGE])

    def _load(self, query: Select[Episode]) -> EpisodeRecord | None:
        with self._session() as session:
            episode = session.scalars(query).one_or_none()
            if episode is None:
                return None
            parts = select(TracePart.data).where(TracePart.session_id == episode.session_id).order_by(TracePart.part)
            return to_record(episode, session.scalars(parts).all())

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[Session]:
        self.open()
        with self._errors(), Session(self._write_engine if write else self._engine) as session, session.begin():
            yield session

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Database errors as ours; the text of the cause alone, since SQLAlchemy's would add statements."""
        try:
            yield
        except (DataError, IntegrityError) as error:
            raise InvalidRequestError(f"the episode store refuses a record: {error.orig}") from error
        except SQLAlchemyError as error:
            cause = error.__cause__ or error
            raise UnavailableError(f"the episode store {self.url} is not available: {cause}") from error
        except OSError as error:
            raise UnavailableError(f"the episode store {self.url} is not available: {error}") from error


def _newest(rows: Iterable[Rows]) -> list[Rows]:
    """One per session: the last, except that one without a return does not replace one with it.

    In a fixed order, so that two writers of the same sessions wait for each other rather than deadlock.
    """
    kept: dict[str, Rows] = {}
    for each in rows:
        if each.has_return or each.session_id not in kept or not kept[each.session_id].has_return:
            kept[each.session_id] = each
    return [kept[session_id] for session_id in sorted(kept)]


def _store(session: Session, rows: Sequence[Rows]) -> None:
    known = select(Episode.session_id, Episode.id, Episode.episode_return).where(
        Episode.session_id.in_([each.session_id for each in rows])
    )
    present = {found.session_id: found for found in session.execute(known.with_for_update())}
    results = {session_id for session_id, found in present.items() if found.episode_return is not None}
    wanted = [each for each in rows if each.has_return or each.session_id not in results]
    replaced = [each for each in wanted if each.session_id in present]
    new = [each for each in wanted if each.session_id not in present]

    _delete(session, (TracePart, Tag), [each.session_id for each in replaced])
    if replaced:
        session.execute(update(Episode), [{"id": present[each.session_id].id, **each.episode} for each in replaced])
    if new:
        session.execute(insert(Episode), [each.episode for each in new])
    if tags := [tag for each in wanted for tag in each.tags]:
        session.execute(insert(Tag), tags)
    for parts in _statements(part for each in wanted for part in each.trace_parts):
        session.execute(insert(TracePart), parts)


def _statements(parts: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Groups of at most PART_BYTES, because a driver may send a whole group as one statement."""
    group: list[Mapping[str, Any]] = []
    size = 0
    for part in parts:
        if group and size + len(part["data"]) > PART_BYTES:
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part["data"])
    if group:
        yield group


def _delete(session: Session, tables: Iterable[type[Base]], session_ids: Sequence[str]) -> None:
    for table in tables if session_ids else ():
        session.execute(delete(table).where(table.__table__.c.session_id.in_(session_ids)))


def _matching(query: Select[Any], where: EpisodeFilter) -> Select[Any]:
    for column, value in (
        (Episode.environment, where.environment),
        (Episode.split, where.split),
        (Episode.identity_digest, where.identity_digest),
    ):
        if value is not None:
            query = query.where(column == value)
    if where.state is not None:
        query = query.where(Episode.failed if where.state == "error" else ~Episode.failed)
    if where.since is not None:
        query = query.where(Episode.ended_at >= where.since)
    if where.before is not None:
        query = query.where(Episode.ended_at < where.before)
    for tag, value in where.tags.items():
        tagged = select(Tag.session_id).where(Tag.tag == tag, Tag.value == value)
        query = query.where(Episode.session_id.in_(tagged))
    return query


def _summary(episode: Episode) -> EpisodeSummary:
    return EpisodeSummary(
        cursor=episode.id,
        session_id=episode.session_id,
        environment=episode.environment,
        split=episode.split,
        task=episode.task,
        seed=episode.seed,
        worker=episode.worker,
        identity_digest=episode.identity_digest,
        tags=episode.tags,
        started_at=episode.started_at,
        ended_at=episode.ended_at,
        turns=episode.turns,
        episode_return=episode.episode_return,
        stop_reason=episode.stop_reason,
        error=episode.error,
        reason=episode.reason,
    )


def _line(record: EpisodeRecord) -> bytes:
    trace = record.trace
    if b"\n" in trace or b"\r" in trace:
        trace = msgspec.json.format(trace, indent=-1)  # inside JSON strings line breaks are escaped: these are layout
    return dumps(msgspec.structs.asdict(record) | {"trace": msgspec.Raw(trace)}) + b"\n"

"""From a database URL to an engine that is set up for the store; the one place that knows the engines apart.

Invariant: a transaction of ``writing(engine)`` never fails half-way because another process writes, and no password leaves
this module in a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from envhub.core.errors import InvalidRequestError, MissingExtraError

LOCK_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10
CALL_TIMEOUT_S: Final = 120

_VALID = "valid: sqlite:///path/to/file, sqlite:// (in memory), mysql://user:password@host:port/database, mariadb://..."


def open_engine(url: str) -> Engine:
    """An engine for the URL; connects to nothing. Raises InvalidRequestError, MissingExtraError."""
    target = _checked(url)
    return _sqlite(target) if target.get_backend_name() == "sqlite" else _mysql(target)


def writing(engine: Engine) -> Engine:
    """The same engine, for transactions that read rows and then write them."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
    # READ COMMITTED takes no gap locks: writers of different sessions do not wait for each other.
    return engine.execution_options(isolation_level="READ COMMITTED")


def lost_a_race(error: DBAPIError) -> bool:
    """Whether another transaction stored the same session first; the same transaction, run again, sees that."""
    deadlock = isinstance(error.orig, Exception) and getattr(error.orig, "errno", None) == 1213
    return deadlock or isinstance(error, IntegrityError)


def prepare(engine: Engine) -> None:
    """Once per process, before the first transaction: make the folder, switch the file to WAL.

    The switch stays in the file. It does not wait for locks, so while other processes use the file it may be left to them or
    to the next process; without it the store is as safe, and slower. A file that cannot be used is left to the upgrade to report.
    """
    database = engine.url.database
    if engine.dialect.name != "sqlite" or _in_memory(engine.url) or database is None:
        return
    if not database.startswith("file:"):
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    with suppress(sqlite3.Error), closing(engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA journal_mode = WAL")


def _checked(url: str) -> URL:
    try:
        target = make_url(url)
    except ArgumentError:
        # Not chained: the text of the cause repeats the URL with its password.
        raise InvalidRequestError(f"the store's URL is not a database URL; {_VALID}") from None
    backend, _, driver = target.drivername.partition("+")
    if backend == "sqlite" and driver in ("", "pysqlite"):
        return target
    if backend not in ("mysql", "mariadb") or driver not in ("", "mysqlconnector"):
        raise InvalidRequestError(f"the store cannot use {target.drivername!r}; {_VALID}")
    if not target.database:
        raise InvalidRequestError(f"the store's URL names no database; {_VALID}")
    return target.set(drivername="mysql+mysqlconnector")


def _in_memory(url: URL) -> bool:
    return url.database in (None, "", ":memory:")


def _sqlite(url: URL) -> Engine:
    options: dict[str, Any] = {"check_same_thread": False}
    if "timeout" not in url.query:
        options["timeout"] = LOCK_TIMEOUT_S
    pool: Mapping[str, Any] = {}
    if _in_memory(url):
        # One connection is the database: whoever wants it waits for its turn.
        pool = {"pool_size": 1, "max_overflow": 0, "pool_timeout": LOCK_TIMEOUT_S}
    engine = create_engine(url, poolclass=QueuePool, connect_args=options, hide_parameters=True, **pool)

    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # the begin below decides how a transaction starts, not the driver
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))

    return engine


def _mysql(url: URL) -> Engine:
    options = {
        "use_pure": True,  # one implementation everywhere: the C extension is not in every wheel
        "charset": "utf8mb4",
        "collation": "utf8mb4_bin",
        "connection_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": CALL_TIMEOUT_S,
        "write_timeout": CALL_TIMEOUT_S,
        # Servers differ in their default; without strictness a value that does not fit is cut silently.
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
    }
    try:
        return create_engine(url, connect_args=options, pool_pre_ping=True, pool_recycle=1800, hide_parameters=True)
    except ModuleNotFoundError as error:
        text = "a MySQL or MariaDB store needs mysql-connector-python: pip install 'envhub[db]'"
        raise MissingExtraError(text, extra="db") from error

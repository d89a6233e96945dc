"""One database: runs a MySQL statement on it and says what a MySQL client would see.

Invariant: ``execute`` raises nothing for anything a statement does; a statement that fails leaves no trace in the data or the catalog.
"""

from __future__ import annotations

import copy
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

from envhub.envs.db.sqlite import alterations, definitions, show, writes
from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import DATABASE, TableDef
from envhub.envs.db.sqlite.columns import converter
from envhub.envs.db.sqlite.connection import Connection, Timeout
from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.functions.numbers import exact
from envhub.envs.db.sqlite.kinds import T
from envhub.envs.db.sqlite.queries import compile_query
from envhub.envs.db.sqlite.session import Session
from envhub.envs.db.sqlite.statements import parse

MAX_STATEMENT = 1 << 20
DUMP_MAX_CELLS = 1_000_000
DUMP_MAX_CHARS = 64 << 20
"""A dump ends where it passes either: far beyond every task's tables, so that what is cut equals no right state."""


@dataclass(slots=True)
class Outcome:
    """``types`` describe the columns of ``rows``, whose values are as stored; ``logged`` says a replay must repeat the statement."""

    status: str
    columns: list[str]
    types: list[T]
    rows: list[tuple[Any, ...]]
    affected: int = 0
    truncated: bool = False
    error_code: int = 0
    message: str = ""
    logged: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    timeout_s: float
    max_rows: int
    max_bytes: int


class Engine:
    """Its calls may come from any thread and run one at a time; ``interrupt`` alone comes in between."""

    def __init__(self, max_pages: int) -> None:
        self.session = Session(Connection(max_pages))
        self._turn = threading.Lock()
        self._interrupted = False

    def expect(self) -> None:
        """A statement was asked for: ``interrupt`` is about it from now on, also before it begins."""
        self._interrupted = False

    def interrupt(self) -> None:
        """Make the statement that was asked for end as if its time were up."""
        self._interrupted = True  # before the deadline: ``_execute`` sets its own and then looks here
        self.session.connection.deadline = 0.0

    def load(self, name: str, columns: Sequence[tuple[str, str, bool]], rows: Sequence[Sequence[Any]]) -> None:
        """A table with its rows. Raises MySQLError."""
        spec = n.CreateTable(n.TableRef(None, name, name), [n.ColumnSpec(c, t) for c, t, _ in columns], [], [], [])
        keyed = [column for column, _, primary in columns if primary]
        if keyed:
            spec.keys.append(n.KeySpec("PRIMARY", "PRIMARY", keyed))
        self._begin()
        definitions.create_table(self.session, spec)
        self._insert(self.session.catalog.tables[name], rows)
        self.session.connection.execute("RELEASE s")

    def _insert(self, table: TableDef, rows: Sequence[Sequence[Any]]) -> None:
        width = len(table.columns)
        plain = all(column.type == "text" for column in table.columns)
        converters = [converter(column.type) for column in table.columns]
        stored = []
        for row in rows:
            if len(row) != width:
                raise MySQLError(1136, "Column count doesn't match value count at row 1")
            if plain and all(type(value) is str and len(value) < 16000 for value in row):
                stored.append(row)
            else:
                stored.append([None if v is None else convert(v) for v, convert in zip(row, converters, strict=True)])
        marks = ", ".join("?" for _ in range(width))
        try:
            self.session.connection.raw.executemany(f"INSERT INTO {table.phys} VALUES ({marks})", stored)
        except sqlite3.IntegrityError:
            raise MySQLError(1062, f"Duplicate entry for key '{table.name}.PRIMARY'") from None
        except sqlite3.Error as error:
            raise self.session.connection.translate(error) from error

    def _begin(self) -> None:
        self.session.connection.execute("SAVEPOINT s")

    def execute(self, sql: str, now: str, seed: int, bounds: Bounds) -> Outcome:
        with self._turn:
            return self._execute(sql, now, seed, bounds)

    def _execute(self, sql: str, now: str, seed: int, bounds: Bounds) -> Outcome:
        connection = self.session.connection
        connection.deadline = time.monotonic() + bounds.timeout_s
        connection.error = None
        connection.random = Random(seed)
        self.session.now = now
        try:
            if self._interrupted:
                raise Timeout
            if len(sql) > MAX_STATEMENT:
                raise MySQLError(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
            return self._run(parse(sql), bounds)
        except MySQLError as error:
            return Outcome("error", [], [], [], error_code=error.code, message=error.message)
        except Timeout:
            return Outcome(
                "timeout", [], [], [], message=f"Query execution was interrupted after {bounds.timeout_s:g} s"
            )
        except MemoryError:
            return Outcome("error", [], [], [], error_code=1037, message="1037 (HY001): Out of memory")
        except RecursionError:
            return Outcome("error", [], [], [], error_code=1436, message=too_deep().message)
        except UnicodeError:
            return Outcome(
                "error", [], [], [], error_code=1300, message="1300 (HY000): Invalid utf8mb4 character string"
            )
        finally:
            connection.deadline = float("inf")

    def _run(self, statement: n.Statement, bounds: Bounds) -> Outcome:
        if isinstance(statement, n.Select | n.Compound | n.Values):
            return self._select(statement, bounds)
        if isinstance(statement, n.Refused):
            raise MySQLError(statement.code, statement.text)
        if isinstance(statement, n.Show | n.Explain):
            columns, rows = (
                show.show(self.session, statement)
                if isinstance(statement, n.Show)
                else show.explain(self.session, statement)
            )
            return Outcome(
                "rows",
                [name for name, _ in columns],
                [t for _, t in columns],
                rows[: bounds.max_rows],
                truncated=len(rows) > bounds.max_rows,
            )
        change = _CHANGES.get(type(statement))
        if change is not None:
            return self._change(change, statement)
        return self._control(statement)

    def _select(self, query: n.Query, bounds: Bounds) -> Outcome:
        ctx = self.session.context()
        plan = compile_query(ctx, query, None)
        types = [out.x.t for out in plan.outs]
        cursor = self.session.connection.execute(plan.render(), ctx.params)
        rows: list[tuple[Any, ...]] = []
        size, truncated = 0, False
        try:
            for row in cursor:
                size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
                if len(rows) >= bounds.max_rows or size > bounds.max_bytes:
                    truncated = True
                    break
                rows.append(row)
        except sqlite3.Error as error:
            raise self.session.connection.translate(error) from error
        finally:
            cursor.close()
        self.session.system["found_rows"] = len(rows)
        _check_integers(types, rows)
        return Outcome("rows", [out.name for out in plan.outs], types, rows, truncated=truncated, logged=ctx.impure)

    def _change(self, change: Callable[[Session, Any], int], statement: n.Statement) -> Outcome:
        session = self.session
        defines = not isinstance(statement, n.Insert | n.Update | n.Delete)
        backup = copy.deepcopy(session.catalog) if defines else None
        if defines and session.connection.raw.in_transaction:
            session.connection.raw.execute("COMMIT")
        self._begin()
        try:
            affected = change(session, statement)
            session.connection.execute("RELEASE s")
        except BaseException:
            session.connection.deadline = float("inf")
            session.connection.error = None
            if session.connection.raw.in_transaction:
                session.connection.raw.execute("ROLLBACK TO s")
                session.connection.raw.execute("RELEASE s")
            if backup is not None:
                session.catalog = backup
            raise
        session.system["row_count"] = affected
        return Outcome("done", [], [], [], affected=affected, logged=True)

    def _control(self, statement: n.Statement) -> Outcome:
        done = Outcome("done", [], [], [], logged=True)
        if isinstance(statement, n.Use):
            if statement.database not in (DATABASE, "information_schema"):
                raise MySQLError(1044, f"Access denied for user 'agent'@'localhost' to database '{statement.database}'")
        elif isinstance(statement, n.SetVariables):
            self._set(statement)
        elif isinstance(statement, n.Do):
            for item in statement.items:
                self.session.value(item)
        elif isinstance(statement, n.Transaction):
            self._transaction(statement)
        return done

    def _set(self, statement: n.SetVariables) -> None:
        for name, system, node in statement.assignments:
            value, t = self.session.value(node)
            if not system:
                self.session.connection.variables[name] = (
                    exact(value) if t.kind == "dec" and value is not None else value
                )
            elif name not in self.session.system:
                raise MySQLError(1193, f"Unknown system variable '{name}'")
            elif name in ("version", "hostname", "port", "lower_case_table_names"):
                raise MySQLError(1238, f"Variable '{name}' is a read only variable")
            elif isinstance(value, type(self.session.system[name])):
                self.session.system[name] = value

    def _transaction(self, statement: n.Transaction) -> None:
        connection = self.session.connection
        active = connection.raw.in_transaction
        name = "u_" + statement.name.encode().hex()
        if statement.what == "BEGIN":
            if active:
                connection.execute("COMMIT")
            connection.execute("BEGIN")
        elif statement.what in ("COMMIT", "ROLLBACK"):
            if active:
                connection.execute(statement.what)
        elif active:
            word = {"SAVEPOINT": "SAVEPOINT", "ROLLBACK_TO": "ROLLBACK TO", "RELEASE": "RELEASE"}[statement.what]
            try:
                connection.raw.execute(f"{word} {name}")
            except sqlite3.Error:
                raise MySQLError(1305, f"SAVEPOINT {statement.name} does not exist") from None
        elif statement.what != "SAVEPOINT":
            raise MySQLError(1305, f"SAVEPOINT {statement.name} does not exist")

    def dump(self) -> dict[str, tuple[list[T], list[tuple[Any, ...]]]]:
        """Every base table's types and rows, up to the limits of a dump."""
        found = {}
        cells = chars = 0
        with self._turn:
            for table in self.session.catalog.tables.values():
                if table.temporary:
                    continue
                rows: list[tuple[Any, ...]] = []
                names = ", ".join(column.phys for column in table.columns)
                with closing(self.session.connection.execute(f"SELECT {names} FROM {table.phys}")) as cursor:
                    for row in cursor:
                        rows.append(row)
                        cells += len(row)
                        chars += sum(len(value) for value in row if isinstance(value, str | bytes))
                        if cells > DUMP_MAX_CELLS or chars > DUMP_MAX_CHARS:
                            break
                found[table.name] = ([column.t for column in table.columns], rows)
        return found

    def close(self) -> None:
        with self._turn:
            self.session.connection.close()


def _check_integers(types: list[T], rows: list[tuple[Any, ...]]) -> None:
    """An INT expression that left the 64-bit range is a REAL in SQLite and an error in MySQL."""
    places = [place for place, t in enumerate(types) if t.kind == "int"]
    for row in rows:
        for place in places:
            if type(row[place]) is float:
                raise MySQLError(1690, "BIGINT value is out of range")


_CHANGES: dict[type, Callable[[Session, Any], int]] = {
    n.Insert: writes.insert,
    n.Update: writes.update,
    n.Delete: writes.delete,
    n.CreateTable: definitions.create_table,
    n.CreateView: definitions.create_view,
    n.Drop: definitions.drop,
    n.AlterTable: alterations.alter_table,
    n.RenameTables: definitions.rename_tables,
    n.Truncate: definitions.truncate,
}

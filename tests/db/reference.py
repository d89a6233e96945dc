"""Runs statements on a MariaDB or MySQL server and brings outcomes of either engine into one comparable form."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from envhub.envs.db.database import QueryResult, Table


class Server:
    """A private database on the server for each ``open``."""

    def __init__(self, url: str) -> None:
        import mysql.connector
        from mysql.connector.constants import ClientFlag

        parts = urlsplit(url)
        self.connection = mysql.connector.connect(
            host=parts.hostname,
            port=parts.port or 3306,
            user=parts.username,
            password=parts.password or "",
            autocommit=True,
            ssl_disabled=True,
            client_flags=[-ClientFlag.MULTI_STATEMENTS],
        )
        self.cursor = self.connection.cursor(buffered=True)
        self.cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_uca1400_nopad_ai_ci")
        self.cursor.execute("SET time_zone = '+00:00'")
        self.cursor.execute("SET sql_mode = 'ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'")
        self.name = ""

    def open(self, tables: Iterable[Table]) -> None:
        self.drop()
        self.name = f"agree_{uuid.uuid4().hex[:12]}"
        self.cursor.execute(f"CREATE DATABASE `{self.name}` COLLATE utf8mb4_uca1400_nopad_ai_ci")
        self.cursor.execute(f"USE `{self.name}`")
        for table in tables:
            columns = [f"{_quoted(column.name)} {column.type}" for column in table.columns]
            columns += [f"PRIMARY KEY ({_quoted(column.name)})" for column in table.columns if column.primary_key]
            self.cursor.execute(f"CREATE TABLE {_quoted(table.name)} ({', '.join(columns)})")
            marks = ", ".join("%s" for _ in table.columns)
            if table.rows:
                self.cursor.executemany(f"INSERT INTO {_quoted(table.name)} VALUES ({marks})", list(table.rows))

    def execute(self, sql: str) -> Any:
        """Comparable outcome, see ``outcome``."""
        import mysql.connector

        try:
            self.cursor.execute(sql)
            if not self.cursor.with_rows:
                return "done"
            return canonical(self.cursor.fetchall(), ordered="order by" in sql.lower())
        except (mysql.connector.Error, UnicodeError):
            return "rejected"

    def dump(self) -> dict[str, list[list[str]]]:
        self.cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
        names = [row[0] for row in self.cursor.fetchall()]
        found = {}
        for name in names:
            self.cursor.execute(f"SELECT * FROM {_quoted(name)}")
            found[name] = self.cursor.fetchall()
        return canonical_dump(found)

    def drop(self) -> None:
        if self.name:
            self.cursor.execute(f"DROP DATABASE `{self.name}`")
            self.name = ""

    def close(self) -> None:
        self.drop()
        self.connection.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def canonical(rows: Iterable[Sequence[Any]], *, ordered: bool) -> list[list[str]]:
    listed = [[cell(value) for value in row] for row in rows]
    return listed if ordered else sorted(listed)


def canonical_dump(tables: Mapping[str, Iterable[Sequence[Any]]]) -> dict[str, list[list[str]]]:
    return {name: canonical(rows, ordered=False) for name, rows in sorted(tables.items())}


def cell(value: Any) -> str:
    """Type and value: 1, 1.0 and Decimal('1') differ, and so do NULL and 'NULL'."""
    if value is None:
        return "null"
    if isinstance(value, bool | int):
        return f"int {int(value)}"
    if isinstance(value, float):
        return f"float {value:.12g}"
    if isinstance(value, Decimal):
        return f"decimal {value:f}"
    if isinstance(value, bytes | bytearray):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, set | frozenset):
        return f"str {','.join(sorted(value))}"
    if isinstance(value, dt.datetime | dt.date | dt.timedelta):
        return f"{type(value).__name__} {value}"
    return f"str {value}"


def outcome(result: QueryResult, sql: str) -> Any:
    """``rejected``, ``done``, or the canonical rows (sorted when the statement does not order them)."""
    if result.status == "rows":
        return canonical(result.rows, ordered="order by" in sql.lower())
    return "done" if result.status == "done" else "rejected"

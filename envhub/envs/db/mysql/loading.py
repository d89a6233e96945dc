"""Fills a fresh database with a task's tables.

Invariant: afterwards the database holds exactly the given rows, or TaskUnusableError says which table could not be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envhub.core.errors import TaskUnusableError, UnavailableError
from envhub.envs.db.database import Cell, Column, Table
from envhub.envs.db.mysql.connection import Connection, ServerError
from envhub.envs.db.mysql.values import literal, quoted

MAX_STATEMENT_CHARS = 500_000
MAX_KEY_CHARS = 768
"""InnoDB's 3072 bytes of key, in utf8mb4 characters."""

_OUT_OF_SPACE = {3, 28, 1021, 1037, 1038, 1041, 1114, 1135}


async def load(connection: Connection, tables: Sequence[Table]) -> None:
    """Raises TaskUnusableError, UnavailableError (the server is full), ConnectionLostError."""
    for table in tables:
        try:
            await connection.command(_create(table))
            for statement in _inserts(table):
                await connection.command(statement)
        except ServerError as error:
            if error.code in _OUT_OF_SPACE:
                raise UnavailableError(f"the database server is full: {error}", retry_after_s=5.0) from error
            raise TaskUnusableError(f"table {table.name!r} cannot be created: {error}") from error
        except ValueError as error:
            raise TaskUnusableError(f"table {table.name!r} cannot be created: {error}") from error


def _create(table: Table) -> str:
    columns = [f"{quoted(column.name)} {column.type}" for column in table.columns]
    keys = [column for column in table.columns if column.primary_key]
    if keys:
        columns.append(f"PRIMARY KEY ({', '.join(_key_part(column, n_keys=len(keys)) for column in keys)})")
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(columns)})"


def _key_part(column: Column, *, n_keys: int) -> str:
    """A TEXT or BLOB column can be a key only by its first characters."""
    kind = column.type.split("(")[0].strip().upper()
    if kind.split(" ")[0] in {
        "TEXT",
        "TINYTEXT",
        "MEDIUMTEXT",
        "LONGTEXT",
        "BLOB",
        "TINYBLOB",
        "MEDIUMBLOB",
        "LONGBLOB",
    }:
        length = 63 if kind.startswith("TINY") else 255
        return f"{quoted(column.name)}({min(length, MAX_KEY_CHARS // n_keys)})"
    return quoted(column.name)


def _inserts(table: Table) -> Iterator[str]:
    """INSERT statements of bounded length."""
    head = f"INSERT INTO {quoted(table.name)} VALUES "
    batch: list[str] = []
    n_chars = 0
    for row in table.rows:
        text = _row(row, n_columns=len(table.columns))
        if batch and n_chars + len(text) > MAX_STATEMENT_CHARS:
            yield head + ",".join(batch)
            batch, n_chars = [], 0
        batch.append(text)
        n_chars += len(text)
    if batch:
        yield head + ",".join(batch)


def _row(row: tuple[Cell, ...], *, n_columns: int) -> str:
    if len(row) != n_columns:
        raise ValueError(f"a row has {len(row)} values, the table {n_columns} columns")
    return f"({','.join(literal(cell) for cell in row)})"

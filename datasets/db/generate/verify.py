"""Checks every reference solution on a MySQL or MariaDB server: ``python verify.py --mysql mysql://user:pw@host:port``.

Invariant: the databases it makes are named ``<prefix><number>`` and are dropped again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql

sys.path.append(str(Path(__file__).resolve().parents[3]))
from envhub.envs.db.database import Table
from envhub.envs.db.mysql.url import parse_url
from envhub.envs.db.tasks import DBTask, Rows, State, load_split

STRICT_MODE = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"


def check(url: str, tasks: list[DBTask], prefix: str = "gen_") -> list[str]:
    """One line for each task whose solution does not give its answer."""
    server = parse_url(url)
    connection = pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        unix_socket=server.socket,
        charset="utf8mb4",
        sql_mode=STRICT_MODE,
    )
    try:
        return list(_check(connection, tasks, prefix))
    finally:
        connection.close()


def _check(connection: Any, tasks: list[DBTask], prefix: str) -> Iterator[str]:
    groups: dict[tuple[Table, ...], list[DBTask]] = {}
    for task in tasks:
        groups.setdefault(task.tables, []).append(task)
    for number, (tables, group) in enumerate(groups.items()):
        name = f"{prefix}{os.getpid()}_{number}"
        cursor = connection.cursor()
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            cursor.execute(f"USE {name}")
            for table in tables:
                _create(cursor, table)
            connection.commit()
            for task in group:
                problem = _play(cursor, task)
                connection.rollback()
                if problem:
                    yield f"{task.id} {task.kind}: {problem} | {task.question} | {task.solution}"
        finally:
            cursor.execute(f"DROP DATABASE {name}")


def _create(cursor: Any, table: Table) -> None:
    columns = ", ".join(f"`{c.name}` {c.type}" for c in table.columns)
    keys = ", ".join(f"`{c.name}`" for c in table.columns if c.primary_key)
    cursor.execute(f"CREATE TABLE `{table.name}` ({columns}, PRIMARY KEY ({keys})) ENGINE=InnoDB")
    marks = ", ".join(["%s"] * len(table.columns))
    cursor.executemany(f"INSERT INTO `{table.name}` VALUES ({marks})", [tuple(row) for row in table.rows])


def _play(cursor: Any, task: DBTask) -> str | None:
    rows: list[tuple[object, ...]] = []
    for statement in task.solution:
        try:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
        except pymysql.MySQLError as error:
            return str(error)
    if isinstance(task.answer, Rows):
        return _compare(rows, task.answer)
    return _compare_state(cursor, task)


def _compare(found: list[tuple[object, ...]], answer: Rows) -> str | None:
    got = [tuple(_canonical(cell) for cell in row) for row in found]
    want = [tuple(_canonical(cell) for cell in row) for row in answer.rows]
    if (got == want) if answer.ordered else (Counter(got) == Counter(want)):
        return None
    return f"got {got[:5]}, want {want[:5]}"


def _compare_state(cursor: Any, task: DBTask) -> str | None:
    assert isinstance(task.answer, State) and task.answer.tables is not None
    if task.answer.tables == task.tables:
        return "nothing changes"
    for table in task.answer.tables:
        cursor.execute(f"SELECT * FROM `{table.name}`")
        got = Counter(tuple(_canonical(cell) for cell in row) for row in cursor.fetchall())
        want = Counter(
            tuple(_canonical(cell, c.type) for cell, c in zip(row, table.columns, strict=True)) for row in table.rows
        )
        if got != want:
            return f"{table.name}: got {list((got - want).elements())[:3]}, want {list((want - got).elements())[:3]}"
    return None


def _canonical(cell: object, type: str = "") -> object:
    if isinstance(cell, datetime):
        return cell.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(cell, date):
        return cell.isoformat()
    if type.startswith("DECIMAL") and cell is not None:
        return Decimal(str(cell))
    if isinstance(cell, int | float | Decimal):
        return Decimal(str(cell))
    return cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mysql", default=os.environ.get("ENVHUB_MYSQL_URL", ""), help="mysql://user:password@host:port"
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--splits", nargs="+", default=["train", "dev", "test"])
    arguments = parser.parse_args()
    failures = 0
    for split in arguments.splits:
        tasks = list(load_split(arguments.data, split))
        problems = check(arguments.mysql, tasks)
        failures += len(problems)
        lines = [f"{split}: {len(tasks) - len(problems)}/{len(tasks)} reference solutions give the answer", *problems]
        sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

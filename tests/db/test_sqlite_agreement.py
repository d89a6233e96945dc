"""The embedded engine answers as a MariaDB server does: on our own statements, and on AgentBench's published ones.

``statements.json`` holds MariaDB's outcomes, so that most of this runs without a server; ENVHUB_RECORD=1 writes it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from envhub.core.errors import TaskUnusableError
from envhub.envs.db.database import Column, Table
from envhub.envs.db.sqlite.driver import SqliteDriver
from tests import require
from tests.db.reference import Server, canonical_dump, outcome
from tests.db.statements import MARIADB_DIFFERS, TABLES, cases, is_write

pytestmark = pytest.mark.timeout(300)

RECORDED = Path(__file__).with_name("statements.json")


@pytest.fixture
async def driver() -> AsyncIterator[SqliteDriver]:
    made = SqliteDriver(processes=1)
    yield made
    await made.close()


@pytest.fixture
def server(mysql_url: str) -> Iterator[Server]:
    made = Server(mysql_url)
    yield made
    made.close()


async def embedded_outcome(driver: SqliteDriver, case: tuple[str, ...]) -> Any:
    database = await driver.open(TABLES)
    result: Any = None
    for sql in case:
        result = outcome(await database.execute(sql), sql)
    if is_write(case):
        result = [result, canonical_dump(await database.dump())]
    await database.close()
    return result


def server_outcome(server: Server, case: tuple[str, ...]) -> Any:
    server.open(TABLES)
    result: Any = None
    for sql in case:
        result = server.execute(sql)
    return [result, server.dump()] if is_write(case) else result


async def test_every_statement_has_the_outcome_recorded_from_mariadb(driver: SqliteDriver) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert len(cases()) >= 105
    different = {}
    for case in cases():
        found = await embedded_outcome(driver, case)
        if found != recorded[" ; ".join(case)] and case[0] not in MARIADB_DIFFERS:
            different[case] = found
    assert different == {}


@pytest.mark.mysql
async def test_engines_agree_on_every_statement(driver: SqliteDriver, server: Server) -> None:
    outcomes = {case: server_outcome(server, case) for case in cases()}
    if os.environ.get("ENVHUB_RECORD"):
        text = json.dumps({" ; ".join(case): found for case, found in outcomes.items()}, ensure_ascii=False, indent=0)
        RECORDED.write_text(text + "\n", encoding="utf-8")
    different = [case for case, found in outcomes.items() if await embedded_outcome(driver, case) != found]
    assert len(outcomes) - len(different) >= 100
    assert {case[0] for case in different} <= set(MARIADB_DIFFERS)


# ---- the published AgentBench items


def published(name: str) -> list[dict[str, Any]]:
    path = require.published(f"data/agentbench/data/dbbench/{name}.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def changes_data(item: dict[str, Any]) -> bool:
    return item["type"][0] in ("INSERT", "UPDATE", "DELETE")


def tables_of(item: dict[str, Any]) -> list[Table]:
    listed = item["table"] if isinstance(item["table"], list) else [item["table"]]
    return [
        Table(
            table["table_name"],
            tuple(Column(column["name"]) for column in table["table_info"]["columns"]),
            tuple(tuple(str(cell) for cell in row) for row in table["table_info"]["rows"]),
        )
        for table in listed
    ]


@pytest.mark.mysql
async def test_published_writes_leave_the_same_tables(driver: SqliteDriver, server: Server) -> None:
    items = [item for item in published("standard") if changes_data(item)]
    same = 0
    for item in items:
        server.open(tables_of(item))
        server.execute(item["label"][0])
        database = await driver.open(tables_of(item))
        await database.execute(item["label"][0])
        same += canonical_dump(await database.dump()) == server.dump()
        await database.close()
    assert (same, len(items)) == (200, 200)


@pytest.mark.mysql
async def test_published_reads_give_the_same_rows_or_are_rejected_by_both(driver: SqliteDriver, server: Server) -> None:
    items = [item for item in published("standard") if not changes_data(item)]
    same = 0
    for item in items:
        sql = item["sql"]["query"]
        server.open(tables_of(item))
        database = await driver.open(tables_of(item))
        same += outcome(await database.execute(sql), sql) == server.execute(sql)
        await database.close()
    assert len(items) == 100
    assert same >= 97


async def test_every_published_table_opens_but_the_one_without_a_column_name(driver: SqliteDriver) -> None:
    refused = []
    for name in ("standard", "dev"):
        for index, item in enumerate(published(name)):
            try:
                database = await driver.open(tables_of(item))
                await database.close()
            except TaskUnusableError:
                refused.append((name, index))
    assert refused == [("dev", 5)]

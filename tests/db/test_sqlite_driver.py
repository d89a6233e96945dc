"""The embedded driver: MySQL's errors and types, limits, hostile statements, and hosts that die."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from envhub.core.errors import EpisodeFailedError, TaskUnusableError
from envhub.envs.db.database import Column, QueryLimits, QueryResult, Table
from envhub.envs.db.sqlite.driver import SqliteDatabase, SqliteDriver
from envhub.testing.clock import FakeClock
from tests.db.frozen import freeze

PEOPLE = Table(
    "people",
    (Column("id", "INT", True), Column("name"), Column("pay", "DECIMAL(10,2)"), Column("born", "DATE")),
    ((1, "Anna", "80.00", "1990-02-28"), (2, "Björn", None, "2000-02-29"), (3, "Zoë", "12.50", None)),
)
NUMBERS = Table("t", (Column("a", "INT"), Column("b")), tuple((i, f"x{i}") for i in range(300)))
LIMITS = QueryLimits(timeout_s=20, max_rows=1000, max_bytes=1_000_000)
QUICK = replace(LIMITS, timeout_s=0.5)
"""For statements that may run over it, and for those alone: on a busy machine any other may do so too."""

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def driver() -> AsyncIterator[SqliteDriver]:
    made = SqliteDriver(processes=1)
    yield made
    await made.close()


@pytest.fixture
async def database(driver: SqliteDriver) -> AsyncIterator[SqliteDatabase]:
    made = await driver.open([PEOPLE, NUMBERS], limits=LIMITS)
    yield made
    await made.close()


async def rows(database: SqliteDatabase, sql: str) -> Any:
    result = await database.execute(sql)
    assert result.status == "rows", result.message
    return list(result.rows)


# ---- values and errors


async def test_values_arrive_as_a_mysql_client_returns_them(database: SqliteDatabase) -> None:
    sql = "SELECT id, name, pay, born, AVG(id) OVER (), SUM(id) OVER (), 1e0, 7/2, x'00ff', NOW() FROM people ORDER BY id LIMIT 2"
    found = await rows(database, sql)
    assert found[0][:9] == (
        1,
        "Anna",
        Decimal("80.00"),
        dt.date(1990, 2, 28),
        Decimal("2"),
        Decimal(6),
        1.0,
        Decimal("3.5"),
        b"\0\xff",
    )
    assert [str(found[0][place]) for place in (2, 4, 5, 7)] == ["80.00", "2.0000", "6", "3.5000"]
    assert isinstance(found[0][9], dt.datetime)
    assert found[1][2] is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM nope", "1146 (42S02): Table 'env.nope' doesn't exist"),
        ("SELECT * FROM sqlite_master", "1146 (42S02): Table 'env.sqlite_master' doesn't exist"),
        ("SELECT * FROM sqlite_schema", "1146 (42S02): Table 'env.sqlite_schema' doesn't exist"),
        ("SELECT nope FROM people", "1054 (42S22): Unknown column 'nope' in 'field list'"),
        ("SELECT rowid FROM people", "1054 (42S22): Unknown column 'rowid' in 'field list'"),
        ("SELECT id FROM people WHERE x = 1", "1054 (42S22): Unknown column 'x' in 'where clause'"),
        ("SELECT id FROM people ORDER BY x", "1054 (42S22): Unknown column 'x' in 'order clause'"),
        ("INSERT INTO people (id) VALUES (1)", "1062 (23000): Duplicate entry '1' for key 'people.PRIMARY'"),
        ("INSERT INTO people VALUES (9)", "1136 (21S01): Column count doesn't match value count at row 1"),
        ("CREATE TABLE people (x INT)", "1050 (42S01): Table 'people' already exists"),
        ("DROP TABLE nope", "1051 (42S02): Unknown table 'env.nope'"),
        ("SELECT NOPE(1)", "1305 (42000): FUNCTION env.NOPE does not exist"),
        ("SELECT (SELECT id FROM people)", "1242 (21000): Subquery returns more than 1 row"),
        ("SELECT * FROM people p, people p", "1066 (42000): Not unique table/alias: 'p'"),
        ("SELECT id FROM people a, people b", "1052 (23000): Column 'id' in field list is ambiguous"),
        ("SELECT 1 UNION SELECT 1, 2", "1222 (21000): The used SELECT statements have a different number of columns"),
        ("SELECT id FROM people WHERE COUNT(*) > 1", "1111 (HY000): Invalid use of group function"),
        ("USE mysql", "1044 (42000): Access denied for user 'agent'@'localhost' to database 'mysql'"),
        ("SELECT * FROM mysql.user", "1044 (42000): Access denied for user 'agent'@'localhost' to database 'mysql'"),
        ("", "1065 (42000): Query was empty"),
        ("INSERT INTO people (id, name) VALUES (NULL, 'x')", "1048 (23000): Column 'id' cannot be null"),
    ],
)
async def test_errors_carry_mysqls_number_and_words(database: SqliteDatabase, sql: str, message: str) -> None:
    result = await database.execute(sql)
    assert (result.status, result.message) == ("error", message)
    assert result.message.startswith(str(result.error_code))


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT * FROM "people"',
        "SELECT 1; SELECT 2",
        "INSERT INTO people (id) VALUES (7);)",
        "SELECT rank FROM people",
        "SELECT * FROM order",
        "SELECT [id] FROM people",
        "SELECT TOP 1 id FROM people",
        "PRAGMA database_list",
        "ATTACH 'x' AS y",
        "VACUUM",
        "SELECT\0 1",
        "SELECT 'unterminated",
        "SELECT 1 */ + 2",
        "SELECT 1 /* open",
    ],
)
async def test_what_mysql_cannot_parse_is_a_syntax_error(database: SqliteDatabase, sql: str) -> None:
    result = await database.execute(sql)
    assert result.error_code == 1064
    assert "right syntax to use near" in result.message


@pytest.mark.parametrize(
    "sql",
    [
        "GRANT ALL ON *.* TO x",
        "KILL 1",
        "CREATE USER x",
        "SET GLOBAL max_connections = 1",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
    ],
)
async def test_administration_is_denied(database: SqliteDatabase, sql: str) -> None:
    assert (await database.execute(sql)).error_code in (1044, 1227)


async def test_trailing_semicolon_and_comments_are_allowed(database: SqliteDatabase) -> None:
    assert await rows(database, "/* a */ SELECT 1 /*! + 1 */ # b\n; -- done") == [(2,)]


async def test_grouping_rule_names_the_offending_column(database: SqliteDatabase) -> None:
    result = await database.execute("SELECT name, COUNT(*) FROM people GROUP BY born")
    assert result.error_code == 1055
    assert "Expression #1 of SELECT list" in result.message and "'env.people.name'" in result.message
    assert (await database.execute("SELECT name, COUNT(*) FROM people")).error_code == 1140
    assert (await database.execute("SELECT name, COUNT(*) FROM people GROUP BY id")).status == "rows"
    await database.execute("SET sql_mode = REPLACE(@@sql_mode, 'ONLY_FULL_GROUP_BY', '')")
    assert (await database.execute("SELECT name, COUNT(*) FROM people")).status == "rows"


async def test_show_and_describe_look_like_mysql(database: SqliteDatabase) -> None:
    assert await rows(database, "SHOW TABLES") == [("people",), ("t",)]
    assert (await rows(database, "DESCRIBE people"))[0] == ("id", "int", "NO", "PRI", None, "")
    text = (await rows(database, "SHOW CREATE TABLE people"))[0][1]
    assert "`pay` decimal(10,2) DEFAULT NULL" in text and "PRIMARY KEY (`id`)" in text
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position"
    assert await rows(database, sql) == [("id",), ("name",), ("pay",), ("born",)]
    assert await rows(database, "SELECT DATABASE(), @@version LIKE '8.%'") == [("env", 1)]


async def test_wide_types_come_back_typed(driver: SqliteDriver) -> None:
    """B065: the values that client libraries get wrong."""
    columns = (
        Column("u", "BIGINT UNSIGNED"),
        Column("d", "DECIMAL(30,10)"),
        Column("b", "BIT(4)"),
        Column("t", "TIME"),
        Column("j", "JSON"),
    )
    row = (2**63, "12345678901234567890.1234567890", b"\x0a", "-12:34:56", '{"a":[1,null]}')
    database = await driver.open([Table("t", columns, (row,))])
    expected = (
        2**63,
        Decimal("12345678901234567890.1234567890"),
        b"\x0a",
        -dt.timedelta(hours=12, minutes=34, seconds=56),
        '{"a": [1, null]}',
    )
    assert await rows(database, "SELECT * FROM t") == [expected]
    assert await rows(database, "SELECT u = 9223372036854775808, b + 0, j->>'$.a[0]' FROM t") == [(1, 10, "1")]
    assert (await database.dump())["t"] == (expected,)


async def test_session_survives_the_statements_that_confuse_drivers(driver: SqliteDriver) -> None:
    """B065: several statements in one text, other databases, an over-long result."""
    database = await driver.open([NUMBERS])
    for sql in (
        "SELECT 1; SELECT 2;",
        "INSERT INTO t VALUES (1, 'x'););",
        "USE mysql",
        "DROP DATABASE env",
        "CALL p()",
    ):
        assert (await database.execute(sql)).status == "error", sql
    result = await database.execute(
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 1000000) SELECT n FROM r"
    )
    assert (len(result.rows), result.truncated) == (10_000, True)
    assert await rows(database, "SELECT COUNT(*) FROM t") == [(300,)]


async def test_now_comes_from_the_clock() -> None:
    driver = SqliteDriver(processes=1, clock=FakeClock(start=0.0))
    database = await driver.open([])
    assert await rows(database, "SELECT NOW(), CURDATE()") == [
        (dt.datetime(2023, 11, 14, 22, 13, 20), dt.date(2023, 11, 14))
    ]
    await driver.close()


# ---- writes


async def test_failed_statement_leaves_no_trace(database: SqliteDatabase) -> None:
    before = await database.dump()
    assert (await database.execute("INSERT INTO people (id, name) VALUES (8, 'x'), (1, 'y')")).error_code == 1062
    assert (await database.execute("UPDATE people SET id = 3 WHERE id = 1")).error_code == 1062
    assert (await database.execute("ALTER TABLE people ADD COLUMN z INT, DROP COLUMN nope")).error_code == 1091
    assert (await database.execute("CREATE TABLE z AS SELECT id, id FROM people")).error_code == 1060
    assert await database.dump() == before


async def test_affected_counts_changed_rows(database: SqliteDatabase) -> None:
    assert (await database.execute("UPDATE people SET name = 'Anna' WHERE id < 3")).affected == 1
    assert (await database.execute("DELETE FROM people WHERE id > 1")).affected == 2
    sql = "INSERT INTO people (id, name) VALUES (1, 'B') ON DUPLICATE KEY UPDATE name = VALUES(name)"
    assert (await database.execute(sql)).affected == 2


async def test_constraints_hold(database: SqliteDatabase) -> None:
    await database.execute(
        "CREATE TABLE child (id INT, pid INT, n INT CHECK (n > 0), FOREIGN KEY (pid) REFERENCES people (id))"
    )
    assert (await database.execute("INSERT INTO child VALUES (1, 77, 1)")).error_code == 1452
    assert (await database.execute("INSERT INTO child VALUES (1, 1, 0)")).error_code == 3819
    assert (await database.execute("INSERT INTO child VALUES (1, 1, 1)")).status == "done"
    assert (await database.execute("DELETE FROM people WHERE id = 1")).error_code == 1451
    assert (await database.execute("DROP TABLE people")).error_code == 3730


async def test_dump_holds_base_tables_alone(database: SqliteDatabase) -> None:
    await database.execute("CREATE VIEW v AS SELECT id FROM people")
    await database.execute("CREATE TEMPORARY TABLE tmp (x INT)")
    dump = await database.dump()
    assert sorted(dump) == ["people", "t"]
    assert sorted(dump["people"])[0] == (1, "Anna", Decimal("80.00"), dt.date(1990, 2, 28))


async def test_table_names_keep_their_case_and_may_look_like_sqlites(driver: SqliteDriver) -> None:
    tables = [
        Table(name, (Column("c0"), Column("t1 x`")), (("1", "2"),))
        for name in ("T", "t", "sqlite_master", "a.b", "`q`", "select")
    ]
    database = await driver.open(tables)
    assert set(await database.dump()) == {table.name for table in tables}
    assert await rows(database, "SELECT `t1 x```, C0 FROM `sqlite_master`") == [("2", "1")]
    assert (await database.execute("DROP TABLE `T`")).status == "done"
    assert await rows(database, "SELECT COUNT(*) FROM t") == [(1,)]


@pytest.mark.parametrize("bad", [Column(""), Column("a", "NOTATYPE"), Column("x" * 70)])
async def test_table_that_cannot_exist_is_unusable(driver: SqliteDriver, bad: Column) -> None:
    with pytest.raises(TaskUnusableError):
        await driver.open([Table("t", (bad,), ())])


async def test_text_that_is_not_unicode_is_refused(driver: SqliteDriver, database: SqliteDatabase) -> None:
    assert (await database.execute("SELECT '\ud800'")).error_code == 1300
    with pytest.raises(TaskUnusableError):
        await driver.open([Table("t", (Column("a"),), (("\ud800",),))])
    assert await rows(database, "SELECT 'a\0b', '😀', CHAR_LENGTH('😀'), LENGTH('😀')") == [("a\0b", "😀", 1, 4)]


async def test_view_that_reads_itself_is_an_error(database: SqliteDatabase) -> None:
    await database.execute("CREATE VIEW v AS SELECT id FROM people")
    await database.execute("CREATE OR REPLACE VIEW v AS SELECT id FROM v")
    assert (await database.execute("SELECT * FROM v")).status == "error"
    assert await rows(database, "SELECT COUNT(*) FROM people") == [(3,)]


# ---- limits


async def test_results_are_cut_at_rows_and_bytes(driver: SqliteDriver) -> None:
    database = await driver.open([NUMBERS], limits=QueryLimits(max_rows=10, max_bytes=1000))
    result = await database.execute("SELECT a FROM t")
    assert (len(result.rows), result.truncated) == (10, True)
    result = await database.execute("SELECT REPEAT('x', 300) FROM t")
    assert (len(result.rows), result.truncated) == (3, True)
    assert not (await database.execute("SELECT a FROM t LIMIT 10")).truncated


HOSTILE = {
    "catastrophic regex": f"SELECT COUNT(*) FROM t WHERE '{'x' * 60}' REGEXP '(x+x+)+y'",
    "cross join": "SELECT COUNT(*) FROM t a, t b, t c, t d, t e",
    "endless recursion": "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
    "endless sort": "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r ORDER BY n DESC",
    "growing text": "WITH RECURSIVE r AS (SELECT 'aaaa' n UNION ALL SELECT CONCAT(n, n) FROM r) SELECT LENGTH(n) FROM r",
    "growing insert": "INSERT INTO t SELECT a.a, REPEAT('x', 1000) FROM t a, t b, t c",
    "huge update": "UPDATE t SET b = REPEAT('x', 4000000)",
    "group_concat explosion": "SELECT LENGTH(GROUP_CONCAT(REPEAT('x', 1000000))) FROM t a, t b, t c",
    "huge repeat": "SELECT REPEAT('x', 1000000000), SPACE(1e12)",
    "huge replace": "SELECT REPLACE(REPEAT('x', 4000000), 'x', REPEAT('y', 4000000))",
    "python aggregate": "SELECT STDDEV(a.a * b.a * c.a) FROM t a, t b, t c",
    "python sort": "SELECT a.b FROM t a, t b, t c ORDER BY CONCAT(a.b, b.b, c.b) DESC LIMIT 1",
    "sleep": "SELECT SLEEP(1000)",
    "parentheses": "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "long sum": "SELECT " + "+".join(["1"] * 5_000),
    "long not": "SELECT " + "NOT " * 5_000 + "1",
    "long and": "SELECT COUNT(*) FROM t WHERE " + " AND ".join(f"a <> {i}" for i in range(2_000)),
    "nested queries": "SELECT * FROM " + "(SELECT * FROM " * 200 + "t" + ") x" * 200,
    "union of thousands": " UNION ALL ".join(["SELECT 1"] * 3_000),
    "many joins": "SELECT 1 FROM t " + " ".join(f"JOIN t x{i} ON x{i}.a = t.a" for i in range(90)),
    "megabyte literal": "SELECT LENGTH('" + "x" * 1_000_000 + "')",
    "over a megabyte": "SELECT '" + "x" * 3_000_000 + "'",
    "huge IN": "SELECT COUNT(*) FROM t WHERE a IN (" + ",".join(map(str, range(20_000))) + ")",
    "deep json": "SELECT JSON_LENGTH(REPEAT('[', 1000000))",
    "nested functions": "SELECT " + "REPLACE(" * 5_000 + "b" + ", 'a', 'b')" * 5_000 + " FROM t",
    "json explosion": "SELECT LENGTH(JSON_ARRAYAGG(REPEAT('x', 100000))) FROM t a, t b, t c",
    "regex of regexes": "SELECT REPEAT('a', 100000) REGEXP '((a{1,100}){1,100}){1,100}'",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_statement_ends_in_time_and_the_database_stays_usable(driver: SqliteDriver, name: str) -> None:
    database = await driver.open([NUMBERS], limits=QUICK)
    start = time.monotonic()
    await database.execute(HOSTILE[name])
    assert time.monotonic() - start < 25
    database.limits = LIMITS
    assert (await database.execute("SELECT COUNT(*) FROM t")).rows == ((300,),)


async def test_timeout_names_itself_and_changes_nothing(driver: SqliteDriver) -> None:
    database = await driver.open([NUMBERS], limits=QUICK)
    result = await database.execute("UPDATE t x JOIN t y JOIN t z JOIN t u SET x.b = y.b")
    assert result.status == "timeout"
    database.limits = LIMITS
    assert await rows(database, "SELECT COUNT(*) FROM t WHERE b = CONCAT('x', a)") == [(300,)]


async def test_long_statements_of_others_delay_a_session_little(driver: SqliteDriver) -> None:
    bystander = await driver.open([NUMBERS])
    hostile = [await driver.open([NUMBERS], limits=QueryLimits(timeout_s=40)) for _ in range(3)]
    running = [asyncio.create_task(one.execute(HOSTILE["cross join"])) for one in hostile]
    await asked(driver, 3)
    for _ in range(10):
        await rows(bystander, "SELECT COUNT(*), SUM(a) FROM t WHERE b LIKE 'x1%'")
    assert not any(task.done() for task in running), "it would have waited for one of them"
    await cancelled(running)
    await asyncio.gather(*(one.close() for one in hostile))


async def asked(driver: SqliteDriver, n: int) -> None:
    """Waits until that many requests are on their way to the host, which takes them in turn."""
    async with asyncio.timeout(20):
        while len(driver._hosts[0]._waiting) < n:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def cancelled(running: Sequence[asyncio.Task[QueryResult]]) -> None:
    for task in running:
        task.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert {type(each) for each in ended} == {asyncio.CancelledError}


# ---- hosts that die


async def test_killed_host_comes_back_with_every_database(driver: SqliteDriver) -> None:
    databases = [await driver.open([NUMBERS, PEOPLE]) for _ in range(20)]
    for place, database in enumerate(databases):
        await database.execute(f"INSERT INTO t VALUES ({1000 + place}, RAND())")
        await database.execute("CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME DEFAULT NOW())")
        await database.execute("INSERT INTO log VALUES (), ()")
        await database.execute("DELETE FROM people WHERE id = 1")
    before = [await database.dump() for database in databases]
    os.kill(driver.host_pids[0], signal.SIGKILL)
    assert await asyncio.gather(*(database.dump() for database in databases)) == before
    assert await rows(databases[7], "SELECT MAX(a) FROM t") == [(1007,)]
    assert (await databases[3].execute("INSERT INTO log VALUES ()")).affected == 1


async def test_statements_in_flight_survive_the_death_of_their_host(driver: SqliteDriver) -> None:
    databases = [await driver.open([NUMBERS], limits=QueryLimits(timeout_s=10)) for _ in range(3)]
    running = [asyncio.create_task(one.execute("SELECT COUNT(*), SLEEP(0.3) FROM (SELECT 1 x) y")) for one in databases]
    await asked(driver, 3)
    os.kill(driver.host_pids[0], signal.SIGKILL)
    assert [(await task).rows for task in running] == [((1, 0),)] * 3


async def test_open_transaction_and_variables_survive_a_rebuild(driver: SqliteDriver) -> None:
    database = await driver.open([NUMBERS])
    for sql in ("SET @x = 41", "START TRANSACTION", "DELETE FROM t WHERE a > 9"):
        await database.execute(sql)
    os.kill(driver.host_pids[0], signal.SIGKILL)
    assert await rows(database, "SELECT COUNT(*), @x + 1 FROM t") == [(10, 42)]
    await database.execute("ROLLBACK")
    assert await rows(database, "SELECT COUNT(*) FROM t") == [(300,)]


async def test_statement_that_ignores_its_deadline_costs_only_itself(driver: SqliteDriver) -> None:
    other = await driver.open([PEOPLE])
    await other.execute("UPDATE people SET name = 'changed'")
    database = await driver.open([NUMBERS], limits=replace(LIMITS, timeout_s=0.2))
    pid = driver.host_pids[0]
    freeze(pid)  # a host that answers nothing looks like Python code that never returns
    assert (await database.execute("SELECT 1")).status == "timeout"
    database.limits = LIMITS
    assert await rows(database, "SELECT COUNT(*) FROM t") == [(300,)]
    assert await rows(other, "SELECT DISTINCT name FROM people") == [("changed",)]
    assert driver.host_pids[0] != pid


async def test_memory_limit_turns_a_glutton_into_an_error(driver: SqliteDriver) -> None:
    small = SqliteDriver(processes=1, memory_limit_bytes=400 << 20)
    other = await small.open([PEOPLE])
    database = await small.open([NUMBERS], limits=QueryLimits(timeout_s=5.0))
    result = await database.execute(
        "SELECT COUNT(*) FROM (SELECT a.a, REPEAT('x', 2000) r FROM t a, t b, t c ORDER BY r, a.a DESC) q"
    )
    assert result.status in ("error", "timeout")
    database.limits = LIMITS
    assert await rows(other, "SELECT COUNT(*) FROM people") == [(3,)]
    assert await rows(database, "SELECT COUNT(*) FROM t") == [(300,)]
    await small.close()


# ---- lifecycle


async def test_cancelled_call_stops_its_statement(driver: SqliteDriver) -> None:
    """Whether it has begun or not."""
    database = await driver.open([NUMBERS], limits=QueryLimits(timeout_s=50))
    for pause_s in (0.0, 0.1):
        running = asyncio.create_task(database.execute(HOSTILE["cross join"]))
        await asked(driver, 1)
        await asyncio.sleep(pause_s)
        await cancelled([running])
        start = time.monotonic()
        assert await rows(database, "SELECT COUNT(*) FROM t") == [(300,)]
        assert time.monotonic() - start < 15
    await database.close()


async def test_closed_database_is_gone(driver: SqliteDriver) -> None:
    database = await driver.open([NUMBERS])
    await database.close()
    await database.close()
    with pytest.raises(EpisodeFailedError):
        await database.execute("SELECT 1")
    with pytest.raises(EpisodeFailedError):
        await database.dump()


async def test_closing_the_driver_ends_its_processes() -> None:
    driver = SqliteDriver(processes=2)
    await asyncio.gather(*(driver.open([NUMBERS]) for _ in range(4)))
    pids = driver.host_pids
    assert len(pids) == 2
    await driver.close()
    await driver.close()
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_databases_do_not_see_each_other(driver: SqliteDriver) -> None:
    first, second = await driver.open([PEOPLE]), await driver.open([NUMBERS])
    await first.execute("SET @x = 1")
    assert (await second.execute("SELECT * FROM people")).error_code == 1146
    assert await rows(second, "SELECT @x") == [(None,)]


@pytest.mark.timeout(300)
async def test_memory_is_flat_over_two_thousand_databases(driver: SqliteDriver) -> None:
    async def cycle(count: int) -> None:
        for _ in range(count):
            database = await driver.open([PEOPLE])
            await database.execute("UPDATE people SET name = UPPER(name)")
            await database.close()

    await cycle(300)
    before = resident_kib(driver.host_pids[0])
    await cycle(2000)
    assert resident_kib(driver.host_pids[0]) - before < 8 * 1024


def resident_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])

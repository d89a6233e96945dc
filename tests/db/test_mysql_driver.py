"""The mysql driver against a real server: values, limits, isolation, and nothing left behind."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import secrets
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pymysql
import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import EpisodeFailedError, InvalidRequestError, TaskUnusableError, UnavailableError
from envhub.envs.db.database import Column, QueryLimits, QueryResult, Table
from envhub.envs.db.mysql import MysqlDriver
from envhub.envs.db.mysql.database import MysqlDatabase
from envhub.envs.db.mysql.url import parse_url
from tests.db.mariadb_server import MariaDBServer, mariadb, need_mariadb

pytestmark = [pytest.mark.mysql, pytest.mark.timeout(60)]

PEOPLE = Table(
    "people",
    (Column("id", "INT", primary_key=True), Column("name"), Column("born", "DATE")),
    ((1, "Ada", "1815-12-10"), (2, "Grace", "1906-12-09"), (3, None, None)),
)
NUMBERS = Table("numbers", (Column("n", "INT"),), tuple((n,) for n in range(1000)))
QUICK = QueryLimits(timeout_s=0.4)
"""For statements that are to run over it, and for those alone: on a busy machine any other may do so too."""


class Server:
    """The administrator's view, over a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._options = {
            "host": parts.hostname or "",
            "port": parts.port or 3306,
            "user": parts.username,
            "password": parts.password or "",
        }

    def query(self, sql: str) -> list[tuple[object, ...]]:
        connection = pymysql.connect(**self._options, autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        finally:
            connection.close()

    @contextmanager
    def holding(self, lock: str) -> Iterator[None]:
        """Whoever asks for this lock waits until the block is left."""
        connection = pymysql.connect(**self._options, autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT GET_LOCK('{lock}', 0)")
            yield
        finally:
            connection.close()

    def is_mariadb(self) -> bool:
        return "MariaDB" in str(self.query("SELECT VERSION()")[0][0])

    def leftovers(self, owner: str) -> set[str]:
        """Databases, users and connections that carry an owner's name."""
        pattern = f"s\\_{owner}\\_%"
        return {
            *(f"database {row[0]}" for row in self.query(f"SHOW DATABASES LIKE '{pattern}'")),
            *(f"user {row[0]}" for row in self.query(f"SELECT User FROM mysql.user WHERE User LIKE '{pattern}'")),
            *(
                f"connection {row[0]} of {row[1]}"
                for row in self.query(
                    f"SELECT ID, USER FROM information_schema.PROCESSLIST WHERE USER LIKE '{pattern}' "
                    "AND COMMAND NOT IN ('Killed', 'Connect')"  # the server ends it, or has not let it in
                )
            ),
        }

    def statements(self, database: MysqlDatabase) -> list[str]:
        """What runs in an open database now."""
        sql = f"SELECT INFO FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND USER = '{database.account.name}'"
        return [str(row[0]) for row in self.query(sql)]


def new_owner() -> str:
    return f"t{secrets.token_hex(4)}"


async def until(condition: Callable[[], bool], *, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the event is in the server
            await asyncio.sleep(0.02)


@pytest.fixture
def server(mysql_url: str) -> Server:
    return Server(mysql_url)


@pytest.fixture
def owner() -> str:
    return new_owner()


@pytest.fixture
async def driver(server: Server, owner: str) -> AsyncIterator[MysqlDriver]:
    """Its teardown is a test of its own: whatever the test did, nothing is left."""
    driver = MysqlDriver(server.url, owner=owner, pool_min=1)
    yield driver
    await driver.close()
    assert server.leftovers(owner) == set()


@pytest.fixture
async def database(driver: MysqlDriver) -> AsyncIterator[MysqlDatabase]:
    database = await driver.open([PEOPLE])
    yield database
    await database.close()


def patient(database: MysqlDatabase) -> MysqlDatabase:
    """The same one, with time for statements that are quick on a machine that is not busy."""
    database._limits = QueryLimits()
    return database


async def value_of(database: MysqlDatabase, expression: str) -> object:
    result = await database.execute(f"SELECT {expression}")
    assert result.status == "rows", result
    return result.rows[0][0]


async def assert_usable(database: MysqlDatabase) -> None:
    result = await database.execute("SELECT name FROM people WHERE id = 2")
    assert result == QueryResult("rows", columns=("name",), rows=(("Grace",),))


# ---------------------------------------------------------------------------------------------------------- values


async def test_opens_with_exactly_the_given_tables(driver: MysqlDriver) -> None:
    empty = Table("empty", (Column("a"), Column("b", "DECIMAL(10,2)")), ())
    database = await driver.open([PEOPLE, empty])
    assert await database.dump() == {
        "people": ((1, "Ada", dt.date(1815, 12, 10)), (2, "Grace", dt.date(1906, 12, 9)), (3, None, None)),
        "empty": (),
    }


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("9223372036854775808", 2**63),
        ("-9223372036854775808", -(2**63)),
        ("CAST(18446744073709551615 AS UNSIGNED)", 2**64 - 1),
        ("CAST(1.5 AS DECIMAL(30,10))", Decimal("1.5000000000")),
        ("SUM(x) FROM (SELECT 1 AS x UNION ALL SELECT 2) AS t", Decimal(3)),
        ("1e300", 1e300),
        ("b'101' | 0", 5),
        ("x'00ff'", b"\x00\xff"),
        ("CAST('12:30:00.5' AS TIME(1))", dt.timedelta(hours=12, minutes=30, seconds=0.5)),
        ("CAST('-838:59:59' AS TIME)", -dt.timedelta(hours=838, minutes=59, seconds=59)),
        ("CAST('2001-02-03' AS DATE)", dt.date(2001, 2, 3)),
        ("CAST('2001-02-03 04:05:06.789' AS DATETIME(3))", dt.datetime(2001, 2, 3, 4, 5, 6, 789000)),
        ("JSON_OBJECT('a', 1)", '{"a": 1}'),
        (r"'a\0b'", "a\x00b"),
        ("'😀'", "😀"),
        ("'😀' = '😀'", 1),
        ("NULL", None),
        ("'a' = 'A'", 1),
        ("'e' = 'é'", 1),
        ("'a' = 'a '", 0),
        ("5 / 0", None),
        ("7 / 2", Decimal("3.5000")),
        ("'12abc' + 1", 13.0),
        ("@@time_zone", "+00:00"),
    ],
)
async def test_values_are_typed_and_stable_b065(database: MysqlDatabase, expression: str, value: object) -> None:
    got = await value_of(database, expression)
    assert (got, type(got)) == (value, type(value))


async def test_stored_values_keep_their_type_b065(driver: MysqlDriver) -> None:
    kinds = (
        "BIGINT UNSIGNED",
        "DECIMAL(30,10)",
        "BIT(8)",
        "TIME",
        "DATETIME",
        "JSON",
        "TEXT",
        "BLOB",
        "DOUBLE",
        "YEAR",
    )
    table = Table(
        "kinds",
        tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds)),
        (
            (
                2**63,
                "1.5",
                5,
                "12:30:00",
                "2001-02-03 04:05:06",
                '{"a": "😀"}',
                "nul\0 'q' \\ 😀",
                b"\0\xff'",
                0.1,
                1999,
            ),
        ),
    )
    database = await driver.open([table])
    expected = (
        2**63,
        Decimal("1.5000000000"),
        b"\x05",
        dt.timedelta(hours=12, minutes=30),
        dt.datetime(2001, 2, 3, 4, 5, 6),
        '{"a": "😀"}',
        "nul\0 'q' \\ 😀",
        b"\0\xff'",
        0.1,
        1999,
    )
    assert (await database.execute("SELECT * FROM kinds")).rows == (expected,)
    assert (await database.dump())["kinds"] == (expected,)


async def test_text_columns_can_be_keys(driver: MysqlDriver) -> None:
    columns = (Column("code", primary_key=True), Column("part", "LONGTEXT", primary_key=True), Column("value"))
    database = await driver.open([Table("codes", columns, (("a", "b", "c"),))])
    result = await database.execute("INSERT INTO codes VALUES ('a', 'b', 'd')")
    assert (result.status, result.error_code) == ("error", 1062)


async def test_a_table_larger_than_one_statement_loads(driver: MysqlDriver) -> None:
    rows = tuple((n, "x" * 500) for n in range(3000))
    database = await driver.open([Table("big", (Column("n", "INT"), Column("text")), rows)])
    assert (await database.execute("SELECT COUNT(*), SUM(LENGTH(text)) FROM big")).rows == ((3000, Decimal(1_500_000)),)


@pytest.mark.parametrize(
    "table",
    [
        Table("t", (Column(""),), ()),
        Table("t", (Column("a"), Column("A")), ()),
        Table("", (Column("a"),), ()),
        Table("t", (), ()),
        Table("t", (Column("a", "NO_SUCH_TYPE"),), ()),
        Table("t", (Column("a"), Column("b")), (("only one",),)),
        Table("t", (Column("a", "INT"),), (("not a number",),)),
        Table("t", (Column("a", "DOUBLE"),), ((float("nan"),),)),
        Table("t", (Column("a", "INT", primary_key=True),), ((1,), (1,))),
        Table("t", (Column("a" * 65),), ()),
    ],
    ids=[
        "no column name",
        "twice a column",
        "no name",
        "no columns",
        "type",
        "short row",
        "value",
        "nan",
        "key",
        "long",
    ],
)
async def test_a_table_that_cannot_be_made_is_unusable_b030(
    driver: MysqlDriver, server: Server, owner: str, table: Table
) -> None:
    with pytest.raises(TaskUnusableError, match=re.escape(repr(table.name))):
        await driver.open([PEOPLE, table])


# ------------------------------------------------------------------------------------------------------- statements


async def test_writes_tell_how_many_rows_they_changed(database: MysqlDatabase) -> None:
    assert await database.execute("UPDATE people SET name = 'x' WHERE id < 3") == QueryResult("done", affected=2)
    assert await database.execute("UPDATE people SET name = 'x' WHERE id < 3") == QueryResult("done", affected=0)
    assert await database.execute("CREATE TABLE t (a INT)") == QueryResult("done")


async def test_errors_carry_the_servers_number_and_text_b065(database: MysqlDatabase) -> None:
    result = await database.execute("SELECT * FROM nowhere")
    assert (result.error_code, result.message) == (1146, "1146 (42S02): Table 'task_db.nowhere' doesn't exist")
    result = await database.execute("SELECT missing FROM people")
    assert result.error_code == 1054
    assert result.message.startswith("1054 (42S22): Unknown column 'missing' in ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2;",
        "INSERT INTO people VALUES (9, 'x', NULL););",
        "INSERT INTO people VALUES (9, 'x', NULL); DROP TABLE people",
        "SELEC 1",
        "SELECT 'open",
    ],
)
async def test_several_statements_or_bad_syntax_give_a_syntax_error_b065(database: MysqlDatabase, sql: str) -> None:
    result = await database.execute(sql)
    assert (result.status, result.error_code) == ("error", 1064)
    assert "You have an error in your SQL syntax" in result.message
    assert (await database.execute("SELECT COUNT(*) FROM people")).rows == ((3,),)


@pytest.mark.parametrize("sql", ["", ";", "-- nothing", "\x00", "SELECT '\ud800'", "é😀", "SELECT 1\x00"])
async def test_odd_text_never_raises_b065(database: MysqlDatabase, sql: str) -> None:
    await database.execute(sql)
    await assert_usable(database)


async def test_a_select_followed_by_an_update_stays_in_step_b065(database: MysqlDatabase) -> None:
    for n in range(5):
        assert len((await database.execute("SELECT * FROM people")).rows) == 3
        assert (await database.execute(f"UPDATE people SET name = 'n{n}' WHERE id = 1")).affected == 1


async def test_stored_procedures_are_refused_b065(database: MysqlDatabase) -> None:
    assert (await database.execute("CREATE PROCEDURE p() SELECT 1")).error_code == 1044
    assert (await database.execute("CALL p()")).status == "error"
    await assert_usable(database)


async def test_a_block_with_several_results_gives_its_first_b065(database: MysqlDatabase, server: Server) -> None:
    if not server.is_mariadb():
        pytest.skip("MySQL has no anonymous blocks")
    assert (await database.execute("BEGIN NOT ATOMIC SELECT 1; SELECT 2; END")).rows == ((1,),)
    assert (await database.execute("BEGIN NOT ATOMIC SELECT 1; SELECT nope; END")).error_code == 1054
    await assert_usable(database)


async def test_a_transaction_can_be_rolled_back(database: MysqlDatabase) -> None:
    for sql in ("START TRANSACTION", "DELETE FROM people", "ROLLBACK"):
        assert (await database.execute(sql)).status == "done"
    await assert_usable(database)


async def test_dump_counts_an_open_transaction(database: MysqlDatabase) -> None:
    for sql in ("START TRANSACTION", "DELETE FROM people WHERE id > 1"):
        await database.execute(sql)
    assert (await database.dump())["people"] == ((1, "Ada", dt.date(1815, 12, 10)),)


async def test_dump_sees_base_tables_alone_and_past_temporary_ones(database: MysqlDatabase) -> None:
    await database.execute("CREATE VIEW v AS SELECT 1")
    await database.execute("CREATE TEMPORARY TABLE people (fake INT)")
    await database.execute("SET NAMES latin1")
    dump = await database.dump()
    assert (set(dump), len(dump["people"])) == ({"people"}, 3)


# ------------------------------------------------------------------------------------------------------- own database


async def test_the_database_has_one_name_in_every_episode(driver: MysqlDriver) -> None:
    seen = []
    for _ in range(2):
        database = await driver.open([PEOPLE])
        texts = [
            await database.execute(sql)
            for sql in (
                "SELECT DATABASE(), USER(), CURRENT_USER()",
                "SHOW TABLES",
                "SHOW DATABASES",
                "SELECT * FROM mysql.user",
            )
        ]
        seen.append(texts)
        await database.close()
    assert seen[0] == seen[1]
    assert seen[0][0].rows == (("task_db", "task_db@%", "task_db@%"),)
    assert seen[0][1].columns == ("Tables_in_task_db",)


async def test_the_name_an_agent_sees_works_where_it_writes_it(database: MysqlDatabase) -> None:
    assert (await database.execute("SELECT COUNT(*) FROM task_db.people")).rows == ((3,),)
    sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'task_db'"
    assert (await database.execute(sql)).rows == (("people",),)
    assert (await database.execute("USE `task_db`")).status == "done"


async def test_using_another_database_does_not_lose_ones_own_b065(database: MysqlDatabase) -> None:
    assert (await database.execute("USE mysql")).error_code == 1044
    await assert_usable(database)
    assert (await database.execute("USE information_schema")).status == "done"
    assert (await database.execute("USE task_db")).status == "done"
    await assert_usable(database)


async def test_a_dropped_and_recreated_database_is_entered_again_b065(database: MysqlDatabase) -> None:
    assert (await database.execute("DROP DATABASE task_db")).status == "done"
    assert (await database.execute("SELECT * FROM people")).error_code == 1046
    assert await database.dump() == {}
    assert (await database.execute("CREATE DATABASE task_db")).status == "done"
    assert (await database.execute("CREATE TABLE people (a TEXT)")).status == "done"
    assert (await database.execute("INSERT INTO people VALUES ('é')")).affected == 1
    assert (await database.execute("SELECT COUNT(*) FROM people WHERE a = 'E'")).rows == ((1,),)
    assert await database.dump() == {"people": (("é",),)}


# ------------------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SLEEP(120)",
        "DO SLEEP(120)",
        "SELECT BENCHMARK(1000000000000, SHA2('a', 256))",
        "SELECT COUNT(*) FROM numbers a, numbers b, numbers c WHERE a.n * b.n + c.n < 0",
        "INSERT INTO numbers SELECT a.n FROM numbers a, numbers b, numbers c",
        "SELECT *, SLEEP(120) FROM numbers",
    ],
)
async def test_a_slow_statement_is_killed_in_time_b065(
    driver: MysqlDriver, server: Server, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr("envhub.envs.db.mysql.database.KILL_GRACE_S", 20.0)
    database = await driver.open([NUMBERS], limits=QUICK)
    connection = database._connection
    result = await database.execute(sql)
    assert result.status == "timeout"
    assert "0.4 s" in result.message
    assert connection is not None and connection.usable, "the statement was ended, and not its connection with it"
    assert (await patient(database).execute("SELECT COUNT(*) FROM numbers")).rows == ((1000,),)
    await until(lambda: server.statements(database) == [])


async def test_the_server_side_limit_being_lifted_changes_nothing_b065(driver: MysqlDriver, server: Server) -> None:
    database = await driver.open([PEOPLE], limits=QUICK)
    variable = "max_statement_time" if server.is_mariadb() else "max_execution_time"
    assert (await patient(database).execute(f"SET SESSION {variable} = 0")).status == "done"
    database._limits = QUICK
    assert (await database.execute("SELECT SLEEP(1000)")).status == "timeout"
    await assert_usable(patient(database))


async def test_a_timeout_keeps_the_sessions_state(driver: MysqlDriver) -> None:
    database = await driver.open([PEOPLE])
    await database.execute("SET @mine = 7")
    await database.execute("CREATE TEMPORARY TABLE scratch (a INT)")
    database._limits = QUICK
    assert (await database.execute("SELECT SLEEP(120)")).status == "timeout"
    assert await value_of(patient(database), "@mine") == 7
    assert (await database.execute("SELECT * FROM scratch")).status == "rows"


async def test_a_late_kill_does_not_hit_the_next_statement(driver: MysqlDriver) -> None:
    database = await driver.open([PEOPLE])
    statuses = []
    for _ in range(20):
        database._limits = QueryLimits(timeout_s=0.05)
        statuses.append((await database.execute("SELECT SLEEP(0.0495)")).status)
        follow_up = await patient(database).execute("SELECT 1")
        assert follow_up.rows == ((1,),), follow_up
    assert set(statuses) <= {"rows", "timeout"}


async def test_a_huge_result_is_cut_with_flat_memory_b065(driver: MysqlDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envhub.envs.db.mysql.connection.DRAIN_S", 20.0)  # reading is slow while memory is traced
    database = await driver.open([NUMBERS], limits=QueryLimits(timeout_s=20, max_rows=500, max_bytes=10**9))
    await database.execute("SET @mine = 7")
    tracemalloc.start()
    try:
        result = await database.execute("SELECT a.n, REPEAT('x', 1000) FROM numbers a, numbers b")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(result.rows), result.truncated) == (500, True)
    assert peak < 8 << 20
    assert await value_of(database, "@mine") == 7


async def test_a_result_is_cut_at_its_byte_limit_b065(driver: MysqlDriver) -> None:
    database = await driver.open([NUMBERS], limits=QueryLimits(max_rows=10**6, max_bytes=50_000))
    result = await database.execute("SELECT REPEAT('x', 1000) FROM numbers")
    assert (len(result.rows), result.truncated) == (50, True)
    whole = await database.execute("SELECT n FROM numbers")
    assert (len(whole.rows), whole.truncated) == (1000, False)


async def test_one_enormous_row_neither_fills_memory_nor_breaks_the_session_b065(driver: MysqlDriver) -> None:
    database = await driver.open([PEOPLE])
    tracemalloc.start()
    try:
        result = await database.execute("SELECT " + ", ".join(["REPEAT('x', 15000000)"] * 8))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result.status, result.rows, result.truncated) == ("rows", (), True)
    assert peak < 16 << 20
    await assert_usable(database)


async def test_a_statement_over_the_servers_packet_size_is_an_error(database: MysqlDatabase) -> None:
    limit = int(str(await value_of(database, "@@max_allowed_packet")))
    result = await database.execute("SELECT '" + "x" * limit + "'")
    assert (result.status, result.error_code) == ("error", 1153)
    await assert_usable(database)


# --------------------------------------------------------------------------------------------------------- isolation


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {other}.people",
        "INSERT INTO {other}.people VALUES (4, 'x', NULL)",
        "DROP DATABASE {other}",
        "CREATE TABLE {other}.t (a INT)",
        "CREATE DATABASE {wildcard}",
        "USE {other}",
        "KILL {connection}",
        "SELECT * FROM mysql.user",
        "SELECT * FROM mysql.db",
        "USE envhub_admin",
        "SELECT * FROM envhub_admin.owners",
        "CREATE DATABASE test_shared",
        "CREATE TABLE test.t (a INT)",
        "CREATE USER intruder",
        "DROP USER '{other}'",
        "GRANT ALL ON *.* TO CURRENT_USER()",
        "SET GLOBAL max_connections = 10",
        "SET GLOBAL general_log = 1",
        "SELECT 1 INTO OUTFILE '/tmp/envhub-outfile'",
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE people",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE people",
        "CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW SET @a = 1",
        "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO SELECT 1",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "CREATE FUNCTION f RETURNS STRING SONAME 'lib.so'",
        "LOCK TABLES people WRITE",
        "FLUSH TABLES",
        "SHUTDOWN",
        "INSTALL PLUGIN p SONAME 'p'",
        "SHOW ENGINE INNODB STATUS",
        "SHOW BINARY LOGS",
        "CHANGE MASTER TO MASTER_HOST = 'x'",
        "SHOW CREATE DATABASE {other}",
        "SHOW TABLES FROM {other}",
        "EXPLAIN SELECT * FROM {other}.people",
        "ALTER DATABASE {other} CHARACTER SET latin1",
        "RENAME TABLE people TO {other}.stolen",
        "CREATE VIEW v AS SELECT * FROM {other}.people",
        "CREATE DEFINER = 'root'@'localhost' VIEW v AS SELECT * FROM mysql.user",
        "CREATE TABLE m (a INT) ENGINE = MERGE UNION = ({other}.people)",
        "CREATE TABLE f (a INT) ENGINE = FEDERATED CONNECTION = 'mysql://root@127.0.0.1/mysql/user'",
        "SET SESSION sql_log_bin = 0",
        "SET ROLE ALL_OF_THEM",
    ],
)
async def test_an_agent_cannot_reach_beyond_its_database_d2(driver: MysqlDriver, server: Server, sql: str) -> None:
    mine = await driver.open([PEOPLE], limits=QueryLimits(timeout_s=20))
    other = await driver.open([PEOPLE])
    connection = await value_of(other, "CONNECTION_ID()")
    text = sql.format(other=other.account.name, wildcard=mine.account.name.replace("_", "x"), connection=connection)
    result = await mine.execute(text)
    assert result.status == "error", result
    await assert_usable(mine)
    await assert_usable(other)
    assert await value_of(other, "CONNECTION_ID()") == connection
    assert len((await other.dump())["people"]) == 3


async def test_an_agent_sees_no_other_database_user_or_statement_d2(driver: MysqlDriver) -> None:
    mine, other = await driver.open([PEOPLE]), await driver.open([PEOPLE])
    databases = {row[0] for row in (await mine.execute("SHOW DATABASES")).rows}
    assert databases <= {"task_db", "information_schema", "performance_schema"}
    for sql in (
        "SHOW PROCESSLIST",
        "SELECT * FROM information_schema.PROCESSLIST",
        "SELECT * FROM information_schema.SCHEMATA",
        "SELECT * FROM information_schema.TABLES",
        "SELECT * FROM information_schema.USER_PRIVILEGES",
        "SELECT * FROM information_schema.SCHEMA_PRIVILEGES",
    ):
        result = await mine.execute(sql)
        assert result.status == "rows"
        assert other.account.name not in str(result.rows)
        assert other.account.password not in str(result.rows)
    assert await value_of(mine, "LOAD_FILE('/etc/passwd')") is None


@pytest.mark.parametrize("sql", ["SHOW EXPLAIN FOR {}", "EXPLAIN FOR CONNECTION {}", "KILL QUERY {}"])
async def test_an_agent_cannot_look_at_or_stop_anothers_statement_d2(
    driver: MysqlDriver, server: Server, sql: str
) -> None:
    mine, other = await driver.open([PEOPLE]), await driver.open([PEOPLE])
    connection = await value_of(other, "CONNECTION_ID()")
    with server.holding(lock := secrets.token_hex(8)):
        running = asyncio.create_task(other.execute(f"SELECT name, GET_LOCK('{lock}', 60) FROM people"))
        await until(lambda: server.statements(other) != [])
        assert (await mine.execute(sql.format(connection))).status == "error"
    assert [row[1] for row in (await running).rows] == [1, 1, 1]


async def test_an_agent_may_not_open_many_connections(database: MysqlDatabase, server: Server) -> None:
    account = database.account
    options = {"host": urlsplit(server.url).hostname, "port": urlsplit(server.url).port}
    second = pymysql.connect(**options, user=account.name, password=account.password)
    with pytest.raises(pymysql.err.OperationalError, match=r"1226|1203|max_user_connections"):
        pymysql.connect(**options, user=account.name, password=account.password)
    second.close()


@pytest.mark.parametrize(
    "sql",
    [
        "KILL CONNECTION_ID()",
        "KILL QUERY CONNECTION_ID()",
        "SET SESSION character_set_results = utf16",
        "SET NAMES latin1",
        "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "SET SESSION sql_select_limit = 0",
        "SET autocommit = 0",
        "SET PASSWORD = 'changed'",
        "ALTER USER CURRENT_USER() IDENTIFIED BY 'changed'",
        "SET SESSION wait_timeout = 1",
        "XA START 'a'",
        "HANDLER people OPEN",
        "SELECT GET_LOCK('envhub', 1)",
    ],
)
async def test_an_agent_can_hurt_its_session_but_not_the_episode(database: MysqlDatabase, sql: str) -> None:
    await database.execute(sql)
    await database.execute("SELECT name AS `ñame` FROM people")
    await database.execute("KILL CONNECTION_ID()")
    await assert_usable(database)
    assert len((await database.dump())["people"]) == 3


async def test_a_changed_password_does_not_lock_the_episode_out(database: MysqlDatabase, server: Server) -> None:
    account = database.account
    server.query(f"ALTER USER '{account.name}'@'{account.host}' IDENTIFIED BY 'changed'")
    await database.execute("KILL CONNECTION_ID()")
    await assert_usable(database)


async def test_a_prepared_xa_transaction_does_not_keep_the_database(
    driver: MysqlDriver, server: Server, owner: str
) -> None:
    database = await driver.open([PEOPLE], limits=QUICK)
    xid = secrets.token_hex(4)
    for sql in (f"XA START '{xid}'", "DELETE FROM people", f"XA END '{xid}'", f"XA PREPARE '{xid}'"):
        assert (await database.execute(sql)).status == "done"
    name = database.account.name
    await database.close()
    assert not any(name in left for left in server.leftovers(owner))


# ----------------------------------------------------------------------------------------------------- nothing is left


async def test_close_removes_everything_and_may_be_repeated_b029(
    driver: MysqlDriver, server: Server, owner: str
) -> None:
    database = await driver.open([PEOPLE])
    await asyncio.gather(*(database.close() for _ in range(10)))
    await database.close()
    assert not any(database.account.name in left for left in server.leftovers(owner))
    with pytest.raises(EpisodeFailedError, match="closed"):
        await database.execute("SELECT 1")


async def test_close_ends_a_running_statement(driver: MysqlDriver, server: Server, owner: str) -> None:
    database = await driver.open([PEOPLE])
    running = asyncio.create_task(database.execute("SELECT SLEEP(60)"))
    await until(lambda: server.statements(database) == ["SELECT SLEEP(60)"])
    await database.close()
    with pytest.raises(EpisodeFailedError):
        await running
    assert not any(database.account.name in left for left in server.leftovers(owner))


async def test_a_cancelled_statement_is_killed_in_the_server_b025(driver: MysqlDriver, server: Server) -> None:
    database = await driver.open([PEOPLE])
    running = asyncio.create_task(database.execute("SELECT SLEEP(61)"))
    await until(lambda: server.statements(database) == ["SELECT SLEEP(61)"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: server.statements(database) == [])
    await assert_usable(database)


async def test_cancelling_close_does_not_stop_it_b025(driver: MysqlDriver, server: Server, owner: str) -> None:
    database = await driver.open([PEOPLE])
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    closing.cancel()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: not any(database.account.name in left for left in server.leftovers(owner)))


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 5, 8, 12, 20])
async def test_cancelling_open_leaves_nothing_b025(server: Server, owner: str, delay_ms: int) -> None:
    driver = MysqlDriver(server.url, owner=owner, pool_min=0, pool_max=0)
    for _ in range(5):
        opening = asyncio.create_task(driver.open([PEOPLE, NUMBERS]))
        await asyncio.sleep(delay_ms / 1000)
        opening.cancel()
        await asyncio.wait((opening,))
    await driver.close()
    assert server.leftovers(owner) == set()


async def test_closing_the_driver_closes_its_databases(server: Server, owner: str) -> None:
    driver = MysqlDriver(server.url, owner=owner, pool_min=3)
    databases = [await driver.open([PEOPLE]) for _ in range(3)]
    closing = asyncio.create_task(driver.close())
    await asyncio.sleep(0)
    closing.cancel()
    await driver.close()
    assert server.leftovers(owner) == set()
    with pytest.raises(EpisodeFailedError):
        await databases[0].execute("SELECT 1")
    with pytest.raises(UnavailableError):
        await driver.open([PEOPLE])


async def test_200_failing_starts_leave_nothing_b030(driver: MysqlDriver, server: Server, owner: str) -> None:
    bad = Table("t", (Column("a"), Column("")), ())
    for _ in range(10):
        results = await asyncio.gather(*(driver.open([PEOPLE, bad]) for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {TaskUnusableError}
    await driver.close()
    assert server.leftovers(owner) == set()


async def test_64_databases_at_once_are_apart_b041(driver: MysqlDriver) -> None:
    async def play(n: int) -> object:
        database = await driver.open([Table("own", (Column("n", "INT"),), ((n,),))])
        await database.execute(f"UPDATE own SET n = n + {n}")
        (row,) = (await database.execute("SELECT n FROM own")).rows
        await database.close()
        return row[0]

    assert await asyncio.gather(*(play(n) for n in range(64))) == [2 * n for n in range(64)]


# --------------------------------------------------------------------------------------------------------------- sweep

ABANDON = """
import asyncio, os, sys
from envhub.envs.db.database import Column, Table
from envhub.envs.db.mysql import MysqlDriver

async def main():
    driver = MysqlDriver(sys.argv[1], owner=sys.argv[2], pool_min=2)
    database = await driver.open([Table("t", (Column("a"),), (("x",),))])
    print(database.account.name, flush=True)
    os._exit(9)

asyncio.run(main())
"""


def abandon(server: Server, owner: str) -> str:
    """Let a process die with an open database; the database's name."""
    done = subprocess.run(
        [sys.executable, "-c", ABANDON, server.url, owner], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 9, done.stderr
    return done.stdout.strip()


def expire(server: Server, owner: str) -> None:
    server.query(f"UPDATE envhub_admin.owners SET expires_at = 1 WHERE label = '{owner}'")


async def test_a_start_sweeps_dead_owners_and_spares_living_ones_b034(server: Server, owner: str) -> None:
    dead, living = new_owner(), MysqlDriver(server.url, owner=new_owner(), pool_min=1)
    kept = await living.open([PEOPLE])
    name = abandon(server, dead)
    early = MysqlDriver(server.url, owner=owner)
    await early.start()
    await early.close()
    assert f"database {name}" in server.leftovers(dead), "its lease had not run out"
    expire(server, dead)
    late = MysqlDriver(server.url, owner=owner)
    await late.start()
    assert server.leftovers(dead) == set()
    await assert_usable(kept)
    await late.close()
    await assert_usable(kept)
    await living.close()


async def test_half_removed_orphans_are_swept_too(server: Server, owner: str) -> None:
    dead = new_owner()
    server.query(f"CREATE DATABASE s_{dead}_00aa11_1")
    server.query(f"CREATE USER s_{dead}_00aa11_2@'127.0.0.1'")
    server.query(f"CREATE DATABASE s_{dead}_notours")
    driver = MysqlDriver(server.url, owner=owner)
    await driver.start()
    assert server.leftovers(dead) == {f"database s_{dead}_notours"}
    server.query(f"DROP DATABASE s_{dead}_notours")
    await driver.close()


class StepClock(SystemClock):
    """Sleeps end when the test says so."""

    def __init__(self) -> None:
        self._sleepers: list[asyncio.Event] = []

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self._sleepers.append(event)
        await event.wait()

    def advance(self) -> None:
        for event in self._sleepers:
            event.set()
        self._sleepers.clear()


async def test_a_living_owner_renews_its_lease_and_sweeps(server: Server, owner: str) -> None:
    clock = StepClock()
    driver = MysqlDriver(server.url, owner=owner, pool_min=0, clock=clock)
    await driver.start()
    name = abandon(server, dead := new_owner())
    expire(server, dead)
    expire(server, owner)
    await asyncio.sleep(0)
    clock.advance()
    alive = f"SELECT 1 FROM envhub_admin.owners WHERE label = '{owner}' AND expires_at > UNIX_TIMESTAMP()"
    await until(lambda: bool(server.query(alive)))
    await until(lambda: server.leftovers(dead) == set())
    assert name
    await driver.close()
    assert server.query(f"SELECT 1 FROM envhub_admin.owners WHERE label = '{owner}'") == []


async def test_upkeep_removes_an_own_database_whose_removal_failed(server: Server, owner: str) -> None:
    clock = StepClock()
    driver = MysqlDriver(server.url, owner=owner, pool_min=0, pool_max=0, clock=clock)
    database = await driver.open([PEOPLE])
    stray = re.sub(r"\d+$", "999", database.account.name)
    server.query(f"CREATE DATABASE {stray}")
    clock.advance()
    await until(lambda: f"database {stray}" not in server.leftovers(owner))
    await assert_usable(database)
    await driver.close()


# ------------------------------------------------------------------------------------------------- a server that fails


@pytest.fixture
def private(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MariaDBServer]:
    need_mariadb()
    options = request.param if hasattr(request, "param") else ()
    with mariadb(tmp_path, *options) as server:
        yield server


async def test_a_server_killed_mid_episode_fails_it_and_the_next_open_works_b034(private: MariaDBServer) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=2)
    idle, running = await driver.open([PEOPLE]), await driver.open([PEOPLE])
    statement = asyncio.create_task(running.execute("SELECT SLEEP(30)"))
    await until(lambda: Server(private.url).statements(running) == ["SELECT SLEEP(30)"])
    private.kill()
    with pytest.raises(EpisodeFailedError):
        await statement
    with pytest.raises(EpisodeFailedError):
        await idle.execute("SELECT 1")
    with pytest.raises(EpisodeFailedError):
        await idle.dump()
    with pytest.raises(UnavailableError):
        await driver.open([PEOPLE])
    private.start()
    with pytest.raises(EpisodeFailedError, match="restarted"):
        await running.execute("SELECT 1")
    fresh = await driver.open([PEOPLE])
    await assert_usable(fresh)
    await asyncio.gather(idle.close(), running.close(), fresh.close())
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


async def test_a_frozen_server_hangs_nobody(private: MariaDBServer, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=1)
    database = await driver.open([PEOPLE], limits=QUICK)
    private.freeze()
    with monkeypatch.context() as patch:  # a server that answers may take its time on a busy machine
        patch.setattr("envhub.envs.db.mysql.connection.COMMAND_S", 0.3)
        patch.setattr("envhub.envs.db.mysql.connection.CONNECT_S", 0.3)
        patch.setattr("envhub.envs.db.mysql.database.KILL_GRACE_S", 0.3)
        async with asyncio.timeout(25):
            with pytest.raises(EpisodeFailedError):
                await database.execute("SELECT 1")
            with pytest.raises(UnavailableError):
                await driver.open([PEOPLE])
    private.thaw()
    await assert_usable(await driver.open([PEOPLE]))
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


async def test_a_restart_between_two_statements_fails_the_episode_b034(private: MariaDBServer) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=0)
    database = await driver.open([PEOPLE])
    private.kill()
    private.start()
    with pytest.raises(EpisodeFailedError, match="restarted"):
        await database.execute("SELECT * FROM people")
    await database.close()
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


async def test_a_server_that_lost_its_disk_with_a_restart_is_prepared_again_b064(private: MariaDBServer) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=2)
    database = await driver.open([PEOPLE])
    private.lose_data()
    private.start()
    with pytest.raises(EpisodeFailedError):
        await database.execute("SELECT * FROM people")
    await assert_usable(await driver.open([PEOPLE]))
    again = MysqlDriver(private.url, owner="w2")
    await again.start()  # sweeps, and finds the first one's lease
    await assert_usable(await driver.open([PEOPLE]))
    await asyncio.gather(driver.close(), again.close())
    assert Server(private.url).leftovers("w") == set()


async def test_closing_while_the_server_is_down_is_bounded_and_swept_later(private: MariaDBServer) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=1)
    database = await driver.open([PEOPLE])
    private.kill()
    async with asyncio.timeout(15):
        await database.close()
        await driver.close()
    private.start()
    server = Server(private.url)
    server.query("UPDATE envhub_admin.owners SET expires_at = 1")
    again = MysqlDriver(private.url, owner="w2")
    await again.start()
    assert server.leftovers("w") == set()
    await again.close()


async def open_soon(driver: MysqlDriver) -> MysqlDatabase:
    async with asyncio.timeout(40):
        while True:
            try:
                return await driver.open([PEOPLE])
            except UnavailableError:
                await asyncio.sleep(0.05)


async def test_sessions_started_while_the_server_boots_only_ever_wait_b064(private: MariaDBServer) -> None:
    private.kill()
    driver = MysqlDriver(private.url, owner="w", pool_min=4)
    with pytest.raises(UnavailableError) as caught:
        await driver.open([PEOPLE])
    assert caught.value.details["retry_after_s"] > 0
    private.launch()
    databases = await asyncio.gather(*(open_soon(driver) for _ in range(50)))
    results = await asyncio.gather(*(database.execute("SELECT COUNT(*) FROM people") for database in databases))
    assert {result.rows for result in results} == {((3,),)}
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


@pytest.mark.parametrize("private", [("--max-connections=14",)], indirect=True)
async def test_a_full_server_is_unavailable_and_serves_again_b064(private: MariaDBServer) -> None:
    driver = MysqlDriver(private.url, owner="w", pool_min=0, pool_max=0)
    databases = []
    with pytest.raises(UnavailableError, match="1040"):
        while True:
            databases.append(await driver.open([PEOPLE]))
    assert len(databases) >= 5
    assert (await databases[0].execute("SELECT 1")).rows == ((1,),)
    await databases.pop().close()
    await databases.pop().close()
    await assert_usable(await open_soon(driver))  # connections that were killed end a little later
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


async def test_what_every_user_of_the_server_may_do_is_closed_or_refused_d2(private: MariaDBServer) -> None:
    server = Server(private.url)
    server.query("GRANT ALL ON test.* TO PUBLIC")
    server.query(r"GRANT ALL ON `test\_%`.* TO PUBLIC")
    driver = MysqlDriver(private.url, owner="w", pool_min=0)
    database = await driver.open([PEOPLE])
    assert (await database.execute("CREATE DATABASE test_x")).error_code == 1044
    await driver.close()
    server.query("CREATE DATABASE wide_open")
    server.query("GRANT SELECT ON wide_open.* TO PUBLIC")
    driver = MysqlDriver(private.url, owner="w", pool_min=0)
    with pytest.raises(UnavailableError, match="wide_open"):
        await driver.open([PEOPLE])
    await driver.close()
    assert server.leftovers("w") == set()


async def test_table_files_stay_in_the_servers_folder(private: MariaDBServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    driver = MysqlDriver(private.url, owner="w", pool_min=0)
    database = await driver.open([PEOPLE])
    for engine in ("InnoDB", "MyISAM", "Aria"):
        await database.execute(f"CREATE TABLE {engine} (a INT) ENGINE = {engine} DATA DIRECTORY = '{outside}'")
    assert list(outside.iterdir()) == []
    await driver.close()


@pytest.mark.parametrize("private", [("--symbolic-links",)], indirect=True)
async def test_a_server_that_would_write_outside_its_folder_is_reported(
    private: MariaDBServer, caplog: pytest.LogCaptureFixture
) -> None:
    driver = MysqlDriver(private.url, owner="w")
    await driver.start()
    await driver.close()
    assert "skip-symbolic-links" in caplog.text


async def test_a_socket_and_a_password_file_work_too(private: MariaDBServer, tmp_path: Path) -> None:
    Server(private.url).query("CREATE USER boss@localhost IDENTIFIED BY 's3cret/@:'")
    Server(private.url).query("GRANT ALL ON *.* TO boss@localhost WITH GRANT OPTION")
    secret = tmp_path / "password"
    secret.write_text("s3cret/@:\n")
    url = f"mysql://boss@localhost?socket={private.socket}"
    driver = MysqlDriver(url, owner="w", password_file=secret)
    await assert_usable(await driver.open([PEOPLE]))
    await driver.close()
    assert Server(private.url).leftovers("w") == set()


# ----------------------------------------------------------------------------------------------------------------- url


async def test_a_password_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    server = parse_url("mysql://root:s3cr%2Ft@db.example:3307")
    assert (server.password, server.host, server.port) == ("s3cr/t", "db.example", 3307)
    assert "s3cr" not in repr(server)
    driver = MysqlDriver("mysql://root:s3cret@127.0.0.1:1", owner="w")
    with pytest.raises(UnavailableError) as caught:
        await driver.open([PEOPLE])
    assert "s3cret" not in str(caught.value) + caplog.text
    await driver.close()


def test_a_password_may_come_apart_from_the_url_and_shows_nowhere_either(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p@ss/:%2F\n")
    for url in ("mysql://root@db.example", "mysql://root:another@db.example"):
        for given in ({"password": "p@ss/:%2F"}, {"password_file": secret}):
            server = parse_url(url, **given)  # type: ignore[arg-type]
            assert server.password == "p@ss/:%2F" and "p@ss" not in repr(server)


@pytest.mark.parametrize(
    "url", ["postgres://x", "mysql://root@h/db", "mysql://root:s3cret@h:port", "mysql://root:s3cret@h?sockets=1", ""]
)
def test_a_bad_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_url(url)
    assert "s3cret" not in str(caught.value)

"""Episodes of the DB environment on both drivers: texts, limits, isolation, and that no agent can void its own sample."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.core.errors import EpisodeFailedError, InvalidRequestError, MissingExtraError, UnavailableError
from envhub.core.types import JSON, Message, StepResult, TaskRef, ToolCall
from envhub.envs.db.database import Column, Database, DatabaseDriver, QueryLimits, Table
from envhub.envs.db.env import OPTIONS, DBEnvironment, DBEpisode, create
from envhub.envs.db.sqlite import engine as sqlite_engine
from envhub.envs.db.sqlite.driver import SqliteDriver
from envhub.envs.db.sqlite.lexer import MAX_TOKENS
from envhub.envs.db.tasks import Answer, DBTask, Rows, State, TaskSet

pytestmark = pytest.mark.timeout(90)

LEDGER = Table(
    "ledger",
    (Column("id", "INT"), Column("year", "INT"), Column("payer"), Column("note")),
    tuple((n, 2000 + n % 20, f"payer {n}", None if n % 7 else f"note {n}") for n in range(1, 401)),
)
CLOCK = Table("clock", (Column("at", "TIME"), Column("day", "DATE")), (("02:00:00", "2020-01-02"), (None, None)))
RIGHT = "INSERT INTO ledger VALUES (401, 2019, 'a,b', 'c')"
AFTER = replace(LEDGER, rows=(*LEDGER.rows, (401, 2019, "a,b", "c")))


def _task(kind: str, tables: tuple[Table, ...], answer: Answer) -> DBTask:
    return DBTask(id=kind, question=f"A task of kind {kind}.", kind=kind, tables=tables, answer=answer)


TASKS = (
    _task("other", (CLOCK,), Rows(("02:00:00",))),
    _task("INSERT", (LEDGER,), State((AFTER,))),
    _task("counting", (LEDGER,), Rows((400,))),
    _task("aggregation-SUM", (LEDGER,), Rows((None,))),
)
QUESTION, CHANGE, COUNT, MISSING = range(len(TASKS))


def environment_on(driver: DatabaseDriver) -> DBEnvironment:
    return DBEnvironment(driver, {"test": TaskSet("test", len(TASKS), TASKS.__getitem__, dataset_hash="1")})


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[DBEnvironment]:
    driver: DatabaseDriver = SqliteDriver(processes=1)
    if request.param == "mysql":
        from envhub.envs.db.mysql import MysqlDriver

        driver = MysqlDriver(request.getfixturevalue("mysql_url"), owner="env", pool_min=2)
    environment = environment_on(driver)
    yield environment
    await environment.close()


@pytest.fixture
async def embedded() -> AsyncIterator[DBEnvironment]:
    environment = environment_on(SqliteDriver(processes=1))
    yield environment
    await environment.close()


async def opened(environment: DBEnvironment, task: int, **options: JSON) -> DBEpisode:
    return await environment.open(TaskRef("db", "test", task), seed=0, options={**OPTIONS, **options})


def sql(*queries: str) -> Message:
    calls = (ToolCall(f"c{n}", "execute_sql", json.dumps({"query": query})) for n, query in enumerate(queries))
    return Message.assistant(None, *calls)


def commit(*answers: str) -> Message:
    return Message.assistant(None, ToolCall("end", "commit_final_answer", json.dumps({"answers": list(answers)})))


async def played(environment: DBEnvironment, task: int, *messages: Message, **options: JSON) -> list[StepResult]:
    episode = await opened(environment, task, **options)
    try:
        await episode.reset()
        return [await episode.step(message) for message in messages]
    finally:
        await episode.close()


async def said(environment: DBEnvironment, *queries: str, task: int = COUNT, **options: JSON) -> list[str]:
    results = await played(environment, task, *map(sql, queries), **options)
    return [result.messages[0].content or "" for result in results]


# --- texts ----------------------------------------------------------------------------------------------------------


async def test_agent_is_told_how_to_answer(embedded: DBEnvironment) -> None:
    episode = await opened(embedded, COUNT)
    observation = await episode.reset()
    await episode.close()
    system, user = (message.content or "" for message in observation.messages)
    assert "one string for each value, row by row" in system and "the string NULL" in system
    assert user == "Question: A task of kind counting."
    assert [tool.name for tool in observation.tools] == ["execute_sql", "commit_final_answer"]


async def test_values_shown_are_the_values_graded(environment: DBEnvironment) -> None:
    """A TIME is shown as MySQL spells it, so that copying what was seen is right."""
    (seen,) = await said(environment, "SELECT * FROM clock", task=QUESTION)
    assert seen == "[('02:00:00', '2020-01-02'), (NULL, NULL)]"
    (result,) = await played(environment, QUESTION, commit("02:00:00"))
    assert (result.reward, result.terminated) == (1.0, True)


async def test_long_results_are_cut_and_say_so(environment: DBEnvironment) -> None:
    (seen,) = await said(environment, "SELECT id FROM ledger ORDER BY id", max_observation_chars=100)
    assert seen.startswith("[(1,), (2,)") and seen.endswith("... [TRUNCATED: 100 of 3092 characters, 400 rows in all]")
    (seen,) = await said(environment, "SELECT id FROM ledger ORDER BY id", grading="agentbench")
    assert len(seen) == 800 + len("[TRUNCATED]") and seen.endswith("[TRUNCATED]")


@pytest.mark.parametrize(
    "options",
    [
        {"grading": "lenient"},
        {"max_observation_chars": 79},
        {"max_observation_chars": 100_001},
        {"statement_timeout_s": 0.0},
        {"statement_timeout_s": 121.0},
    ],
    ids=str,
)
async def test_bad_options_are_refused(embedded: DBEnvironment, options: Mapping[str, JSON]) -> None:
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        await opened(embedded, COUNT, **options)


async def test_turn_of_slow_statements_ends_before_the_session_would_end_it(embedded: DBEnvironment) -> None:
    """The last statement may start just within the budget; a session gives one step 330 s."""
    for timeout_s in (60.0, 120.0):
        episode = await opened(embedded, COUNT, statement_timeout_s=timeout_s)
        assert episode.turn_limits.budget_s + timeout_s <= 300.0
        await episode.close()


# --- mistakes are text ----------------------------------------------------------------------------------------------


async def test_statements_that_confuse_drivers_are_answered(environment: DBEnvironment) -> None:
    """B065: each gets its text, and the session goes on in its own database."""
    hostile = (
        "SELECT 1; SELECT 2;", "INSERT INTO ledger VALUES (1););", "USE mysql", "DROP DATABASE mysql", "CALL nothing()",
        "SELECT * FROM nowhere", "", ";", "SELECT 'a\0b'", "SELECT '\U0001f600', 9223372036854775807",
    )  # fmt: skip
    answers = await said(environment, *hostile, "SELECT COUNT(*) FROM ledger")
    assert all(answer.startswith("Error executing query: ") for answer in answers[:8]), answers
    assert "(42S02)" in answers[5]
    assert answers[9] == "[('\U0001f600', 9223372036854775807)]"
    assert answers[-1] == "[(400,)]"


async def test_timeout_is_text_and_the_database_goes_on(environment: DBEnvironment) -> None:
    """B065: the statement is killed where it runs."""
    answers = await said(environment, "SELECT SLEEP(30)", "SELECT COUNT(*) FROM ledger", statement_timeout_s=3.0)
    assert answers == ["Error: SQL execution timed out.", "[(400,)]"]


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"query": 1}', '{"sql": "SELECT 1"}', '{"query": "\\ud800"}'])
async def test_malformed_arguments_are_answered_and_run_nothing(embedded: DBEnvironment, arguments: str) -> None:
    """B005."""
    bad = Message.assistant(None, ToolCall("1", "execute_sql", arguments))
    first, after = await played(embedded, COUNT, bad, sql("SELECT COUNT(*) FROM ledger"))
    assert (first.messages[0].content or "").startswith("Error: ") and not first.done
    assert after.messages[0].content == "[(400,)]"


async def test_answers_without_bounds_are_not_submitted(embedded: DBEnvironment) -> None:
    (result,) = await played(embedded, COUNT, commit(*["400"] * 10_001))
    assert not result.done and "Nothing was submitted" in (result.messages[0].content or "")


# --- grading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["0", "", "nan", "none", "inf"])
async def test_missing_value_is_null_alone(embedded: DBEnvironment, answer: str) -> None:
    """B002, as an agent meets it."""
    (wrong,) = await played(embedded, MISSING, commit(answer))
    (right,) = await played(embedded, MISSING, commit("NULL"))
    assert (wrong.reward, right.reward) == (0.0, 1.0)


async def test_answer_is_never_evaluated(embedded: DBEnvironment, tmp_path: Path) -> None:
    """B051."""
    target = tmp_path / "pwned"
    for mode in ("strict", "agentbench"):
        payload = f"[__import__('os').system('touch {target}')]"
        (result,) = await played(embedded, COUNT, commit(payload), grading=mode)
        assert result.reward == 0.0 and not target.exists()


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ((RIGHT,), 1.0),
        ((RIGHT.replace("2019", "'2019'"),), 1.0),
        (("BEGIN", RIGHT), 1.0),
        (("BEGIN", RIGHT, "ROLLBACK"), 0.0),
        ((), 0.0),
        ((RIGHT.replace("'a,b', 'c'", "'a', 'b,c'"),), 0.0),
        ((RIGHT, "DELETE FROM ledger WHERE id = 300"), 0.0),
        ((RIGHT, "UPDATE ledger SET payer = 'x' WHERE id = 399"), 0.0),
        ((RIGHT, "INSERT INTO ledger SELECT * FROM ledger WHERE id = 5"), 0.0),
        ((RIGHT, "UPDATE ledger SET payer = NULL, note = 'payer 1' WHERE id = 1"), 0.0),
        ((RIGHT, "CREATE TABLE notes (a INT)"), 0.0),
        ((RIGHT, "ALTER TABLE ledger ADD COLUMN extra INT"), 0.0),
        ((RIGHT, "ALTER TABLE ledger RENAME TO books", "CREATE VIEW ledger AS SELECT * FROM books"), 0.0),
        (("DROP TABLE ledger",), 0.0),
    ],
)
async def test_state_is_compared_whole(environment: DBEnvironment, changes: Sequence[str], reward: float) -> None:
    """B003: 400 rows, small differences, and ways around the comparison; the same verdict on every engine."""
    results = await played(environment, CHANGE, *map(sql, changes), commit("done"))
    assert (results[-1].reward, results[-1].terminated) == (reward, True), results


@pytest.mark.parametrize(
    "sabotage",
    [
        ("ALTER TABLE ledger DISCARD TABLESPACE",),
        ("CREATE TABLE part (a INT) ENGINE=MyISAM", "CREATE TABLE whole (a INT) ENGINE=MERGE UNION=(part)", "DROP TABLE part"),
        ("ALTER TABLE ledger ADD g BIGINT AS (LENGTH(SHA2(REPEAT('a', 10000000 * id), 512))) VIRTUAL",),
        ("ALTER TABLE ledger ADD g BIGINT AS (id * 9223372036854775807) VIRTUAL",),
        ("SET PASSWORD = PASSWORD('x')", "KILL CONNECTION_ID()"),
        ("SET SESSION wait_timeout = 1", "SELECT SLEEP(1.5)"),
        ("LOCK TABLES ledger WRITE",),
        ("CREATE TEMPORARY TABLE other AS SELECT * FROM ledger", "DROP TABLE ledger", "ALTER TABLE other RENAME ledger"),
    ],
    ids=lambda sabotage: sabotage[-1][:40],
)  # fmt: skip
async def test_unreadable_tables_are_a_wrong_answer_and_no_failure(
    environment: DBEnvironment, sabotage: Sequence[str]
) -> None:
    """Whoever could turn a failure into an error of ours would take their bad samples out of the count."""
    strict = await played(environment, CHANGE, *map(sql, sabotage), commit("done"))
    assert (strict[-1].reward, strict[-1].terminated) == (0.0, True)
    published = await played(environment, CHANGE, *map(sql, sabotage), commit("done"), grading="agentbench")
    assert published[-1].terminated


@pytest.mark.slow
@pytest.mark.mysql
async def test_lock_left_by_xa_is_a_wrong_answer_and_no_failure(mysql_url: str) -> None:
    from envhub.envs.db.mysql import MysqlDriver

    environment = environment_on(MysqlDriver(mysql_url, owner="xa", pool_min=1))
    held = ("XA START 'x'", "UPDATE ledger SET id = 5", "XA END 'x'", "XA PREPARE 'x'", "KILL CONNECTION_ID()")
    messages = [*map(sql, held), sql("DROP TABLE ledger"), commit("done")]
    try:
        results = await played(environment, CHANGE, *messages, statement_timeout_s=2.0)
    finally:
        await environment.close()
    assert (results[-1].reward, results[-1].terminated) == (0.0, True)


async def test_huge_tables_are_a_wrong_answer_and_cost_little(
    embedded: DBEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlite_engine.Engine(max_pages=16_384)
    engine.load("t", [("a", "INT", False), ("b", "TEXT", False)], [[n, "x" * 10] for n in range(1_000)])
    assert len(engine.dump()["t"][1]) == 1_000
    monkeypatch.setattr(sqlite_engine, "DUMP_MAX_CELLS", 100)
    assert len(engine.dump()["t"][1]) == 51
    monkeypatch.setattr(sqlite_engine, "DUMP_MAX_CHARS", 100)
    assert len(engine.dump()["t"][1]) == 11
    double = sql(*["INSERT INTO ledger SELECT * FROM ledger"] * 8)
    (*_, end) = await played(embedded, CHANGE, double, commit("done"))
    assert (end.reward, end.terminated) == (0.0, True)


async def test_session_that_writes_too_much_to_replay_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost host costs no sample: every write of every session can be done again."""
    monkeypatch.setattr("envhub.envs.db.sqlite.driver._MAX_LOG_BYTES", 1_000)
    driver = SqliteDriver(processes=1)
    database = await driver.open([LEDGER])
    try:
        statuses = [(await database.execute(f"SET @a = '{'x' * 400}'")).status for _ in range(3)]
        assert statuses == ["done", "done", "error"]
        driver._hosts[0].kill()
        assert (await database.execute("SELECT LENGTH(@a)")).rows == ((400,),)
    finally:
        await driver.close()


async def test_grading_does_not_wait_behind_the_statements_of_others(embedded: DBEnvironment) -> None:
    """A dump that waited too long would be taken for a dead host, and cost every session on it."""
    sleepers = [await opened(embedded, COUNT) for _ in range(70)]
    sleeping = [asyncio.create_task(each.step(sql("SELECT SLEEP(25)"))) for each in sleepers]
    driver = embedded._driver
    assert isinstance(driver, SqliteDriver)
    async with asyncio.timeout(20):
        while len(driver._hosts[0]._waiting) < len(sleeping):  # noqa: ASYNC110
            await asyncio.sleep(0)
    (result,) = await played(embedded, CHANGE, commit("done"))
    assert result.terminated and not any(each.done() for each in sleeping)
    await embedded.close()
    await asyncio.gather(*sleeping, return_exceptions=True)


async def test_statement_of_too_many_tokens_is_refused_at_once(embedded: DBEnvironment) -> None:
    """Parsing is not interrupted by a deadline, so its length is bounded."""
    (answer,) = await said(embedded, "SELECT 1 IN (" + "1," * MAX_TOKENS + "1)")
    assert answer == "Error executing query: 1436 (HY000): Thread stack overrun: the statement is too large"


def test_regular_expressions_are_not_left_out_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without RE2 some statements would be refused: other results under the same identity."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"envhub\[db\]"):
        create({})


async def test_host_without_memory_is_not_a_defect_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SqliteDriver(processes=1, memory_limit_bytes=300 << 20)
    wide = Table("wide", (Column("a", "LONGTEXT"),), tuple(("x" * 1_000_000,) for _ in range(60)))
    held: list[Database] = []
    try:
        with pytest.raises(UnavailableError):
            for _ in range(10):
                held.append(await driver.open([wide]))
    finally:
        await driver.close()


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_concurrent_episodes_share_nothing(environment: DBEnvironment) -> None:
    """B061: each writes its own token, and sees that one alone."""

    async def one(number: int) -> str:
        token = f"token-{number:03d}"
        queries = f"INSERT INTO ledger VALUES (0, 0, '{token}', '')", "SELECT payer FROM ledger WHERE id = 0"
        return (await said(environment, *queries, "SHOW DATABASES", "SELECT CONNECTION_ID() * 0"))[1]

    seen = await asyncio.gather(*(one(number) for number in range(16)))
    assert seen == [f"[('token-{number:03d}',)]" for number in range(16)]
    assert dict(OPTIONS) == {"grading": "strict", "max_observation_chars": 800, "statement_timeout_s": 60.0}


class _Broken:
    """A driver whose databases cannot be read."""

    name = "broken"

    def __init__(self, dump: Callable[[], Awaitable[JSON]]) -> None:
        self._inner = SqliteDriver(processes=1)
        self._dump = dump

    async def open(self, tables: Sequence[Table], *, limits: QueryLimits = QueryLimits()) -> Database:  # noqa: B008
        database = await self._inner.open(tables, limits=limits)
        database.dump = self._dump  # type: ignore[method-assign, assignment]  # the fault under test
        return database

    async def close(self) -> None:
        await self._inner.close()


async def test_grading_that_is_cancelled_or_broken_gives_no_reward() -> None:
    """B056: neither becomes a result."""
    entered = asyncio.Event()

    async def hang() -> JSON:
        entered.set()
        await asyncio.Event().wait()

    async def fail() -> JSON:
        raise EpisodeFailedError("the engine is gone")

    for dump, error in ((hang, asyncio.CancelledError), (fail, EpisodeFailedError)):
        environment = environment_on(_Broken(dump))
        grading = asyncio.create_task(played(environment, CHANGE, commit("done")))
        if dump is hang:
            await entered.wait()
            grading.cancel()
        with pytest.raises(error):
            await grading
        await environment.close()

"""AgentBench's published items: all load, their gold is graded right in both modes, and the defective ones are found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from envhub.core.errors import EpisodeError, TaskUnusableError
from envhub.envs.db import judge
from envhub.envs.db.database import Column, DatabaseDriver, QueryLimits, QueryResult, Table
from envhub.envs.db.official import decode_item, lint, lint_on, literals, load_official
from envhub.envs.db.tasks import DBTask, Rows, State, TaskSet
from tests.require import published

pytestmark = pytest.mark.timeout(300)


def official(name: str) -> TaskSet:
    return load_official(published(f"data/agentbench/data/dbbench/{name}.jsonl"))


@pytest.fixture(params=["standard", "dev"])
def tasks(request: pytest.FixtureRequest) -> TaskSet:
    return official(request.param)


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
async def driver(request: pytest.FixtureRequest) -> AsyncIterator[DatabaseDriver]:
    if request.param == "sqlite":
        sqlite = pytest.importorskip("envhub.envs.db.sqlite.driver")
        made: DatabaseDriver = sqlite.SqliteDriver()
    else:
        mysql = pytest.importorskip("envhub.envs.db.mysql.driver")
        made = mysql.MysqlDriver(request.getfixturevalue("mysql_url"), owner="test-official")
    yield made
    await made.close()


def item(**changes: object) -> dict[str, object]:
    table = {
        "table_name": "Hosts",
        "table_info": {
            "columns": [{"name": "Year", "type": "INT"}, {"name": "City", "type": "TEXT"}],
            "rows": [[2001, "Oslo"]],
        },
    }
    base: dict[str, object] = {"description": "Which?", "label": ["Oslo"], "type": ["other"], "table": table}
    return base | changes


def write_items(path: Path, *items: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in items), "utf-8")
    return path


def test_all_published_items_load_in_line_order() -> None:
    standard, dev = official("standard"), official("dev")
    assert (len(standard), len(dev)) == (300, 60)
    kinds = Counter(task.kind for task in standard)
    assert (kinds["INSERT"], kinds["UPDATE"], kinds["counting"], kinds["aggregation-AVG"]) == (100, 100, 17, 8)
    assert standard[100].question.startswith("Add ('2019', 'Aoharu Ride', 'Kou Mabuchi')")
    assert all(column.type == "TEXT" for task in standard for table in task.tables for column in table.columns)
    assert all(isinstance(cell, str) for task in dev for table in task.tables for row in table.rows for cell in row)


@pytest.mark.parametrize("mode", judge.MODES)
def test_published_label_is_right_in_both_modes(tasks: TaskSet, mode: judge.Mode) -> None:
    wrong = [
        task.id
        for task in tasks
        if isinstance(task.answer, Rows) and not judge.grade_answer(task.answer, task.final_answers, mode=mode).correct
    ]
    assert wrong == []


@pytest.mark.parametrize("answers", [[], [""], ["0"], ["NULL"], ["None"], ["nan"]])
def test_empty_answers_earn_nothing_in_strict_mode(tasks: TaskSet, answers: list[str]) -> None:
    zero = {"0", "0.0"}
    right = [
        task.id
        for task in tasks
        if isinstance(task.answer, Rows)
        and judge.grade_answer(task.answer, answers).correct
        and not (answers == ["0"] and set(task.final_answers) <= zero)
    ]
    assert right == []


def test_static_lint_finds_the_published_defects() -> None:
    dev = list(lint(official("dev"), environment="db", split="dev"))
    assert [defect.task.index for defect in dev if not defect.usable] == [5]
    standard = official("standard")
    defects = list(lint(standard, environment="db", split="standard"))
    assert all(defect.usable for defect in defects)
    assert [defect.task.index for defect in defects] == sorted(defect.task.index for defect in defects)
    under_specified = Counter(
        standard[defect.task.index].kind for defect in defects if defect.problem.startswith("under-specified")
    )
    assert under_specified["INSERT"] == 41
    assert 105 in {defect.task.index for defect in defects}
    assert [d.task.index for d in defects if d.problem.startswith("the label 'none'")] == [36, 39, 49]


async def test_engine_lint_finds_what_an_engine_refuses_and_wrong_digests(driver: DatabaseDriver) -> None:
    dev = await lint_on(driver, official("dev"), environment="db", split="dev")
    assert [(defect.task.index, defect.usable) for defect in dev] == [(5, False)]
    standard = await lint_on(driver, official("standard"), environment="db", split="standard")
    assert [(defect.task.index, defect.usable) for defect in standard] == [(225, True)]


async def test_gold_statement_is_right_and_doing_nothing_is_wrong(driver: DatabaseDriver) -> None:
    standard = official("standard")
    for index in (*range(100, 110), *range(200, 210), 278, 295):
        task = standard[index]
        assert isinstance(task.answer, State)
        for solve in (True, False):
            database = await driver.open(task.tables, limits=QueryLimits())
            try:
                if solve:
                    await database.execute(task.solution[0])
                for mode in judge.MODES:
                    verdict = await judge.grade(task, [], database, driver, mode=mode)
                    assert verdict.correct is solve, (index, mode, verdict)
            finally:
                await database.close()


def test_list_of_tables_loads(tmp_path: Path) -> None:
    first = item()["table"]
    second = {"table_name": "Other", "table_info": {"columns": [{"name": "a", "type": "TEXT"}], "rows": []}}
    tasks = load_official(write_items(tmp_path / "x.jsonl", item(table=[first, second]), item(evidence="e")))
    assert [table.name for table in tasks[0].tables] == ["Hosts", "Other"]
    assert tasks[0].tables[0].rows == (("2001", "Oslo"),)
    assert (tasks[0].evidence, tasks[1].evidence) == (None, "e")


def test_described_types_are_kept_for_grading() -> None:
    task = decode_item(item(type=["INSERT"], label=["INSERT ..."], answer_md5="[('x',)]"), "x/0")
    assert task.answer == State(None, "INSERT ...", "[('x',)]", {"Hosts": ("INT", "TEXT")})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not a JSON"),
        ("[]", "line 2: an item without"),
        ("5", "line 2"),
        ('{"label": []}', "description, table, type"),
    ],
)
def test_line_that_is_no_item_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write_items(tmp_path / "x.jsonl", item())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=message):
        load_official(path)


@pytest.mark.parametrize(
    ("changes", "problem", "usable"),
    [
        ({"label": []}, "label is empty", False),
        ({"label": [], "type": ["INSERT"]}, "neither expected tables nor a gold", False),
        (
            {"table": {"table_name": "t", "table_info": {"columns": [{"name": ""}], "rows": []}}},
            "not a valid name",
            False,
        ),
        (
            {"table": {"table_name": "t", "table_info": {"columns": [{"name": "a"}, {"name": "A"}], "rows": []}}},
            "share",
            False,
        ),
        ({"table": {"table_name": "t", "table_info": {"columns": [{"name": "a"}], "rows": [[1, 2]]}}}, "filled", False),
        (
            {"table": {"table_name": "t" * 65, "table_info": {"columns": [{"name": "a"}], "rows": []}}},
            "valid name",
            False,
        ),
        ({"label": ["none"]}, "'none'", True),
        ({"type": ["UPDATE"], "label": ["UPDATE t SET a = 'Rome' WHERE b = 7"]}, "2 values", True),
    ],
)
def test_defect_is_found_from_the_item(tmp_path: Path, changes: dict[str, object], problem: str, usable: bool) -> None:
    tasks = load_official(write_items(tmp_path / "x.jsonl", item(description="Where?"), item(**changes)))
    found = [defect for defect in lint(tasks, environment="db", split="x") if defect.task.index == 1]
    assert [(problem in defect.problem, defect.usable) for defect in found] == [(True, usable)]


def test_modification_with_stored_tables_needs_no_gold_statement() -> None:
    table = Table("t", (Column("a"),), (("1",),))
    task = DBTask("x", "Q", "DELETE", (table,), State((Table("t", table.columns, ()),)))
    tasks = TaskSet("x", 1, lambda index: task, dataset_hash="")
    assert list(lint(tasks, environment="db", split="x")) == []


def test_duplicate_is_found(tmp_path: Path) -> None:
    tasks = load_official(write_items(tmp_path / "x.jsonl", item(), item()))
    assert [defect.problem for defect in lint(tasks, environment="db", split="x")] == [
        "same question over the same tables as task 0"
    ]


def test_literals_of_a_statement() -> None:
    sql = "UPDATE `t 1` SET a2='it''s', `it's`=\"x\\\"y\", c = -2.5, `9` = 'n' WHERE d > 10"
    assert literals(sql) == ["it's", 'x"y', "-2.5", "n", "10"]


class StubbornDriver:
    """Its databases never change."""

    name = "stubborn"

    async def open(self, tables: Sequence[Table], *, limits: object = None) -> StubbornDriver:
        self.tables = tables
        return self

    async def execute(self, sql: str) -> QueryResult:
        return QueryResult("error", message="refused") if "refused" in sql else QueryResult("done")

    async def dump(self) -> Mapping[str, Sequence[tuple[object, ...]]]:
        return {table.name: table.rows for table in self.tables}

    async def close(self) -> None: ...


async def test_engine_lint_finds_gold_that_does_nothing_or_is_refused(tmp_path: Path) -> None:
    items = [item(type=["INSERT"], label=[sql], answer_md5="[('x',)]") for sql in ("INSERT ...", "refused")]
    tasks = load_official(write_items(tmp_path / "x.jsonl", *items, item()))
    found = await lint_on(StubbornDriver(), tasks, environment="db", split="x")
    assert [(defect.task.index, defect.usable) for defect in found] == [(0, True), (1, False)]
    assert "changes nothing" in found[0].problem and "refused" in found[1].problem


class BrokenDriver:
    name = "broken"

    def __init__(self, error: EpisodeError | TaskUnusableError) -> None:
        self.error = error

    async def open(self, tables: object, *, limits: object = None) -> object:
        raise self.error

    async def close(self) -> None: ...


async def test_gold_that_cannot_be_run_is_our_failure_not_a_verdict() -> None:
    task = decode_item(item(type=["INSERT"], label=["INSERT ..."]), "x/0")
    with pytest.raises(EpisodeError):
        await judge.expected_state(task, BrokenDriver(EpisodeError("gone")))  # type: ignore[arg-type]  # only open is called

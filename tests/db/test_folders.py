"""BIRD- and Spider-style folders: read-only, nothing cut, every fault named."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import TaskUnusableError
from envhub.envs.db import judge
from envhub.envs.db.database import Cell, Column
from envhub.envs.db.folders import FolderLimits, kind_of, lint, load_folder, mysql_type
from envhub.envs.db.tasks import Rows, TaskSet

SCHEMA = """
CREATE TABLE shop (id INTEGER PRIMARY KEY, "full name" TEXT, opened DATE, rating REAL, active BOOLEAN);
CREATE TABLE sale (shop_id INT, amount DECIMAL(10,2), note VARCHAR(20), raw BLOB, odd INTEGER);
INSERT INTO shop VALUES (1, 'Győr', '2020-01-02', 4.5, 1), (2, 'Åre', NULL, 3.25, 0);
INSERT INTO sale VALUES (1, 10, 'a', x'00ff', 5), (1, 2.5, NULL, NULL, 'five'), (2, 7, 'c', NULL, NULL);
"""

BIRD = {
    "question_id": 7,
    "db_id": "shops",
    "question": "How much did each shop sell?",
    "evidence": "sum of amount",
    "SQL": "SELECT s.`full name`, SUM(amount) FROM shop s JOIN sale ON shop_id = id GROUP BY id",
    "difficulty": "simple",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "databases" / "shops"
    home.mkdir(parents=True)
    connection = sqlite3.connect(home / "shops.sqlite")
    connection.executescript(SCHEMA)
    connection.close()
    (home / "shops.sqlite").chmod(0o444)
    return home.parent


def load(folder: Path, items: object, limits: FolderLimits | None = None) -> TaskSet:
    questions = folder.parent / "questions.json"
    questions.write_text(json.dumps(items), "utf-8")
    return load_folder(folder, questions, clock=SystemClock(), limits=limits)


def gold(folder: Path, sql: str, limits: FolderLimits | None = None) -> Rows:
    answer = load(folder, [{"db_id": "shops", "question": "?", "query": sql}], limits)[0].answer
    assert isinstance(answer, Rows)
    return answer


def test_bird_item_becomes_a_task(folder: Path) -> None:
    task = load(folder, [BIRD])[0]
    assert (task.id, task.kind, task.evidence, task.difficulty) == (
        "shops/7",
        "aggregation-SUM",
        "sum of amount",
        "simple",
    )
    assert task.answer == Rows(("Győr", Decimal("12.5"), "Åre", 7), columns=2)
    sale, shop = task.tables
    assert sale.columns == (
        Column("shop_id", "BIGINT"),
        Column("amount", "DOUBLE"),
        Column("note"),
        Column("raw", "BLOB"),
        Column("odd"),
    )
    assert sale.rows == ((1, 10, "a", b"\x00\xff", "5"), (1, 2.5, None, None, "five"), (2, 7, "c", None, None))
    assert [(c.name, c.type, c.primary_key) for c in shop.columns] == [
        ("id", "BIGINT", True),
        ("full name", "TEXT", False),
        ("opened", "DATE", False),
        ("rating", "DOUBLE", False),
        ("active", "BIGINT", False),
    ]
    assert judge.grade_answer(task.answer, ["Åre", "7", "Győr", "12.5"]).correct


def test_spider_item_becomes_a_task(folder: Path) -> None:
    tasks = load(folder, [{"db_id": "shops", "question": "How many?", "query": "SELECT count(*) FROM sale"}])
    assert (tasks[0].id, tasks[0].answer) == ("shops/0", Rows((3,)))


def test_order_counts_when_the_gold_asks_for_it(folder: Path) -> None:
    assert gold(folder, "SELECT id FROM shop ORDER BY rating") == Rows((2, 1), ordered=True)
    assert not gold(folder, "SELECT id FROM (SELECT id FROM shop ORDER BY rating)").ordered
    assert not gold(folder, "SELECT id FROM shop ORDER BY rating LIMIT 1").ordered


def test_division_may_be_answered_as_mysql_prints_it(folder: Path) -> None:
    answer = gold(folder, "SELECT AVG(amount), 1.0 * id / 3 FROM sale, shop WHERE id = 1")
    assert judge.grade_answer(answer, ["6.5000", "0.3333"]).correct
    assert judge.grade_answer(answer, ["6.5", "0.333333333"]).correct
    assert not judge.grade_answer(answer, ["6.5", "0.33"]).correct


def test_null_and_text_golds_keep_their_type(folder: Path) -> None:
    assert gold(folder, "SELECT opened, note FROM shop JOIN sale ON id = shop_id WHERE id = 2").values == (None, "c")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT colour FROM shop", "no such column: colour"),
        ("SELECT id FROM shops", "no such table"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("DELETE FROM shop", "not authorized|prohibited"),
        ("CREATE TABLE x (a)", "not authorized|prohibited"),
        ("ATTACH 'other.sqlite' AS other", "not authorized|prohibited"),
        ("PRAGMA user_version = 3", "not authorized|prohibited"),
        ("SELECT load_extension('x')", "fails"),
        ("", "needs text"),
        ("-- nothing", "no result set"),
    ],
)
def test_gold_that_does_not_run_is_named(folder: Path, sql: str, message: str) -> None:
    with pytest.raises((TaskUnusableError, ValueError), match=message):
        gold(folder, sql)


def test_endless_gold_is_stopped(folder: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(TaskUnusableError, match=r"over 0\.05 s"):
        gold(folder, endless, FolderLimits(timeout_s=0.05))


def test_big_table_is_refused_not_cut(folder: Path) -> None:
    with pytest.raises(TaskUnusableError, match=r"table sale .* has 3 rows; the limit max_table_rows is 2"):
        gold(folder, "SELECT 1", FolderLimits(max_table_rows=2))
    assert gold(folder, "SELECT 1", FolderLimits(max_table_rows=3)) == Rows((1,))


def test_big_answer_is_refused_not_cut(folder: Path) -> None:
    limits = FolderLimits(max_answer_cells=5)
    with pytest.raises(TaskUnusableError, match="over 5 cells"):
        gold(folder, "SELECT shop_id, amount FROM sale", limits)
    assert len(gold(folder, "SELECT shop_id FROM sale", limits).values) == 3


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"a": 1}, "JSON array"),
        ([5], "item 0: not an object"),
        ([BIRD, {"db_id": "shops", "question": "?"}], "item 1: needs text in SQL or query; has db_id, question"),
        ([{**BIRD, "db_id": "../shops"}], "not a folder name"),
        ([{**BIRD, "question": 5}], "needs text in question"),
    ],
)
def test_questions_file_of_another_shape_is_named(folder: Path, items: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(folder, items)


def test_missing_files_are_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"1 databases named in .* are missing: .*nowhere\.sqlite"):
        load(folder, [{**BIRD, "db_id": "nowhere"}])
    with pytest.raises(FileNotFoundError):
        load_folder(folder, folder / "none.json", clock=SystemClock())


def test_file_that_is_no_database_is_named(folder: Path) -> None:
    (folder / "fake").mkdir()
    (folder / "fake" / "fake.sqlite").write_text("not a database, and longer than a header must be" * 100)
    with pytest.raises(TaskUnusableError, match=r"fake\.sqlite cannot be read"):
        load(folder, [{**BIRD, "db_id": "fake"}])[0]


def test_lint_lists_what_cannot_be_played(folder: Path) -> None:
    items = [BIRD, {**BIRD, "SQL": "SELECT x FROM shop"}, {**BIRD, "SQL": "SELECT id FROM shop WHERE id = 9"}]
    found = [(d.task.index, d.usable) for d in lint(load(folder, items), environment="db", split="bird")]
    assert found == [(1, False), (2, True)]


def test_hash_follows_questions_and_databases(folder: Path) -> None:
    first = load(folder, [BIRD]).dataset_hash
    assert load(folder, [BIRD]).dataset_hash == first
    assert load(folder, [BIRD, BIRD]).dataset_hash != first
    path = folder / "shops" / "shops.sqlite"
    path.chmod(0o644)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE shop SET rating = 1")
    connection.close()
    assert load(folder, [BIRD]).dataset_hash != first


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("INTEGER", [1, None], "BIGINT"),
        ("", ["a"], "TEXT"),
        ("INTEGER", ["x"], "TEXT"),
        ("REAL", [1, 2.5], "DOUBLE"),
        ("NUMERIC", ["n/a"], "TEXT"),
        ("DATE", ["2020-01-02"], "DATE"),
        ("DATE", ["January"], "TEXT"),
        ("DATETIME", ["2020-01-02 10:00:00"], "DATETIME"),
        ("DATETIME", ["2020-01-02"], "TEXT"),
        ("TEXT", [b"\x00"], "BLOB"),
    ],
)
def test_column_type_fits_the_stored_values(declared: str, values: Iterable[Cell], expected: str) -> None:
    assert mysql_type(declared, list(values)) == expected


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT COUNT(*) FROM t", "counting"),
        ("SELECT AVG(x) FROM t", "aggregation-AVG"),
        ("SELECT a FROM t ORDER BY b DESC LIMIT 1", "ranking"),
        ("SELECT a FROM t WHERE b > 3", "comparison"),
        ("SELECT a FROM t WHERE b = 3", "other"),
    ],
)
def test_kind_is_an_official_word(sql: str, kind: str) -> None:
    assert kind_of(sql) == kind


def _with(folder: Path, script: str) -> TaskSet:
    """The folder with another database in it, whose one question is asked."""
    home = folder / "other"
    home.mkdir()
    connection = sqlite3.connect(home / "other.sqlite")
    connection.executescript(script)
    connection.close()
    return load(folder, [{"db_id": "other", "question": "?", "SQL": "SELECT COUNT(*) FROM t"}])


def test_generated_columns_are_columns(folder: Path) -> None:
    tasks = _with(folder, "CREATE TABLE t (a INT, b INT AS (a + 1), c INT AS (a * 2) STORED); INSERT INTO t VALUES (3)")
    (table,) = tasks[0].tables
    assert ([column.name for column in table.columns], table.rows) == (["a", "b", "c"], ((3, 4, 6),))


def test_huge_values_are_refused_not_read(folder: Path) -> None:
    tasks = _with(folder, "CREATE TABLE t (a BLOB); INSERT INTO t VALUES (zeroblob(40000000))")
    with pytest.raises(TaskUnusableError, match="too big"):
        tasks[0]
    with pytest.raises(TaskUnusableError, match="too big"):
        gold(folder, "SELECT hex(zeroblob(40000000))")

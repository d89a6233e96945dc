"""The shipped DB dataset: sizes, reproducibility, fairness of the questions, and gold answers that engines confirm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from envhub.envs.db.database import Cell
from envhub.envs.db.judge import grade, grade_answer, grade_state
from envhub.envs.db.sqlite.driver import SqliteDriver
from envhub.envs.db.tasks import DBTask, Rows, State, answer_text, load_split

pytestmark = pytest.mark.timeout(300)

DATASET = Path(__file__).resolve().parents[2] / "datasets" / "db"
SIZES = {"train": 2000, "dev": 200, "test": 300}
KINDS = {
    "INSERT",
    "UPDATE",
    "DELETE",
    "counting",
    "ranking",
    "comparison",
    "other",
    "aggregation-SUM",
    "aggregation-AVG",
    "aggregation-MAX",
    "aggregation-MIN",
}
TECHNIQUES = {
    "join-2", "join-3", "join-4", "date", "null", "having", "subquery", "distinct", "string", "window", "set-difference",
    "multi-row", "arithmetic", "case", "insert-select",
}  # fmt: skip
MIB = 1 << 20

Tasks = dict[str, list[DBTask]]


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return {split: list(load_split(DATASET, split)) for split in SIZES}


def _domain(task: DBTask) -> str:
    return next(tag for tag in task.tags if tag.startswith("domain:"))


def _questions(tasks: list[DBTask]) -> list[tuple[DBTask, Rows]]:
    return [(task, task.answer) for task in tasks if isinstance(task.answer, Rows)]


def _modifications(tasks: list[DBTask]) -> list[tuple[DBTask, State]]:
    return [(task, task.answer) for task in tasks if isinstance(task.answer, State)]


def _script(name: str, *arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DATASET / "generate" / name), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )


def test_splits_have_the_promised_sizes(tasks: Tasks) -> None:
    assert {split: len(found) for split, found in tasks.items()} == SIZES
    files = [DATASET / f"{split}.jsonl.gz" for split in SIZES]
    assert sum(file.stat().st_size for file in files) < 4 * MIB


def test_generator_reproduces_every_split(tmp_path: Path) -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    run = _script("main.py", "--seed", str(manifest["generator"]["seed"]), "--out", str(tmp_path), hash_seed="1")
    assert run.returncode == 0, run.stderr
    again = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    for split in SIZES:
        assert again["splits"][split]["sha256"] == manifest["splits"][split]["sha256"], split


def test_readme_shows_the_hashes_of_the_files() -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    readme = (DATASET.parent / "README.md").read_text("utf-8")
    assert [split for split in SIZES if manifest["splits"][split]["sha256"] not in readme] == []


def test_another_seed_gives_other_tasks(tmp_path: Path, tasks: Tasks) -> None:
    run = _script("main.py", "--seed", "7", "--dev-only", "--out", str(tmp_path))
    assert run.returncode == 0, run.stderr
    other = {task.question for task in load_split(tmp_path, "dev")}
    assert len(other & {task.question for task in tasks["dev"]}) < 10


def test_no_question_is_asked_twice(tasks: Tasks) -> None:
    asked = Counter(task.question for found in tasks.values() for task in found)
    assert [question for question, times in asked.items() if times > 1] == []


def test_every_split_has_every_kind_and_every_difficulty(tasks: Tasks) -> None:
    for found in tasks.values():
        assert {task.kind for task in found} == KINDS
        assert {task.difficulty for task in found} == {"easy", "medium", "hard"}


def test_train_and_test_cover_the_techniques(tasks: Tasks) -> None:
    for split in ("train", "test"):
        assert {tag for task in tasks[split] for tag in task.tags} >= TECHNIQUES


def test_test_split_has_domains_that_train_has_not(tasks: Tasks) -> None:
    train = {_domain(task) for task in tasks["train"]}
    assert len(train) >= 12
    assert {_domain(task) for task in tasks["dev"]} <= train
    unseen = {_domain(task) for task in tasks["test"]} - train
    assert len(unseen) >= 2
    assert all(("held_out" in task.tags) == (_domain(task) in unseen) for found in tasks.values() for task in found)


def test_tables_are_of_a_human_size(tasks: Tasks) -> None:
    sizes = [len(table.rows) for found in tasks.values() for task in found for table in task.tables]
    assert min(sizes) >= 8
    assert max(sizes) <= 200
    assert all(2 <= len(task.tables) <= 5 for found in tasks.values() for task in found)


def test_gold_answers_are_graded_right(tasks: Tasks) -> None:
    for found in tasks.values():
        for task, answer in _questions(found):
            assert grade_answer(answer, task.final_answers).correct, task.id
        for task, state in _modifications(found):
            assert grade_state(state, {t.name: t.rows for t in state.tables or ()}).correct, task.id


def test_every_modification_changes_a_row(tasks: Tasks) -> None:
    for found in tasks.values():
        for task, state in _modifications(found):
            assert not grade_state(state, {t.name: t.rows for t in task.tables}).correct, task.id


def test_modifications_name_every_text_and_date_they_write(tasks: Tasks) -> None:
    """Each quoted literal of the reference solution stands in the question, unless it has to be looked up."""
    for found in tasks.values():
        for task, _ in _modifications(found):
            if "look-up" in task.tags:
                continue
            for quoted in re.findall(r"'((?:[^']|'')*)'", " ".join(task.solution)):
                spelled = quoted.replace("''", "'").strip("%").removesuffix(" 00:00:00")
                assert spelled in task.question, (task.id, spelled, task.question)


def _text(cell: Cell) -> str:
    assert not isinstance(cell, bytes)
    return answer_text(cell)


TRICKS: dict[str, Callable[[DBTask], list[str]]] = {
    "empty answer": lambda task: [],
    "empty text": lambda task: [""],
    "0": lambda task: ["0"],
    "1": lambda task: ["1"],
    "first cell": lambda task: [_text(task.tables[0].rows[0][0])],
    "question": lambda task: [task.question],
    "words of the question": lambda task: task.question.split(),
    "first column": lambda task: [_text(row[0]) for row in task.tables[0].rows],
    "last column": lambda task: [_text(row[-1]) for row in task.tables[-1].rows],
    "first table": lambda task: [_text(cell) for row in task.tables[0].rows for cell in row],
    "all tables": lambda task: [_text(cell) for table in task.tables for row in table.rows for cell in row],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_do_not_pay(tasks: Tasks, trick: str) -> None:
    for split, found in tasks.items():
        questions = _questions(found)
        paid = [task.id for task, answer in questions if grade_answer(answer, TRICKS[trick](task)).correct]
        assert len(paid) <= 0.01 * len(questions), (split, paid)


def test_no_constant_is_right_often(tasks: Tasks) -> None:
    for found in tasks.values():
        questions = _questions(found)
        constant, times = Counter(task.final_answers for task, _ in questions).most_common(1)[0]
        assert times <= 0.025 * len(questions), constant


def test_single_answers_do_not_stand_in_the_question(tasks: Tasks) -> None:
    for found in tasks.values():
        for task, answer in _questions(found):
            if len(answer.values) == 1:
                spelled = re.escape(task.final_answers[0].casefold())
                assert not re.search(rf"(?<![\w.]){spelled}(?!\w|\.\d)", task.question.casefold()), task.id


def test_questions_are_whole_sentences(tasks: Tasks) -> None:
    for found in tasks.values():
        for task in found:
            assert task.question[0].isupper(), task.question
            assert task.question[-1] in ".?", task.question
            assert not re.search(
                r"\{|\}|\bNone\b|  | [.,?;]|\ba [aeio]\w|\ban [bcdfgjklmnpqrstvwxyz]\w", task.question
            ), task.question


async def _wrong_in_the_embedded_engine(tasks: list[DBTask]) -> list[str]:
    """Ids of tasks whose reference solution, played on the embedded engine, is not graded right."""
    driver = SqliteDriver()
    wrong = []
    try:
        for task in tasks:
            database = await driver.open(task.tables)
            results = [await database.execute(statement) for statement in task.solution]
            answers = [answer_text(cell) for row in results[-1].rows for cell in row]  # type: ignore[arg-type]  # cells
            verdict = await grade(task, answers, database, driver)
            if not verdict.correct:
                wrong.append(f"{task.id}: {verdict.reason} {[r.message for r in results]} {task.solution}")
            await database.close()
    finally:
        await driver.close()
    return wrong


@pytest.mark.parametrize("split", ["dev", "test"])
async def test_embedded_engine_confirms_the_gold(tasks: Tasks, split: str) -> None:
    assert await _wrong_in_the_embedded_engine(tasks[split]) == []


@pytest.mark.slow
async def test_embedded_engine_confirms_the_gold_of_train(tasks: Tasks) -> None:
    assert await _wrong_in_the_embedded_engine(tasks["train"]) == []


@pytest.mark.mysql
def test_server_confirms_the_gold(mysql_url: str) -> None:
    run = _script("verify.py", "--mysql", mysql_url, "--splits", "dev", "test")
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "200/200" in run.stdout
    assert "300/300" in run.stdout


@pytest.mark.mysql
@pytest.mark.slow
def test_server_confirms_the_gold_of_train(mysql_url: str) -> None:
    run = _script("verify.py", "--mysql", mysql_url, "--splits", "train")
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "2000/2000" in run.stdout

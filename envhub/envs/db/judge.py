"""Grading of database tasks in two named modes, ``strict`` (the default) and ``agentbench``.

Invariant: what an agent wrote or did gives a Verdict, always; what breaks on our side raises EpisodeError, never a reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from envhub.core.errors import EnvhubError, GraderError
from envhub.envs.db import judge_agentbench, judge_strict
from envhub.envs.db.database import Cell, Database, DatabaseDriver, QueryLimits, Table
from envhub.envs.db.tasks import DBTask, Rows, State
from envhub.envs.db.verdict import Verdict

Mode = Literal["strict", "agentbench"]
MODES: tuple[Mode, ...] = get_args(Mode)

Dump = Mapping[str, Sequence[tuple[object, ...]]]


def grade_answer(expected: Rows, answers: Sequence[str] | str, *, mode: Mode = "strict") -> Verdict:
    """Grade committed answers. A bare string is one answer. Raises GraderError when the grader itself breaks."""
    try:
        if mode == "agentbench":
            return judge_agentbench.grade_answer(expected, answers)
        return judge_strict.grade_answer(expected, (answers,) if isinstance(answers, str) else answers)
    except EnvhubError:
        raise
    except Exception as error:  # boundary: a grader that breaks is our failure, not a wrong answer
        raise GraderError(f"grading the answer failed: {error!r}") from error


def grade_state(
    expected: State, actual: Dump, *, mode: Mode = "strict", tables: Sequence[Table] | None = None
) -> Verdict:
    """Grade the tables an episode left behind. Raises GraderError when the grader itself breaks.

    ``tables`` are the task's own; agentbench mode needs them when the expected tables are not known.
    """
    try:
        if mode == "agentbench":
            return judge_agentbench.grade_state(expected, actual, tables=tables or expected.tables or ())
        return judge_strict.grade_state(expected, actual)
    except EnvhubError:
        raise
    except Exception as error:  # boundary: a grader that breaks is our failure, not a wrong answer
        raise GraderError(f"grading the tables failed: {error!r}") from error


async def grade(
    task: DBTask, answers: Sequence[str] | str, database: Database, driver: DatabaseDriver, *, mode: Mode = "strict"
) -> Verdict:
    """Grade a committed episode: its answers, or for a modification the tables of its ``database``.

    Raises EpisodeError when an engine fails, GraderError when the grader or the task's own gold does.
    """
    if isinstance(task.answer, Rows):
        return grade_answer(task.answer, answers, mode=mode)
    needs_tables = mode == "strict" or not task.answer.answer_md5
    expected = await expected_state(task, driver) if needs_tables else task.answer
    return grade_state(expected, await database.dump(), mode=mode, tables=task.tables)


async def expected_state(task: DBTask, driver: DatabaseDriver, *, limits: QueryLimits | None = None) -> State:
    """The state a modification must leave, computed by running its gold SQL on a fresh copy when it is not stored.

    Raises GraderError when the task has no gold or the gold fails.
    """
    if not isinstance(task.answer, State):
        raise GraderError(f"task {task.id} expects an answer, not a state")
    if task.answer.tables is not None:
        return task.answer
    if not task.answer.gold_sql:
        raise GraderError(f"task {task.id} has neither expected tables nor gold SQL")
    database = await driver.open(task.tables, limits=limits or QueryLimits())
    try:
        result = await database.execute(task.answer.gold_sql)
        if result.status in {"error", "timeout"}:
            raise GraderError(f"the gold SQL of task {task.id} failed: {result.message or result.status}")
        dump = await database.dump()
    finally:
        await database.close()
    return replace(task.answer, tables=tuple(_table(table, dump) for table in task.tables))


def _table(table: Table, dump: Dump) -> Table:
    if table.name not in dump:
        raise GraderError(f"the gold SQL removed table {table.name}")
    return Table(table.name, table.columns, tuple(tuple(_cell(cell) for cell in row) for row in dump[table.name]))


def _cell(cell: object) -> Cell:
    return cell if cell is None or isinstance(cell, int | float) else judge_strict.cell_text(cell)

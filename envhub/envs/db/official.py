"""AgentBench's published database tasks (``standard.jsonl``, ``dev.jsonl``). Every line is a task, in line order, index = line.

The label is the truth of a query task and ``label[0]`` the gold of a modification; ``sql.query`` is unreliable and never
used. All columns are created as TEXT and every cell is ``str(cell)``, whatever the item says of types; the types it speaks
of are kept for strict grading. Defects are found from the facts of an item, so they hold for other files of this format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.core.errors import GraderError, TaskUnusableError
from envhub.core.types import JSON, Defect, TaskRef
from envhub.envs.db.database import Column, DatabaseDriver, QueryLimits, Table
from envhub.envs.db.judge import expected_state, grade_state
from envhub.envs.db.tasks import MODIFYING_KINDS, Answer, DBTask, Rows, State, TaskSet, typed

MAX_IDENTIFIER_CHARS = 64

_LITERAL = re.compile(
    r"'((?:[^'\\]|\\.|'')*)'|\"((?:[^\"\\]|\\.|\"\")*)\"|(?<![\w`.])(-?\d+(?:\.\d+)?)(?![\w`])", re.DOTALL
)
_BACKQUOTED = re.compile(r"`[^`]*`")


def load_official(path: Path) -> TaskSet:
    """Raises FileNotFoundError, or ValueError naming the line that is not an item."""
    content = path.read_bytes()
    items = [_item(path, number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]

    def decode(index: int) -> DBTask:
        return decode_item(items[index], f"{path.stem}/{index}")

    return TaskSet(path.stem, len(items), decode, dataset_hash=hashlib.sha256(content).hexdigest())


def _item(path: Path, number: int, line: bytes) -> Mapping[str, JSON]:
    try:
        item = json.loads(line)
        missing = {"description", "label", "type", "table"} - set(item)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}, line {number}: not a JSON object: {error}") from error
    if missing:
        raise ValueError(f"{path}, line {number}: an item without {', '.join(sorted(missing))}")
    checked: Mapping[str, JSON] = item
    return checked


def decode_item(item: Mapping[str, JSON], task_id: str) -> DBTask:
    """One item of the published format; ``table`` may be one table or a list of them."""
    raw_tables = item["table"] if isinstance(item["table"], list) else [item["table"]]
    kind = item["type"] if isinstance(item["type"], str) else item["type"][0]
    return DBTask(
        id=task_id,
        question=item["description"],
        kind=kind,
        tables=tuple(_table(raw) for raw in raw_tables),
        answer=_answer(item, kind, raw_tables),
        solution=tuple(item["label"]) if kind in MODIFYING_KINDS else (),
        evidence=item.get("evidence") or None,
        table_info=item.get("add_description") or None,
        source=item.get("source") or "",
    )


def _table(raw: Mapping[str, JSON]) -> Table:
    columns = tuple(Column(column["name"]) for column in raw["table_info"]["columns"])
    return Table(raw["table_name"], columns, tuple(tuple(map(str, row)) for row in raw["table_info"]["rows"]))


def _answer(item: Mapping[str, JSON], kind: str, raw_tables: list[Mapping[str, JSON]]) -> Answer:
    label = item["label"]
    if kind not in MODIFYING_KINDS:
        return Rows(tuple(typed(str(value)) for value in label))
    types = {
        raw["table_name"]: tuple(column.get("type") or "TEXT" for column in raw["table_info"]["columns"])
        for raw in raw_tables
    }
    return State(None, label[0] if label else None, item.get("answer_md5") or None, types)


def lint(tasks: TaskSet, *, environment: str, split: str) -> Iterator[Defect]:
    """What can be told of tasks of any source without an engine, in index order."""
    first_seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        ref = TaskRef(environment, split, index)
        for problem in _blockers(task):
            yield Defect(ref, problem, usable=False)
        earlier = first_seen.setdefault(repr((task.question, task.tables)), index)
        if earlier != index:
            yield Defect(ref, f"same question over the same tables as task {earlier}")
        for problem in _doubts(task):
            yield Defect(ref, problem)


def _blockers(task: DBTask) -> Iterator[str]:
    if isinstance(task.answer, State) and task.answer.tables is None and not task.answer.gold_sql:
        yield "a modification with neither expected tables nor a gold statement"
    if isinstance(task.answer, Rows) and not task.answer.values:
        yield "the label is empty"
    for table in task.tables:
        names = [column.name for column in table.columns]
        for name in (table.name, *names):
            if not name.strip() or name != name.rstrip() or len(name) > MAX_IDENTIFIER_CHARS:
                yield f"table {table.name!r} cannot be created: {name!r} is not a valid name"
        if len({name.lower() for name in names}) < len(names):
            yield f"table {table.name!r} cannot be created: two columns share a name"
        if any(len(row) != len(names) for row in table.rows):
            yield f"table {table.name!r} cannot be filled: a row has not {len(names)} cells"


def _doubts(task: DBTask) -> Iterator[str]:
    if isinstance(task.answer, Rows):
        if "none" in task.answer.values:
            yield "the label 'none' stands for no value, which the question does not say"
        return
    unsaid = [literal for literal in literals(task.answer.gold_sql or "") if literal not in task.question]
    if unsaid:
        shown = ", ".join(repr(literal) for literal in unsaid[:3])
        yield f"under-specified: the gold uses {len(unsaid)} values that are not in the question word for word: {shown}"


def literals(sql: str) -> list[str]:
    """The string and number literals of a statement, in order, without names in backquotes."""
    found = []
    for single, double, number in _LITERAL.findall(_BACKQUOTED.sub("", sql)):
        quote = "'" if single else '"'
        found.append(re.sub(r"\\(.)", r"\1", (single or double).replace(quote * 2, quote)) or number)
    return found


async def lint_on(
    driver: DatabaseDriver, tasks: TaskSet, *, environment: str, split: str, limits: QueryLimits | None = None
) -> list[Defect]:
    """What only an engine can tell, in index order: tables it refuses, and gold that it refuses, that changes nothing or
    that does not give the published digest. Raises EnvhubError when the engine fails."""
    defects = []
    for index, task in enumerate(tasks):
        problem, usable = await _engine_problem(driver, task, limits or QueryLimits())
        if problem:
            defects.append(Defect(TaskRef(environment, split, index), f"{driver.name}: {problem}", usable))
    return defects


async def _engine_problem(driver: DatabaseDriver, task: DBTask, limits: QueryLimits) -> tuple[str, bool]:
    try:
        if not isinstance(task.answer, State):
            await (await driver.open(task.tables, limits=limits)).close()
            return "", True
        expected = await expected_state(task, driver, limits=limits)
    except (TaskUnusableError, GraderError) as error:
        return error.message, False
    if grade_state(expected, {table.name: table.rows for table in task.tables}).correct:
        return "the gold statement changes nothing", True
    if not task.answer.answer_md5:
        return "", True
    dump = {table.name: table.rows for table in expected.tables or ()}
    verdict = grade_state(task.answer, dump, mode="agentbench", tables=task.tables)
    return ("" if verdict.correct else "the gold statement does not give answer_md5"), True

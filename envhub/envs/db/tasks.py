"""Database tasks: what one is, and the file format they ship in. A task read back equals the one written
(the rows of an expected state are a multiset: their order is not kept).

Native format, one folder per dataset (``datasets/db``): the manifest of ``envhub.envs.datasets`` and, per split, a file of
JSON lines. A line is either a table, ``{"table": TABLE}``, or a task, ``{"task": TASK}``. Tables are numbered from 0 in file
order and tasks refer to them by number, so several tasks can share one; a table stands before the tasks that use it. Task
*n* of the split is the *n*-th task line. ``write_dataset`` produces all this from ``DBTask`` records::

    TABLE   {"name": "orders", "columns": [["id", "INT", 1], ["note", "TEXT"]], "rows": [[1, null], [2, "x"]]}
            a column is [name, MySQL type] or [name, MySQL type, 1] when it belongs to the primary key
    TASK    {"id", "question", "kind", "tables": [number or TABLE, ...], "answer": ANSWER, "solution": [SQL, ...],
             "evidence"?, "table_info"?, "source"?, "difficulty"?, "tags"?}           absent means the default
    ANSWER  {"rows": [VALUE, ...], "columns"?: 2, "ordered"?: true}                  row by row; columns defaults to 1
            {"state": {table name: {"remove": [row number, ...], "add": [[CELL, ...], ...]}},
             "gold_sql"?: SQL, "answer_md5"?, "described_types"?}                    tables not named stay as they are;
            "state": null when only gold_sql is known
    CELL    null, integer, float, string or {"hex": "00ff"} for bytes; DECIMAL, DATE, TIME and JSON as MySQL spells them
    VALUE   CELL or {"decimal": "5.00"}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from envhub.core.types import JSON
from envhub.envs import datasets
from envhub.envs.datasets import Manifest, SplitEntry, compact, read_manifest
from envhub.envs.db.database import Cell, Column, Table

MODIFYING_KINDS = frozenset({"INSERT", "UPDATE", "DELETE"})

Value = None | int | float | str | Decimal
"""One cell of an expected answer. Its type says how it is compared: numbers as numbers, ``str`` as text, None as NULL."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The expected answer to a question, as cells row by row; ``ordered`` when the order of rows is part of the question.

    An agent answers with one string per cell, row by row; NULL is the string ``NULL``.
    """

    values: tuple[Value, ...]
    columns: int = 1
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.columns < 1 or len(self.values) % self.columns:
            raise ValueError(f"{len(self.values)} cells do not fill rows of {self.columns} columns")

    @property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        width = self.columns
        return tuple(self.values[start : start + width] for start in range(0, len(self.values), width))


@dataclass(frozen=True, slots=True)
class State:
    """The tables a modification must leave behind.

    ``tables`` are None when they must be computed by running ``gold_sql``. ``described_types`` gives, by table name, the
    column types the task speaks of where they differ from those the columns were created with.
    ``answer_md5`` is the published digest of an official task.
    """

    tables: tuple[Table, ...] | None
    gold_sql: str | None = None
    answer_md5: str | None = None
    described_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Answer = Rows | State


@dataclass(frozen=True, slots=True)
class DBTask:
    """One problem over a private database holding ``tables``.

    ``kind`` uses the official words: INSERT, UPDATE, DELETE, counting, ranking, comparison, other, aggregation-SUM, ...
    ``solution`` are SQL statements that lead to the answer, run one by one.
    """

    id: str
    question: str
    kind: str
    tables: tuple[Table, ...]
    answer: Answer
    solution: tuple[str, ...] = ()
    evidence: str | None = None
    table_info: str | None = None
    source: str = ""
    difficulty: str = ""
    tags: tuple[str, ...] = ()

    @property
    def modifies(self) -> bool:
        return isinstance(self.answer, State)

    @property
    def final_answers(self) -> tuple[str, ...]:
        """The strings that answer the task right; any will do for a modification."""
        if isinstance(self.answer, State):
            return ("done",)
        return tuple(answer_text(value) for value in self.answer.values)


def answer_text(value: Value) -> str:
    """How an agent writes one cell."""
    return "NULL" if value is None else str(value)


_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", re.ASCII)


def typed(text: str) -> Value:
    """The cell that a label known only as text means: a plainly written number is a number, all else is text."""
    if len(text) > 60 or _PLAIN_NUMBER.fullmatch(text) is None:
        return text
    return Decimal(text) if "." in text or text == "-0" else int(text)


TaskSet = datasets.TaskSet[DBTask]


def load_split(folder: Path, split: str) -> TaskSet:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    manifest = read_manifest(folder)
    lines = datasets.read_split_lines(folder, manifest, split)
    entry = manifest.splits[split]
    table_lines = [line for line in lines if line.startswith(b'{"table":')]
    task_lines = [line for line in lines if not line.startswith(b'{"table":')]
    if len(task_lines) != entry.n_tasks:
        raise ValueError(f"{folder / entry.file} holds {len(task_lines)} tasks; the manifest says {entry.n_tasks}")

    def table(number: int) -> Table:
        return decode_table(json.loads(table_lines[number])["table"])

    def decode(index: int) -> DBTask:
        return decode_task(json.loads(task_lines[index])["task"], table)

    return TaskSet(f"{manifest.name}/{split}", entry.n_tasks, decode, dataset_hash=entry.sha256)


def write_dataset(
    folder: Path,
    splits: Mapping[str, Iterable[DBTask]],
    *,
    name: str,
    version: str,
    generator: Mapping[str, JSON],
) -> Manifest:
    """Write every split and the manifest; equal tasks give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {split: _write_split(folder, split, tasks) for split, tasks in splits.items()}
    manifest = Manifest(name, version, generator, entries)
    datasets.write_manifest(folder, manifest)
    return manifest


def _write_split(folder: Path, split: str, tasks: Iterable[DBTask]) -> SplitEntry:
    lines: list[str] = []
    numbers: dict[str, int] = {}
    n_tasks = 0
    for task in tasks:
        record = encode_task(task)
        for position, table in enumerate(record["tables"]):
            line = compact({"table": table})
            if line not in numbers:
                numbers[line] = len(numbers)
                lines.append(line)
            record["tables"][position] = numbers[line]
        lines.append(compact({"task": record}))
        n_tasks += 1
    return datasets.write_split(folder, split, lines, n_tasks=n_tasks)


def encode_task(task: DBTask) -> dict[str, JSON]:
    """TASK with its tables inline. Raises ValueError for an answer that the format cannot hold."""
    record: dict[str, JSON] = {
        "id": task.id,
        "question": task.question,
        "kind": task.kind,
        "tables": [encode_table(table) for table in task.tables],
        "answer": _encode_answer(task.answer, task.tables),
        "solution": list(task.solution),
    }
    optional = {
        "evidence": task.evidence,
        "table_info": task.table_info,
        "source": task.source,
        "difficulty": task.difficulty,
        "tags": list(task.tags),
    }
    return record | {key: value for key, value in optional.items() if value}


def decode_task(record: Mapping[str, JSON], table: Callable[[int], Table] | None = None) -> DBTask:
    """``table`` resolves tables given by number. Raises ValueError when one is and it is missing."""
    tables = tuple(_resolve(item, table) for item in record["tables"])
    return DBTask(
        id=record["id"],
        question=record["question"],
        kind=record["kind"],
        tables=tables,
        answer=_decode_answer(record["answer"], tables),
        solution=tuple(record["solution"]),
        evidence=record.get("evidence"),
        table_info=record.get("table_info"),
        source=record.get("source", ""),
        difficulty=record.get("difficulty", ""),
        tags=tuple(record.get("tags", ())),
    )


def _resolve(item: JSON, table: Callable[[int], Table] | None) -> Table:
    if not isinstance(item, int):
        return decode_table(item)
    if table is None:
        raise ValueError(f"table {item} is given by number, and no tables came with the task")
    return table(item)


def encode_table(table: Table) -> dict[str, JSON]:
    columns = [[c.name, c.type, 1] if c.primary_key else [c.name, c.type] for c in table.columns]
    return {"name": table.name, "columns": columns, "rows": [_encode_row(row) for row in table.rows]}


def decode_table(record: Mapping[str, JSON]) -> Table:
    columns = tuple(Column(column[0], column[1], len(column) > 2) for column in record["columns"])
    return Table(record["name"], columns, tuple(_decode_row(row) for row in record["rows"]))


def _encode_answer(answer: Answer, tables: Sequence[Table]) -> dict[str, JSON]:
    if isinstance(answer, Rows):
        record: dict[str, JSON] = {"rows": [_encode_value(value) for value in answer.values]}
        if answer.columns != 1:
            record["columns"] = answer.columns
        return record | ({"ordered": True} if answer.ordered else {})
    optional = {
        "gold_sql": answer.gold_sql,
        "answer_md5": answer.answer_md5,
        "described_types": {name: list(types) for name, types in answer.described_types.items()},
    }
    state = None if answer.tables is None else _encode_state(answer.tables, tables)
    return {"state": state} | {key: value for key, value in optional.items() if value}


def _decode_answer(record: Mapping[str, JSON], tables: Sequence[Table]) -> Answer:
    if "rows" in record:
        values = tuple(_decode_value(value) for value in record["rows"])
        return Rows(values, record.get("columns", 1), record.get("ordered", False))
    state = record["state"]
    return State(
        tables=None if state is None else tuple(_decode_change(table, state.get(table.name)) for table in tables),
        gold_sql=record.get("gold_sql"),
        answer_md5=record.get("answer_md5"),
        described_types={name: tuple(types) for name, types in record.get("described_types", {}).items()},
    )


def _encode_state(expected: Sequence[Table], initial: Sequence[Table]) -> dict[str, JSON]:
    """What changed, table by table. The rows of a table that did not change keep their order."""
    if [(t.name, t.columns) for t in expected] != [(t.name, t.columns) for t in initial]:
        raise ValueError("the expected tables must have the names and columns of the task's tables, in the same order")
    changes = {}
    for before, after in zip(initial, expected, strict=True):
        remove, add = _difference(before.rows, after.rows)
        if remove or add:
            changes[before.name] = {"remove": remove, "add": [_encode_row(row) for row in add]}
    return changes


def _difference(
    before: Sequence[tuple[Cell, ...]], after: Sequence[tuple[Cell, ...]]
) -> tuple[list[int], list[tuple[Cell, ...]]]:
    """Rows compared with their types: 1, 1.0 and True are not the same cell."""
    left = Counter(repr(row) for row in after)
    remove = []
    for number, row in enumerate(before):
        if left[repr(row)] > 0:
            left[repr(row)] -= 1
        else:
            remove.append(number)
    add = []
    for row in reversed(after):
        if left[repr(row)] > 0:
            left[repr(row)] -= 1
            add.append(row)
    return remove, add[::-1]


def _decode_change(table: Table, change: JSON) -> Table:
    if change is None:
        return table
    gone = set(change["remove"])
    kept = tuple(row for number, row in enumerate(table.rows) if number not in gone)
    return Table(table.name, table.columns, kept + tuple(_decode_row(row) for row in change["add"]))


def _encode_row(row: Sequence[Cell]) -> list[JSON]:
    return [{"hex": cell.hex()} if isinstance(cell, bytes) else cell for cell in row]


def _decode_row(row: Sequence[JSON]) -> tuple[Cell, ...]:
    return tuple(bytes.fromhex(cell["hex"]) if isinstance(cell, dict) else cell for cell in row)


def _encode_value(value: Value) -> JSON:
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _decode_value(value: JSON) -> Value:
    return Decimal(value["decimal"]) if isinstance(value, dict) else value

"""BIRD- and Spider-style datasets: a folder of SQLite databases and a questions file. The databases are only ever read.

Layout: ``<folder>/<db_id>/<db_id>.sqlite`` and a JSON array of items with ``db_id``, ``question`` and the gold query as ``SQL``
(BIRD) or ``query`` (Spider); ``evidence``, ``difficulty`` and ``question_id`` are taken when present.

The expected rows are what the gold query gives in SQLite. Nothing is cut: a table or an answer over the limits makes the
task unusable, with the numbers. SQLite types become MySQL types, and TEXT when the stored values do not fit the declared
type. A fraction keeps four decimals, as a division does in MySQL. Row order counts when the gold query ends in an ORDER BY.
Gold that leans on SQLite's own rules (integer division, case-sensitive ``=``) may not be reachable in MySQL, so these tasks
carry no reference solution.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from envhub.core.clock import Clock
from envhub.core.errors import TaskUnusableError
from envhub.core.types import JSON, Defect, TaskRef
from envhub.envs.db.database import Cell, Column, Table
from envhub.envs.db.tasks import DBTask, Rows, TaskSet, Value

MAX_OPEN_DATABASES = 4
DECIMALS = 4
SMALLEST_ROUNDED = 0.01
MAX_VALUE_BYTES = 16 << 20

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_CHECK_EVERY_OPS = 10_000
_HIDDEN_FROM_SELECT = 1


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """What a task may hold. ``timeout_s`` is for one gold query."""

    max_table_rows: int = 20_000
    max_answer_cells: int = 2_000
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class _Item:
    db_id: str
    question: str
    sql: str
    task_id: str
    evidence: str | None
    difficulty: str


def load_folder(folder: Path, questions: Path, *, clock: Clock, limits: FolderLimits | None = None) -> TaskSet:
    """The questions as tasks; the databases are read and the gold queries run when a task is asked for.

    Raises FileNotFoundError for a missing file, ValueError for items without the needed fields. Asking for a task raises
    TaskUnusableError when its gold query fails or something is over the limits.
    """
    limits = limits or FolderLimits()
    content = questions.read_bytes()
    items = _items(questions, content)
    paths = {db_id: folder / db_id / f"{db_id}.sqlite" for db_id in sorted({item.db_id for item in items})}
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{len(missing)} databases named in {questions} are missing: {', '.join(missing[:5])}")

    @lru_cache(MAX_OPEN_DATABASES)
    def tables(db_id: str) -> tuple[Table, ...]:
        return _tables(paths[db_id], limits)

    def decode(index: int) -> DBTask:
        item = items[index]
        loaded = tables(item.db_id)
        answer = _gold_rows(paths[item.db_id], item.sql, clock, limits)
        return _task(item, loaded, answer)

    return TaskSet(questions.stem, len(items), decode, dataset_hash=_hash(content, paths.values()))


def lint(tasks: TaskSet, *, environment: str, split: str) -> Iterator[Defect]:
    """The tasks that cannot be played, in index order."""
    for index in range(len(tasks)):
        try:
            task = tasks[index]
        except TaskUnusableError as error:
            yield Defect(TaskRef(environment, split, index), error.message, usable=False)
            continue
        if isinstance(task.answer, Rows) and not task.answer.values:
            yield Defect(TaskRef(environment, split, index), "the gold query gives no rows")


def _items(path: Path, content: bytes) -> list[_Item]:
    try:
        raw = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(raw, list):
        raise ValueError(f"{path} must hold a JSON array of questions")
    return [_read_item(path, index, item) for index, item in enumerate(raw)]


def _read_item(path: Path, index: int, item: JSON) -> _Item:
    if not isinstance(item, dict):
        raise ValueError(f"{path}, item {index}: not an object")
    sql = item.get("SQL", item.get("query"))
    needed = {"db_id": item.get("db_id"), "question": item.get("question"), "SQL or query": sql}
    wrong = [name for name, value in needed.items() if not isinstance(value, str) or not value.strip()]
    if wrong:
        raise ValueError(f"{path}, item {index}: needs text in {', '.join(wrong)}; has {', '.join(map(str, item))}")
    if Path(item["db_id"]).name != item["db_id"]:
        raise ValueError(f"{path}, item {index}: db_id {item['db_id']!r} is not a folder name")
    return _Item(
        db_id=item["db_id"],
        question=item["question"],
        sql=str(sql),
        task_id=f"{item['db_id']}/{item.get('question_id', index)}",
        evidence=item.get("evidence") or None,
        difficulty=item.get("difficulty") or "",
    )


def _hash(questions: bytes, databases: Iterable[Path]) -> str:
    digest = hashlib.sha256(hashlib.sha256(questions).digest())
    for path in databases:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _task(item: _Item, tables: tuple[Table, ...], answer: Rows) -> DBTask:
    described = " ".join(f"Table {t.name} has the columns {', '.join(c.name for c in t.columns)}." for t in tables)
    return DBTask(
        id=item.task_id,
        question=item.question,
        kind=kind_of(item.sql),
        tables=tables,
        answer=answer,
        evidence=item.evidence,
        table_info=described,
        source=item.db_id,
        difficulty=item.difficulty,
    )


def kind_of(sql: str) -> str:
    """The official type word that a gold query fits best."""
    head = sql.upper().split("FROM", 1)[0]
    for function in ("SUM", "AVG", "MIN", "MAX"):
        if re.search(rf"\b{function}\s*\(", head):
            return f"aggregation-{function}"
    if re.search(r"\bCOUNT\s*\(", head):
        return "counting"
    if re.search(r"\bORDER\s+BY\b", sql, re.IGNORECASE):
        return "ranking"
    return "comparison" if re.search(r"[<>]|\bBETWEEN\b", sql, re.IGNORECASE) else "other"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _tables(path: Path, limits: FolderLimits) -> tuple[Table, ...]:
    with closing(_connect(path)) as connection:
        try:
            names = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            ).fetchall()
            return tuple(_table(connection, name, path, limits) for (name,) in names)
        except sqlite3.Error as error:
            raise TaskUnusableError(f"{path} cannot be read: {error}") from error


def _table(connection: sqlite3.Connection, name: str, path: Path, limits: FolderLimits) -> Table:
    quoted = '"' + name.replace('"', '""') + '"'
    described = [
        column for column in connection.execute(f"PRAGMA table_xinfo({quoted})") if column[6] != _HIDDEN_FROM_SELECT
    ]
    rows = connection.execute(f"SELECT * FROM {quoted}").fetchmany(limits.max_table_rows + 1)
    if len(rows) > limits.max_table_rows:
        total = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
        raise TaskUnusableError(
            f"table {name} of {path} has {total} rows; the limit max_table_rows is {limits.max_table_rows}"
        )
    types = [mysql_type(declared, [row[i] for row in rows]) for i, (_, _, declared, *_) in enumerate(described)]
    keys = [i for i, column in enumerate(described) if column[5]]
    usable_key = all(types[i] == "BIGINT" and all(row[i] is not None for row in rows) for i in keys)
    columns = tuple(Column(column[1], types[i], usable_key and bool(column[5])) for i, column in enumerate(described))
    return Table(name, columns, tuple(tuple(_cell(c, t) for c, t in zip(row, types, strict=True)) for row in rows))


def mysql_type(declared: str, values: Sequence[Cell]) -> str:
    """The MySQL type of a column by its declared type's affinity, when every stored value fits it; else TEXT."""
    present = [value for value in values if value is not None]
    upper = declared.upper()
    if any(isinstance(value, bytes) for value in present):
        return "BLOB"
    if "INT" in upper or "BOOL" in upper:
        return _fitting(present, (int,), "BIGINT")
    if any(word in upper for word in ("REAL", "FLOA", "DOUB", "DEC", "NUM")):
        return _fitting(present, (int, float), "DOUBLE")
    if upper in {"DATE", "DATETIME", "TIMESTAMP"}:
        length = 10 if upper == "DATE" else 19
        fits = all(isinstance(value, str) and len(value) == length and _is_moment(value) for value in present)
        return ("DATE" if upper == "DATE" else "DATETIME") if fits else "TEXT"
    return "TEXT"


def _fitting(values: Sequence[Cell], kinds: tuple[type, ...], name: str) -> str:
    return name if all(isinstance(value, kinds) for value in values) else "TEXT"


def _is_moment(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _cell(value: Cell, column_type: str) -> Cell:
    return str(value) if column_type == "TEXT" and isinstance(value, int | float) else value


def _gold_rows(path: Path, sql: str, clock: Clock, limits: FolderLimits) -> Rows:
    with closing(_connect(path)) as connection:
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(_alarm(clock, limits.timeout_s), _CHECK_EVERY_OPS)
        try:
            cursor = connection.execute(sql)
            width = len(cursor.description or ())
            rows = cursor.fetchmany(limits.max_answer_cells // max(width, 1) + 1)
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise TaskUnusableError(f"the gold query took over {limits.timeout_s} s: {sql}") from error
            raise TaskUnusableError(f"the gold query fails: {error}: {sql}") from error
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise TaskUnusableError(f"the gold query fails: {error}: {sql}") from error
    if not width:
        raise TaskUnusableError(f"the gold query gives no result set: {sql}")
    if len(rows) * width > limits.max_answer_cells:
        raise TaskUnusableError(f"the answer has over {limits.max_answer_cells} cells (max_answer_cells): {sql}")
    ordered = len(rows) > 1 and re.search(r"\border\s+by\b[^)]*\Z", sql, re.IGNORECASE) is not None
    return Rows(tuple(_value(value) for row in rows for value in row), width, ordered)


def _alarm(clock: Clock, timeout_s: float) -> Callable[[], int]:
    deadline = clock.now() + timeout_s
    return lambda: int(clock.now() > deadline)


def _value(value: Cell) -> Value:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if not isinstance(value, float):
        return value
    number = Decimal(repr(value))
    places = number.as_tuple().exponent
    if isinstance(places, int) and places < -DECIMALS and abs(value) >= SMALLEST_ROUNDED:
        return round(number, DECIMALS)
    return number if number.is_finite() else str(value)

"""What the agent of a database task is told, and how results look to it.

Invariant: an observation is a pure function of the result, within its limit of characters, and says how much was cut.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal

from envhub.envs.db.database import QueryResult
from envhub.envs.db.literals import duration_text
from envhub.envs.db.tasks import DBTask

SYSTEM = """\
You operate a MySQL database by calling tools. Explain your thinking briefly, then call a tool; you may work over several turns.

- execute_sql runs one SQL statement and returns what the database answers. Long answers are cut, so ask for what you need.
- commit_final_answer submits your answer and ends the task. Commit only when you are sure.

For a question, `answers` holds the answer: one string for each value, row by row, exactly as the question asks for it, with
no units, quotes or words around it; a missing value is the string NULL. For a task that changes the database, first make the change
with execute_sql; `answers` is then ignored and may be anything."""


def first_message(task: DBTask) -> str:
    """The user message that poses a task."""
    parts = []
    if task.evidence:
        parts.append(f"Evidence about the question: {task.evidence}")
    if task.table_info:
        parts.append(f"Additional table information about the question: {task.table_info}")
    parts.append(f"Question: {task.question}")
    return "\n".join(parts)


def observation(result: QueryResult, *, max_chars: int, published: bool) -> str:
    """What execute_sql returns. ``published`` is the text AgentBench shows: Python's own tuples, and ``[TRUNCATED]``."""
    if result.status == "timeout":
        return "Error: SQL execution timed out."
    if result.status == "error":
        return _cut(f"Error executing query: {result.message}", max_chars, published=published, note="")
    if result.status == "done":
        return "[]" if published else f"OK, {result.affected} row{'s' if result.affected != 1 else ''} affected."
    text = str(list(result.rows)) if published else _table(result.rows)
    counted = f"{len(result.rows)}{'+' if result.truncated else ''} rows"
    return _cut(text, max_chars, published=published, note=counted)


def _cut(text: str, max_chars: int, *, published: bool, note: str) -> str:
    if len(text) <= max_chars:
        return text
    if published:
        return text[:max_chars] + "[TRUNCATED]"
    size = f"{max_chars} of {len(text)} characters" + (f", {note} in all" if note else "")
    return f"{text[:max_chars]}... [TRUNCATED: {size}]"


def _table(rows: Sequence[tuple[object, ...]]) -> str:
    return "[" + ", ".join(f"({', '.join(map(_cell, row))}{',' if len(row) == 1 else ''})" for row in rows) + "]"


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (bool, int, float, Decimal)):
        return str(int(value)) if isinstance(value, bool) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, datetime.timedelta):
        return f"'{duration_text(value)}'"
    if isinstance(value, (datetime.date, datetime.time)):
        return f"'{value}'"
    return repr(value)

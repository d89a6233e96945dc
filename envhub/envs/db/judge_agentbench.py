"""The published AgentBench grader, verdict for verdict, lenient rules included. Nothing an agent writes is ever evaluated.

Kept on purpose (see ``judge_strict`` for grading that is right): an absolute tolerance of 0.01 on single numbers and
all-number lists; None, NULL, NaN, infinity and the empty text are ``0``; all commas and a trailing ``%`` are dropped;
other lists are compared as sets; rows of several columns vanish; a table is known by an MD5 over five hex digits per row,
NULL skipped, cut at ``group_concat_max_len`` bytes.

Two departures, both where the published grader executes or errs: a list text that Python would have to *run* (a call, an
operator, a comprehension) is a wrong answer, and two sides that both fail are never equal.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from collections.abc import Mapping, Sequence

from envhub.core.errors import GraderError
from envhub.envs.db.database import Table
from envhub.envs.db.judge_strict import cell_text
from envhub.envs.db.literals import Atom, Node, parse
from envhub.envs.db.tasks import Rows, State, answer_text
from envhub.envs.db.verdict import Verdict

TOLERANCE = 0.01
GROUP_CONCAT_MAX_LEN = 1024
MAX_ATOMS = 20_000
MAX_SYNTAX_CHARS = 5_000

_OCTAL_LOOK = re.compile(r"[+-]?0+[1-9][0-9]*", re.ASCII)
_ZEROS = frozenset({"none", "null", "undefined", "nan", "inf", "infinity", "-inf", "-infinity", ""})
_VISIBLE_NAMES = frozenset(dir(builtins)) | {"Database", "DBResultProcessor", "result", "answer"}


def grade_answer(expected: Rows, answers: Sequence[str] | str) -> Verdict:
    """``answers`` is the committed value: a list of strings, or the one string that some agents send instead."""
    gold = [answer_text(value) for value in expected.values]
    correct = answers_match(answers, gold)
    return Verdict(correct, "" if correct else "the answers differ")


def grade_state(
    expected: State,
    actual: Mapping[str, Sequence[tuple[object, ...]]],
    *,
    tables: Sequence[Table],
    group_concat_max_len: int = GROUP_CONCAT_MAX_LEN,
) -> Verdict:
    """Compare the digest of the task's own ``tables``; other tables do not count. Raises GraderError without a gold."""
    if not tables:
        raise GraderError("the task's tables are not known")
    missing = [table.name for table in tables if table.name not in actual]
    if missing:
        return Verdict(False, f"{len(missing)} tables are missing")
    found = tables_digest([(t, actual[t.name]) for t in tables], group_concat_max_len=group_concat_max_len)
    if expected.answer_md5:
        correct = clean(found) == clean(expected.answer_md5)
    elif expected.tables is not None:
        gold = [(table, table.rows) for table in expected.tables]
        correct = found == tables_digest(gold, group_concat_max_len=group_concat_max_len)
    else:
        raise GraderError("the task has neither a published digest nor expected tables")
    return Verdict(correct, "" if correct else "the table digest differs", {"digest": found})


def tables_digest(
    tables: Sequence[tuple[Table, Sequence[tuple[object, ...]]]], *, group_concat_max_len: int = GROUP_CONCAT_MAX_LEN
) -> str:
    digests = [table_digest(rows, len(table.columns), group_concat_max_len) for table, rows in tables]
    return "_".join(sorted(digests))


def table_digest(rows: Sequence[tuple[object, ...]], n_columns: int, group_concat_max_len: int) -> str:
    """``md5(group_concat(rowhash order by rowhash))`` with ``rowhash = substring(md5(concat_ws(',', ...)), 1, 5)``."""
    if not rows:
        return "None"
    joined = ",".join(sorted(_row_digest(row[:n_columns]) for row in rows))
    return _md5(joined.encode()[:group_concat_max_len])


def _row_digest(row: Sequence[object]) -> str:
    cells = (cell_text(cell) for cell in row if cell is not None)
    return _md5(
        b",".join(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in cells)
    )[:5]


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def answers_match(answer: object, truth: object) -> bool:
    """The published comparison of a committed value with the label."""
    said, gold = clean(answer), clean(truth)
    if said is None or gold is None:
        return False
    if len(said) == 1 and len(gold) == 1:
        if _is_float(said[0]) and _is_float(gold[0]):
            return _close(said[0], gold[0])
        return said[0] == gold[0]
    if all(map(_is_float, said)) and all(map(_is_float, gold)):
        return _all_close(said, gold)
    return set(said) == set(gold)


def _all_close(said: Sequence[str], gold: Sequence[str]) -> bool:
    """Greedy: each answer takes the first free label within the tolerance."""
    if len(said) != len(gold):
        return False
    free = list(gold)
    for item in said:
        position = next((place for place, label in enumerate(free) if _close(item, label)), None)
        if position is None:
            return False
        del free[position]
    return True


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _close(left: str, right: str) -> bool:
    return abs(float(left) - float(right)) <= TOLERANCE


def clean(answer: object) -> list[str] | None:
    """The normalised items that a committed value means; None when it would have been executed or is no list."""
    if answer is None:
        return ["0"]
    if isinstance(answer, str):
        return _clean_text(answer)
    if isinstance(answer, list | tuple):
        return [_normalise(_item_text(item)) for item in answer]
    return [_normalise(_bare(str(answer)))]


def _clean_text(answer: str) -> list[str] | None:
    text = answer.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return [_normalise(_bare(text))]
    try:
        value = _evaluate(text)
    except _WouldRunError:
        return None
    except _NotEvaluableError:
        return _clean_unreadable(answer, text)
    if answer == text and isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return [_normalise(_item_text(item)) for item in value if len(item) == 1]
    lone = _lone_tuple(answer)
    if lone is not None:
        return lone
    return [_normalise(_item_text(item)) for item in value] if isinstance(value, list) else None


def _clean_unreadable(answer: str, text: str) -> list[str]:
    lone = _lone_tuple(answer)
    return lone if lone is not None else _split_by_hand(text[1:-1])


def _lone_tuple(answer: str) -> list[str] | None:
    """``[(x,)]`` taken apart as text."""
    inner = answer.strip("[]")
    if answer[:1] + answer[-1:] == "[]" and inner.count("(") == 1 and inner.startswith("(") and inner.endswith(",)"):
        return [_normalise(_bare(inner[1:-2]))]
    return None


def _split_by_hand(body: str) -> list[str]:
    """Split at commas outside quotes; quotes vanish, and so do empty pieces."""
    pieces: list[str] = []
    current: list[str] = []
    quoted = False
    for char in body:
        if char in "\"'":
            quoted = not quoted
        elif char == "," and not quoted:
            pieces.append("".join(current))
            current = []
        else:
            current.append(char)
    pieces.append("".join(current))
    return [_normalise(_bare(piece)) for piece in pieces if piece]


def _item_text(item: object) -> str:
    value = item[0] if isinstance(item, tuple) and len(item) == 1 else item
    return _bare(str(value))


def _bare(text: str) -> str:
    return text.strip().strip("'\"")


def _normalise(value: str) -> str:
    text = value.strip()
    if text.endswith("%"):
        return text[:-1].strip()
    if "," in text and not text.startswith("[") and not text.endswith("]"):
        text = text.replace(",", "")
    return "0" if text.lower() in _ZEROS else text


class _NotEvaluableError(Exception):
    """Python would have raised, so the published grader goes on by hand."""


class _WouldRunError(Exception):
    """Python would have executed something."""


def _evaluate(text: str) -> object:
    """What ``eval`` gives for a literal."""
    node = parse(text, max_atoms=MAX_ATOMS)
    if node is not None:
        return _value(node)
    if len(text) > MAX_SYNTAX_CHARS:
        raise _NotEvaluableError
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _NotEvaluableError from None
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, MemoryError, RecursionError):
        pass
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    raise _NotEvaluableError if names - _VISIBLE_NAMES else _WouldRunError


def _value(node: Node) -> object:
    if not isinstance(node, Atom):
        items = [_value(item) for item in node.items]
        return items if node.kind == "list" else tuple(items)
    if not node.python:
        raise _NotEvaluableError
    if node.kind == "null":
        return None
    if node.kind == "bool":
        return node.text == "True"
    if node.kind == "bytes":
        return node.text.encode()
    if node.kind != "number":
        return node.text
    if _OCTAL_LOOK.fullmatch(node.text):
        raise _NotEvaluableError
    try:
        return int(node.text) if node.text.lstrip("+-").isdigit() else float(node.text)
    except ValueError:
        raise _NotEvaluableError from None

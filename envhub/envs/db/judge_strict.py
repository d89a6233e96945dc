"""Strict grading, the default: typed, row by row, documented tolerance. Equal means equal in SQL, not merely look-alike.

Answers. The expected cell's type says how an answer string is compared:

- NULL: only ``NULL``, or ``None`` as results print it. Never the empty string, 0 or ``nan``.
- integer: the same number, exactly. ``10.0``, ``1e1`` and ``10`` are one number; ``-0.0`` is 0.
- decimal: the same number up to binary noise (1e-12 relative). One that carries four or more decimals may itself be the
  rounded result of a division, so half a unit of its last place is allowed: for 3.3333, 3.33333333 is right and 3.33 wrong.
- float: 1e-6 relative when it has a fraction, else as a decimal.
- text: the same characters after Unicode NFC and trimming of outer white space; case, quotes and commas count.

Numbers are ASCII; ``1,234,567.8`` is read as a number when thousands are grouped right; percent and currency signs are
never stripped, ``True`` is text, ``nan`` and ``inf`` are not numbers. Rows are a multiset, or a sequence when the task asks
for an order; the cells of a row keep their order. An answer may also be the list text that a result prints, e.g.
``[(Decimal('5.00'),)]``, as one string or one string per row.

States. Every table of the database is compared as a multiset of full rows: numeric columns (as the task describes them) as
numbers, all others as text; NULL equals only NULL; a table too many, or one missing, is wrong.
"""

from __future__ import annotations

import datetime
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from envhub.core.errors import GraderError
from envhub.envs.db.database import Table
from envhub.envs.db.literals import Atom, Group, duration_text, parse
from envhub.envs.db.tasks import Rows, State, Value
from envhub.envs.db.verdict import Verdict

BINARY_NOISE = Decimal("1e-12")
FLOAT_TOLERANCE = Decimal("1e-6")
ROUNDED_DECIMALS = 4
MAX_NUMBER_CHARS = 400
MAX_NFC_CHARS = 2_000
MAX_PAIRED_ROWS = 300

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", re.ASCII)
_CONTEXT = Context(prec=2 * MAX_NUMBER_CHARS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_NUMERIC_TYPE = re.compile(
    r"(?:tiny|small|medium|big)?int|integer|decimal|dec\b|numeric|fixed|float|double|real|year|bool", re.I
)
_FLOATING_DIGITS = ((re.compile(r"float", re.I), 6), (re.compile(r"double|real", re.I), 12))


def grade_answer(expected: Rows, answers: Sequence[str]) -> Verdict:
    """Raises GraderError when the expected answer itself cannot be compared with."""
    gold = tuple(tuple(_gold(value) for value in row) for row in expected.rows)
    metrics = {"expected_cells": len(expected.values), "answered_cells": len(answers)}
    reason = f"{len(answers)} answers do not make {len(expected.values)} cells"
    for said in _readings(expected, answers):
        reason = _difference(gold, said, ordered=expected.ordered)
        if not reason:
            return Verdict(True, "", metrics)
    return Verdict(False, reason, metrics)


def grade_state(expected: State, actual: Mapping[str, Sequence[tuple[object, ...]]]) -> Verdict:
    """``actual`` holds every table of the database. Raises GraderError when the expected tables are not known."""
    if expected.tables is None:
        raise GraderError("the expected tables of this task were not computed")
    names = {table.name for table in expected.tables}
    metrics = {"tables": len(names), "tables_found": len(actual)}
    if names != set(actual):
        missing, extra = len(names - set(actual)), len(set(actual) - names)
        return Verdict(False, f"{missing} tables are missing and {extra} are too many", metrics)
    for table in expected.tables:
        types = expected.described_types.get(table.name) or tuple(column.type for column in table.columns)
        reason = _table_difference(table, actual[table.name], types)
        if reason:
            return Verdict(False, f"table {table.name}: {reason}", metrics)
    return Verdict(True, "", metrics)


@dataclass(frozen=True, slots=True)
class _Said:
    """One cell of the answer in every way it may be meant; a NULL literal has no text."""

    text: str | None
    number: Decimal | None = None
    null: bool = False


@dataclass(frozen=True, slots=True)
class _Gold:
    """One expected cell: a number with its tolerance, a text, or NULL when both are None."""

    text: str | None = None
    number: Decimal | None = None
    tolerance: Decimal = Decimal(0)

    def matches(self, said: _Said) -> bool:
        if self.number is not None:
            return said.number is not None and _near(self.number, said.number, self.tolerance)
        return said.text == self.text if self.text is not None else said.null


def _gold(value: Value) -> _Gold:
    if value is None:
        return _Gold()
    if isinstance(value, str):
        return _Gold(text=_text(value))
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise GraderError(f"the expected answer {value!r} is not a finite number")
    return _Gold(number=number, tolerance=_tolerance(value, number))


def _tolerance(value: int | float | Decimal, number: Decimal) -> Decimal:
    if isinstance(value, int):
        return Decimal(0)
    if isinstance(value, float) and not value.is_integer():
        return abs(number) * FLOAT_TOLERANCE
    noise = abs(number) * BINARY_NOISE
    exponent = number.as_tuple().exponent
    if isinstance(value, Decimal) and isinstance(exponent, int) and exponent <= -ROUNDED_DECIMALS:
        return max(noise, Decimal((0, (5,), exponent - 1)))
    return noise


def _near(gold: Decimal, said: Decimal, tolerance: Decimal) -> bool:
    return gold == said or _CONTEXT.abs(_CONTEXT.subtract(gold, said)) <= tolerance


def _readings(expected: Rows, answers: Sequence[str]) -> Iterator[tuple[tuple[_Said, ...], ...]]:
    """The answers as rows: one string per cell; the text of the whole list; one text per row."""
    n_cells, width = len(expected.values), expected.columns
    if len(answers) == n_cells:
        cells = tuple(_said(text) for text in answers)
        yield tuple(cells[start : start + width] for start in range(0, n_cells, width))
    if len(answers) == 1:
        rows = _parsed_rows(answers[0], n_cells, width)
        if rows is not None and len(rows) * width == n_cells:
            yield rows
    if len(answers) * width == n_cells:
        read = tuple(_parsed_row(text, width) for text in answers)
        if all(row is not None for row in read):
            yield tuple(row for row in read if row is not None)


def _parsed_rows(text: str, n_cells: int, width: int) -> tuple[tuple[_Said, ...], ...] | None:
    """A printed list of rows, or a printed flat list of cells."""
    node = parse(text, max_atoms=n_cells) if text.lstrip()[:1] in {"[", "("} else None
    if not isinstance(node, Group):
        return None
    if all(isinstance(item, Atom) for item in node.items):
        cells = tuple(_atom(item) for item in node.items if isinstance(item, Atom))
        return tuple(cells[start : start + width] for start in range(0, len(cells), width))
    rows = tuple(_row(item, width) for item in node.items)
    return None if None in rows else tuple(row for row in rows if row is not None)


def _parsed_row(text: str, width: int) -> tuple[_Said, ...] | None:
    return _row(parse(text, max_atoms=width), width) if text.lstrip()[:1] in {"[", "("} else None


def _row(node: Atom | Group | None, width: int) -> tuple[_Said, ...] | None:
    if not isinstance(node, Group) or len(node.items) != width:
        return None
    cells = tuple(_atom(item) for item in node.items if isinstance(item, Atom))
    return cells if len(cells) == width else None


def _atom(atom: Atom) -> _Said:
    if atom.kind == "null":
        return _Said(None, None, True)
    text = _text(atom.text)
    return _Said(text, _number(text))


def _said(answer: str) -> _Said:
    text = _text(answer)
    if text.startswith(("Decimal(", "datetime.")):
        node = parse(text, max_atoms=1)
        if isinstance(node, Atom):
            return _atom(node)
    return _Said(text, _number(text), text in {"NULL", "None"})


def _text(text: str) -> str:
    return _nfc(text.strip())


def _number(text: str) -> Decimal | None:
    if len(text) > MAX_NUMBER_CHARS:
        return None
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    return Decimal(text.replace(",", "")) if _GROUPED.fullmatch(text) else None


_GoldRow = tuple[_Gold, ...]
_SaidRow = tuple[_Said, ...]


def _difference(gold: Sequence[_GoldRow], said: Sequence[_SaidRow], *, ordered: bool) -> str:
    """Empty when they agree; both have the same number of rows, all of one width."""
    if ordered:
        wrong = [number for number, pair in enumerate(zip(gold, said, strict=True), 1) if not _row_matches(*pair)]
        return f"row {wrong[0]} differs" if wrong else ""
    numeric = [any(row[column].number is not None for row in gold) for column in range(len(gold[0]) if gold else 0)]
    gold, said = _without_equal(gold, said, numeric)
    unpaired = len(gold) - _n_paired(gold, said, numeric)
    return f"{unpaired} rows have no counterpart" if unpaired else ""


def _row_matches(gold: _GoldRow, said: _SaidRow) -> bool:
    return all(cell.matches(answer) for cell, answer in zip(gold, said, strict=True))


def _without_equal(
    gold: Sequence[_GoldRow], said: Sequence[_SaidRow], numeric: Sequence[bool]
) -> tuple[Sequence[_GoldRow], Sequence[_SaidRow]]:
    """What remains after pairing rows that agree without tolerance, in linear time."""
    waiting: dict[tuple[object, ...], list[int]] = {}
    for position, row in enumerate(gold):
        waiting.setdefault(tuple((cell.number, cell.text) for cell in row), []).append(position)
    left = []
    for answer in said:
        key = tuple(map(_key, answer, numeric))
        if waiting.get(key):
            waiting[key].pop()
        else:
            left.append(answer)
    kept = sorted(position for positions in waiting.values() for position in positions)
    return [gold[position] for position in kept], left


def _key(cell: _Said, numeric: bool) -> tuple[Decimal | None, str | None]:
    if numeric and cell.number is not None:
        return cell.number, None
    return None, None if cell.null else cell.text


def _n_paired(gold: Sequence[_GoldRow], said: Sequence[_SaidRow], numeric: Sequence[bool]) -> int:
    """The largest number of rows that can be paired (augmenting paths); pairs in sorted order when there are very many."""
    if len(gold) > MAX_PAIRED_ROWS:
        golds = sorted(gold, key=lambda row: _order([(cell.number, cell.text) for cell in row], numeric))
        saids = sorted(said, key=lambda row: _order([_key(*pair) for pair in zip(row, numeric, strict=True)], numeric))
        return sum(map(_row_matches, golds, saids))
    fits = [[column for column, answer in enumerate(said) if _row_matches(row, answer)] for row in gold]
    owner: dict[int, int] = {}
    return sum(_augment(row, fits, owner, set()) for row in range(len(gold)))


def _order(
    cells: Sequence[tuple[Decimal | None, str | None]], numeric: Sequence[bool]
) -> tuple[list[str], list[Decimal]]:
    """Exact columns first, so that numbers within tolerance of each other meet."""
    texts = [text or "" for (_, text), is_number in zip(cells, numeric, strict=True) if not is_number]
    return texts, [number or Decimal(0) for (number, _), is_number in zip(cells, numeric, strict=True) if is_number]


def _augment(row: int, fits: Sequence[Sequence[int]], owner: dict[int, int], seen: set[int]) -> bool:
    for column in fits[row]:
        if column not in seen:
            seen.add(column)
            if column not in owner or _augment(owner[column], fits, owner, seen):
                owner[column] = row
                return True
    return False


def _table_difference(expected: Table, actual: Sequence[tuple[object, ...]], types: Sequence[str]) -> str:
    if len(expected.rows) != len(actual):
        return f"{len(actual)} rows, not {len(expected.rows)}"
    if any(len(row) != len(expected.columns) for row in actual):
        return "its columns were changed"
    digits = [_digits(type_name) for type_name in types]
    gold = Counter(_canonical_row(row, digits) for row in expected.rows)
    gold.subtract(Counter(_canonical_row(row, digits) for row in actual))
    wrong = sum(count for count in gold.values() if count > 0)
    return f"{wrong} rows differ" if wrong else ""


def _digits(type_name: str) -> int | None:
    """How many significant digits a column of this type keeps; None when it is not numeric."""
    for pattern, digits in _FLOATING_DIGITS:
        if pattern.match(type_name):
            return digits
    return MAX_NUMBER_CHARS if _NUMERIC_TYPE.match(type_name) else None


def _canonical_row(row: Sequence[object], digits: Sequence[int | None]) -> tuple[object, ...]:
    return tuple(_canonical(cell, places) for cell, places in zip(row, digits, strict=True))


def _canonical(cell: object, digits: int | None) -> Decimal | str | bytes | None:
    """Numbers compare as Decimal, all else as text; no Decimal equals a text, and only NULL is None."""
    if cell is None:
        return None
    text = cell_text(cell)
    if isinstance(text, bytes):
        return text
    if digits is None or len(text) > MAX_NUMBER_CHARS or _NUMBER.fullmatch(text) is None:
        return _nfc(text)
    return _context(digits).plus(Decimal(text))


@functools.cache
def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def cell_text(cell: object) -> str | bytes:
    """A stored value as MySQL spells it; bytes that are not UTF-8 stay bytes."""
    if isinstance(cell, bytes | bytearray):
        try:
            return bytes(cell).decode()
        except UnicodeDecodeError:
            return bytes(cell)
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, datetime.timedelta):
        return duration_text(cell)
    return str(cell)


def _nfc(text: str) -> str:
    """NFC, except for very long text: hostile combining sequences would take quadratic time."""
    return text if text.isascii() or len(text) > MAX_NFC_CHARS else unicodedata.normalize("NFC", text)

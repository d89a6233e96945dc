"""Strict grading: the written decision for every pair of B002, every mutation of B003, and hostile input."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.core.errors import GraderError
from envhub.envs.db import judge
from envhub.envs.db.database import Cell, Column, Table
from envhub.envs.db.tasks import Rows, State, Value, answer_text, typed


def correct(answers: Sequence[str] | str, *gold: Value, columns: int = 1, ordered: bool = False) -> bool:
    return judge.grade_answer(Rows(gold, columns, ordered), answers).correct


B002 = [
    # answers, label, right?, why
    ("None", ["0"], False, "None spells NULL, and NULL equals only NULL"),
    ("nan", ["0"], False, "nan is not a number"),
    ("inf", ["0"], False, "inf is not a number"),
    ("3.009", ["3.00"], False, "no absolute tolerance"),
    ("0.004", ["0"], False, "an integer is exact"),
    ("0.51%", ["0.51"], False, "percent is never stripped: it is another number"),
    ("Lee, Ann", ["Lee Ann"], False, "commas in text count"),
    (["a"], ["a", "a"], False, "rows are a multiset"),
    ("[(1,2)]", ["[(7,8),(9,10)]"], False, "several columns do not vanish"),
    ("[(Decimal('5.00'),)]", ["5.00"], True, "a printed decimal is its number"),
    ("[(datetime.date(2020, 1, 2),)]", ["2020-01-02"], True, "a printed date is MySQL's date"),
    ("paris", ["Paris"], False, "case is part of a text"),
    ("True", ["1"], False, "no MySQL client prints True, so it is text"),
    (["a", "3.001"], ["a", "3.00"], False, "no tolerance beside text either"),
]


@pytest.mark.parametrize(("answers", "label", "right", "why"), B002)
def test_b002_pair_is_decided_as_written(answers: str | list[str], label: list[str], right: bool, why: str) -> None:
    assert correct(answers, *map(typed, label)) is right, why


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("0", None, False),
        ("", None, False),
        ("null", None, False),
        ("nan", None, False),
        ("NULL", None, True),
        ("None", None, True),
        ("[(None,)]", None, True),
        ("[null]", None, True),
        ("['NULL']", None, False),
        ("[None]", "", False),
        ("NULL", "", False),
        ("NULL", 0, False),
        ("NULL", "NULL", True),
        ("", 0, False),
        ("-0.0", 0, True),
        ("0", Decimal("-0.0"), True),
        ("1e3", 1000, True),
        ("1000.000", 1000, True),
        ("+10", 10, True),
        ("10.0", 10, True),
        ("1,000", 1000, True),
        ("12,345,678.5", Decimal("12345678.5"), True),
        ("10,00", 1000, False),
        ("1,000", "1000", False),
        ("$10", 10, False),
        ("2012346", 2012345, False),
        ("5." + "0" * 100, 5, True),
        ("5." + "0" * 1000, 5, False),
        ("9007199254740993", 9007199254740992, False),
        ("3.33333333", Decimal("3.3333"), True),
        ("3.33", Decimal("3.3333"), False),
        ("3.004", Decimal("3.00"), False),
        ("0.30000000000000004", Decimal("0.30"), True),
        ("0.333333", 1 / 3, True),
        ("0.3333", 1 / 3, False),
        ("2012.005", 2012.0, False),
        ("٣", 3, False),
        ("³", 3, False),
        ("0x10", 16, False),
        ("1_000", 1000, False),
        ("007", "7", False),
        ("007", "007", True),
        ("5.0", "5.00", False),
        (" Oslo\n", "Oslo", True),
        ("Cafe\u0301", "Caf\u00e9", True),
        ("'Oslo'", "Oslo", False),
        ("['Oslo']", "Oslo", True),
        ('["Oslo"]', "Oslo", True),
        ("[x]", "[x]", True),
        ("[1]", "[1]", True),
        ("Decimal('5.00')", Decimal("5"), True),
        ("datetime.timedelta(seconds=3600)", "01:00:00", True),
        ("[(datetime.datetime(2020, 1, 2, 3, 4),)]", "2020-01-02 03:04:00", True),
        ('["\\ud83d\\ude00"]', "😀", True),
    ],
)
def test_one_cell_is_decided_as_written(answer: str, gold: Value, right: bool) -> None:
    assert correct([answer], gold) is right


def test_unordered_rows_are_a_multiset_and_ordered_rows_a_sequence() -> None:
    assert correct(["b", "a"], "a", "b")
    assert not correct(["b", "a"], "a", "b", ordered=True)
    assert correct(["a", "b"], "a", "b", ordered=True)
    assert not correct(["a", "b", "b"], "a", "a", "b")
    assert not correct(["a", "b"], "a")
    assert not correct([], "a")
    assert correct([])
    assert not correct([""])


def test_cells_stay_in_their_row() -> None:
    gold: tuple[Value, ...] = ("a", 1, "b", 2)
    assert correct(["b", "2", "a", "1"], *gold, columns=2)
    assert not correct(["a", "2", "b", "1"], *gold, columns=2)
    assert not correct(["1", "a", "2", "b"], *gold, columns=2)
    assert correct("[('b', 2), ('a', 1)]", *gold, columns=2)
    assert correct(["('b', 2)", "('a', 1)"], *gold, columns=2)
    assert correct("['a', 1, 'b', 2]", *gold, columns=2)
    assert not correct("[('b', 1), ('a', 2)]", *gold, columns=2)


def test_pairing_within_tolerance_finds_a_pairing_that_greedy_would_miss() -> None:
    gold = (Decimal("1.0001"), Decimal("1.00008"))
    assert correct(["1.000081", "1.00012"], *gold)
    assert correct(["1.00012", "1.000081"], *gold)
    assert not correct(["1.00012", "1.00012"], *gold)
    three = (Decimal("1.0001"), Decimal("1.00008"), Decimal("1.00012"))
    assert correct(["1.000081", "1.000121", "1.00014"], *three)
    assert correct(["3.33333", "3.333333"], Decimal("3.3333"), Decimal("3.3333"))


def test_many_rounded_rows_are_paired() -> None:
    gold = [cell for n in range(1000) for cell in (f"name {n % 10}", Decimal(n) / 1 + Decimal("0.3333"))]
    answers = [text for n in reversed(range(1000)) for text in (f"name {n % 10}", f"{n}.33333333")]
    assert correct(answers, *gold, columns=2)
    assert not correct([*answers[:-1], "0.34"], *gold, columns=2)


@pytest.mark.parametrize(
    "answers",
    [
        ["x" * 1_000_000],
        ["1" * 1_000_000],
        ["[" * 1_000_000],
        ["(" * 500_000 + ")" * 500_000],
        ["[" * 40_000 + "]" * 40_000],
        ["[" + "1," * 500_000 + "]"],
        ["['" + "\\" * 999_999],
        ["[datetime.date(" + "1," * 400_000],
        ["a" + "\u0315\u0300" * 400_000],
        ["1e999999"],
        ["-1e9999"],
        ["1e-999999"],
        ["9" * 400],
        ["[" + "-" * 100_000 + "1]"],
        ["nan"],
        ["Infinity"],
        ["\ud800"],
        ["\x00"],
        ["[__import__('os').system('touch /tmp/pwn')]"],
        ["1"] * 100_000,
        ["[1]"] * 100_000,
    ],
    ids=lambda answers: f"{answers[0][:12]!r} x {len(answers)}",
)
@pytest.mark.parametrize("mode", judge.MODES)
def test_hostile_answer_is_wrong_quickly(answers: list[str], mode: judge.Mode) -> None:
    started = time.process_time()
    for gold in (Rows((5,)), Rows(("café",)), Rows((None,)), Rows((Decimal("2.5"),))):
        if mode == "agentbench" and gold.values == (None,):
            continue
        for answer in (answers, answers[0]):
            assert not judge.grade_answer(gold, answer, mode=mode).correct
    assert time.process_time() - started < 5


def test_gold_that_is_no_number_is_our_failure() -> None:
    with pytest.raises(GraderError):
        correct(["1"], float("nan"))


def test_b056_grader_that_breaks_is_our_failure_not_a_wrong_answer() -> None:
    no_string: list[str] = [5]  # type: ignore[list-item]  # what a caller with a fault of its own may send
    with pytest.raises(GraderError, match="grading the answer failed"):
        judge.grade_answer(Rows(("a",)), no_string)
    two_types_for_three_columns = state([("1", "a", "b")], t=("INT", "TEXT"))
    with pytest.raises(GraderError, match="grading the tables failed"):
        judge.grade_state(two_types_for_three_columns, {"t": [("1", "a", "b")]})


COLUMNS = (Column("id", "TEXT"), Column("first", "TEXT"), Column("second", "TEXT"))


def state(rows: Sequence[tuple[Cell, ...]], **types: tuple[str, ...]) -> State:
    return State((Table("t", COLUMNS, tuple(rows)),), described_types=types)


def big_table() -> list[tuple[Cell, ...]]:
    return [(str(n), f"name {n}", f"note {n}") for n in range(400)]


def delete_row(rows: list[tuple[Cell, ...]]) -> None:
    del rows[300]


def update_row(rows: list[tuple[Cell, ...]]) -> None:
    rows[399] = ("399", "changed", "note 399")


def duplicate_row(rows: list[tuple[Cell, ...]]) -> None:
    rows.append(rows[7])


def replace_row_by_a_duplicate(rows: list[tuple[Cell, ...]]) -> None:
    rows[8] = rows[7]


B003 = [delete_row, update_row, duplicate_row, replace_row_by_a_duplicate]


@pytest.mark.parametrize("mutate", B003)
def test_b003_mutation_of_a_big_table_is_seen(mutate: object) -> None:
    rows = big_table()
    assert judge.grade_state(state(big_table()), {"t": rows[::-1]}).correct
    mutate(rows)  # type: ignore[operator]  # one of the functions above
    assert not judge.grade_state(state(big_table()), {"t": rows}).correct


@pytest.mark.parametrize(
    ("gold", "actual"),
    [
        (("1", None, "b"), ("1", "b", None)),
        (("1", "a", "b,c"), ("1", "a,b", "c")),
        (("1", None, "b"), ("1", "", "b")),
        (("1", None, "b"), ("1", "NULL", "b")),
        (("1", "0", "b"), ("1", None, "b")),
        (("1", "a", "b"), ("1", "A", "b")),
        (("1", "a", "b"), ("1", "a ", "b")),
        (("1", "1", "b"), ("1", "1.0", "b")),
    ],
)
def test_b003_rows_that_the_digest_confuses_differ(gold: tuple[Cell, ...], actual: tuple[Cell, ...]) -> None:
    assert judge.grade_state(state([gold]), {"t": [gold]}).correct
    assert not judge.grade_state(state([gold]), {"t": [actual]}).correct


@pytest.mark.parametrize("stored", ["2019", 2019, "2019.0", Decimal("2019"), 2019.0, b"2019", "+2019"])
def test_b003_number_in_a_column_described_as_int_compares_as_number(stored: object) -> None:
    expected = state([("2019", "a", "b")], t=("INT", "TEXT", "TEXT"))
    assert judge.grade_state(expected, {"t": [(stored, "a", "b")]}).correct
    assert not judge.grade_state(expected, {"t": [("2020", "a", "b")]}).correct


def test_text_in_a_column_described_as_int_compares_as_text() -> None:
    expected = state([("2,900", "a", "b")], t=("INTEGER", "TEXT", "TEXT"))
    assert judge.grade_state(expected, {"t": [("2,900", "a", "b")]}).correct
    assert not judge.grade_state(expected, {"t": [("2900", "a", "b")]}).correct


def test_values_of_a_client_compare_with_their_mysql_spelling() -> None:
    columns = tuple(Column(t, t) for t in ("DECIMAL(10,2)", "DATE", "DATETIME", "TIME", "DOUBLE", "FLOAT", "BLOB"))
    gold: tuple[Cell, ...] = ("5.00", "2020-01-02", "2020-01-02 03:04:05", "-26:00:01", 0.1 + 0.2, 1.1, b"\xff\x00")
    actual = (
        Decimal("5.0"),
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        -datetime.timedelta(hours=26, seconds=1),
        0.3,
        1.10000002384,
        bytearray(b"\xff\x00"),
    )
    expected = State((Table("t", columns, (gold,)),))
    assert judge.grade_state(expected, {"t": [actual]}).correct
    for place in range(len(columns)):
        wrong = [*actual[:place], "other", *actual[place + 1 :]]
        assert not judge.grade_state(expected, {"t": [tuple(wrong)]}).correct


def test_tables_too_many_missing_or_reshaped_are_wrong() -> None:
    expected = state([("1", "a", "b")])
    rows = [("1", "a", "b")]
    assert not judge.grade_state(expected, {"t": rows, "mine": []}).correct
    assert not judge.grade_state(expected, {}).correct
    assert not judge.grade_state(expected, {"T": rows}).correct
    assert not judge.grade_state(expected, {"t": [("1", "a", "b", None)]}).correct
    assert not judge.grade_state(expected, {"t": [("1", "a")]}).correct


@pytest.mark.parametrize("mode", judge.MODES)
def test_state_without_gold_is_our_failure(mode: judge.Mode) -> None:
    with pytest.raises(GraderError):
        judge.grade_state(State(None), {"t": []}, mode=mode)


values = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=5),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
    st.text(max_size=12),
)
rows = st.integers(1, 3).flatmap(
    lambda width: st.tuples(st.just(width), st.lists(st.lists(values, min_size=width, max_size=width), max_size=6))
)


def flat(lines: Sequence[Sequence[Value]]) -> tuple[Value, ...]:
    return tuple(value for line in lines for value in line)


@settings(deadline=None, max_examples=150)
@given(rows)
def test_gold_written_out_is_right(table: tuple[int, list[list[Value]]]) -> None:
    width, lines = table
    for ordered in (False, True):
        gold = Rows(flat(lines), width, ordered)
        assert judge.grade_answer(gold, [answer_text(value) for value in gold.values]).correct


@settings(deadline=None, max_examples=150)
@given(rows, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(table: tuple[int, list[list[Value]]], rng: object) -> None:
    width, lines = table
    shuffled = list(lines)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    answers = [answer_text(value) for value in flat(shuffled)]
    assert judge.grade_answer(Rows(flat(lines), width), answers).correct


@settings(deadline=None, max_examples=200)
@given(
    st.lists(values, max_size=4),
    st.lists(st.one_of(st.text(), st.text("[](),'\"\\0123.eE-+ Nonedatimlu", max_size=30)), max_size=4),
    st.booleans(),
    st.sampled_from(judge.MODES),
)
def test_any_text_gets_a_verdict(gold: list[Value], answers: list[str], ordered: bool, mode: judge.Mode) -> None:
    judge.grade_answer(Rows(tuple(gold), 1, ordered), answers, mode=mode)
    for answer in answers:
        judge.grade_answer(Rows(tuple(gold), 1, ordered), answer, mode=mode)

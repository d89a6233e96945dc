"""The published grader's verdicts: every pair of B002, the examples measured on it, its table digest, and no execution."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from envhub.envs.db import judge
from envhub.envs.db.database import Column, Table
from envhub.envs.db.judge_agentbench import answers_match, clean, table_digest, tables_digest
from envhub.envs.db.tasks import Rows, State, typed

B002 = [
    ("None", ["0"], True),
    ("nan", ["0"], True),
    ("inf", ["0"], True),
    ("3.009", ["3.00"], True),
    ("0.004", ["0"], True),
    ("0.51%", ["0.51"], True),
    ("Lee, Ann", ["Lee Ann"], True),
    (["a"], ["a", "a"], True),
    ("[(1,2)]", "[(7,8),(9,10)]", True),
    ("[(Decimal('5.00'),)]", ["5.00"], False),
    ("[(datetime.date(2020, 1, 2),)]", ["2020-01-02"], False),
    ("paris", ["Paris"], False),
    ("True", ["1"], False),
    (["a", "3.001"], ["a", "3.00"], False),
]


@pytest.mark.parametrize(("answer", "truth", "right"), B002)
def test_b002_pair_is_as_published(answer: object, truth: object, right: bool) -> None:
    assert answers_match(answer, truth) is right
    if isinstance(truth, list) and isinstance(answer, str | list):
        assert judge.grade_answer(Rows(tuple(map(typed, truth))), answer, mode="agentbench").correct is right


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ("0.004", ["0.001"], True),
        ("2012", ["2012.005"], True),
        ("2012.02", ["2012"], False),
        ("", ["0"], True),
        (None, ["0"], True),
        (["Paris", "Paris"], ["Paris"], True),
        (["x", "10.0"], ["x", "10"], False),
        ("Smith, John", ["Smith John"], True),
        ("5, 6", ["5", "6"], False),
        ([], [], True),
        ([], ["0"], False),
        ([""], [], False),
        (["2", "1"], ["1", "2"], True),
        (["1", "1"], ["1", "2"], False),
        (["1.005", "1.009"], ["1", "1.01"], True),
        (["1.005", "1.0"], ["1", "1.01"], False),
        (["'a'", '"b"'], ["a", "b"], True),
        ("[('a',), ('b',)]", ["b", "a"], True),
        ("[('a', 1), ('b',)]", ["b"], True),
        ("['a', 'b']", ["a", "b"], True),
        ("[a, b]", ["a", "b"], True),
        ("[null]", ["0"], True),
        ("[(foo bar,)]", ["foo bar"], True),
        ("[[(5,)]]", ["5"], True),
        (" [('a', 1)]", ["('a' 1)"], True),
        ("[1], [2]", ["1", "2"], False),
        ("[007]", ["007"], True),
        ("[{1}]", ["{1}"], True),
        ("[1e3]", ["1000"], True),
        ("[(None,)]", ["0"], True),
        (["1e3"], ["1000"], True),
        (["-0.0"], ["0"], True),
        (["NULL"], ["0"], True),
        (["1e999999"], ["1e999999"], False),
        (5, ["5"], True),
    ],
)
def test_measured_example_is_as_published(answer: object, truth: object, right: bool) -> None:
    assert answers_match(answer, truth) is right


@pytest.mark.parametrize(
    "text",
    [
        "[__import__('os').system('touch {}')]",
        "[open('{}', 'w').close()]",
        "[exec(\"open('{}','w')\")]",
        "[(lambda: open('{}', 'w'))()]",
        "[open(name, 'w') for name in ['{}']]",
    ],
)
def test_b051_answer_is_never_executed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "pwn"
    for mode in judge.MODES:
        for answer in (text.format(file), [text.format(file)]):
            assert not judge.grade_answer(Rows((0,)), answer, mode=mode).correct
            assert not judge.grade_answer(Rows(("None",)), answer, mode=mode).correct
    assert not file.exists()


@pytest.mark.parametrize("text", ["[2 + 3]", "[len('12345')]", "[int('5')]", "[5 if True else 4]", "['5'][0:1] or [5]"])
def test_text_that_would_have_run_is_wrong(text: str) -> None:
    assert clean(text) is None
    assert not answers_match(text, ["5"])


def test_nothing_that_failed_equals_anything() -> None:
    assert not answers_match("[2 + 3]", "[2 + 3]")


COLUMNS = (Column("a"), Column("b"), Column("c"))


def sql_digest(rows: Sequence[tuple[str | None, ...]], cap: int) -> str:
    """What MySQL computes, spelt out for text cells."""
    digests = [
        hashlib.md5(",".join(c for c in row if c is not None).encode(), usedforsecurity=False).hexdigest()[:5]
        for row in rows
    ]
    return hashlib.md5(",".join(sorted(digests)).encode()[:cap], usedforsecurity=False).hexdigest()


def test_digest_ignores_row_order_null_places_and_the_separator() -> None:
    assert table_digest([("a", None, "b")], 3, 1024) == table_digest([("a", "b", None)], 3, 1024)
    assert table_digest([("a,b", "c", "")], 3, 1024) == table_digest([("a", "b,c", "")], 3, 1024)
    assert table_digest([("1", "2", "3"), ("4", "5", "6")], 3, 1024) == table_digest(
        [("4", "5", "6"), ("1", "2", "3")], 3, 1024
    )
    assert table_digest([("1", "2", "3")], 3, 1024) != table_digest([("1.0", "2", "3")], 3, 1024)


def test_digests_of_several_tables_are_sorted_and_joined() -> None:
    one = (Table("t", COLUMNS, ()), [("1", "2", "3")])
    other = (Table("u", COLUMNS, ()), [("4", "5", "6")])
    assert tables_digest([one, other]) == tables_digest([other, one])
    assert tables_digest([one, other]).split("_") == sorted([tables_digest([one]), tables_digest([other])])
    assert tables_digest([(Table("t", COLUMNS, ()), [])]) == "None"


@pytest.mark.parametrize("cap", [1024, 1_048_576])
def test_digest_is_cut_at_the_cap_of_the_server(cap: int) -> None:
    rows = [(str(n), f"name {n}", f"note {n}") for n in range(400)]
    assert table_digest(rows, 3, cap) == sql_digest(rows, cap)
    unseen = sum(
        table_digest([*rows[:n], ("x", "y", "z"), *rows[n + 1 :]], 3, cap) == sql_digest(rows, cap) for n in range(400)
    )
    assert (unseen > 100) is (cap == 1024)


def test_state_is_compared_by_digest_over_the_tasks_own_tables() -> None:
    table = Table("t", COLUMNS, (("a", None, "b"),))
    other = Table("u", COLUMNS, (("x", "y", "z"),))
    expected = State((table, other))
    good = {"t": [("a", "b", None)], "u": [("x", "y", "z", "added column")], "mine": []}
    assert judge.grade_state(expected, good, mode="agentbench").correct
    assert not judge.grade_state(expected, {"t": [("a", "b", None)]}, mode="agentbench").correct
    assert not judge.grade_state(expected, good | {"t": []}, mode="agentbench").correct


def test_published_digest_is_read_as_printed() -> None:
    table = Table("t", COLUMNS, ())
    rows = [("a", "b", "c")]
    expected = State(None, "INSERT ...", f"[('{sql_digest(rows, 1024)}',)]")
    assert judge.grade_state(expected, {"t": rows}, mode="agentbench", tables=(table,)).correct
    assert not judge.grade_state(expected, {"t": []}, mode="agentbench", tables=(table,)).correct
    assert judge.grade_state(
        State(None, "DELETE ...", "[(None,)]"), {"t": []}, mode="agentbench", tables=(table,)
    ).correct

"""Grades: exact sets earn the reward, F1 measures the rest; values in strict mode, texts in agentbench mode."""

from __future__ import annotations

import pytest

from envhub.envs.kg.judge import MODES, grade
from envhub.envs.kg.terms import Literal, Term, plain, read_object, write_object


def whole(text: str) -> Literal:
    return Literal(text, "integer")


@pytest.mark.parametrize("mode", MODES)
def test_only_the_exact_set_is_right(mode) -> None:  # type: ignore[no-untyped-def]
    gold = ("m.1", "g.2")
    assert grade(gold, ["g.2", "m.1"], mode=mode).reward == 1.0
    assert grade(gold, ["m.1", "m.1", "g.2"], mode=mode).reward == 1.0
    for given, f1 in ((["m.1"], 2 / 3), (["m.1", "g.2", "m.3"], 0.8), (["m.3"], 0.0), ([], 0.0)):
        found = grade(gold, given, mode=mode)
        assert (found.reward, found.f1) == (0.0, pytest.approx(f1))
    assert grade(gold, ["m.1", "m.3"], mode=mode).precision == grade(gold, ["m.1", "m.3"], mode=mode).recall == 0.5


@pytest.mark.parametrize(
    ("gold", "given", "strict", "agentbench"),
    [
        (whole("1"), whole("1"), True, True),
        (whole("1"), Literal("1.0", "double"), True, False),
        (Literal("0.10", "decimal"), Literal("0.1", "float"), True, False),
        (Literal("1e3", "double"), whole("1000"), True, False),
        (whole("1"), Literal("1"), False, True),
        (Literal("1990-05-01", "date"), Literal("1990-05-01-08:00", "date"), True, True),
        (Literal("1990-05-01", "date"), Literal("1990-05-01Z", "date"), True, False),
        (Literal("1990", "gYear"), Literal("1990-01-01", "date"), False, False),
        (Literal("1990-05-01T00:00:00", "dateTime"), Literal("1990-05-01T00:00:00-08:00", "dateTime"), True, True),
        (Literal("Oslo"), Literal("Oslo", lang="en"), True, True),
        (Literal("Oslo"), Literal("oslo"), False, False),
        ("m.1", Literal("m.1"), False, True),
        (Literal("NaN", "double"), Literal("NaN", "double"), True, True),
        (Literal("many", "integer"), Literal("many", "integer"), True, True),
    ],
)
def test_literals_are_compared_by_value_or_as_published(
    gold: Term, given: Term, strict: bool, agentbench: bool
) -> None:
    assert grade([gold], [given]).correct is strict
    assert grade([gold], [given], mode="agentbench").correct is agentbench


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("m.0_k3", "m.0_k3"),
        ("g.11b", "g.11b"),
        ("-12", whole("-12")),
        ("3.50", Literal("3.50", "decimal")),
        ("1990-05-01", Literal("1990-05-01", "date")),
        ("1990-05", Literal("1990-05", "gYearMonth")),
        ("1990-05-01T10:00:00Z", Literal("1990-05-01T10:00:00Z", "dateTime")),
        ("U.S.", Literal("U.S.")),
    ],
)
def test_answer_known_as_text_gets_its_type(text: str, term: Term) -> None:
    assert plain(text) == term


@pytest.mark.parametrize(
    "term", ["m.1", "a.b.c", whole("3"), Literal('a\tb\n"\\ü\u2028😀'), Literal("Oslo", lang="nb-NO"), Literal("")]
)
def test_term_is_read_back(term: Term) -> None:
    assert read_object(write_object(term)) == term
    assert not set("\t\n\r") & set(write_object(term))

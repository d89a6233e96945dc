"""The written verdict for each kind of answer. Covers B019."""

from __future__ import annotations

import pytest

from envhub.envs.os.matching import MAX_SPREAD, check_gold, matches
from envhub.envs.os.tasks import ANSWER_KINDS

LINES = "\n".join(f"line {n}" for n in range(10))

RIGHT = [
    ("integer", "5", "5"),
    ("integer", "5\n", " 5 \r\n"),
    ("integer", "5", "5.0"),
    ("integer", "5", "05"),
    ("integer", "-5", "-5"),
    ("number", "0.5", "0.50"),
    ("number", "3.0", "3"),
    ("string", "Bob", "Bob"),
    ("string", "Bob\n", "\r\nBob  "),
    ("string", "a\nb", "a  \r\nb\r\n"),
    ("string", "None", "None"),
    ("size", "5120", "5KB"),
    ("size", "5120", "5 KB"),
    ("size", "5K", "5120"),
    ("size", "10KB", "10KB"),
    ("size", "10KB", "10240 bytes"),
    ("size", "1572864", "1.5M"),
    ("size", "1.5M", "1.5 MiB"),
    ("size", "3b", "3 Byte"),
    ("items", "a b\nc", "c, b, a"),
    ("items", "a a b", "a,b,a"),
    ("containing", "42", "It is 42."),
    ("containing", "/etc/hosts", "the file /etc/hosts"),
    ("in", "a.txt\nb c.txt", "b c.txt"),
    ("in", "red green", "green"),
    ("regex", "[a-c]+", "abc"),
]
WRONG = [
    ("integer", "5", "None"),
    ("integer", "5", "6"),
    ("integer", "5", "+5"),
    ("integer", "5", "５"),
    ("integer", "5", "5 files"),
    ("integer", "5", "5KB"),
    ("integer", "5", "5.5"),
    ("integer", "5", LINES.replace("line 5", "5")),
    ("integer", "5", "5" + "0" * 100_000),
    ("number", "0.5", "1/2"),
    ("number", "0.5", "50%"),
    ("number", "0.5", "5e-1"),
    ("number", "0.5", "NaN"),
    ("string", "Bob", "bob"),
    ("string", "Bob", "B"),
    ("string", "Bob", "'Bob'"),
    ("string", "Bob", f"{LINES}\nBob"),
    ("size", "5120", "5KBps"),
    ("size", "5120", "five KB"),
    ("size", "5120", "5"),
    ("size", "5120", "-5KB"),
    ("items", "a b", "a"),
    ("items", "a b", "a b b"),
    ("items", "a b", "a b c"),
    ("containing", "42", "142"),
    ("containing", "42", "42.5"),
    ("containing", "42", "-42"),
    ("containing", "42", " ".join(map(str, range(100)))),
    ("in", "a.txt", "a"),
    ("in", "red green", "r"),
    ("in", "red green", "red green blue"),
    ("regex", "[a-c]+", "xabc"),
    ("regex", "a|b", "ab"),
]
GOLD = {"integer": "5", "number": "5.5", "size": "5K", "regex": "x*"}


@pytest.mark.parametrize(("kind", "gold", "answer"), RIGHT)
def test_right_answers_pass(kind, gold, answer):
    assert matches(kind, gold, answer)


@pytest.mark.parametrize(("kind", "gold", "answer"), WRONG)
def test_wrong_answers_fail(kind, gold, answer):
    assert not matches(kind, gold, answer)


@pytest.mark.parametrize("kind", ANSWER_KINDS)
@pytest.mark.parametrize("blank", ["", " ", "\n", "\r\n\t "])
def test_a_blank_answer_never_passes(kind, blank):
    assert not matches(kind, GOLD.get(kind, "x"), blank)


@pytest.mark.parametrize("kind", ANSWER_KINDS)
@pytest.mark.parametrize(
    "answer", ["x" * 20_000, "\x00", "漢字", "[__import__('os').system('touch /tmp/pwn')]", "\u202e5"]
)
def test_odd_answers_get_a_verdict(kind, answer):
    assert matches(kind, GOLD.get(kind, "y"), answer) in (False, kind == "regex" and answer == "x" * 20_000)


@pytest.mark.parametrize("kind", ANSWER_KINDS)
def test_a_blank_gold_is_refused(kind):
    with pytest.raises(ValueError, match="blank"):
        matches(kind, " \n", "5")


@pytest.mark.parametrize(
    ("kind", "gold"),
    [
        ("integer", "5 ./file"),
        ("integer", LINES),
        ("integer", "5.5"),
        ("number", "n/a"),
        ("size", "big"),
        ("regex", "("),
    ],
)
def test_a_gold_of_another_kind_is_refused(kind, gold):
    with pytest.raises(ValueError, match=f"not of kind {kind}"):
        check_gold(kind, gold)


def test_an_answer_must_not_list_everything():
    gold = "x" * 100
    assert matches("containing", gold, gold + " " + "y" * (100 * MAX_SPREAD - 101))
    assert not matches("containing", gold, gold + " " + "y" * (100 * MAX_SPREAD))

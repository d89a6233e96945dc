"""The analyser: Lucene's recorded answers, and each rule on its own."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub.envs.webshop import analyser
from envhub.envs.webshop.analyser import MAX_WORD, STOP_WORDS, terms, words
from tests.webshop.published_data import read


def test_terms_are_those_lucene_recorded() -> None:
    recorded = read("golden_analyzer.json.gz")
    assert len(recorded) == 66
    assert [text for text, expected in recorded if terms(text) != expected] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T-Shirt, size:XL u.s.a. can't", ["t", "shirt", "size:xl", "u.s.a", "can't"]),
        ("1,000.50 3;4 a,b 1.a 5'10\"", ["1,000.50", "3;4", "a", "b", "1", "a", "5'10"]),
        ("a_b __x__ ___ _1", ["a_b", "__x__", "_1"]),
        ("$5 50% #1 a+b", ["5", "50", "1", "a", "b"]),
        ("日本 ひら カタカナ 한국어 ไทย", ["日", "本", "ひ", "ら", "カタカナ", "한국어", "ไทย"]),
        ("👨‍👩‍👧 👍🏽👍 🇺🇸🇬🇧 1️⃣ ™", ["👨‍👩‍👧", "👍🏽", "👍", "🇺🇸", "🇬🇧", "1️⃣", "™"]),
        ("צה\"ל ג' שלום", ['צה"ל', "ג'", "שלום"]),
        ("ÜBER İ ΣΑΣ", ["über", "i", "σασ"]),
        ("don’t x\u0301y", ["don’t", "x\u0301y"]),
        ("", []),
        (" .,'\n", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_possessive_goes_before_stop_words_and_stems() -> None:
    assert terms("women's womens it's dogs' THE boss’s") == ["women", "women", "dog", "boss"]


def test_stop_words_are_lucenes_33() -> None:
    assert len(STOP_WORDS) == 33
    assert terms(" ".join(STOP_WORDS)) == []


@given(st.text(alphabet="aZes1_:.,;' -\"#*\t", max_size=40))
def test_ascii_path_is_the_general_one(text: str) -> None:
    general = [match[1] for match in analyser._unicode_word().finditer(text.lower()) if match[1]]
    assert words(text) == general


@given(st.text(max_size=40))
def test_any_text_is_cut_into_parts_of_it(text: str) -> None:
    assert all(word and word in analyser._lower(text) for word in words(text))


@pytest.mark.parametrize("letter", ["a", "é"])
def test_long_words_are_cut(letter: str) -> None:
    found = words(f"x {letter * (2 * MAX_WORD + 9)} y")
    assert [len(word) for word in found] == [1, MAX_WORD, MAX_WORD, 9, 1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["_", "a_", "a.", "1,", "_é", "\u200d", "👍\u200d", "#", "'", "é'", "\u0301"])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    words(unit * (100_000 // len(unit)) + "!")
    words("é" + unit * (100_000 // len(unit)) + "!")


def test_ascii_text_does_without_the_regex_package(monkeypatch: pytest.MonkeyPatch) -> None:
    analyser._unicode_word.cache_clear()
    monkeypatch.setitem(sys.modules, "regex", None)
    assert terms("plain words") == ["plain", "word"]
    with pytest.raises(ImportError):
        terms("é")

"""Fuzzy equality decides as the published reward does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envhub.envs.webshop.fuzzy import similar, token_set_ratio
from tests.webshop.published_data import read

WORDS = st.lists(
    st.sampled_from(["ounce", "12", "240", "(pack", "of", "1)", "x-large", "large", "blue", "é", "_a", "ab"])
)
PHRASES = st.one_of(WORDS.map(" ".join), st.text(max_size=30))


def test_scores_and_decisions_of_the_published_pairs() -> None:
    pairs = read("golden_token_set_ratio.json.gz")
    assert len(pairs) == 3455
    assert [pair for pair in pairs if token_set_ratio(pair[0], pair[1]) != pair[2]] == []
    assert [pair for pair in pairs if similar(pair[0], pair[1]) != (pair[2] > 85)] == []


@given(PHRASES, PHRASES)
@example("10 ounce (pack of 12)", "240 ounce (pack of 1)")
@example("cba2ba21ba", "cba21ba21ba")
@example("a" * 150 + " b", "a" * 149 + " b")
def test_short_cut_never_changes_a_decision(a: str, b: str) -> None:
    assert similar(a, b) == (token_set_ratio(a, b) > 85)


def test_a_pair_is_compared_by_its_text() -> None:
    assert token_set_ratio(("color", "red"), "red") == 100
    assert similar("red", ("color", "red"))


@pytest.mark.parametrize("empty", ["", "---", "  ", "é"])
def test_text_without_words_is_similar_to_nothing(empty: str) -> None:
    assert token_set_ratio(empty, empty) == 0
    assert not similar(empty, empty)
    assert not similar(empty, "blue")


def test_common_words_are_enough() -> None:
    assert token_set_ratio("blue", "navy blue cotton") == 100
    assert similar("Machine-Wash", "machine wash")
    assert not similar("small", "x-tall")

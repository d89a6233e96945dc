"""Spaces of text: what they contain, what they sample, and that they survive copying."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from envhub.gym.spaces import MAX_CHARS, Choice, Unicode, action_space, observation_space

ALL = [
    pytest.param(lambda: Unicode(), id="Unicode"),
    pytest.param(lambda: Unicode(7), id="Unicode(7)"),
    pytest.param(lambda: Choice(("a", "b", "c")), id="Choice"),
    pytest.param(action_space, id="action"),
    pytest.param(observation_space, id="observation"),
    pytest.param(lambda: batch_space(action_space(), 3), id="batched action"),
]

ODD_TEXTS = ["", "数据库 查询", "a\nb\r\n\t", "nul\x00nul", "\ud800 lone", "👩‍💻", "x" * 2**20, "\u202eright to left"]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: ascii(text[:8]))
def test_any_text_is_contained(text: str) -> None:
    assert text in Unicode()
    action: Any = {"content": text, "tool_calls": ({"name": text, "arguments": text},)}
    assert action in action_space()


def test_a_text_longer_than_the_limit_is_not_contained() -> None:
    assert "abc" in Unicode(3)
    assert "abcd" not in Unicode(3)
    assert "数据库" in Unicode(3)
    assert "" in Unicode(0)
    assert Unicode().max_length == MAX_CHARS


@pytest.mark.parametrize("value", [None, 3, b"abc", ["a"], 1.5])
def test_what_is_not_text_is_not_contained(value: object) -> None:
    assert value not in Unicode()
    assert value not in Choice(("a",))


@pytest.mark.parametrize("make", ALL)
def test_samples_are_contained_and_follow_the_seed(make: Callable[[], Space[Any]]) -> None:
    one, two, other = make(), make(), make()
    one.seed(7)
    two.seed(7)
    other.seed(8)
    drawn = [one.sample() for _ in range(50)]
    assert all(each in one for each in drawn)
    assert drawn == [two.sample() for _ in range(50)]
    assert drawn != [other.sample() for _ in range(50)]


def test_samples_reach_empty_long_and_many_scripts() -> None:
    space = Unicode(seed=1)
    drawn = [space.sample() for _ in range(500)]
    assert "" in drawn
    assert max(map(len, drawn)) > 20
    assert any("\n" in text for text in drawn)
    assert any("中" in text for text in drawn)
    assert all(text.encode() is not None for text in drawn)


@pytest.mark.parametrize("make", ALL)
def test_copies_are_equal_and_sample_alike(make: Callable[[], Space[Any]]) -> None:
    space = make()
    space.seed(3)
    for copied in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert copied == space
        assert copied.sample() == copy.deepcopy(space).sample()


def test_equality_is_that_of_the_contained_values() -> None:
    assert Unicode(3) == Unicode(3, seed=1) != Unicode(4)
    assert Unicode(3) != spaces.Text(3)
    assert Choice("ab") == Choice(("a", "b")) != Choice(("a", "c"))
    assert action_space() == action_space() != action_space(10)
    assert observation_space() == observation_space() != observation_space(10)


def test_repr_names_the_parameters() -> None:
    assert repr(Unicode(5)) == "Unicode(5)"
    assert repr(Choice(("a", "b"))) == "Choice('a', 'b')"
    assert "Unicode(9)" in repr(action_space(9))


@pytest.mark.parametrize("make", ALL)
def test_samples_survive_json(make: Callable[[], Space[Any]]) -> None:
    space = make()
    space.seed(5)
    drawn = [space.sample() for _ in range(5)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(drawn)))) == drawn


@given(st.text(st.characters(), max_size=30), st.integers(0, 40))
def test_membership_is_length_alone(text: str, limit: int) -> None:
    assert (text in Unicode(limit)) == (len(text) <= limit)


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="max_length"):
        Unicode(-1)
    with pytest.raises(ValueError, match="words"):
        Choice(())
    with pytest.raises(ValueError, match="distinct"):
        Choice(("a", "a"))
    with pytest.raises(ValueError, match="mask"):
        Unicode().sample(mask=1)  # type: ignore[arg-type]

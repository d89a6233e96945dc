"""The choice of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.controller.placement import choose


@dataclass(frozen=True)
class Candidate:
    id: str
    capacity: int
    free: int


def chosen(*candidates: Candidate) -> str | None:
    found = choose(candidates)
    return found.id if found else None


def test_nobody_is_chosen_when_nobody_has_room() -> None:
    assert chosen() is None
    assert chosen(Candidate("a", 4, 0), Candidate("b", 1, -1)) is None


def test_the_largest_share_wins_then_the_most_slots_then_the_smallest_id() -> None:
    assert chosen(Candidate("a", 100, 40), Candidate("b", 2, 1)) == "b"
    assert chosen(Candidate("a", 10, 5), Candidate("b", 20, 10)) == "b"
    assert chosen(Candidate("b", 10, 5), Candidate("a", 10, 5)) == "a"
    assert chosen(Candidate("ab", 10, 5), Candidate("a", 10, 5)) == "a"


candidates = st.lists(
    st.builds(Candidate, st.text("abc", min_size=1, max_size=3), st.integers(1, 8), st.integers(-1, 8)),
    max_size=6,
    unique_by=lambda each: each.id,
)


@given(candidates)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_choice_does_not_depend_on_the_order(given_candidates: list[Candidate]) -> None:
    turned = list(reversed(given_candidates))
    assert choose(given_candidates) == choose(turned)
    found = choose(given_candidates)
    assert (found is None) == all(each.free <= 0 for each in given_candidates)
    assert found is None or found.free > 0

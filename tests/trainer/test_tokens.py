"""The token track: lengths, masks and versions stay together whatever an episode does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.makers import TASK, completion, played
from trainer_adapter.queue import Ticket
from trainer_adapter.tokens import NOBODY, Completion, Failure, FailureKind, FinishReason, TokenTrack, Trajectory

ids = st.lists(st.integers(0, 200_000), max_size=40)
turns = st.lists(st.tuples(st.booleans(), ids), max_size=12)


@given(turns)
def test_every_trained_token_is_a_sampled_one_in_its_place_b010(episode: list[tuple[bool, list[int]]]) -> None:
    track = TokenTrack()
    sampled: list[int] = []
    for turn, (acts, tokens) in enumerate(episode):
        if acts:
            track.act(completion(*tokens, engine=turn % 3, version=turn))
            sampled += tokens
        else:
            track.observe(tokens)
    sequence = track.sequence()
    lengths = {len(getattr(sequence, name)) for name in ("ids", "mask", "logprobs", "engines", "versions")}
    assert lengths == {len(track)}
    assert [token for token, trained in zip(sequence.ids, sequence.mask, strict=True) if trained] == sampled
    assert sequence.n_actions == len(sampled)
    for trained, logprob, engine in zip(sequence.mask, sequence.logprobs, sequence.engines, strict=True):
        assert (logprob, engine) == (0.0, NOBODY) if not trained else math.isfinite(logprob) and engine != NOBODY
    assert [list(sequence.ids[a:b]) for a, b in sequence.action_ranges] == [
        list(run) for run in _runs(sequence.ids, sequence.mask)
    ]


def _runs(tokens: tuple[int, ...], mask: tuple[int, ...]) -> list[list[int]]:
    runs: list[list[int]] = []
    before = 0
    for token, trained in zip(tokens, mask, strict=True):
        if trained and not before:
            runs.append([])
        if trained:
            runs[-1].append(token)
        before = trained
    return runs


def test_a_trajectory_keeps_the_version_of_every_step_b016() -> None:
    trajectory = played(Ticket("g", 0, TASK), versions=(237, 230, 237, 230, 237), engines=(0, 1, 0, 1, 0))
    (sequence,) = trajectory.sequences
    assert sequence.sampled_versions() == (237, 237, 230, 230, 237, 237, 230, 230, 237, 237)
    assert trajectory.oldest_version == 230
    assert trajectory.oldest_of(frozenset({0})) == 237
    assert trajectory.oldest_of(frozenset({7})) is None


@pytest.mark.parametrize(
    ("tokens", "logprobs"), [((1, 2), (-0.5,)), ((1,), (math.nan,)), ((1,), (-math.inf,)), ((), (-1.0,))]
)
def test_a_completion_without_a_finite_log_prob_for_each_token_is_refused(
    tokens: tuple[int, ...], logprobs: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError):
        Completion(tokens, logprobs, "", FinishReason.STOP, 0, 0)


def test_a_trajectory_has_a_reward_or_a_failure_b015() -> None:
    failure = Failure(FailureKind.INFRASTRUCTURE, "session_lost", "gone")
    for reward, problem in ((None, None), (0.0, failure)):
        with pytest.raises(ValueError):
            Trajectory("g", 0, TASK, reward=reward, failure=problem)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            Trajectory("g", 0, TASK, reward=bad)

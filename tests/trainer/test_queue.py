"""The trajectory queue: batches, staleness, failures, and an account that always adds up."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.core.types import TaskRef
from tests.trainer.makers import TASK, failed, played
from trainer_adapter.queue import (
    Batch,
    DropReason,
    InfrastructureDownError,
    NothingToTrainError,
    OnFailure,
    QueueSettings,
    Ticket,
    TrajectoryQueue,
)
from trainer_adapter.tokens import FailureKind


def queue(**changes: Any) -> TrajectoryQueue:
    plain = {"group_size": 2, "b_min": 2, "b_max": 4, "max_staleness": 1}
    return TrajectoryQueue(QueueSettings(**(plain | changes)))


def finish(made: TrajectoryQueue, tickets: tuple[Ticket, ...], *, version: int | None = None) -> None:
    for ticket in tickets:
        made.put(played(ticket, float(ticket.member), versions=(made.version if version is None else version,)))


def drained(made: TrajectoryQueue) -> Batch:
    batch = made.drain()
    assert batch is not None
    return batch


def test_a_batch_starts_at_b_min_and_takes_everything_up_to_b_max() -> None:
    made = queue(max_staleness=4)
    groups = [made.admit(TASK) for _ in range(7)]
    finish(made, groups[3])
    assert made.drain() is None
    finish(made, groups[0])
    assert [group.id for group in drained(made).groups] == ["g0", "g3"]
    for tickets in (*groups[1:3], *groups[4:]):
        finish(made, tickets)
    assert [group.id for group in drained(made).groups] == ["g1", "g2", "g4", "g5"]
    assert made.drain() is None and made.n_ready == 1
    assert [group.id for group in made.drain(last=True).groups] == ["g6"]  # type: ignore[union-attr]
    assert made.account().balanced and made.account().trained == 14


def test_a_group_leaves_whole_and_in_the_order_of_its_members() -> None:
    made = queue(b_min=1)
    first, second = made.admit(TASK)
    made.put(played(second, 0.25))
    assert made.drain() is None
    made.put(played(first, 0.75))
    assert [each.reward for each in drained(made).groups[0].trajectories] == [0.75, 0.25]


def test_back_pressure_holds_admission_until_a_batch_is_taken() -> None:
    made = queue()
    groups = []
    while made.may_admit:
        groups.append(made.admit(TASK))
    assert len(groups) == made.settings.window == 4
    with pytest.raises(RuntimeError, match="window"):
        made.admit(TASK)
    for tickets in groups:
        finish(made, tickets)
    assert not made.may_admit
    drained(made)
    assert made.may_admit


def test_what_is_too_stale_is_dropped_at_the_drain_and_counted() -> None:
    made = queue(b_min=1)
    old, new = made.admit(TASK), made.admit(TASK)
    finish(made, old, version=0)
    made.advance(2)
    finish(made, new, version=1)
    batch = drained(made)
    assert [group.id for group in batch.groups] == ["g1"] and batch.staleness == (1,)
    assert made.account().dropped == {DropReason.STALE: 2} and made.account().balanced


def test_staleness_may_be_counted_on_fresh_engines_only() -> None:
    made = queue(b_min=1, fresh_engines=frozenset({0}), max_staleness=0)
    tickets = made.admit(TASK)
    made.version = 9
    for ticket in tickets:
        made.put(played(ticket, float(ticket.member), versions=(9, 3), engines=(0, 1)))
    assert drained(made).staleness == (0,)


def test_a_group_that_can_no_longer_be_trained_is_given_up_and_named() -> None:
    made = queue(max_staleness=1)
    first, second = made.admit(TASK)
    made.put(played(first, versions=(0,)))
    assert made.advance(1) == () and made.advance(2) == ("g0",)
    made.put(played(second, versions=(2,)))  # comes too late and is ignored
    assert made.account().dropped == {DropReason.STALE: 2} and made.account().balanced
    with pytest.raises(ValueError, match="before"):
        made.advance(1)


def test_a_group_whose_member_under_way_is_too_old_is_given_up() -> None:
    made = queue(max_staleness=1, fresh_engines=frozenset({0}), n_retries=1)
    first, second = made.admit(TASK)
    made.sampled(first, engine=1, version=0)
    made.sampled(second, engine=0, version=1)
    made.sampled(second, engine=0, version=2)
    assert made.advance(2) == ()
    made.put(failed(second))
    assert made.advance(3) == ()
    made.sampled(second, engine=0, version=1)  # of the attempt that failed
    again = made.retries.popleft()
    made.sampled(again, engine=0, version=3)
    assert made.advance(4) == () and made.advance(5) == ("g0",)
    assert made.account().dropped == {DropReason.STALE: 2}


def test_a_member_that_comes_back_too_old_ends_its_group_at_once() -> None:
    made = queue(max_staleness=1)
    first, _ = made.admit(TASK)
    made.advance(2)
    made.put(played(first, versions=(0,)))
    assert not made.is_open("g0") and made.account().dropped == {DropReason.STALE: 2}


def test_a_group_whose_tokens_do_not_count_is_as_old_as_its_admission() -> None:
    made = queue(b_min=1, fresh_engines=frozenset({0}), max_staleness=1)
    for version in (1, 2):
        tickets = made.admit(TASK)
        made.advance(made.version + version)
        for ticket in tickets:
            made.put(played(ticket, float(ticket.member), versions=(0,), engines=(1,)))
        if version == 1:
            assert drained(made).staleness == (1,)
    assert made.drain() is None and made.account().dropped == {DropReason.STALE: 2}


def test_a_failure_is_played_again_within_the_budget_b055() -> None:
    made = queue(b_min=1, n_retries=1, on_failure=OnFailure.RETRY)
    first, second = made.admit(TASK)
    made.put(played(first))
    made.put(failed(second))
    again = made.retries.popleft()
    assert (again.member, again.attempt) == (1, 1) and made.drain() is None
    made.put(played(again, 0.0))
    assert len(drained(made).groups[0].trajectories) == 2
    made.put(failed(made.admit(TASK)[0]))
    made.put(failed(made.retries.popleft()))
    assert made.account().dropped == {DropReason.FAILED: 2} and not made.retries and made.account().balanced


@pytest.mark.parametrize(("n_failed", "left"), [(1, 7), (6, 2), (7, 0), (8, 0)])
def test_survivors_go_on_without_the_lost_b055(n_failed: int, left: int) -> None:
    made = queue(group_size=8, b_min=1, n_retries=0, on_failure=OnFailure.SURVIVORS, max_failure_rate=1.0)
    for ticket in made.admit(TASK):
        made.put(failed(ticket) if ticket.member < n_failed else played(ticket, float(ticket.member)))
    batch = made.drain()
    assert (batch.n_trajectories if batch else 0) == left
    assert made.account().dropped == {DropReason.FAILED: 8 - left} and made.account().balanced


def test_a_run_that_fails_too_often_stops_with_the_reason_b015() -> None:
    made = queue(failure_window=10, max_failure_rate=0.5, n_retries=100)
    tickets = list(made.admit(TASK))
    with pytest.raises(InfrastructureDownError, match=r"session_lost x\d+") as caught:
        for _ in range(11):
            made.put(failed(tickets[0]))
    assert caught.value.failures[-1].code == "session_lost"
    with pytest.raises(InfrastructureDownError):
        fast = queue(on_failure=OnFailure.FAIL_FAST)
        fast.put(failed(fast.admit(TASK)[0]))


def test_a_cancelled_trajectory_takes_its_group_along_and_is_no_failure() -> None:
    made = queue(failure_window=1, max_failure_rate=0.1)
    made.put(failed(made.admit(TASK)[0], FailureKind.CANCELLED, "cancelled"))
    assert made.account().dropped == {DropReason.CANCELLED: 2} and made.n_open == 0


def test_a_trajectory_without_a_sampled_token_is_dropped_at_once_and_counts_as_no_failure_b008() -> None:
    made = queue(b_min=1, n_retries=5, failure_window=1, max_failure_rate=0.1)
    made.put(played(made.admit(TASK)[0], versions=()))
    assert made.account().dropped == {DropReason.UNTRAINABLE: 2} and not made.retries
    left = queue(b_min=1, n_retries=5, min_group=1, on_failure=OnFailure.SURVIVORS)
    first, second = left.admit(TASK)
    left.put(failed(first, FailureKind.UNTRAINABLE, "template_rewrites"))
    left.put(played(second))
    assert drained(left).n_trajectories == 1 and left.account().balanced


def test_flat_groups_are_filtered_when_asked_b014() -> None:
    made = queue(b_min=1, filter_flat=True)
    for ticket in made.admit(TASK):
        made.put(played(ticket, 1.0))
    assert made.drain() is None and made.account().dropped == {DropReason.FLAT: 2}


@pytest.mark.parametrize("on_failure", [OnFailure.RETRY, OnFailure.SURVIVORS])
def test_a_run_that_gets_nothing_to_train_from_an_environment_stops_with_the_reason_b015(on_failure: OnFailure) -> None:
    made = queue(b_min=1, max_staleness=9, max_lost_groups=3, on_failure=on_failure, min_group=2)

    def lose() -> None:
        for ticket in made.admit(TaskRef("kg", "train", 0)):
            made.put(failed(ticket, FailureKind.UNTRAINABLE, "template_rewrites"))

    lose()
    lose()
    finish(made, made.admit(TaskRef("kg", "train", 1)))
    lose()
    lose()
    finish(made, made.admit(TASK))  # another environment's
    with pytest.raises(NothingToTrainError, match=r"last 3 groups of kg were lost; last: template_rewrites"):
        lose()
    assert made.account().dropped == {DropReason.UNTRAINABLE: 10} and made.account().balanced


def test_a_run_whose_groups_are_all_flat_stops_with_the_reason() -> None:
    made = queue(b_min=1, max_staleness=9, filter_flat=True, max_lost_groups=2)

    def flat() -> None:
        for ticket in made.admit(TASK):
            made.put(played(ticket, 1.0))

    flat()
    finish(made, made.admit(TASK))
    flat()
    with pytest.raises(NothingToTrainError, match="last 2 groups all rewards were equal"):
        flat()
    assert made.account().balanced


def test_a_run_whose_groups_all_come_back_too_old_stops_with_the_reason() -> None:
    made = queue(b_min=1, max_staleness=1, max_lost_groups=3)
    made.advance(5)

    def play(version: int) -> None:
        for ticket in made.admit(TASK):
            made.put(played(ticket, float(ticket.member), versions=(version,)))

    play(3)
    play(3)
    play(5)
    assert drained(made).staleness == (0,)
    play(3)
    play(3)
    with pytest.raises(NothingToTrainError, match="last 3 groups came back too old"):
        play(3)
    assert made.account().balanced


def test_what_survivors_lost_is_counted_by_its_reason() -> None:
    made = queue(group_size=4, b_min=1, n_retries=0, on_failure=OnFailure.SURVIVORS, max_failure_rate=1.0)
    kinds = {0: FailureKind.UNTRAINABLE, 1: FailureKind.INFRASTRUCTURE}
    for ticket in made.admit(TASK):
        kind = kinds.get(ticket.member)
        made.put(played(ticket, float(ticket.member)) if kind is None else failed(ticket, kind))
    assert made.account().dropped == {DropReason.UNTRAINABLE: 1, DropReason.FAILED: 1} and made.account().balanced


def test_what_is_unfinished_is_told_oldest_first() -> None:
    made = queue(b_min=2, max_staleness=4)
    groups = [made.admit(TaskRef("db", "train", index)) for index in range(3)]
    finish(made, groups[1])
    assert [task.index for task in made.unfinished()] == [0, 1, 2]


def test_batches_are_multiples_and_the_rest_waits() -> None:
    made = queue(group_size=3, b_min=2, b_max=8, multiple=6, max_staleness=9)
    groups = [made.admit(TASK) for _ in range(5)]
    for tickets in groups:
        finish(made, tickets)
    assert drained(made).n_trajectories == 12 and made.n_ready == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"b_min": 3, "b_max": 2},
        {"b_min": 0},
        {"group_size": 0},
        {"min_group": 3},
        {"max_staleness": -1},
        {"max_failure_rate": 0.0},
        {"group_size": 3, "multiple": 64},
        {"max_lost_groups": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        queue(**wrong)


def test_a_member_nobody_waits_for_is_refused() -> None:
    made = queue()
    ticket = made.admit(TASK)[0]
    made.put(played(ticket))
    with pytest.raises(ValueError, match="does not wait"):
        made.put(played(ticket))


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from([OnFailure.RETRY, OnFailure.SURVIVORS]), st.booleans())
def test_nothing_is_lost_whatever_happens(rng: random.Random, on_failure: OnFailure, filter_flat: bool) -> None:
    group_size, multiple = rng.randint(1, 4), rng.choice([1, 1, 2, 4])
    b_min = rng.choice([4, 8]) if multiple > 1 else rng.randint(1, 4)
    made = TrajectoryQueue(
        QueueSettings(
            group_size=group_size,
            b_min=b_min,
            b_max=b_min + rng.randint(0, 4),
            multiple=multiple,
            max_staleness=rng.randint(0, 3),
            on_failure=on_failure,
            n_retries=rng.randint(0, 2),
            min_group=1,
            filter_flat=filter_flat,
            max_failure_rate=1.0,
        )
    )
    live: list[Ticket] = []
    seen: set[tuple[str, int]] = set()
    for _ in range(120):
        if made.may_admit and rng.random() < 0.5:
            live += made.admit(TASK)
        while made.retries:
            live.append(made.retries.popleft())
        rng.shuffle(live)
        if live and rng.random() < 0.8:
            ticket = live.pop()
            outcome = rng.random()
            if outcome < 0.15:
                made.put(failed(ticket))
            elif outcome < 0.2:
                made.put(failed(ticket, FailureKind.CANCELLED))
            else:
                version = rng.randint(max(0, made.version - 3), made.version)
                made.put(played(ticket, float(rng.randint(0, 1)), versions=(version,)))
        last = rng.random() < 0.1
        stalled = not made.n_open and not made.may_admit
        if rng.random() < 0.3 and (batch := made.drain(last=last)) is not None:
            members = {(group.id, each.member) for group in batch.groups for each in group.trajectories}
            assert len(members) == batch.n_trajectories and not members & seen
            assert not batch.n_trajectories % multiple or last or stalled
            assert len(batch.groups) <= made.settings.b_max
            assert len(batch.groups) >= made.settings.b_min or last or stalled
            assert max(batch.staleness) <= made.settings.max_staleness
            seen |= members
            made.advance(made.version + 1)
        assert made.account().balanced, made.account()
        assert made.n_open + made.n_ready <= made.settings.window
    assert made.account().trained == len(seen)


def test_survivors_that_make_no_multiple_are_handed_out_rather_than_waited_for() -> None:
    """Two groups of 7 are all that the window holds; no choice of them is a multiple of 16."""
    made = queue(
        group_size=8, b_min=2, b_max=2, multiple=16, max_staleness=0, n_retries=0, on_failure=OnFailure.SURVIVORS
    )
    for _ in range(2):
        for ticket in made.admit(TASK):
            made.put(played(ticket) if ticket.member else failed(ticket))
    assert not made.may_admit
    assert drained(made).n_trajectories == 14 and made.account().balanced


def test_what_is_left_at_the_end_is_handed_out_though_it_is_no_multiple() -> None:
    made = queue(group_size=3, b_min=2, b_max=4, multiple=6, max_staleness=9)
    for _ in range(3):
        finish(made, made.admit(TASK))
    assert drained(made).n_trajectories == 6 and made.drain() is None
    left = made.drain(last=True)
    assert left is not None and left.n_trajectories == 3 and made.account().trained == 9


def test_giving_everything_up_leaves_nothing_uncounted() -> None:
    made = queue()
    finish(made, made.admit(TASK))
    made.put(played(made.admit(TASK)[0]))
    made.cancel()
    account = made.account()
    assert account.dropped == {DropReason.CANCELLED: 4} and account.balanced and not (account.live or account.ready)
    made.cancel()
    assert made.account() == account


def test_failures_are_counted_by_environment_and_code_b015() -> None:
    made = queue(n_retries=9, max_failure_rate=1.0)
    db, os_task = made.admit(TASK), made.admit(TaskRef("os", "train", 1))
    made.put(failed(os_task[0]))
    made.put(failed(os_task[0], code="sandbox_lost"))
    made.put(failed(db[0], FailureKind.UNTRAINABLE, "template_rewrites"))
    made.put(failed(db[1], FailureKind.CANCELLED, "cancelled"))
    made.put(failed(db[1]))  # its group is gone
    found = {
        ("os", "session_lost"): 1,
        ("os", "sandbox_lost"): 1,
        ("db", "template_rewrites"): 1,
        ("db", "session_lost"): 1,
    }
    assert made.failures == found
    assert made.failure_rates() == {"db": 0.0, "os": 1.0}


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_queue_whose_trajectories_all_come_back_never_stands_still(rng: random.Random) -> None:
    group_size, b_min = rng.randint(1, 4), rng.choice([1, 2, 4])
    made = TrajectoryQueue(
        QueueSettings(
            group_size=group_size,
            b_min=b_min,
            b_max=b_min + rng.randint(0, 4),
            multiple=rng.choice([n for n in (1, 2, 4, 8, 16) if not b_min * group_size % n]),
            max_staleness=rng.randint(0, 2),
            on_failure=OnFailure.SURVIVORS,
            n_retries=0,
            min_group=1,
            max_failure_rate=1.0,
        )
    )
    steps = 0
    for _ in range(200):
        if made.may_admit:
            for ticket in made.admit(TASK):
                made.put(played(ticket, versions=(made.version,)) if rng.random() < 0.8 else failed(ticket))
        elif made.drain() is None:
            assert not made.n_ready, "a full window of complete groups was not handed out"
        else:
            steps += 1
            made.advance(made.version + 1)
    assert steps > 10

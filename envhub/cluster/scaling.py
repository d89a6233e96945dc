"""How many workers an environment should have. Pure: what it sees is what it is given.

Invariants: there are never more than ``max`` workers, of any state; below ``min`` that serve, workers are added as far as there is
room; a worker is stopped only when it drains and holds nothing; load that comes and goes within the stated times changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SPARE_SHARE = 0.7
"""Workers are taken away only as far as the rest would be filled to this share: far enough from a queue not to swing."""


class State(StrEnum):
    """``placing``: not linked yet; ``away``: its link is broken just now; ``draining``: takes no new sessions."""

    PLACING = "placing"
    READY = "ready"
    AWAY = "away"
    DRAINING = "draining"
    LEAVING = "leaving"


_SERVING = frozenset({State.PLACING, State.READY, State.AWAY})


@dataclass(frozen=True, slots=True)
class Limits:
    """``capacity``: sessions of one worker; the times are in seconds."""

    min: int
    max: int
    capacity: int
    grow_after_s: float
    shrink_after_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """One worker; ``taken``: its live sessions and those that are being started."""

    id: str
    state: State
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Trend:
    """What lasts: since when starts wait, since when there are workers to spare, and the most that were needed since then."""

    waiting_since: float | None = None
    spare_since: float | None = None
    most_needed: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Workers to add, to drain and to stop."""

    n_add: int = 0
    drain: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()


def decide(
    limits: Limits, workers: Sequence[Load], trend: Trend, *, n_waiting: int, now: float
) -> tuple[Decision, Trend]:
    """What to do now, and what to remember until the next call."""
    serving = [each for each in workers if each.state in _SERVING]
    stop = tuple(each.id for each in workers if each.state is State.DRAINING and each.taken == 0)
    waiting_since = None if n_waiting == 0 else (now if trend.waiting_since is None else trend.waiting_since)
    wanted = max(limits.min - len(serving), 0)
    if waiting_since is not None and now - waiting_since >= limits.grow_after_s:
        n_placing = sum(each.state is State.PLACING for each in serving)
        wanted = max(wanted, math.ceil(n_waiting / limits.capacity) - n_placing)
    n_add = min(wanted, max(limits.max - len(workers), 0))
    drain, spare = _spare(limits, serving, trend, n_waiting=n_waiting, now=now)
    return Decision(n_add, drain, stop), Trend(waiting_since, spare.spare_since, spare.most_needed)


def _spare(
    limits: Limits, serving: Sequence[Load], trend: Trend, *, n_waiting: int, now: float
) -> tuple[tuple[str, ...], Trend]:
    """The workers to drain: those that were not needed at any moment of the last ``shrink_after_s``, the emptiest first."""
    needed = _needed(limits, sum(each.taken for each in serving))
    ready = sorted((each for each in serving if each.state is State.READY), key=lambda each: (each.taken, each.id))
    if n_waiting > 0 or needed >= len(serving) or len(ready) < len(serving):
        return (), Trend()
    since = now if trend.spare_since is None else trend.spare_since
    most = max(needed, trend.most_needed)
    if now - since < limits.shrink_after_s:
        return (), Trend(spare_since=since, most_needed=most)
    n_surplus = max(len(serving) - most, 0)
    return tuple(each.id for each in ready[:n_surplus]), Trend()


def _needed(limits: Limits, taken: int) -> int:
    return max(limits.min, math.ceil(taken / (SPARE_SHARE * limits.capacity)))

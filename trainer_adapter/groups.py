"""Advantages of a group of trajectories of one task, from their rewards alone, and the seed that its sessions share.

Invariant: what cannot be compared (one survivor, rewards that are all equal) gets 0, never NaN and never something huge.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from enum import StrEnum

FLAT = 1e-6
"""Rewards that spread less than this, relative to the largest of them (or to 1), are equal: the rest is rounding."""


class GroupBaseline(StrEnum):
    """How a reward becomes an advantage; ``OFF`` leaves it as it is."""

    GRPO = "grpo"
    """Less the group's mean, over its standard deviation (DeepSeekMath, arXiv 2402.03300, 4.1.2)."""
    GRPO_NO_STD = "grpo_no_std"
    """Less the group's mean (Dr. GRPO, arXiv 2503.20783)."""
    RLOO = "rloo"
    """Less the mean of the others (arXiv 2402.14740)."""
    OFF = "off"


def group_advantages(
    rewards: Sequence[float], baseline: GroupBaseline = GroupBaseline.GRPO, *, unbiased_std: bool = False
) -> tuple[float, ...]:
    """One advantage for each reward of a group, in order. ``unbiased_std`` divides by n - 1, as OpenRLHF's group_norm does.

    Raises ValueError for a reward that is not finite.
    """
    if not all(map(math.isfinite, rewards)):
        raise ValueError("a reward is not finite")
    if baseline is GroupBaseline.OFF:
        return tuple(rewards)
    n = len(rewards)
    if is_flat(rewards):
        return (0.0,) * n
    mean = math.fsum(rewards) / n
    centred = [reward - mean for reward in rewards]
    if baseline is GroupBaseline.GRPO_NO_STD:
        return tuple(centred)
    if baseline is GroupBaseline.RLOO:
        return tuple(value * n / (n - 1) for value in centred)
    variance = math.fsum(value * value for value in centred) / (n - 1 if unbiased_std else n)
    return tuple(value / math.sqrt(variance) for value in centred)


def is_flat(rewards: Sequence[float]) -> bool:
    """Whether a group teaches nothing: fewer than two rewards, or all equal."""
    if len(rewards) < 2:
        return True
    scale = max(1.0, max(map(abs, rewards)))
    return max(rewards) - min(rewards) <= FLAT * scale


def group_seed(seed: int, group: str) -> int:
    """Of the sessions of a group, in a run with that seed: they are compared, so they must begin alike."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{group}".encode(), digest_size=4).digest()) >> 1

"""Trajectories as OpenRLHF's experiences, and their advantages: by group, then by task.

Invariants: ids, masks and log-probs of a sequence reach OpenRLHF as they were sampled; the sequences of one trajectory share its
advantage, and a trajectory counts once in its group; padding and fillers carry 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from trainer_adapter.advantages import Moments, TaskNormalizer, moments_by_task, ratio_metrics
from trainer_adapter.config import Config
from trainer_adapter.groups import group_advantages
from trainer_adapter.queue import Batch
from trainer_adapter.tokens import TokenSequence


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence to be trained. ``filler``: it only completes a micro batch, with one token and no advantage."""

    sequence: TokenSequence
    group: str
    member: int
    task: str
    reward: float
    truncated: bool = False
    filler: bool = False


def rows_of(batch: Batch, *, multiple: int) -> list[Row]:
    """All sequences of the batch and as many fillers as make a multiple."""
    rows = [
        Row(
            sequence,
            group.id,
            each.member,
            each.task.environment,
            each.reward,
            each.stop_reason is not None and each.stop_reason.value != "completed",
        )
        for group in batch.groups
        for each in group.trajectories
        for sequence in each.sequences
        if each.reward is not None
    ]
    shortest = min(rows, key=lambda row: len(row.sequence))
    return rows + [_filler(shortest)] * (-len(rows) % multiple)


def _filler(row: Row) -> Row:
    last = row.sequence.action_ranges[-1][1] - 1
    mask = tuple(int(place == last) for place in range(len(row.sequence)))
    return replace(row, sequence=replace(row.sequence, mask=mask), group="", task="", filler=True)


def experience(row: Row, *, max_len: int) -> Experience:
    """One row: tensors (1, T) and (1, T - 1), the shapes of OpenRLHF's own sample generator."""
    sequence = row.sequence
    ids = torch.tensor([sequence.ids], dtype=torch.long)
    mask = torch.tensor([sequence.mask[1:]], dtype=torch.long)
    reward = torch.tensor([row.reward])
    first, last = sequence.action_ranges[0][0], sequence.action_ranges[-1][1]
    return Experience(
        sequences=ids,
        attention_mask=torch.ones_like(ids),
        action_mask=mask,
        rollout_log_probs=torch.tensor([sequence.logprobs[1:]], dtype=torch.float32),
        prompts=[row.group],
        labels=[row.task],
        images=[None],
        mm_train_inputs=[None],
        rewards=reward,
        scores=reward.clone(),
        response_length=torch.tensor([last - first]),
        truncated=torch.tensor([row.truncated]),
        total_length=torch.tensor([float(len(sequence))]),
        info={
            "reward": reward.clone(),
            "score": reward.clone(),
            "response_clip_ratio": torch.tensor([len(sequence) >= max_len]),
        },
    )


class ExperienceMaker(RemoteExperienceMaker):
    """``rows`` are those of the batch that is next, by the index that OpenRLHF gives to each."""

    def __init__(self, *args: Any, config: Config, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        algorithm = config.algorithm
        self._baseline = config.group_baseline
        self.normalizer = TaskNormalizer(algorithm.task_normalization, momentum=algorithm.normalization_momentum)
        self.rows: Sequence[Row] = ()
        self.metrics: dict[str, float] = {}

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        own = self._baseline is None
        made = super().compute_advantages_and_returns(experiences) if own else self._by_group(experiences)
        tasks = [self.rows[index].task for each in made for index in each.index]
        pieces, masks = [each.advantages for each in made], [each.action_mask for each in made]
        normal = self.normalizer(pieces, masks, tasks)
        for each, advantages in zip(made, normal, strict=True):
            each.advantages = advantages
        self.metrics = {
            **_moments("before", moments_by_task(pieces, masks, tasks)),
            **_moments("after", moments_by_task([each.advantages for each in made], masks, tasks)),
            **ratio_metrics(_log_ratios(made)),
        }
        return made

    def _by_group(self, experiences: list[Experience]) -> list[Experience]:
        """Shaped rewards of groups of any size; the rest of the way to token advantages is OpenRLHF's."""
        shaped = shaped_rewards(self.rows, self._baseline)
        for each in experiences:
            each.rewards = torch.tensor([shaped[index] for index in each.index])
        with self._without_baseline():
            made: list[Experience] = super().compute_advantages_and_returns(experiences)
        for each in made:
            each.rewards = torch.tensor([self.rows[index].reward for index in each.index])
            each.info["reward"] = each.rewards.clone()
            each.advantages = each.returns.clone()
        return made

    @contextmanager
    def _without_baseline(self) -> Iterator[None]:
        """OpenRLHF's plain REINFORCE with a discount of 1, whose returns are the shaped rewards at every token."""
        advantage, rollout = self.args.algo.advantage, self.args.rollout
        before = advantage.gamma, rollout.n_samples_per_prompt, advantage.estimator
        advantage.gamma, rollout.n_samples_per_prompt, advantage.estimator = 1.0, 1, "reinforce"
        self.advantage_estimator = "reinforce"
        try:
            yield
        finally:
            advantage.gamma, rollout.n_samples_per_prompt, advantage.estimator = before
            self.advantage_estimator = advantage.estimator


def shaped_rewards(rows: Sequence[Row], baseline: Any) -> list[float]:
    """The advantage of each row's trajectory in its group, by OpenRLHF's formulas (standard deviation over n - 1)."""
    groups: dict[str, dict[int, float]] = {}
    for row in rows:
        if not row.filler:
            groups.setdefault(row.group, {})[row.member] = row.reward
    found = {
        group: dict(zip(members, group_advantages(list(members.values()), baseline, unbiased_std=True), strict=True))
        for group, members in groups.items()
    }
    return [0.0 if row.filler else found[row.group][row.member] for row in rows]


def _moments(when: str, by_task: Mapping[str, Moments]) -> dict[str, float]:
    return {
        f"advantage_{name}_{when}/{task}": value
        for task, moments in by_task.items()
        if task
        for name, value in (("mean", moments.mean), ("std", moments.std))
    }


def _log_ratios(experiences: Sequence[Experience]) -> torch.Tensor:
    """Of the policy that trains to the engine that sampled, token by token."""
    return torch.cat([(e.action_log_probs - e.rollout_log_probs)[e.action_mask.bool()] for e in experiences])

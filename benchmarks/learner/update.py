"""One training step: a drained batch to advantages, and these to a change of the policy.

Invariants: a group's advantages and their normalization by task are the adapter's own; the loss is OpenRLHF's token-level PPO
loss with its dual clip, over all trained tokens of an optimizer step; padding carries nothing.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean

import torch
from learner.model import Policy
from torch import Tensor

from trainer_adapter.advantages import TaskNormalizer, moments_by_task, ratio_metrics
from trainer_adapter.config import AlgorithmSection, Config
from trainer_adapter.groups import GroupBaseline, group_advantages
from trainer_adapter.queue import Batch
from trainer_adapter.tokens import TokenSequence

Breathe = Callable[[], Awaitable[None]]

_MICRO_TOKENS = 3072
"""Padded tokens that are read at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence with the advantage of its trajectory."""

    sequence: TokenSequence
    task: str
    advantage: float


@dataclass(slots=True)
class Micro:
    """Rows as tensors: ``ids`` (B, T); all else (B, T - 1), at the place that guesses the next token. ``old`` and ``reference`` are
    the log-probs of the policy before the step and of the warm start."""

    ids: Tensor
    mask: Tensor
    sampled: Tensor
    advantages: Tensor
    tasks: Sequence[str]
    old: Tensor
    reference: Tensor


def rows_of(batch: Batch, baseline: GroupBaseline) -> list[Row]:
    """As ``trainer_adapter.openrlhf.experience`` does it: by group, with the standard deviation over n - 1."""
    rows = []
    for group in batch.groups:
        rewards = [each.reward for each in group.trajectories if each.reward is not None]
        found = group_advantages(rewards, baseline, unbiased_std=True)
        for each, advantage in zip(group.trajectories, found, strict=True):
            rows += [Row(sequence, each.task.environment, advantage) for sequence in each.sequences]
    return rows


class Learner:
    """Owns the policy that is trained. ``breathe`` is called between micro batches: engines sample meanwhile. The learning rate
    falls linearly towards a tenth over the second half of the configured number of batches."""

    def __init__(self, policy: Policy, config: Config) -> None:
        self.policy = policy
        self._config = config
        self._n_done = 0
        algorithm = config.algorithm
        self._reference = deepcopy(policy) if algorithm.kl_coef else None
        self.normalizer = TaskNormalizer(algorithm.task_normalization, momentum=algorithm.normalization_momentum)
        self._optimizer = torch.optim.AdamW(
            policy.parameters(), lr=algorithm.learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True
        )
        self._rng = random.Random(config.train.seed)

    async def step(self, batch: Batch, breathe: Breathe) -> Mapping[str, float]:
        """A batch cut into the configured number of optimizer steps."""
        algorithm = self._config.algorithm
        assert self._config.group_baseline is not None, "advantages come from groups here"
        rows = rows_of(batch, self._config.group_baseline)
        self._rng.shuffle(rows)
        n_steps = self._config.train.steps_per_batch
        parts = [list(micros(rows[number::n_steps])) for number in range(n_steps)]
        every = [micro for part in parts for micro in part]
        self._normalize(every)
        for micro in every:
            self._look_back(micro)
            await breathe()
        self._optimizer.param_groups[0]["lr"] = algorithm.learning_rate * self._rate()
        found: list[dict[str, float]] = []
        for part in parts:
            found.append(await self._optimize(part, algorithm, breathe))
        self._n_done += 1
        means = {name: fmean(each[name] for each in found) for name in found[0]}
        return means | self._moments(every) | ratio_metrics(_log_ratios(every))

    async def _optimize(self, part: Sequence[Micro], algorithm: AlgorithmSection, breathe: Breathe) -> dict[str, float]:
        n_tokens = float(sum(int(micro.mask.sum()) for micro in part))
        totals: dict[str, float] = {}
        self._optimizer.zero_grad()
        for micro in part:
            logprobs = self._logprobs(self.policy, micro)
            if self._config.train.steps_per_batch == 1:
                micro.old = logprobs.detach()
            losses = policy_loss(logprobs, micro, algorithm)
            loss = sum(losses.values()) / n_tokens
            assert isinstance(loss, Tensor)
            loss.backward()
            for name, value in {**losses, **clipped(logprobs, micro, algorithm)}.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach()) / n_tokens
            await breathe()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self._optimizer.step()
        return {**totals, "gradient_norm": float(norm)}

    def _normalize(self, every: Sequence[Micro]) -> None:
        tasks = [task for micro in every for task in micro.tasks]
        pieces = self.normalizer([micro.advantages for micro in every], [micro.mask for micro in every], tasks)
        for micro, advantages in zip(every, pieces, strict=True):
            micro.advantages = advantages

    def _rate(self) -> float:
        """Of the configured learning rate."""
        return 1.0 - 0.9 * min(1.0, max(0.0, 2 * self._n_done / self._config.train.n_steps - 1))

    def _look_back(self, micro: Micro) -> None:
        """Where a batch is one step, the log-probs that are trained are those of the policy before the step."""
        with torch.no_grad():
            if self._config.train.steps_per_batch > 1:
                micro.old = self._logprobs(self.policy, micro)
            if self._reference is not None:
                micro.reference = self._logprobs(self._reference, micro)

    def _logprobs(self, policy: Policy, micro: Micro) -> Tensor:
        """(B, T - 1), 0 outside the mask."""
        with torch.autocast("cpu", torch.bfloat16):
            hidden = policy.hidden(micro.ids[:, :-1])[micro.mask]
            scores = policy.scores(hidden).float() / self._config.rollout.temperature
        taken = micro.ids[:, 1:][micro.mask]
        found = scores.log_softmax(-1).gather(1, taken[:, None])[:, 0]
        return torch.zeros(micro.mask.shape).masked_scatter(micro.mask, found)

    def _moments(self, every: Sequence[Micro]) -> dict[str, float]:
        tasks = [task for micro in every for task in micro.tasks]
        moments = moments_by_task([micro.advantages for micro in every], [micro.mask for micro in every], tasks)
        return {f"advantage_std/{task}": each.std for task, each in moments.items()}


def policy_loss(logprobs: Tensor, micro: Micro, algorithm: AlgorithmSection) -> dict[str, Tensor]:
    """Sums over the trained tokens: PPO with dual clip (arXiv 1912.09729), with the importance correction that is configured, and
    the weighted k3 estimate of the distance to the reference (joschu.net/blog/kl-approx.html)."""
    ratio = (logprobs - micro.old).clamp(-20.0, 20.0).exp()
    advantages = micro.advantages
    loss = torch.min(ratio * advantages, ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high) * advantages)
    if algorithm.dual_clip is not None:
        loss = torch.where(advantages < 0, torch.max(loss, algorithm.dual_clip * advantages), loss)
    found = {"policy_loss": -(loss * _correction(micro, algorithm) * micro.mask).sum()}
    if algorithm.kl_coef:
        behind = (micro.reference - logprobs).clamp(-20.0, 20.0)
        distance = (behind.exp() - 1 - behind).clamp(-10.0, 10.0)
        found["kl_loss"] = algorithm.kl_coef * (distance * micro.mask).sum()
    return found


def _correction(micro: Micro, algorithm: AlgorithmSection) -> Tensor | float:
    """Token-level ratios of the policy before the step to the engine, clipped or masked; 1 where none is asked for."""
    correction = algorithm.correction
    if correction.level == "off":
        return 1.0
    if (correction.level, correction.gating) != ("token", "ratio"):
        raise ValueError("this benchmark corrects ratios of tokens only")
    low, high = correction.threshold
    ratio = (micro.old - micro.sampled).exp()
    if correction.mode == "clip":
        return ratio.clamp(low, high)
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)


def clipped(logprobs: Tensor, micro: Micro, algorithm: AlgorithmSection) -> dict[str, Tensor]:
    """Trained tokens whose gradient the clip takes away."""
    ratio = (logprobs.detach() - micro.old).exp()
    over = torch.where(micro.advantages > 0, ratio > 1 + algorithm.clip_high, ratio < 1 - algorithm.clip_low)
    return {"clipped": (over & micro.mask).float().sum()}


def _log_ratios(every: Sequence[Micro]) -> Tensor:
    """Of the policy before the step to the engine that sampled, token by token."""
    return torch.cat([(micro.old - micro.sampled)[micro.mask] for micro in every])


def micros(rows: Sequence[Row]) -> Iterator[Micro]:
    """Rows of like length together."""
    ordered = sorted(rows, key=lambda row: len(row.sequence))
    begin = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or len(ordered[end].sequence) * (end + 1 - begin) > _MICRO_TOKENS:
            yield micro_of(ordered[begin:end])
            begin = end


def micro_of(rows: Sequence[Row]) -> Micro:
    width = max(len(row.sequence) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.bool)
    sampled = torch.zeros((len(rows), width))
    for place, row in enumerate(rows):
        n = len(row.sequence)
        ids[place, :n] = torch.tensor(row.sequence.ids)
        mask[place, :n] = torch.tensor(row.sequence.mask, dtype=torch.bool)
        sampled[place, :n] = torch.tensor(row.sequence.logprobs)
    mask, sampled = mask[:, 1:], sampled[:, 1:]
    advantages = torch.tensor([[row.advantage] for row in rows]) * mask
    nothing = torch.zeros(mask.shape)
    return Micro(ids, mask, sampled, advantages, [row.task for row in rows], nothing, nothing)

"""Task advantage normalization: each task's token-level advantages to mean 0 and standard deviation 1.

Invariants: padding is never read and comes out 0; a task whose advantages do not differ comes out 0; no task's values depend on
another task's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from trainer_adapter.advantage_modes import TaskNormalization

__all__ = ["Moments", "TaskNormalization", "TaskNormalizer", "moments_by_task", "ratio_metrics"]

FLAT = 1e-6
"""A standard deviation at most this, relative to the largest advantage of the task, is rounding: the task has no variance."""

_QUANTILES = (0.01, 0.5, 0.99)


@dataclass(frozen=True, slots=True)
class Moments:
    """Of the token-level advantages of one task; ``std`` is the population's."""

    n_tokens: int
    mean: float
    std: float


class TaskNormalizer:
    """Normalizes batch after batch. ``momentum`` is what a running moment keeps of its past."""

    def __init__(self, mode: TaskNormalization = TaskNormalization.BATCH, *, momentum: float = 0.9) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {momentum}")
        self.mode = mode
        self._momentum = momentum
        self._running: dict[str, tuple[float, float]] = {}

    def __call__(
        self, advantages: Sequence[torch.Tensor], masks: Sequence[torch.Tensor], tasks: Sequence[str]
    ) -> list[torch.Tensor]:
        """Pieces of a batch, row i of a piece belonging to one task name; ``tasks`` names every row of every piece in order.

        Pieces (B, T) float of any widths, masks (B, T) -> the same shapes, 0 outside the mask. Computed in float64.
        Raises ValueError when the shapes or the number of names do not fit.
        """
        _check(advantages, masks, tasks)
        if self.mode is TaskNormalization.OFF:
            return [_kept(piece, mask) for piece, mask in zip(advantages, masks, strict=True)]
        moments = moments_by_task(advantages, masks, tasks)
        shifts = {task: self._shift(task, found) for task, found in moments.items()}
        out: list[torch.Tensor] = []
        row = 0
        for piece, mask in zip(advantages, masks, strict=True):
            names = tasks[row : row + piece.shape[0]]
            row += piece.shape[0]
            out.append(_normalized(piece, mask, [shifts.get(name, (0.0, 0.0)) for name in names]))
        return out

    def state(self) -> Mapping[str, tuple[float, float]]:
        """Running mean and second moment by task, for a checkpoint."""
        return dict(self._running)

    def restore(self, state: Mapping[str, tuple[float, float]]) -> None:
        self._running = {task: (float(mean), float(square)) for task, (mean, square) in state.items()}

    def _shift(self, task: str, found: Moments) -> tuple[float, float]:
        """What to subtract from a task's advantages and what to multiply them with."""
        mean, std = found.mean, found.std
        if self.mode is TaskNormalization.RUNNING:
            keep = self._momentum if task in self._running else 0.0
            before = self._running.get(task, (0.0, 0.0))
            mean = keep * before[0] + (1 - keep) * found.mean
            square = keep * before[1] + (1 - keep) * (found.std**2 + found.mean**2)
            self._running[task] = mean, square
            std = max(0.0, square - mean * mean) ** 0.5
            if std <= FLAT * square**0.5:
                std = 0.0
        return (mean, 1.0 / std) if std > 0 else (mean, 0.0)


def moments_by_task(
    advantages: Sequence[torch.Tensor], masks: Sequence[torch.Tensor], tasks: Sequence[str]
) -> dict[str, Moments]:
    """Of every task that has a token; a task without variance has ``std`` 0. Shapes as for TaskNormalizer."""
    pools: dict[str, list[torch.Tensor]] = {}
    names: Iterable[str] = iter(tasks)
    for piece, mask in zip(advantages, masks, strict=True):
        for values, kept, name in zip(piece, mask.bool(), names, strict=False):
            pools.setdefault(name, []).append(values[kept].double())
    return {name: _moments(torch.cat(pool)) for name, pool in pools.items() if any(len(part) for part in pool)}


def ratio_metrics(logs: torch.Tensor) -> dict[str, float]:
    """Quantiles, the largest and the mean absolute logarithm of importance ratios, from the logarithms of one or more, (N,)."""
    ordered = logs.double().sort().values  # torch.quantile refuses more than 16 million values
    found = {f"ratio/q{each:g}": float(ordered[round(each * (len(ordered) - 1))].exp()) for each in _QUANTILES}
    return {**found, "ratio/max": float(ordered[-1].exp()), "ratio/mean_abs_log": float(ordered.abs().mean())}


def _moments(values: torch.Tensor) -> Moments:
    if not bool(torch.isfinite(values).all()):
        raise ValueError("an advantage of a trained token is not finite")
    mean = float(values.mean())
    std = float((values - mean).square().mean().sqrt())
    if std <= FLAT * float(values.abs().max()):
        std = 0.0
    return Moments(len(values), mean, std)


def _normalized(piece: torch.Tensor, mask: torch.Tensor, shifts: Sequence[tuple[float, float]]) -> torch.Tensor:
    shift = torch.tensor(shifts, dtype=torch.float64, device=piece.device).reshape(-1, 2)
    scaled = (piece.double() - shift[:, :1]) * shift[:, 1:]
    return torch.where(mask.bool(), scaled, 0.0).to(piece.dtype)


def _kept(piece: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask.bool(), piece, 0.0).to(piece.dtype)


def _check(advantages: Sequence[torch.Tensor], masks: Sequence[torch.Tensor], tasks: Sequence[str]) -> None:
    if len(advantages) != len(masks):
        raise ValueError(f"{len(advantages)} pieces of advantages, {len(masks)} masks")
    for piece, mask in zip(advantages, masks, strict=True):
        if piece.ndim != 2 or piece.shape != mask.shape:
            raise ValueError(f"advantages {tuple(piece.shape)} and mask {tuple(mask.shape)} must be equal and (B, T)")
    rows = sum(piece.shape[0] for piece in advantages)
    if rows != len(tasks):
        raise ValueError(f"{rows} rows of advantages, {len(tasks)} task names")

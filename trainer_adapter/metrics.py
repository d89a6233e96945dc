"""Numbers to log of a drained batch, of the queue and of an evaluation; pure.

Invariant: a mean over nothing is left out, never 0 or NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from trainer_adapter.groups import is_flat
from trainer_adapter.queue import Account, Batch
from trainer_adapter.tokens import Trajectory

SOLVED = 1.0 - 1e-9
"""An episode whose return is at least this is a success."""


def batch_metrics(batch: Batch) -> dict[str, float]:
    """By ``name`` or ``name/environment``: rewards, success, lengths, staleness, engines, and where the time went."""
    trajectories = [each for group in batch.groups for each in group.trajectories]
    found: dict[str, float] = {
        "batch/groups": len(batch.groups),
        "batch/trajectories": len(trajectories),
        "batch/flat_groups": fmean(
            is_flat([each.reward for each in group.trajectories if each.reward is not None]) for group in batch.groups
        ),
    }
    by_task: dict[str, list[Trajectory]] = {}
    for each in trajectories:
        by_task.setdefault(each.task.environment, []).append(each)
    for task, played in sorted(by_task.items()):
        found |= {f"{name}/{task}": value for name, value in _task_metrics(played).items()}
    lags = Counter(batch.staleness)
    found |= {f"staleness/{lag}": lags[lag] for lag in range(max(lags) + 1)}
    found["staleness/max"] = max(lags)
    found["staleness/mean"] = fmean(batch.staleness)
    return found | _engine_mix(trajectories) | _seconds(trajectories)


def queue_seconds(batch: Batch, now: float) -> dict[str, float]:
    """How long its trajectories had been complete when it was taken, by the clock that they were played by."""
    waited = [now - each.timing.ended_at for group in batch.groups for each in group.trajectories]
    return {"latency/queue_s": fmean(waited), "latency/queue_max_s": max(waited)}


def account_metrics(account: Account, *, n_ready: int, n_open: int) -> dict[str, float]:
    found: dict[str, float] = {
        "queue/ready_groups": n_ready,
        "queue/open_groups": n_open,
        "queue/admitted": account.admitted,
        "queue/trained": account.trained,
        "queue/retries": account.retries,
    }
    return found | {f"queue/dropped_{reason}": n for reason, n in account.dropped.items()}


def failure_metrics(failures: Mapping[tuple[str, str], int], rates: Mapping[str, float]) -> dict[str, float]:
    """By ``failures_CODE/environment`` since the run began, and by environment the share of the last attempts that failed."""
    found: dict[str, float] = {
        f"failures_{code}/{environment}": n for (environment, code), n in sorted(failures.items())
    }
    return found | {f"failure_rate/{environment}": rate for environment, rate in rates.items()}


def is_told(n: int) -> bool:
    """Whether the n-th failure of a kind is worth a line in the log: the first, and each time there are twice as many."""
    return n & (n - 1) == 0


def pass_at_k(n: int, n_solved: int, k: int) -> float:
    """Chance that one of ``k`` of the ``n`` samples solves the task, without bias (arXiv 2107.03374, equation 1)."""
    return 1.0 - comb(n - n_solved, k) / comb(n, k)


def evaluation_names(tasks: Sequence[tuple[str, str]]) -> list[str]:
    """What each (environment, split) is called in metrics: by its environment, with the split where that is evaluated on several."""
    n = Counter(environment for environment, _ in tasks)
    return [environment if n[environment] == 1 else f"{environment}-{split}" for environment, split in tasks]


def evaluation_metrics(played: Mapping[str, Sequence[Sequence[Trajectory]]]) -> dict[str, float]:
    """``played``: by name, for every task its samples. Failures are counted, never taken for a reward.

    ``pass1`` alone is the mean over all names; it is left out when one of them has no result.
    """
    found: dict[str, float] = {}
    for name, tasks in sorted(played.items()):
        rewarded = [[each for each in samples if each.environment_return is not None] for samples in tasks]
        kept = [samples for samples in rewarded if samples]
        n_played = sum(map(len, kept))
        found[f"failures/{name}"] = sum(map(len, tasks)) - n_played
        if not kept:
            continue
        found[f"reward/{name}"] = fmean(each.environment_return or 0.0 for samples in kept for each in samples)
        found[f"success/{name}"] = sum(map(_n_solved, kept)) / n_played
        for k in _powers(max(map(len, tasks))):
            if enough := [samples for samples in kept if len(samples) >= k]:
                found[f"pass{k}/{name}"] = fmean(pass_at_k(len(each), _n_solved(each), k) for each in enough)
    single = [found[f"pass1/{name}"] for name in played if f"pass1/{name}" in found]
    return found | ({"pass1": fmean(single)} if single and len(single) == len(played) else {})


def progress_line(step: int, n_steps: int, values: Mapping[str, float], *, seconds: float) -> str:
    """One line for the terminal."""
    rewards = " ".join(
        f"{name.removeprefix('reward/')} {value:.3f}"
        for name, value in sorted(values.items())
        if name.startswith("reward/")
    )
    lags = " ".join(
        f"{name.removeprefix('staleness/')}:{value:g}"
        for name, value in values.items()
        if name.startswith("staleness/") and name.removeprefix("staleness/").isdigit()
    )
    return (
        f"step {step}/{n_steps} | {values['batch/groups']:g} groups, {values['batch/trajectories']:g} trajectories | "
        f"reward {rewards} | staleness {lags} | {values.get('queue/ready_groups', 0):g} ready, "
        f"{values.get('queue/open_groups', 0):g} open | {seconds:.1f} s"
    )


def _task_metrics(played: Sequence[Trajectory]) -> dict[str, float]:
    found = {
        "reward": fmean(each.reward or 0.0 for each in played),
        "return": fmean(each.environment_return or 0.0 for each in played),
        "success": _n_solved(played) / len(played),
        "turns": fmean(each.n_turns for each in played),
        "action_tokens": fmean(each.n_actions for each in played),
        "tokens": fmean(sum(map(len, each.sequences)) for each in played),
        "split": fmean(len(each.sequences) > 1 for each in played),
    }
    stops = Counter(each.stop_reason.value for each in played if each.stop_reason is not None)
    return found | {f"stop_{reason}": n / len(played) for reason, n in sorted(stops.items())}


def _engine_mix(played: Iterable[Trajectory]) -> dict[str, float]:
    """Share of the trained tokens by engine."""
    tokens: Counter[int] = Counter()
    for each in played:
        for sequence in each.sequences:
            tokens.update(engine for engine, mask in zip(sequence.engines, sequence.mask, strict=True) if mask)
    total = tokens.total()
    return {f"engines/{engine}": n / total for engine, n in sorted(tokens.items())}


def _seconds(played: Sequence[Trajectory]) -> dict[str, float]:
    return {
        "latency/start_s": fmean(each.timing.start_s for each in played),
        "latency/generate_s": fmean(each.timing.generate_s for each in played),
        "latency/environment_s": fmean(each.timing.environment_s for each in played),
        "latency/environment_max_s": max(each.timing.environment_s for each in played),
    }


def _n_solved(played: Iterable[Trajectory]) -> int:
    return sum(each.environment_return is not None and each.environment_return >= SOLVED for each in played)


def _powers(n: int) -> list[int]:
    """1, 2, 4, ... and ``n`` itself."""
    found = [1 << power for power in range(n.bit_length()) if 1 << power <= n]
    return found if found[-1] == n else [*found, n]

"""What the rows of a run say, in numbers. Rows of different identities are never put together, and an error is never a reward."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from envhub.bench.results import Row, Status


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What may be averaged together. ``identity`` is a digest, or empty for rows that failed before one was known."""

    agent: str
    environment: str
    split: str
    identity: str


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Mean over ``n_tasks`` of the ``n_all_tasks`` tasks: those with at least k graded repeats."""

    k: int
    value: float
    n_tasks: int
    n_all_tasks: int


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Numbers of one cell. None means that nothing was graded, or too little for that number.

    ``n`` counts every recorded episode. ``return_std`` is over episodes, ``repeat_std`` over the mean returns of the repeats;
    both are sample deviations (n - 1).
    """

    cell: Cell
    n: int
    graded: int
    passed: int
    cancelled: int
    errors: Mapping[str, int]
    return_mean: float | None
    return_std: float | None
    repeat_std: float | None
    n_repeats: int
    interval: Interval | None
    pass_at: tuple[PassAtK, ...]
    turns_mean: float | None
    prompt_tokens_mean: float | None
    completion_tokens_mean: float | None
    hub_s_per_turn: float | None
    model_s_per_turn: float | None
    stop_reasons: Mapping[str, int]

    @property
    def n_errors(self) -> int:
        return sum(self.errors.values())

    @property
    def pass_of_all(self) -> float | None:
        """Passed over every recorded episode, failed ones included."""
        return self.passed / self.n if self.graded else None

    @property
    def pass_of_graded(self) -> float | None:
        return self.passed / self.graded if self.graded else None


def summarize(rows: Iterable[Row]) -> tuple[Summary, ...]:
    """One summary per cell, sorted."""
    return tuple(_summary(cell, found) for cell, found in by_cell(rows).items())


def by_cell(rows: Iterable[Row]) -> dict[Cell, list[Row]]:
    """Rows apart by what may be averaged together, cells sorted.

    A row without an identity (it failed before one was known) joins the only identity of its agent, environment and split,
    and stands alone when there are several.
    """
    rows = tuple(rows)
    known: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.identity is not None:
            known[row.agent, row.environment, row.split].add(row.identity)
    cells: dict[Cell, list[Row]] = defaultdict(list)
    for row in rows:
        identities = known[row.agent, row.environment, row.split]
        fallback = next(iter(identities)) if len(identities) == 1 else ""
        cells[Cell(row.agent, row.environment, row.split, row.identity or fallback)].append(row)
    return dict(sorted(cells.items()))


def mixed_identities(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """A warning for every environment that was measured on more than one identity."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in summaries:
        if each.cell.identity:
            found[each.cell.environment, each.cell.split].add(each.cell.identity)
    return tuple(
        f"{environment}/{split} was measured on {len(digests)} identities ({', '.join(sorted(digests))}); "
        "their results are listed apart and are not comparable"
        for (environment, split), digests in sorted(found.items())
        if len(digests) > 1
    )


def _summary(cell: Cell, rows: Sequence[Row]) -> Summary:
    graded = [row for row in rows if row.status is Status.GRADED]
    returns = [row.episode_return for row in graded if row.episode_return is not None]
    by_repeat: dict[int, list[float]] = defaultdict(list)
    for row in graded:
        by_repeat[row.repeat].append(row.episode_return or 0.0)
    repeat_means = [fmean(values) for values in by_repeat.values()]
    passed = sum(row.success is True for row in graded)
    turns = sum(row.turns for row in graded)
    return Summary(
        cell=cell,
        n=len(rows),
        graded=len(graded),
        passed=passed,
        cancelled=sum(row.status is Status.CANCELLED for row in rows),
        errors=Counter(row.error.code if row.error else "unknown" for row in rows if row.status is Status.ERROR),
        return_mean=_mean(returns),
        return_std=_std(returns),
        repeat_std=_std(repeat_means),
        n_repeats=len(repeat_means),
        interval=wilson(passed, len(graded)),
        pass_at=pass_at_ks(rows),
        turns_mean=_mean([row.turns for row in graded]),
        prompt_tokens_mean=_mean([row.prompt_tokens for row in graded]),
        completion_tokens_mean=_mean([row.completion_tokens for row in graded]),
        hub_s_per_turn=sum(row.hub_s for row in graded) / turns if turns else None,
        model_s_per_turn=sum(row.model_s for row in graded) / turns if turns else None,
        stop_reasons=Counter(str(row.stop_reason) for row in graded if row.stop_reason is not None),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _std(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def pass_at_ks(rows: Iterable[Row]) -> tuple[PassAtK, ...]:
    """pass@k for k = 1, 2, 4, 8, ... and the largest number of graded repeats of any task."""
    attempts: dict[int, list[bool]] = defaultdict(list)
    for row in rows:
        found = attempts[row.task]
        if row.status is Status.GRADED:
            found.append(row.success is True)
    most = max((len(found) for found in attempts.values()), default=0)
    ks = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), *([most] if most else [])})
    out = []
    for k in ks:
        values = [pass_at_k(len(found), sum(found), k) for found in attempts.values() if len(found) >= k]
        out.append(PassAtK(k, fmean(values), len(values), len(attempts)))
    return tuple(out)


def pass_at_k(n: int, passed: int, k: int) -> float:
    """Chance that k of n attempts, drawn without replacement, hold a success; unbiased (Chen et al. 2021, equation 1)."""
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs at least {k} attempts, not {n}")
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def wilson(passed: int, n: int, z: float = 1.959963984540054) -> Interval | None:
    """95 % confidence interval of a proportion (Wilson 1927)."""
    if n == 0:
        return None
    share = passed / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Interval(max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))

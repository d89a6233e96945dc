"""What the stored runs come to: by variant and environment, success before and after, with its spread over seeds.

Invariant: only runs that reached the last step count; nothing is said of a variant that has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

ENVIRONMENTS = ("alfworld", "calculator")
Run = Mapping[str, Any]


def stored(folder: Path) -> list[Run]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("run-*.json"))]


def gains(runs: Iterable[Run], environment: str) -> list[float]:
    """Held-out success after the last step less that of the warm start, one for each run."""
    name = f"success/{environment}"
    return [run["evaluations"][-1][name] - run["evaluations"][0][name] for run in runs]


def least_gain(runs: Sequence[Run]) -> float:
    """The median over seeds, of the environment where it is least."""
    return min(median(gains(runs, environment)) for environment in ENVIRONMENTS)


def by_variant(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run["variant"], []).append(run)
    return found


def table(runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
    """By variant and environment: success and return of the warm start and after the last step, mean and spread over seeds."""
    return {
        variant: {environment: _row(of_it, environment) for environment in ENVIRONMENTS}
        | {"seconds": [run["seconds"] for run in of_it], "cpu_seconds": [run["cpu_seconds"] for run in of_it]}
        for variant, of_it in by_variant(runs).items()
    }


def _row(runs: Sequence[Run], environment: str) -> dict[str, Any]:
    first = [run["evaluations"][0] for run in runs]
    last = [run["evaluations"][-1] for run in runs]
    return {
        "success_before": _spread([each[f"success/{environment}"] for each in first]),
        "success_after": _spread([each[f"success/{environment}"] for each in last]),
        "gain": _spread(gains(runs, environment)),
        "return_before": _spread([each[f"reward/{environment}"] for each in first]),
        "return_after": _spread([each[f"reward/{environment}"] for each in last]),
    }


def _spread(values: Sequence[float]) -> dict[str, Any]:
    """The standard deviation over seeds is the sample's."""
    return {
        "mean": round(fmean(values), 4),
        "std": round(stdev(values), 4) if len(values) > 1 else None,
        "values": [round(value, 4) for value in values],
    }

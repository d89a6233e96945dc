"""Two pictures: held-out success of the full variant by seed, and all variants beside each other.

Invariant: a curve is a mean over seeds and its band runs from the lowest seed to the highest; nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from learner.summary import ENVIRONMENTS, Run, by_variant

mpl.use("svg")
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["svg.hashsalt"] = "learning"
from matplotlib import pyplot as plt  # noqa: E402  # the backend is chosen first

TITLES = {
    "alfworld": "ALFWorld: up to 12 turns",
    "calculator": "Calculator: up to 5 turns",
}
NAMES = {
    "full": "full",
    "no_task_norm": "no task normalization",
    "no_cross_policy": "no cross-policy",
    "synchronous": "synchronous",
}


def draw(runs: Sequence[Run], folder: Path) -> list[Path]:
    """The files, each an SVG of some ten kilobytes."""
    return [_success(runs, folder / "learning-success.svg"), _training(runs, folder / "learning-training.svg")]


def _success(runs: Sequence[Run], path: Path) -> Path:
    figure, axes = plt.subplots(1, len(ENVIRONMENTS), figsize=(9, 3.6), layout="constrained")
    for axis, environment in zip(axes, ENVIRONMENTS, strict=True):
        for number, (variant, of_it) in enumerate(_ordered(runs)):
            steps = [each["step"] for each in of_it[0]["evaluations"]]
            values = [[each[f"success/{environment}"] for each in run["evaluations"]] for run in of_it]
            _band(axis, steps, values, NAMES[variant], number)
        _dress(axis, TITLES[environment], "training step", "success on held-out tasks")
    axes[0].legend(fontsize=8)
    return _saved(figure, path)


def _training(runs: Sequence[Run], path: Path) -> Path:
    """Reward of the batches that were trained, of the full variant: each seed a line, where a batch had the environment."""
    figure, axes = plt.subplots(1, len(ENVIRONMENTS), figsize=(9, 3.2), layout="constrained")
    full = dict(_ordered(runs)).get("full", [])
    for axis, environment in zip(axes, ENVIRONMENTS, strict=True):
        for number, run in enumerate(full):
            name = f"success/{environment}"
            points = [(each["step"], each[name]) for each in run["batches"] if name in each]
            axis.plot(*zip(*points, strict=True), color=f"C{number}", linewidth=1.2, label=f"seed {run['seed']}")
        _dress(axis, TITLES[environment], "training step", "success in training batches")
    axes[0].legend(fontsize=8)
    return _saved(figure, path)


def _ordered(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    found = by_variant(runs)
    return [(variant, found[variant]) for variant in NAMES if variant in found]


def _band(axis: plt.Axes, steps: Sequence[int], values: Sequence[Sequence[float]], name: str, number: int) -> None:
    at_step = list(zip(*values, strict=True))
    color = f"C{number}"
    axis.plot(steps, [fmean(each) for each in at_step], color=color, marker="o", markersize=3, label=name)
    axis.fill_between(steps, [min(each) for each in at_step], [max(each) for each in at_step], color=color, alpha=0.12)


def _dress(axis: plt.Axes, title: str, below: str, left: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(below, fontsize=9)
    axis.set_ylabel(left, fontsize=9)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.tick_params(labelsize=8)


def _saved(figure: plt.Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path

"""What the command line does with catalogues: make, convert, export and measure them.

Invariant: a command says what it did through ``say``, a line at a time, and raises for what it could not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from envhub.core.errors import InvalidRequestError
from envhub.envs.webshop import convert, official, oracle, players
from envhub.envs.webshop.build import Progress
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.convert import GoalKind
from envhub.envs.webshop.shop import Shop
from envhub.envs.webshop.store import StoreError, verify
from envhub.envs.webshop.synthetic.coverage import BRANCHES, coverage
from envhub.envs.webshop.synthetic.making import n_perfect
from envhub.envs.webshop.tasks import Tasks, open_tasks

Say = Callable[[str], None]


def make_named(name: str, cache: Path | None, say: Say) -> None:
    """Raises InvalidRequestError for a damaged one."""
    tasks = open_tasks(name, cache=cache)
    with closing(tasks), _in_words():
        verify(tasks.catalogue.folder)
        _tell(tasks, say)


def convert_official(
    folder: Path, out: Path, say: Say, *, goals: GoalKind, seed: int, limit: int | None, partial: bool
) -> None:
    """Raises FileNotFoundError that says how to get the files."""
    files = official.find_official(folder)
    with _in_words():
        convert.convert(files, out, goals=goals, seed=seed, limit=limit, partial=partial, progress=_progress(say))
    tasks = open_tasks(str(out))
    _tell(tasks, say)
    tasks.close()


def export(catalogue: str, out: Path, cache: Path | None, say: Say) -> None:
    """Raises InvalidRequestError for a damaged one."""
    tasks = open_tasks(catalogue, cache=cache)
    with closing(tasks), _in_words():
        verify(tasks.catalogue.folder)
        files = convert.export(tasks.catalogue, out)
    for path in (files.products, files.attributes, files.human, files.nouns):
        say(str(path))


def report(catalogue: str, cache: Path | None, say: Say) -> None:
    """How hard the goals of every split are, and which ways of judging they reach. Raises InvalidRequestError for damage."""
    tasks = open_tasks(catalogue, cache=cache)
    with closing(tasks), _in_words():
        verify(tasks.catalogue.folder)
        _report(tasks, say)


def _report(tasks: Tasks, say: Say) -> None:
    _tell(tasks, say)
    shop = Shop(tasks.catalogue)
    for split, goals in tasks.splits.items():
        for line in _measured(shop, goals):
            say(f"  {split}: {line}")
    reached = coverage(shop, (goal for goals in tasks.splits.values() for goal in goals))
    for branch in BRANCHES:
        say(f"  goals that reach {branch!r}: {reached[branch]}")


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise InvalidRequestError(str(error)) from error


def _measured(shop: Shop, goals: Sequence[Goal]) -> list[str]:
    plans = [oracle.plan(shop, goal) for goal in goals]
    solved = sum(plan is not None and plan.reward == 1.0 for plan in plans)
    perfect = [n_perfect(goal, shop) for goal in goals]
    lines = [
        f"the oracle earns 1 for {solved} of {len(goals)} goals",
        f"products found that give 1: {sum(perfect) / len(perfect):.2f} per goal, at most {max(perfect)}",
    ]
    for name, player in players.PLAYERS.items():
        earned = players.measure(shop, goals, player)
        lines.append(f"{name} earns {earned.mean_reward:.3f}, exactly 1 for {earned.success:.3f} of the goals")
    return lines


def _tell(tasks: Tasks, say: Say) -> None:
    splits = ", ".join(f"{split} {len(goals)}" for split, goals in tasks.splits.items())
    say(f"{tasks.name}: {tasks.catalogue.n_products} products, goals: {splits}; hash {tasks.dataset_hash}")


def _progress(say: Say) -> Progress:
    return lambda stage, done: say(f"{stage}: {done}")

"""The order of tasks: weighted over environments, shuffled within each, the same for the same seed.

Invariant: the order depends on the seed and the position alone, so a run that is resumed goes on with the task it would have had.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envhub.core.types import TaskRef


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A split to train on; ``weight`` is its share of the draws, ``indices`` a selection of its tasks (None: all ``n_tasks``)."""

    environment: str
    split: str
    n_tasks: int
    weight: float = 1.0
    indices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError(f"the weight of {self.environment}/{self.split} must be above 0")
        if self.indices is not None and any(not 0 <= index < self.n_tasks for index in self.indices):
            raise ValueError(f"{self.environment}/{self.split} has tasks 0..{self.n_tasks - 1} only")
        if not (self.n_tasks if self.indices is None else len(self.indices)):
            raise ValueError(f"{self.environment}/{self.split} has no tasks")

    @property
    def tasks(self) -> Sequence[int]:
        return range(self.n_tasks) if self.indices is None else self.indices


class TaskStream:
    """Endless. Each environment's tasks are all drawn once, in a new order every time, before any comes again."""

    def __init__(self, sources: Sequence[TaskSource], *, seed: int) -> None:
        if not sources:
            raise ValueError("there must be at least one task source")
        self._sources = tuple(sources)
        self._seed = seed
        self._drawn = [0] * len(self._sources)
        self._position = 0
        self._again: list[TaskRef] = []
        self._orders: dict[int, tuple[int, list[int]]] = {}

    def __iter__(self) -> TaskStream:
        return self

    def __next__(self) -> TaskRef:
        if self._again:
            return self._again.pop(0)
        number = self._source(self._position)
        source = self._sources[number]
        epoch, place = divmod(self._drawn[number], len(source.tasks))
        self._position += 1
        self._drawn[number] += 1
        return TaskRef(source.environment, source.split, self._order(number, epoch)[place])

    def again(self, tasks: Iterable[TaskRef]) -> None:
        """Give these out first: what a stopped run had begun and not trained."""
        self._again += tasks

    def state(self) -> Mapping[str, object]:
        """For a checkpoint; JSON."""
        return {
            "sources": [list(each) for each in self._names],
            "position": self._position,
            "drawn": list(self._drawn),
            "again": [[each.environment, each.split, each.index] for each in self._again],
        }

    def restore(self, state: Mapping[str, object]) -> None:
        """Raises ValueError for the state of another set of sources."""
        names, position, drawn, again = state["sources"], state["position"], state["drawn"], state["again"]
        if not isinstance(position, int) or not isinstance(drawn, list) or not isinstance(again, list):
            raise ValueError("not the state of a task stream")
        if names != [list(each) for each in self._names] or len(drawn) != len(self._sources):
            raise ValueError(
                f"the checkpoint's tasks are {names}, in this order; this run has {list(map(list, self._names))}"
            )
        tasks = {(each.environment, each.split): each.tasks for each in self._sources}
        begun = [TaskRef(str(each[0]), str(each[1]), int(each[2])) for each in again]
        for task in begun:
            if task.index not in tasks.get((task.environment, task.split), ()):
                raise ValueError(
                    f"the checkpoint had begun {task.environment}/{task.split}/{task.index}: no task of this run"
                )
        self._position, self._drawn = position, [int(each) for each in drawn]
        self._again = begun

    @property
    def _names(self) -> list[tuple[str, str, int]]:
        """What the order depends on: the sources and how many tasks each has."""
        return [(each.environment, each.split, len(each.tasks)) for each in self._sources]

    def _source(self, position: int) -> int:
        rng = random.Random(f"{self._seed}/{position}")
        return rng.choices(range(len(self._sources)), [each.weight for each in self._sources])[0]

    def _order(self, number: int, epoch: int) -> list[int]:
        known = self._orders.get(number)
        if known is None or known[0] != epoch:
            order = list(self._sources[number].tasks)
            random.Random(f"{self._seed}/{number}/{epoch}").shuffle(order)
            known = self._orders[number] = epoch, order
        return known[1]

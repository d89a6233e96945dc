"""The order of tasks."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from tests.trainer.makers import TASK
from trainer_adapter.stream import TaskSource, TaskStream

SOURCES = (
    TaskSource("db", "train", 30, 2.0),
    TaskSource("os", "train", 7),
    TaskSource("kg", "dev", 50, indices=(4, 9)),
)


def first(stream: TaskStream, n: int) -> list[str]:
    return [str(task) for task in itertools.islice(stream, n)]


def test_weights_are_shares_and_every_task_comes_once_before_any_comes_again() -> None:
    found = list(itertools.islice(TaskStream(SOURCES, seed=1), 1200))
    shares = Counter(task.environment for task in found)
    assert shares["db"] / 1200 == pytest.approx(0.5, abs=0.05) and shares["os"] / 1200 == pytest.approx(0.25, abs=0.05)
    os_tasks = [task.index for task in found if task.environment == "os"]
    epochs = [os_tasks[start : start + 7] for start in range(0, len(os_tasks) - 7, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs) and len({tuple(epoch) for epoch in epochs}) > 10
    assert {task.index for task in found if task.environment == "kg"} == {4, 9}


def test_the_order_is_the_seed_s_and_goes_on_after_a_checkpoint() -> None:
    whole = first(TaskStream(SOURCES, seed=3), 200)
    assert whole == first(TaskStream(SOURCES, seed=3), 200) != first(TaskStream(SOURCES, seed=4), 200)
    begun = TaskStream(SOURCES, seed=3)
    assert first(begun, 77) == whole[:77]
    state = json.loads(json.dumps(begun.state()))
    resumed = TaskStream(SOURCES, seed=3)
    resumed.restore(state)
    resumed.again([TASK])
    assert first(resumed, 124) == [str(TASK), *whole[77:]]


def test_what_is_owed_survives_another_checkpoint() -> None:
    stream = TaskStream(SOURCES, seed=3)
    stream.again([TASK, TASK])
    next(stream)
    other = TaskStream(SOURCES, seed=3)
    other.restore(json.loads(json.dumps(stream.state())))
    assert first(other, 5) == first(stream, 5)


def test_a_checkpoint_of_other_sources_is_refused() -> None:
    state = json.loads(json.dumps(TaskStream(SOURCES, seed=3).state()))
    grown = (TaskSource("db", "train", 31, 2.0), *SOURCES[1:])
    for others in (SOURCES[:1], SOURCES[::-1], (*SOURCES[:2], TaskSource("kg", "train", 50)), grown):
        with pytest.raises(ValueError, match=r"tasks are .*'db', 'train'.*'kg', 'dev'"):
            TaskStream(others, seed=3).restore(state)
    other_weight = (TaskSource("db", "train", 30, 1.0), *SOURCES[1:])
    TaskStream(other_weight, seed=3).restore(state)


def test_a_checkpoint_that_had_begun_other_tasks_is_refused() -> None:
    state = json.loads(json.dumps(TaskStream(SOURCES, seed=3).state()))
    for owed in (["db", "train", 30], ["db", "dev", 0], ["kg", "dev", 5]):
        with pytest.raises(ValueError, match=f"had begun {'/'.join(map(str, owed))}"):
            TaskStream(SOURCES, seed=3).restore({**state, "again": [owed]})


def test_sources_that_cannot_work_are_refused() -> None:
    for wrong in ({"weight": 0.0}, {"n_tasks": 0}, {"indices": (7,)}, {"indices": ()}):
        with pytest.raises(ValueError):
            TaskSource(**({"environment": "os", "split": "train", "n_tasks": 7} | wrong))  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        TaskStream((), seed=0)

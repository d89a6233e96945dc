"""What is learned: two environments of the hub as they are, which of their tasks, and what the hub's solutions look like played.

Invariant: no task of a held-out split is demonstrated or trained on.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.core.protocols import Environment
from envhub.core.types import JSON, LIMIT_OPTIONS, Message, TaskRef, ToolCall
from envhub.embedded import embedded_hub
from envhub.envs import registry
from envhub.envs.datasets import dataset_dir
from envhub.envs.kg.tasks import TaskSet, load_split

CAPACITY = 512
MAX_CALLS = 6
"""Questions of the knowledge graph to train and measure on: those that the reference solution answers with at most so many calls."""
N_VALIDATION = 60


@dataclass(frozen=True, slots=True)
class Course:
    """One environment: its session options and the size of the split that is learned from. Its tasks are dealt
    out: none is in two of ``demonstrated``, ``train``, ``validation`` (what settings are chosen by) and ``held_out``."""

    environment: str
    options: Mapping[str, JSON]
    n_tasks: int
    demonstrated: tuple[TaskRef, ...]
    train: tuple[TaskRef, ...]
    validation: tuple[TaskRef, ...]
    held_out: tuple[TaskRef, ...]


@asynccontextmanager
async def hub_of(environments: Mapping[str, Environment]) -> AsyncIterator[Hub]:
    """A whole hub in this process: controller, worker and client, without a socket."""
    async with embedded_hub(environments, settings=Settings(capacity=CAPACITY)) as hub:
        yield hub.hub


NAMES = ("calculator", "kg")


def environments() -> dict[str, Environment]:
    return {name: registry.create(name) for name in NAMES}


def courses(n_measured: int, *, validation: bool = False) -> tuple[Course, ...]:
    """At most ``n_measured`` tasks of each environment are held out. With ``validation`` its tasks stand in their place."""
    made = (_calculator(registry.create("calculator")), _kg())
    return tuple(
        replace(each, held_out=(each.validation if validation else each.held_out)[:n_measured]) for each in made
    )


def _dealt(tasks: Sequence[TaskRef], *sizes: int) -> Iterator[tuple[TaskRef, ...]]:
    """The tasks in a mixed order, the same always: as many as each size says, then the rest."""
    mixed = list(tasks)
    random.Random("dealt").shuffle(mixed)
    begin = 0
    for end in (*accumulate(sizes), len(mixed)):
        yield tuple(sorted(mixed[begin:end], key=lambda task: task.index))
        begin = end


def _calculator(environment: Environment) -> Course:
    sizes = environment.info().splits
    every, held_out = (
        tuple(TaskRef("calculator", split, number) for number in range(sizes[split])) for split in ("train", "test")
    )
    validation, demonstrated, train = _dealt(every, N_VALIDATION, 1_000)
    return Course("calculator", {"max_turns": 5}, len(every), demonstrated, train, validation, held_out)


def _kg() -> Course:
    """Longer questions are demonstrated too: few of the relations occur in short ones."""
    short, longer = range(MAX_CALLS + 1), range(MAX_CALLS + 1, 1_000)
    validation, train, demonstrated = _dealt(_questions("train", short), N_VALIDATION, 640)
    return Course(
        "kg",
        {"max_turns": MAX_CALLS + 2},
        len(_kg_tasks("train")),
        (*demonstrated, *_questions("train", longer)),
        train,
        validation,
        (*_questions("dev", short), *_questions("test", short)),
    )


@cache
def _kg_tasks(split: str) -> TaskSet:
    return load_split(dataset_dir("kg"), split)


def _questions(split: str, n_calls: range) -> tuple[TaskRef, ...]:
    """Of the kind that the training split has; the test split has others too."""
    tasks = _kg_tasks(split)
    kept = (number for number in range(len(tasks)) if len(tasks[number].solution) in n_calls)
    return tuple(TaskRef("kg", split, number) for number in kept if "generalization:iid" in tasks[number].tags)


async def demonstration(hub: Hub, environment: Environment, course: Course, task: TaskRef) -> tuple[Message, ...]:
    """The conversation of the hub's own reference solution, played on the hub. Raises RuntimeError where it earns nothing."""
    solution = environment.solution(task)
    if solution is None:
        raise RuntimeError(f"{task} has no reference solution")
    if course.environment == "kg":
        entities = _kg_tasks(task.split)[task.index].entities
        solution = _by_name(solution, {id: name for name, id in entities.items()})
    options = {name: value for name, value in course.options.items() if name not in LIMIT_OPTIONS}
    session = hub.session(task.environment, task.split, task.index, options=options)
    async with session:
        messages: list[Message] = list(session.messages)
        earned = 0.0
        for message in solution:
            result = await session.interact(message)
            messages += [message, *result.messages]
            earned += result.reward
            if result.done:
                break
    if earned < 1.0:
        raise RuntimeError(f"the reference solution of {task} earned {earned}")
    return tuple(messages)


def _by_name(solution: Sequence[Message], names: Mapping[str, str]) -> list[Message]:
    """The entities as the question names them: their ids, which the stored solution has, are not shown to the agent."""
    return [Message.assistant(each.content, *(_renamed(call, names) for call in each.tool_calls)) for each in solution]


def _renamed(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    arguments = {key: names.get(value, value) for key, value in json.loads(call.arguments).items()}
    return ToolCall(call.id, call.name, json.dumps(arguments))

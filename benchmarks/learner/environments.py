"""What is learned: two environments of the hub as they are, which of their tasks, and what the hub's solutions look like played.

Invariant: no task of a held-out split is demonstrated or trained on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.core.protocols import Environment
from envhub.core.types import JSON, LIMIT_OPTIONS, Message, TaskRef, ToolCall
from envhub.embedded import embedded_hub
from envhub.envs import registry
from envhub.envs.alfworld.game import Family
from envhub.envs.alfworld.tasks import load_split as load_games
from envhub.envs.datasets import dataset_dir
from envhub.envs.kg.tasks import TaskSet, load_split

CAPACITY = 512
FAMILIES = (Family.PLACE, Family.LIGHT)
"""Household games to demonstrate, train and measure on: the two families with the shortest solutions."""
MAX_CALLS = 4
"""Questions of the knowledge graph to train and measure on: those that the reference solution answers with at most so many calls."""


@dataclass(frozen=True, slots=True)
class Course:
    """One environment: its session options, the size of the split that is learned from, the tasks of it to learn from, and those to
    measure on, which are never learned from."""

    environment: str
    options: Mapping[str, JSON]
    n_tasks: int
    train: tuple[TaskRef, ...]
    held_out: tuple[TaskRef, ...]


@asynccontextmanager
async def hub_of(environments: Mapping[str, Environment]) -> AsyncIterator[Hub]:
    """A whole hub in this process: controller, worker and client, without a socket."""
    async with embedded_hub(environments, settings=Settings(capacity=CAPACITY)) as hub:
        yield hub.hub


def environments() -> dict[str, Environment]:
    return {name: registry.create(name) for name in ("alfworld", "kg")}


def courses(n_held_out: int) -> tuple[Course, ...]:
    return _alfworld(n_held_out), _kg(n_held_out)


def every_demonstration() -> tuple[Course, ...]:
    """What demonstrations are drawn from: of the knowledge graph, questions of any length."""
    alfworld, kg = courses(1)
    return alfworld, replace(kg, train=_questions("train", max_calls=1_000))


def _alfworld(n_held_out: int) -> Course:
    """Without a list of possible actions after each turn, which would make most of an episode."""
    options = {"admissible": "never", "max_turns": 12}
    held_out = (*_games("valid_seen"), *_games("valid_unseen"))
    n_tasks = len(load_games(dataset_dir("alfworld"), "train"))
    return Course("alfworld", options, n_tasks, _games("train"), held_out[:n_held_out])


def _games(split: str) -> tuple[TaskRef, ...]:
    games = load_games(dataset_dir("alfworld"), split)
    return tuple(
        TaskRef("alfworld", split, index) for index in range(len(games)) if games[index].goal.family in FAMILIES
    )


def _kg(n_held_out: int) -> Course:
    held_out = (*_questions("dev"), *_questions("test"))
    return Course("kg", {"max_turns": 7}, len(_kg_tasks("train")), _questions("train"), held_out[:n_held_out])


@cache
def _kg_tasks(split: str) -> TaskSet:
    return load_split(dataset_dir("kg"), split)


def _questions(split: str, *, max_calls: int = MAX_CALLS) -> tuple[TaskRef, ...]:
    tasks = _kg_tasks(split)
    return tuple(TaskRef("kg", split, index) for index in range(len(tasks)) if len(tasks[index].solution) <= max_calls)


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

"""What is learned: two environments of the hub as they are, which of their tasks, and what the hub's solutions look like played.

Invariant: no task of a held-out split is demonstrated or trained on.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import accumulate

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.core.protocols import Environment
from envhub.core.types import JSON, LIMIT_OPTIONS, Message, StepResult, TaskRef, ToolCall
from envhub.embedded import embedded_hub
from envhub.envs import registry
from envhub.envs.alfworld.game import Family
from envhub.envs.alfworld.tasks import load_split as load_games
from envhub.envs.datasets import dataset_dir

CAPACITY = 512
FAMILIES = (Family.PLACE, Family.LIGHT)
"""Household games: the two families with the shortest solutions."""
MAX_RECEPTACLES = 16
"""Games in rooms with at most so many places to look in: where things are is found by looking, not by luck."""
N_VALIDATION = 60


@dataclass(frozen=True, slots=True)
class Course:
    """One environment: its share of the groups, its session options and the size of the split that is learned from. Its tasks are
    dealt out: none is in two of ``demonstrated``, ``train``, ``validation`` (what settings are chosen by) and ``held_out``."""

    environment: str
    weight: float
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


NAMES = ("alfworld", "calculator")


def environments() -> dict[str, Environment]:
    return {name: registry.create(name) for name in NAMES}


def courses(n_measured: int, *, validation: bool = False) -> tuple[Course, ...]:
    """At most ``n_measured`` tasks of each environment are held out. With ``validation`` its tasks stand in their place."""
    made = (_alfworld(), _calculator(registry.create("calculator")))
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


def _alfworld() -> Course:
    """Without a list of possible actions after each turn, which would make most of an episode. Games in larger rooms are demonstrated
    only. The official splits have few games in small rooms: the rest of what is held out comes from the training split."""
    small, official = _games("train", small=True), (*_games("valid_seen"), *_games("valid_unseen"))
    validation, held_out, train, demonstrated = _dealt(small, N_VALIDATION, 100 - len(official), 440)
    return Course(
        "alfworld",
        1.0,
        {"admissible": "never", "max_turns": 15},
        len(load_games(dataset_dir("alfworld"), "train")),
        (*demonstrated, *_games("train", small=False)),
        train,
        validation,
        (*official, *held_out),
    )


def _games(split: str, *, small: bool = True) -> tuple[TaskRef, ...]:
    games = load_games(dataset_dir("alfworld"), split)
    kept = (number for number in range(len(games)) if games[number].goal.family in FAMILIES)
    return tuple(
        TaskRef("alfworld", split, number)
        for number in kept
        if (len(games[number].receptacles) <= MAX_RECEPTACLES) == small
    )


def _calculator(environment: Environment) -> Course:
    """More groups: an episode has a quarter of the tokens of one of ALFWorld."""
    sizes = environment.info().splits
    every, held_out = (
        tuple(TaskRef("calculator", split, number) for number in range(sizes[split])) for split in ("train", "test")
    )
    validation, demonstrated, train = _dealt(every, N_VALIDATION, 1_000)
    return Course("calculator", 3.0, {"max_turns": 5}, len(every), demonstrated, train, validation, held_out)


async def demonstration(
    hub: Hub, environment: Environment, course: Course, task: TaskRef, *, n_looks: int = 0, rng: random.Random
) -> tuple[Message, ...]:
    """The conversation of the hub's own reference solution, played on the hub; of ALFWorld, after a look at up to ``n_looks`` places
    where the object is not. Raises RuntimeError where it earns nothing."""
    solution = environment.solution(task)
    if solution is None:
        raise RuntimeError(f"{task} has no reference solution")
    options = {name: value for name, value in course.options.items() if name not in LIMIT_OPTIONS}
    session = hub.session(task.environment, task.split, task.index, options=options)
    async with session:
        messages: list[Message] = list(session.messages)

        async def say(message: Message) -> StepResult:
            result = await session.interact(message)
            messages.extend((message, *result.messages))
            return result

        if course.environment == "alfworld":
            await _look_around(say, messages[-1].content or "", solution, n_looks, rng)
        earned = 0.0
        for message in solution:
            result = await say(message)
            earned += result.reward
            if result.done:
                break
    if earned < 1.0:
        raise RuntimeError(f"the reference solution of {task} earned {earned}")
    return tuple(messages)


_Say = Callable[[Message], Awaitable[StepResult]]
_PLACE = re.compile(r"\ban? ([a-z]+ \d+)")


async def _look_around(say: _Say, room: str, solution: Sequence[Message], n_looks: int, rng: random.Random) -> None:
    """As somebody who does not know where things are: go to places, open what is closed. The solution goes nowhere first that
    was looked at, and its object was not seen."""
    done = [str(json.loads(call.arguments)["action"]) for message in solution for call in message.tool_calls]
    wanted = next((action.split()[1] for action in done if action.startswith("take ")), None)
    places = [place for place in _PLACE.findall(room) if not any(place in action for action in done)]
    for place in rng.sample(places, min(n_looks, len(places))):
        seen = (await say(_action(f"go to {place}"))).messages[-1].content or ""
        if "is closed" in seen:
            seen = (await say(_action(f"open {place}"))).messages[-1].content or ""
        if wanted is None or f" {wanted} " in seen:
            return


def _action(text: str) -> Message:
    return Message.assistant(None, ToolCall("look", "take_action", json.dumps({"action": text})))

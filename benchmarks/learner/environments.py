"""What is learned: two environments of the hub as they are, which of their tasks, and what the hub's solutions look like played.

Invariant: no task of a held-out split is demonstrated or trained on.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from learner.games import write_games

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.core.protocols import Environment
from envhub.core.types import JSON, LIMIT_OPTIONS, Message, StepResult, TaskRef, ToolCall
from envhub.embedded import embedded_hub
from envhub.envs import registry

CAPACITY = 512
N_DEMONSTRATED = 1_000
"""Sums of the calculator's training split that are not trained on."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Household games by what they are for; of the calculator as many are measured on."""

    demonstrated: int
    train: int
    validation: int
    held_out: int


@dataclass(frozen=True, slots=True)
class Course:
    """One environment with its settings, its session options and its tasks: no task is in two of
    ``demonstrated``, ``train``, ``validation`` (what settings are chosen by) and ``held_out``. Those to train on are of one split,
    which has ``n_tasks``."""

    environment: str
    settings: Mapping[str, JSON]
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


def environments(courses: Sequence[Course]) -> dict[str, Environment]:
    return {each.environment: registry.create(each.environment, each.settings) for each in courses}


def courses(folder: Path, sizes: Sizes, *, validation: bool = False) -> tuple[Course, ...]:
    """Games are written to ``folder`` once. With ``validation`` its tasks stand in the place of those that are held out."""
    made = (_alfworld(folder, sizes), _calculator(sizes))
    return tuple(replace(each, held_out=each.validation) if validation else each for each in made)


def _alfworld(folder: Path, sizes: Sizes) -> Course:
    """Without a list of possible actions after each turn, which would make most of an episode."""
    games = asdict(sizes)
    write_games(folder, games)
    parts = {split: _all_of("alfworld", split, size) for split, size in games.items()}
    options: dict[str, JSON] = {"admissible": "never", "max_turns": 12}
    return Course("alfworld", {"datasets": str(folder)}, options, sizes.train, **parts)


def _calculator(sizes: Sizes) -> Course:
    splits = registry.create("calculator").info().splits
    every = list(_all_of("calculator", "train", splits["train"]))
    random.Random("dealt").shuffle(every)
    dealt = iter(every)
    validation, demonstrated = (tuple(islice(dealt, n)) for n in (sizes.validation, N_DEMONSTRATED))
    held_out = _all_of("calculator", "test", min(sizes.held_out, splits["test"]))
    options: dict[str, JSON] = {"max_turns": 5}
    return Course("calculator", {}, options, len(every), demonstrated, tuple(dealt), validation, held_out)


def _all_of(environment: str, split: str, n_tasks: int) -> tuple[TaskRef, ...]:
    return tuple(TaskRef(environment, split, number) for number in range(n_tasks))


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
    """As somebody who does not know where things are: go to places that the solution does not need, open what is closed, and stop
    looking at the sight of such a thing, also where the solution takes another one of them."""
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

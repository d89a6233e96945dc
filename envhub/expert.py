"""``envhub tasks expert``: reference solutions and expert plans as JSON lines, for imitation data.

Invariant: nothing is printed for a task that was not opened or solved; a task without a known solution says so with null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from envhub import wire
from envhub.bench.plan import parse_target, parse_tasks
from envhub.core.protocols import Environment, Planner
from envhub.core.types import JSON, Message, TaskRef, ToolCall


async def write_plans(
    create: Callable[[str], Environment], target: str, after: Sequence[str], write: Callable[[str], None]
) -> None:
    """One line for each task of ``target``: its assistant messages, or the actions that win after those of ``after``.

    Raises PlanError for a wrong target and ValueError for a split that is not there or an environment without an expert.
    """
    spec = parse_target(target)
    environment = create(spec.environment)
    try:
        info = environment.info()
        split = spec.split or info.default_split
        if split not in info.splits:
            raise ValueError(f"{info.name} has no split {split!r}; valid: {', '.join(info.splits)}")
        for index in parse_tasks(spec.tasks, info.splits[split]):
            line: dict[str, JSON] = {"environment": info.name, "split": split, "task": index}
            task = TaskRef(info.name, split, index)
            if after:
                line |= {"after": list(after), "actions": await _actions_after(environment, task, after)}
            else:
                solution = environment.solution(task)
                line["messages"] = None if solution is None else [wire.message_to_json(each) for each in solution]
            write(wire.dumps(line).decode())
    finally:
        await environment.close()


async def _actions_after(environment: Environment, task: TaskRef, after: Sequence[str]) -> list[str] | None:
    episode = await environment.open(task, seed=0, options=dict(environment.info().options))
    try:
        if not isinstance(episode, Planner):
            raise ValueError(f"{task.environment} has no expert that plans from a later state")
        await episode.reset()
        for action in after:
            call = ToolCall("1", episode.action_tool, json.dumps({"action": action}))
            await episode.step(Message.assistant(None, call))
        plan = episode.expert_plan()
        return None if plan is None else list(plan)
    finally:
        await episode.close()

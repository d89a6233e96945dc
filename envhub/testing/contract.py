"""What every environment must do, as checks that any test runner can call. Third parties run them on their own environments.

::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_contract(check):
        await check(MyEnvironment())

Invariant: a check closes every episode it opens and leaves the environment usable.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from envhub.core.errors import InvalidRequestError
from envhub.core.protocols import Environment, Episode
from envhub.core.types import JSON, Message, Observation, StepResult, TaskRef, ToolCall

Check = Callable[[Environment], Awaitable[None]]

N_TASKS = 3

BAD_ARGUMENTS: tuple[str, ...] = (
    "",
    "null",
    "[]",
    "3",
    '"ls"',
    "{'a':1}",
    '{"a":1,}',
    '{"a":1}{"a":1}',
    '"{\\"a\\": 1}"',
    '{"x":1,"x":2}',
    '{"no_such_argument": 5}',
    '{"no_such_argument": null}',
    '{"a": "cut in the mid',
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": "\\ud800"}',
    "[" * 50_000,
)
"""Argument texts that no tool may accept, whatever its parameters."""


async def info_is_complete_and_constant(environment: Environment) -> None:
    info = environment.info()
    assert info == environment.info(), "info() must be constant"
    assert info.name and info.version and info.description and info.dataset_hash, "info() has an empty field"
    assert info.splits and all(size > 0 for size in info.splits.values()), "every split must have tasks"
    assert info.default_split in info.splits, "the default split must be one of the splits"
    assert info.reward_range[0] <= 0.0 < info.reward_range[1], "the reward range must hold 0 and something better"
    json.dumps(dict(info.options), allow_nan=False)


async def observations_are_well_formed(environment: Environment) -> None:
    for task in _tasks(environment):
        async with _opened(environment, task) as (_, observation):
            assert observation.messages, f"{task}: a reset must show something"
            roles = {message.role for message in observation.messages}
            assert "user" in roles, f"{task}: no user message poses the task"
            _encodable(observation.messages)
            names = [spec.name for spec in observation.tools]
            assert names and len(set(names)) == len(names), f"{task}: tools must exist and have distinct names"
            for spec in observation.tools:
                assert spec.description, f"tool {spec.name} has no description"
                assert spec.parameters.get("type") == "object", f"tool {spec.name}: parameters must be an object schema"
                json.dumps(dict(spec.parameters), allow_nan=False)


async def reference_solutions_earn_the_full_reward(environment: Environment) -> None:
    best = environment.info().reward_range[1]
    for task in _tasks(environment):
        solution = environment.solution(task)
        if solution is None:
            continue
        results = await _play(environment, task, solution)
        total = sum(result.reward for result in results)
        assert results[-1].terminated, f"{task}: the reference solution does not end the episode"
        assert total == best, f"{task}: the reference solution earns {total}, not {best}"


async def same_actions_give_the_same_answers(environment: Environment) -> None:
    if not environment.info().deterministic:
        return
    for task in _tasks(environment):
        actions = environment.solution(task) or (Message.assistant("Hello."),)
        async with _opened(environment, task) as (_, first), _opened(environment, task) as (_, second):
            assert first.messages == second.messages, f"{task}: two resets with one seed differ"
        assert await _play(environment, task, actions) == await _play(environment, task, actions), (
            f"{task} is not replayable"
        )


async def concurrent_episodes_do_not_see_each_other(environment: Environment) -> None:
    if not environment.info().deterministic:
        return
    task = _tasks(environment)[0]
    actions = environment.solution(task) or (Message.assistant("Hello."),)
    alone = await _play(environment, task, actions)
    together = await asyncio.gather(*(_play(environment, task, actions) for _ in range(8)))
    assert all(each == alone for each in together), f"{task}: an episode changes when others run beside it"


async def bad_arguments_get_one_answer_and_run_nothing(environment: Environment) -> None:
    task = _tasks(environment)[0]
    async with _opened(environment, task) as (episode, observation):
        for spec in observation.tools:
            for number, arguments in enumerate(BAD_ARGUMENTS):
                call = ToolCall(f"id-{number}", spec.name, arguments)
                _answered(await episode.step(Message.assistant(None, call)), [call], f"{spec.name}({arguments[:40]!r})")


async def every_call_of_a_message_is_answered_once_in_order(environment: Environment) -> None:
    task = _tasks(environment)[0]
    async with _opened(environment, task) as (episode, observation):
        name = observation.tools[0].name
        for calls in (
            [ToolCall("a", name, "{"), ToolCall("b", name, "[]")],
            [ToolCall("same", name, "{"), ToolCall("same", name, "{")],
            [ToolCall("a", "no_such_tool", "{}"), ToolCall("b", "", "{}"), ToolCall("c", name, "", "broken call")],
            [ToolCall(str(number), name, "null") for number in range(40)],
        ):
            _answered(await episode.step(Message.assistant("text", *calls)), calls, f"{len(calls)} calls")


async def nothing_runs_after_the_finishing_call(environment: Environment) -> None:
    task = _tasks(environment)[0]
    solution = environment.solution(task)
    if not solution or not solution[-1].tool_calls:
        return
    async with _opened(environment, task) as (episode, _):
        for action in solution[:-1]:
            await episode.step(action)
        last = solution[-1].tool_calls
        calls = [*last, ToolCall("late", last[-1].name, last[-1].arguments)]
        result = await episode.step(Message.assistant(None, *calls))
        _answered(result, calls, "a call after the end", may_end=True)
        assert result.terminated and result.reward == environment.info().reward_range[1], "the end was not kept"
        assert "not executed" in (result.messages[-1].content or ""), (
            "a late call must be told that it was not executed"
        )


async def text_without_a_call_gets_an_answer(environment: Environment) -> None:
    task = _tasks(environment)[0]
    async with _opened(environment, task) as (episode, _):
        for text in (None, "", "Hello.", "漢字\n\x00😀", "\ud800", "x" * 100_000):
            result = await episode.step(Message.assistant(text))
            assert result.messages, "a message without a tool call must be answered"
            assert all(message.role == "user" for message in result.messages), "the answer must be a user message"
            _encodable(result.messages)
            if result.terminated:
                return


async def close_is_idempotent_at_any_time(environment: Environment) -> None:
    task = _tasks(environment)[0]
    options = dict(environment.info().options)
    fresh = await environment.open(task, seed=1, options=options)
    await fresh.close()
    await fresh.close()
    episode = await environment.open(task, seed=1, options=options)
    await episode.reset()
    step = asyncio.ensure_future(episode.step((environment.solution(task) or [Message.assistant("Hello.")])[0]))
    await asyncio.sleep(0)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    await asyncio.gather(episode.close(), episode.close())
    await observations_are_well_formed(environment)


async def unknown_grading_modes_are_refused(environment: Environment) -> None:
    info = environment.info()
    if not isinstance(info.options.get("grading"), str):
        return
    try:
        wrong = {**info.options, "grading": "no such mode"}
        episode = await environment.open(_tasks(environment)[0], seed=1, options=wrong)
        await episode.close()
    except InvalidRequestError:
        return
    raise AssertionError("an unknown grading mode must raise InvalidRequestError")


async def lint_names_tasks_that_exist(environment: Environment) -> None:
    info = environment.info()
    for split, size in info.splits.items():
        for defect in environment.lint(split):
            assert defect.task.split == split and 0 <= defect.task.index < size, f"lint names {defect.task}"
            assert defect.problem, f"{defect.task}: a defect needs a reason"


CHECKS: tuple[Check, ...] = (
    info_is_complete_and_constant,
    observations_are_well_formed,
    reference_solutions_earn_the_full_reward,
    same_actions_give_the_same_answers,
    concurrent_episodes_do_not_see_each_other,
    bad_arguments_get_one_answer_and_run_nothing,
    every_call_of_a_message_is_answered_once_in_order,
    nothing_runs_after_the_finishing_call,
    text_without_a_call_gets_an_answer,
    close_is_idempotent_at_any_time,
    unknown_grading_modes_are_refused,
    lint_names_tasks_that_exist,
)


def _tasks(environment: Environment) -> list[TaskRef]:
    """The first, middle and last usable tasks of every split."""
    info = environment.info()
    found: list[TaskRef] = []
    for split, size in info.splits.items():
        unusable = {defect.task.index for defect in environment.lint(split) if not defect.usable}
        wanted = sorted({0, size // 2, size - 1})[:N_TASKS]
        found += [TaskRef(info.name, split, index) for index in wanted if index not in unusable]
    return found


@asynccontextmanager
async def _opened(environment: Environment, task: TaskRef) -> AsyncIterator[tuple[Episode, Observation]]:
    episode = await environment.open(task, seed=7, options=dict(environment.info().options))
    try:
        yield episode, await episode.reset()
    finally:
        await episode.close()


async def _play(environment: Environment, task: TaskRef, actions: Sequence[Message]) -> list[StepResult]:
    async with _opened(environment, task) as (episode, _):
        results: list[StepResult] = []
        for action in actions:
            results.append(await episode.step(action))
            if results[-1].done:
                break
        return results


def _answered(result: StepResult, calls: Sequence[ToolCall], what: str, *, may_end: bool = False) -> None:
    assert [message.role for message in result.messages] == ["tool"] * len(calls), f"{what}: not one answer per call"
    ids = [message.tool_call_id for message in result.messages]
    assert ids == [call.id for call in calls], f"{what}: the answers carry ids {ids}"
    assert all(message.content for message in result.messages), f"{what}: an answer is empty"
    assert not result.truncated, f"{what}: truncated belongs to the session"
    assert may_end or not result.terminated, f"{what}: a malformed call ended the episode"
    _encodable(result.messages)


def _encodable(messages: Sequence[Message]) -> None:
    body: JSON = [message.content for message in messages]
    json.dumps(body, ensure_ascii=False).encode()

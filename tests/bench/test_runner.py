"""The runner against a whole hub in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from chat_server import ChatServer, Reply, call, failed, said
from exam import ExamEnvironment, Pupil

from envhub.bench.agents import Agent, ModelAgent, NullAgent, OracleAgent, RandomAgent
from envhub.bench.plan import Plan, Target
from envhub.bench.results import ResultsFolder, Row, Status
from envhub.bench.runner import RunAbortedError, Runner, RunOptions
from envhub.bench.summary import summarize
from envhub.client.hub import Hub
from envhub.client.openai_policy import Endpoint
from envhub.core.protocols import Environment
from envhub.core.types import StopReason
from envhub.envs import registry
from envhub.testing.hub import local_hub


async def play(
    hub: Hub,
    agents: Sequence[Agent],
    path: Path,
    *,
    environment: str = "exam",
    tasks: Sequence[int] = range(10),
    repeats: int = 1,
    options: RunOptions | None = None,
) -> tuple[Row, ...]:
    definitions = {agent.name: agent.definition for agent in agents}
    plan = Plan((Target(environment, "test", tuple(tasks)),), definitions, repeats)
    with ResultsFolder(path) as folder:
        folder.begin(plan, resume=True)
        await Runner(hub, agents, folder, options=options).run()
    with ResultsFolder(path) as folder:
        return folder.rows


def named(environment: Environment) -> dict[str, Environment]:
    return {environment.info().name: environment}


async def test_b052_errors_and_cancellations_are_never_zeros_and_a_resume_redoes_only_them(tmp_path: Path) -> None:
    exam = ExamEnvironment(breaks={7: 99, 8: 99})
    async with local_hub(named(exam)) as local:
        rows = await play(local.hub, [Pupil(4, hub=local.hub)], tmp_path)
        (summary,) = summarize(rows)
        assert (summary.n, summary.graded, summary.passed, summary.n_errors, summary.cancelled) == (10, 7, 4, 2, 1)
        assert (summary.pass_of_all, summary.pass_of_graded) == (0.4, pytest.approx(4 / 7))
        assert {row.task for row in rows if row.episode_return is None} == {7, 8, 9}
        assert {row.error.code for row in rows if row.status is Status.ERROR and row.error} == {"episode_failed"}

        exam.breaks.clear()
        opened = exam.opened.copy()
        rows = await play(local.hub, [Pupil(4)], tmp_path)
        assert exam.opened - opened == {7: 1, 8: 1, 9: 1}
        assert len(rows) == 10
        assert all(row.status is Status.GRADED for row in rows)


async def test_a_broken_episode_is_tried_again_on_a_fresh_session_a_bounded_number_of_times(tmp_path: Path) -> None:
    exam = ExamEnvironment(breaks={0: 2, 1: 3})
    async with local_hub(named(exam)) as local:
        rows = {row.task: row for row in await play(local.hub, [Pupil()], tmp_path, tasks=(0, 1))}
    assert (rows[0].status, rows[0].attempts, rows[0].success) == (Status.GRADED, 3, True)
    assert (rows[1].status, rows[1].attempts, rows[1].episode_return) == (Status.ERROR, 3, None)
    assert exam.opened == {0: 3, 1: 3}


async def test_d30_more_jobs_than_slots_lose_no_episode(tmp_path: Path) -> None:
    exam = ExamEnvironment()
    async with local_hub(named(exam), capacity=2) as local:
        pupil = Pupil(pause_s=0.005)
        rows = await play(local.hub, [pupil], tmp_path, repeats=3, options=RunOptions(jobs=16))
    assert len(rows) == 30
    assert all(row.success for row in rows)
    assert pupil.most_playing <= 2


async def test_jobs_bound_the_sessions_and_all_are_used(tmp_path: Path) -> None:
    async with local_hub(named(ExamEnvironment())) as local:
        pupil = Pupil(pause_s=0.01)
        await play(local.hub, [pupil], tmp_path, options=RunOptions(jobs=4))
    assert pupil.most_playing == 4


async def test_built_in_agents_earn_what_they_must(tmp_path: Path) -> None:
    environment = registry.create("calculator")
    async with local_hub({"calculator": environment}) as local:
        agents: list[Agent] = [OracleAgent(lambda name: environment), NullAgent(), RandomAgent()]
        rows = await play(local.hub, agents, tmp_path, environment="calculator", options=RunOptions(traces=True))
    by_agent = {summary.cell.agent: summary for summary in summarize(rows)}
    assert (by_agent["oracle"].passed, by_agent["null"].passed, by_agent["random"].passed) == (10, 0, 0)
    assert by_agent["null"].stop_reasons == {StopReason.TURN_LIMIT: 10}
    oracle = next(row for row in rows if row.agent == "oracle")
    assert oracle.terminated and not oracle.truncated and oracle.turns == 3
    assert oracle.trace is not None
    trace = json.loads((tmp_path / oracle.trace).read_text())
    assert [message["role"] for message in trace["messages"]] == ["user", *("assistant", "tool") * 3]
    assert trace["rewards"] == [0.0, 0.0, 1.0]


async def test_runs_of_the_same_seed_are_the_same(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        async with local_hub() as local:
            rows = await play(
                local.hub, [RandomAgent()], tmp_path / name, environment="calculator", options=RunOptions(traces=True)
            )
        traces = [json.loads((tmp_path / name / str(row.trace)).read_text())["messages"] for row in rows]
        found.append(
            sorted(zip([row.key for row in rows], [row.seed for row in rows], map(str, traces), strict=True), key=str)
        )
    assert found[0] == found[1]


async def test_the_oracle_refuses_another_dataset(tmp_path: Path) -> None:
    async with local_hub(named(ExamEnvironment(dataset_hash="exam-2"))) as local:
        with pytest.raises(RunAbortedError, match="exam-2"):
            await play(local.hub, [OracleAgent(lambda name: ExamEnvironment())], tmp_path)


async def test_a_task_without_a_solution_is_an_error_of_the_agent(tmp_path: Path) -> None:
    exam = ExamEnvironment()
    async with local_hub(named(exam)) as local:
        (row,) = await play(local.hub, [OracleAgent(lambda name: exam)], tmp_path, tasks=[9])
    assert row.error is not None
    assert (row.error.source, row.error.code) == ("agent", "no_solution")


async def test_results_of_a_new_version_stay_apart_on_resume(tmp_path: Path) -> None:
    for version, breaks in (("1", {0: 99}), ("2", {})):
        async with local_hub(named(ExamEnvironment(version=version, breaks=breaks))) as local:
            rows = await play(local.hub, [Pupil()], tmp_path, tasks=(0, 1))
    assert sorted((each.n, each.return_mean) for each in summarize(rows)) == [(1, 1.0), (1, 1.0)]


async def test_cancelling_a_run_gives_every_session_back_and_records_none(tmp_path: Path) -> None:
    exam = ExamEnvironment()
    async with local_hub(named(exam)) as local:
        pupil = Pupil(pause_s=30)
        run = asyncio.create_task(play(local.hub, [pupil], tmp_path))
        await pupil.ten_play.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert exam.closed == 10
        with ResultsFolder(tmp_path) as folder:
            assert folder.rows == ()


# --- models ---------------------------------------------------------------------------------------------------------


async def play_model(replies: Any, path: Path, *, models: Sequence[str] = ("m",), **settings: Any) -> tuple[Row, ...]:
    async with (
        local_hub(named(ExamEnvironment())) as local,
        ChatServer(replies) as server,
        aiohttp.ClientSession() as session,
    ):
        endpoints = [Endpoint(server.url, model, **{"max_retries": 0, **settings}) for model in models]
        return await play(local.hub, [ModelAgent(endpoints, session)], path, tasks=[0], options=RunOptions(jobs=1))


async def test_a_model_plays_through_malformed_and_cut_off_calls(tmp_path: Path) -> None:
    replies = [
        said(None, [call("answer", '{"text": "ri')], finish="length"),
        said(None, [call("nonsense", "{}"), "not a call"]),
        said(None, [call("answer", '{"text": "right"}')]),
    ]
    (row,) = await play_model(replies, tmp_path)
    assert (row.status, row.success, row.turns) == (Status.GRADED, True, 3)
    assert (row.prompt_tokens, row.completion_tokens) == (30, 9)
    assert row.model_s > 0 and row.hub_s > 0


async def test_a_model_that_is_out_of_context_has_earned_nothing(tmp_path: Path) -> None:
    replies = [said("hm"), failed(400, "too long", "context_length_exceeded")]
    (row,) = await play_model(replies, tmp_path)
    assert (row.status, row.episode_return, row.success) == (Status.GRADED, 0.0, False)
    assert (row.stop_reason, row.truncated, row.turns) == (StopReason.CONTEXT_LIMIT, True, 1)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (failed(500, "oops"), "model_http_500"),
        (failed(400, "bad"), "model_http_400"),
        (Reply(200, "{}"), "model_error"),
    ],
)
async def test_a_broken_endpoint_is_an_error_and_not_a_zero(tmp_path: Path, reply: Reply, code: str) -> None:
    (row,) = await play_model([reply], tmp_path)
    assert (row.status, row.episode_return) == (Status.ERROR, None)
    assert row.error is not None and (row.error.source, row.error.code) == ("model", code)


async def test_an_episode_that_ends_as_cancelled_has_no_reward(tmp_path: Path) -> None:
    (row,) = await play_model([said(None, [call("answer", '{"text": "leave"}')])], tmp_path)
    assert (row.status, row.episode_return, row.success) == (Status.CANCELLED, None, None)


async def test_a_wrong_key_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunAbortedError, match="bad key"):
        await play_model([failed(401, "bad key")], tmp_path)


async def test_a_bug_in_a_player_costs_its_episode_alone(tmp_path: Path) -> None:
    class Buggy(Pupil):
        async def wait(self, index: int) -> None:
            if index == 3:
                raise KeyError("bug")

    async with local_hub(named(ExamEnvironment())) as local:
        rows = await play(local.hub, [Buggy()], tmp_path)
    errors = {row.task: row.error for row in rows if row.error}
    assert list(errors) == [3] and errors[3] is not None
    assert (errors[3].source, errors[3].code) == ("agent", "agent_failed")


async def test_several_models_take_turns_by_a_seeded_draw_that_the_row_names(tmp_path: Path) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        return said(f"I am {request['model']}")

    first = await play_model(reply, tmp_path / "one", models=("a", "b"))
    again = await play_model(reply, tmp_path / "two", models=("a", "b"))
    assert first[0].agent == "cross(a,b)"
    assert len(first[0].actors) == first[0].turns == 3
    assert set(first[0].actors) <= {"a", "b"}
    assert first[0].actors == again[0].actors

"""Many conversations at once: gymnasium's own SyncVectorEnv is the reference; failures and slots are counted."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from envhub.core.errors import EpisodeError, InvalidRequestError, TaskNotFoundError
from envhub.core.types import Message, ToolCall
from envhub.gym import HubEnv, HubVectorEnv, VectorEpisodeError
from tests.gym.obedient import Obedient, Place

pytestmark = pytest.mark.filterwarnings("error::UserWarning")

N = 4
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def say(*contents: str) -> list[dict[str, Any]]:
    return [{"content": content, "tool_calls": ()} for content in contents]


def batched(actions: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: tuple(action[key] for action in actions) for key in ("content", "tool_calls")}


def comparable(infos: dict[str, Any]) -> dict[str, Any]:
    """Session ids are never the same twice."""
    return {
        key: comparable(value) if isinstance(value, dict) else value
        for key, value in infos.items()
        if key not in ("session_id", "_session_id")
    }


def assert_same(mine: tuple[Any, ...], reference: tuple[Any, ...]) -> None:
    for one, other in zip(mine, reference, strict=True):
        if isinstance(one, dict) and "messages" not in one:
            one, other = comparable(one), comparable(other)
        assert data_equivalence(one, other, exact=True), f"{one}\n\n{other}"


SCRIPT = [
    say("hello", "end 1", "score 1", "a"),
    say("end 0.5", "ignored when resetting", "b", "b"),
    say("c", "c", "end 0", "c"),
    say("d", "d", "d", "d"),
    say("e", "e", "e", "e"),
    say("f", "end 0.25", "f", "f"),
    say("g", "g", "end 1", "g"),
]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_same_as_the_synchronous_vector_environment(place: Place, mode: AutoresetMode) -> None:
    mine = HubVectorEnv(N, **place.seat(), autoreset_mode=mode)
    reference = SyncVectorEnv([lambda: HubEnv(**place.seat()) for _ in range(N)], autoreset_mode=mode)
    assert mine.metadata["autoreset_mode"] is reference.metadata["autoreset_mode"] is mode
    assert (mine.action_space, mine.observation_space) == (reference.action_space, reference.observation_space)
    assert mine.single_observation_space == reference.single_observation_space
    assert_same(mine.reset(seed=42), reference.reset(seed=42))
    ends = 0
    for actions in SCRIPT:
        answer = mine.step(batched(actions))
        assert_same(answer, reference.step(batched(actions)))
        assert answer[0] in mine.observation_space
        assert [each.dtype for each in answer[1:4]] == [np.float64, np.bool_, np.bool_]
        over = answer[2] | answer[3]
        ends += over.sum()
        if mode is AutoresetMode.DISABLED and over.any():
            reset = {"reset_mask": over}
            assert_same(mine.reset(options=dict(reset)), reference.reset(options=dict(reset)))
    assert ends >= 6  # ends of both kinds were compared
    assert_same(mine.reset(seed=[1, None, 2, None]), reference.reset(seed=[1, None, 2, None]))
    mine.close()
    reference.close()


def test_random_actions_on_the_calculator_match_too(place: Place) -> None:
    mine = HubVectorEnv(N, **place.seat("calculator", max_turns=2))
    reference = SyncVectorEnv([lambda: HubEnv(**place.seat("calculator", max_turns=2)) for _ in range(N)])
    assert_same(mine.reset(seed=7), reference.reset(seed=7))
    mine.action_space.seed(3)
    for _ in range(6):
        actions = mine.action_space.sample()
        assert_same(mine.step(actions), reference.step(actions))
    mine.close()
    reference.close()


def test_next_step_ignores_the_action_and_gives_reward_zero_while_resetting(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient)
    envs.reset(seed=1)
    _, rewards, terminated, truncated, infos = envs.step(say("end 1", "a"))
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == ([1.0, 0.25], [True, False], [False, False])
    assert infos["stop_reason"].tolist() == ["completed", None]
    observations, rewards, terminated, _, infos = envs.step(say("end 1", "b"))
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.25], [False, False])
    assert [len(messages) for messages in observations["messages"]] == [2, 6]
    assert infos["_session_id"].tolist() == [True, False]
    envs.close()


def test_same_step_keeps_the_final_observation(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient, autoreset_mode="SameStep")
    envs.reset(seed=1)
    observations, rewards, terminated, _, infos = envs.step(say("end 0.5", "a"))
    assert (rewards.tolist(), terminated.tolist()) == ([0.5, 0.25], [True, False])
    assert infos["final_obs"][0]["messages"][-1]["content"] == "over"
    assert infos["final_obs"][1] is None
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False]
    assert infos["final_info"]["stop_reason"][0] == "completed"
    assert len(observations["messages"][0]) == 2
    envs.close()


def test_disabled_refuses_to_step_an_ended_slot(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=1)
    envs.step(say("end 1", "a"))
    with pytest.raises(ResetNeeded, match="slot 0"):
        envs.step(say("a", "a"))
    observations, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    assert [len(messages) for messages in observations["messages"]] == [2, 4]
    assert envs.step(say("a", "end 1"))[1].tolist() == [0.25, 1.0]
    envs.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_b015_a_failing_slot_raises_with_the_answers_of_the_others(place: Place, mode: AutoresetMode) -> None:
    envs = HubVectorEnv(3, **place.seat(), autoreset_mode=mode)
    envs.reset(seed=1)
    with pytest.raises(VectorEpisodeError, match="1 slots failed, slot 1") as caught:
        envs.step(say("a", "break", "end 1"))
    assert isinstance(caught.value, EpisodeError)
    assert list(caught.value.errors) == [1]
    observations, rewards, terminated, truncated, infos = caught.value.result
    assert observations in envs.observation_space
    np.testing.assert_equal(rewards, [0.25, np.nan, 1.0])
    assert (terminated.tolist(), truncated.tolist()) == ([False, False, True], [False, True, False])
    assert infos["_error"].tolist() == [False, True, False]
    assert "told to break" in str(infos["error"][1])
    if mode is AutoresetMode.DISABLED:
        envs.reset(options={"reset_mask": terminated | truncated})
    else:
        envs.step(say("a", "ignored", "a"))
    assert envs.step(say("end 0.5", "end 0.75", "end 0"))[1].tolist() == [0.5, 0.75, 0.0]
    envs.close()
    assert place.obedient.n_open == 0


def test_a_failed_reset_in_the_same_step_keeps_the_reward(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=1)
    obedient.broken = True
    with pytest.raises(VectorEpisodeError) as caught:
        envs.step(say("end 0.5", "a"))
    _, rewards, terminated, truncated, infos = caught.value.result
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == ([0.5, 0.25], [True, False], [False, False])
    assert infos["final_obs"][0]["messages"][-1]["content"] == "over"
    with pytest.raises(VectorEpisodeError):
        envs.step(say("a", "a"))
    obedient.broken = False
    assert envs.step(say("ignored", "a"))[1].tolist() == [0.0, 0.25]
    assert envs.step(say("end 1", "a"))[1].tolist() == [1.0, 0.25]
    envs.close()


def test_an_invalid_action_is_refused_before_anything_is_sent(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient)
    with pytest.raises(ResetNeeded):
        envs.step(say("a", "a"))
    envs.reset(seed=1)
    with pytest.raises(InvalidAction, match="content"):
        envs.step([*say("a"), {"content": 1, "tool_calls": ()}])
    with pytest.raises(InvalidAction, match="expected 2"):
        envs.step(say("a"))
    assert envs.step(say("a", "b"))[4]["turn"].tolist() == [1, 1]
    envs.close()


def test_actions_may_be_a_batch_a_list_of_records_or_messages(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient)
    envs.reset(seed=1)
    envs.step(batched(say("a", "b")))
    envs.step(say("a", "b"))
    observations, *_ = envs.step([Message.assistant("a", ToolCall("mine", "f", "{}")), Message.assistant("b")])
    assert observations["messages"][0][-2]["tool_calls"][0]["id"] == "mine"
    envs.close()


def test_tasks_for_all_or_one_each(place: Place) -> None:
    envs = HubVectorEnv(3, **place.seat())
    assert envs.reset(options={"task": 4})[1]["task"].tolist() == [4, 4, 4]
    assert envs.reset(options={"task": [0, 1, 2]})[1]["task"].tolist() == [0, 1, 2]
    assert envs.reset(options={"task": np.array([5, 6, 7])})[1]["task"].tolist() == [5, 6, 7]
    with pytest.raises(InvalidRequestError, match="one index or 3"):
        envs.reset(options={"task": [0, 1]})
    with pytest.raises(InvalidRequestError, match="reset_mask"):
        envs.reset(options={"reset_mask": [True, False, False]})
    with pytest.raises(TaskNotFoundError):
        envs.reset(options={"task": [0, 1, 99]})
    envs.close()


def test_metrics_of_mixed_types_are_kept_as_they_are(obedient: Obedient) -> None:
    envs = HubVectorEnv(3, obedient)
    envs.reset(seed=1)
    infos = envs.step(say("score 1", "score 0.5", "score null"))[4]
    assert infos["metrics"]["score"].tolist() == [1, 0.5, None]
    assert infos["metrics"]["_score"].all()
    envs.close()


def test_what_is_returned_is_not_changed_by_later_steps(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient)
    envs.reset(seed=1)
    observations, rewards, terminated, *_ = envs.step(say("end 1", "a"))
    envs.step(say("a", "a"))
    assert (rewards.tolist(), terminated.tolist(), len(observations["messages"][0])) == ([1.0, 0.25], [True, False], 4)
    envs.close()


def test_sixty_four_sessions_at_the_same_time_and_every_slot_back(place: Place) -> None:
    place.obedient.n_meeting = 64
    envs = HubVectorEnv(64, **place.seat())
    envs.reset(seed=1)
    assert place.obedient.n_open == 64
    assert len(set(envs.session_ids)) == 64
    assert envs.step(say(*["meet"] * 64))[1].tolist() == [0.25] * 64
    envs.step(say(*["end 1"] * 32, *["a"] * 32))
    assert place.obedient.n_open == 32
    envs.step(say(*["a"] * 64))
    assert place.obedient.n_open == 64
    envs.close()
    envs.close()
    assert place.obedient.n_open == 0


def test_make_vec_in_every_vectorization_mode() -> None:
    for mode, kind in [("vector_entry_point", HubVectorEnv), ("sync", SyncVectorEnv), (None, HubVectorEnv)]:
        envs = gymnasium.make_vec("envhub.gym:envhub/Calculator-v1", num_envs=8, vectorization_mode=mode, split="test")
        assert isinstance(envs.unwrapped, kind)
        observations, infos = envs.reset(seed=0)
        assert observations in envs.observation_space
        assert infos["task"].shape == (8,)
        envs.close()


def test_gymnasium_s_own_vector_environments_may_fork() -> None:
    envs = gymnasium.make_vec(
        "envhub.gym:envhub/Calculator-v1",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"shared_memory": False, "context": "fork"},
    )
    mine = HubVectorEnv(2, "calculator")
    assert_same(mine.reset(seed=3), envs.reset(seed=3))
    mine.action_space.seed(1)
    actions = mine.action_space.sample()
    assert_same(mine.step(actions), envs.step(actions))
    envs.close()
    mine.close()


def test_gymnasium_s_vector_wrappers_work(obedient: Obedient) -> None:
    envs = RecordEpisodeStatistics(HubVectorEnv(2, obedient))
    envs.reset(seed=1)
    envs.step(say("a", "a"))
    infos = envs.step(say("end 1", "a"))[4]
    assert infos["episode"]["r"].tolist() == [1.25, 0.0]
    assert infos["episode"]["l"].tolist() == [2, 0]
    envs.close()


def test_render_shows_every_conversation(obedient: Obedient) -> None:
    envs = HubVectorEnv(2, obedient, render_mode="ansi")
    envs.reset(seed=1)
    frames = envs.render()
    assert frames is not None
    assert [frame.splitlines()[0] for frame in frames] == ["[system] Obey."] * 2
    envs.close()


def test_blocking_calls_work_inside_a_running_event_loop(obedient: Obedient) -> None:
    async def notebook() -> float:
        envs = HubVectorEnv(1, obedient)
        envs.reset(seed=1)
        reward = float(envs.step(say("end 1"))[1][0])
        envs.close()
        return reward

    assert asyncio.run(notebook()) == 1.0

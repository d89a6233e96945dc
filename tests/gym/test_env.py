"""One conversation as one episode, in this process and at a hub over a socket."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env

from envhub.client.hub import Hub, HubSession
from envhub.core.errors import (
    EnvironmentNotFoundError,
    EpisodeError,
    InvalidRequestError,
    SessionEndedError,
    TaskNotFoundError,
    TaskUnusableError,
)
from envhub.core.types import Message, TaskRef
from envhub.envs import registry
from envhub.gym import HubEnv
from envhub.gym.seats import Seats, Source, _hubs
from envhub.testing.clock import FakeClock
from tests.gym.obedient import Obedient, Place

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def say(content: str = "", *calls: tuple[str, str]) -> dict[str, Any]:
    return {"content": content, "tool_calls": tuple({"name": name, "arguments": text} for name, text in calls)}


@pytest.mark.parametrize("name", ["calculator", "obedient"])
def test_check_env_has_nothing_to_say(place: Place, name: str) -> None:
    env = HubEnv(**place.seat(name))
    check_env(env, skip_render_check=True)  # without a spec there is nothing to render anew
    env.close()


def test_check_env_of_the_registered_environment_renders_too() -> None:
    env = gymnasium.make("envhub.gym:envhub/Calculator-v1", split="test", render_mode="ansi")
    check_env(env.unwrapped)
    env.close()


def test_check_env_of_the_database_environment() -> None:
    env = gymnasium.make("envhub.gym:envhub/DB-v1", split="train", render_mode="ansi")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", ["calculator", "db"])
def test_reference_solution_earns_the_reward(name: str) -> None:
    env = HubEnv(name, "train")
    _, info = env.reset(seed=11)
    solution = registry.create(name).solution(TaskRef(name, "train", info["task"]))
    assert solution is not None
    rewards, ends = [], []
    for message in solution:
        observation, reward, terminated, truncated, info = env.step(message)
        rewards.append(reward)
        ends.append((terminated, truncated, info["stop_reason"]))
    assert (sum(rewards), ends[-1]) == (1.0, (True, False, "completed"))
    assert all(end == (False, False, None) for end in ends[:-1])
    assert observation["messages"][-1]["role"] == "tool"
    env.close()


def test_observation_is_the_whole_conversation(place: Place) -> None:
    env = HubEnv(**place.seat("calculator"))
    first, info = env.reset(seed=1, options={"task": 0})
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert '"multiply"' in first["tools"]
    assert [tool["function"]["name"] for tool in info["tools"]] == ["add", "multiply", "divide", "submit"]
    second, *_ = env.step(say("let me see", ("add", '{"a": 1, "b": 2}'), ("nonsense", "{")))
    assert second["messages"][:1] == first["messages"]
    assistant, *replies = second["messages"][1:]
    assert (assistant["role"], assistant["content"]) == ("assistant", "let me see")
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert [reply["tool_call_id"] for reply in replies] == ids == ["call_0_0", "call_0_1"]
    assert replies[0]["content"] == "3"
    assert "no tool named" in replies[1]["content"]
    env.close()


def test_info_says_what_was_played(place: Place) -> None:
    env = HubEnv(**place.seat())
    _, info = env.reset(options={"task": 7})
    assert info["task"] == 7
    assert info["session_id"] == env.session_id
    assert len(info["identity"]) == 12
    assert info["max_turns"] == 5
    _, reward, _, _, info = env.step(say("score 0.5"))
    assert (reward, info["metrics"], info["stop_reason"], info["turn"]) == (0.25, {"score": 0.5}, None, 1)
    _, reward, terminated, truncated, info = env.step(say("end 0.75"))
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.75, True, False, "completed")
    assert info["metrics"] == {"success": False}
    env.close()


def test_same_seed_same_task_and_same_episode_seed(place: Place) -> None:
    env, twin = HubEnv(**place.seat()), HubEnv(**place.seat())
    played = [
        [env.reset(seed=5), *(env.reset() for _ in range(3))],
        [twin.reset(seed=5), *(twin.reset() for _ in range(3))],
    ]
    drawn = [[(observation, info["task"], info["seed"]) for observation, info in each] for each in played]
    assert drawn[0] == drawn[1]
    assert len({task for _, task, _ in drawn[0]}) > 1
    env.close()
    twin.close()


def test_a_given_task_leaves_later_draws_alone(place: Place) -> None:
    env = HubEnv(**place.seat())
    env.reset(seed=5)
    drawn = env.reset()[1]["task"]
    env.reset(seed=5, options={"task": 0})
    assert env.reset()[1]["task"] == drawn
    env.close()


def test_a_drawn_task_that_cannot_be_played_is_passed_over(place: Place) -> None:
    env = HubEnv(**place.seat(split="bad"))
    assert {env.reset(seed=seed)[1]["task"] for seed in range(8)} == {0}
    with pytest.raises(TaskUnusableError):
        env.reset(options={"task": 3})
    env.close()


def test_truncated_at_max_turns(place: Place) -> None:
    env = HubEnv(**place.seat(max_turns=3))
    assert env.reset(seed=1)[1]["max_turns"] == 3
    ends = [env.step(say("hello"))[2:] for _ in range(3)]
    assert [(terminated, truncated) for terminated, truncated, _ in ends] == [
        (False, False),
        (False, False),
        (False, True),
    ]
    assert [info["stop_reason"] for *_, info in ends] == [None, None, "turn_limit"]
    with pytest.raises(ResetNeeded):
        env.step(say("hello"))
    env.close()


def test_an_end_in_the_last_turn_is_terminated_not_truncated(place: Place) -> None:
    env = HubEnv(**place.seat(max_turns=1))
    env.reset(seed=1)
    assert env.step(say("end 1"))[1:4] == (1.0, True, False)
    env.close()


def test_a_time_limit_between_two_steps_truncates_without_reward(
    obedient: Obedient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(self: Hub, method: str, path: str, body: bytes) -> bytes:
        raise SessionEndedError("the session is over", stop_reason="time_limit")

    env = HubEnv(obedient)
    first, _ = env.reset(seed=1)
    monkeypatch.setattr(Hub, "request", ended)
    observation, reward, terminated, truncated, info = env.step(say("late"))
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, False, True, "time_limit")
    assert observation["messages"][:-1] == first["messages"]
    with pytest.raises(ResetNeeded):
        env.step(say("later"))
    env.close()


def test_a_session_that_expired_raises(obedient: Obedient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(self: HubSession, message: Message) -> None:
        raise SessionEndedError("the session is over", stop_reason="cancelled")

    env = HubEnv(obedient)
    env.reset(seed=1)
    monkeypatch.setattr(HubSession, "interact", ended)
    with pytest.raises(SessionEndedError):
        env.step(say("late"))
    env.close()


def test_idle_sessions_are_renewed(obedient: Obedient, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = threading.Event()

    async def renew(self: HubSession) -> None:
        renewed.set()

    monkeypatch.setattr(HubSession, "renew", renew)
    clock = FakeClock()
    seats = Seats(Source(obedient, "train"), {}, 1, clock)
    seats.run(seats.players[0].reset(np.random.default_rng(1)))
    seats.run(clock.advance(1000.0))
    assert renewed.wait(timeout=30)
    seats.close()


def test_b015_a_failure_of_ours_raises_and_reset_plays_on(place: Place) -> None:
    env = HubEnv(**place.seat())
    env.reset(seed=1)
    with pytest.raises(EpisodeError, match="told to break"):
        env.step(say("break"))
    assert place.obedient.n_open == 0
    with pytest.raises(ResetNeeded):
        env.step(say("hello"))
    env.reset()
    assert env.step(say("end 1"))[1] == 1.0
    env.close()


def test_reset_in_the_middle_cancels_the_session_before(place: Place) -> None:
    env = HubEnv(**place.seat())
    env.reset(seed=1)
    first = env.session_id
    env.step(say("hello"))
    env.reset()
    assert env.session_id != first
    assert place.obedient.n_open == 1
    env.close()
    assert place.obedient.n_open == 0


def test_close_frees_the_session_and_may_be_repeated(place: Place) -> None:
    env = HubEnv(**place.seat())
    env.close()
    env.close()
    env = HubEnv(**place.seat())
    env.reset()
    assert place.obedient.n_open == 1
    env.close()
    env.close()
    assert place.obedient.n_open == 0
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()
    assert not place.obedient.closed  # its owner closes it


def test_closing_one_of_two_frees_its_session_alone(place: Place) -> None:
    one, other = HubEnv(**place.seat()), HubEnv(**place.seat())
    one.reset()
    other.reset()
    one.close()
    assert place.obedient.n_open == 1
    assert other.step(say("end 1"))[1] == 1.0
    other.close()


def test_a_forgotten_environment_gives_its_session_back(place: Place) -> None:
    env = HubEnv(**place.seat())
    env.reset()
    del env
    gc.collect()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if place.obedient.n_open == 0 and not _hubs:
            return
        time.sleep(0.01)
    pytest.fail(f"{place.obedient.n_open} episodes and {len(_hubs)} hubs are still open")


def test_environments_of_one_source_share_a_hub_until_the_last_is_closed() -> None:
    before = set(threading.enumerate())
    one, two, other = HubEnv("calculator"), HubEnv("calculator", "test"), HubEnv("calculator")
    assert len(_hubs) == 1
    one.close()
    two.close()
    other.reset()
    other.close()
    assert not _hubs
    assert set(threading.enumerate()) <= before


ODD_TEXTS = ["", "数据库 查询", "a\nb\r\n\t", "nul\x00nul", "👩‍💻", "\u202e", "y" * 2**20]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: ascii(text[:8]))
def test_odd_texts_arrive_unchanged(place: Place, text: str) -> None:
    env = HubEnv(**place.seat())
    env.reset(seed=1)
    observation, *_ = env.step(say(text))
    assert observation in env.observation_space
    assert [message["content"] for message in observation["messages"][-2:]] == [text, text]
    env.close()


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_repaired(place: Place, text: str) -> None:
    env = HubEnv(**place.seat("calculator"))
    env.reset(seed=1)
    observation, *_ = env.step(say(text, ("add", f'{{"a": "{text}"}}'), (text, "{}")))
    assert observation in env.observation_space
    assert "\ufffd" in observation["messages"][1]["content"]
    assert all(reply["content"].startswith("Error") for reply in observation["messages"][-2:])
    env.close()


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ("hello", "an action is"),
        ({"content": "a"}, "an action is"),
        ({"content": None, "tool_calls": ()}, "content"),
        ({"content": "", "tool_calls": "add"}, "tool_calls"),
        ({"content": "", "tool_calls": ({"name": "add"},)}, r"tool_calls\[0\]"),
        ({"content": "", "tool_calls": ({"name": "add", "arguments": {}},)}, r"tool_calls\[0\].arguments"),
        (Message.user("I am the user"), "assistant"),
    ],
)
def test_an_invalid_action_names_the_field_and_costs_nothing(obedient: Obedient, action: Any, field: str) -> None:
    env = HubEnv(obedient)
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match=field):
        env.step(action)
    assert env.step(say("hello"))[4]["turn"] == 1
    env.close()


def test_step_before_reset_is_refused(obedient: Obedient) -> None:
    env = HubEnv(obedient)
    with pytest.raises(ResetNeeded):
        env.step(say("hello"))
    env.close()


def test_what_does_not_exist_is_refused_with_what_does(place: Place) -> None:
    with pytest.raises(TaskNotFoundError, match="train"):
        HubEnv(**place.seat(split="nope"))
    with pytest.raises(TaskNotFoundError, match="train"):
        HubEnv(**place.seat(split="empty"))
    with pytest.raises(EnvironmentNotFoundError):
        HubEnv(**place.seat("nowhere"))
    with pytest.raises(ValueError, match="ansi"):
        HubEnv(**place.seat(render_mode="human"))
    env = HubEnv(**place.seat(options={"colour": 3}))
    with pytest.raises(InvalidRequestError, match="colour"):
        env.reset()
    with pytest.raises(InvalidRequestError, match="valid: task"):
        env.reset(options={"tusk": 1})
    with pytest.raises(TaskNotFoundError):
        env.reset(options={"task": 10})
    env.close()
    assert not _hubs


def test_options_reach_the_environment_and_its_identity(place: Place) -> None:
    plain, blue = HubEnv(**place.seat()), HubEnv(**place.seat(options={"colour": "blue"}))
    assert plain.reset(seed=1)[1]["identity"] != blue.reset(seed=1)[1]["identity"]
    plain.close()
    blue.close()


def test_render_shows_the_conversation(obedient: Obedient) -> None:
    env, silent = HubEnv(obedient, render_mode="ansi"), HubEnv(obedient)
    env.reset(seed=1, options={"task": 2})
    env.step(say("hello", ("look", "{}")))
    lines = (env.render() or "").splitlines()
    assert lines[0] == "[system] Obey."
    assert lines[2:4] == ["[assistant] hello", "[assistant] look({})"]
    assert silent.render() is None
    env.close()
    silent.close()


def test_what_is_returned_may_be_kept_and_changed(obedient: Obedient) -> None:
    env = HubEnv(obedient)
    first, info = env.reset(seed=1)
    first["messages"][0]["content"] = "changed"
    info["tools"].append("changed")
    assert env.step(say("hello"))[0]["messages"][0]["content"] == "Obey."
    env.close()


def test_leaving_the_process_closes_what_was_left_open() -> None:
    script = """
import envhub.gym
from envhub.envs.calculator import CalculatorEpisode
async def close(self): print("closed")
CalculatorEpisode.close = close
env = envhub.gym.HubEnv("calculator")
env.reset()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("closed\n", "")

"""Policies that write and read strings."""

from __future__ import annotations

import json

import gymnasium
import pytest

from envhub.core.errors import InvalidRequestError
from envhub.gym import HubEnv, HubVectorEnv, TextActions, TextObservations, VectorTextActions
from tests.gym.obedient import Obedient


def call(name: str, arguments: object, call_id: str = "c1") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_text_in_and_text_out() -> None:
    env = TextObservations(TextActions(HubEnv("calculator")))
    question, _ = env.reset(seed=1)
    assert question.startswith("Compute ")
    reply, *_ = env.step("I think I should multiply.")
    assert reply.startswith("Your message contains no tool call.")
    reply, *_ = env.step(json.dumps({"content": None, "tool_calls": [call("add", '{"a": 1, "b": 2}')]}))
    assert reply == "3"
    reply, reward, terminated, _, _ = env.step({"role": "assistant", "tool_calls": [call("submit", '{"answer": 0}')]})
    assert (reply, reward, terminated) == ("Wrong.", 0.0, True)
    assert env.reset(seed=1)[0] == question
    env.close()


def test_replies_to_several_calls_are_joined() -> None:
    env = TextObservations(TextActions(HubEnv("calculator")))
    env.reset(seed=1)
    calls = [call("add", '{"a": 1, "b": 2}', "x"), call("add", '{"a": 3, "b": 4}', "y")]
    assert env.step({"tool_calls": calls})[0] == "3\n\n7"
    env.close()


def test_ids_of_the_model_are_kept() -> None:
    env = TextActions(HubEnv("calculator"))
    env.reset(seed=1)
    observation, *_ = env.step({"tool_calls": [call("add", '{"a": 1, "b": 2}', "mine")]})
    assert observation["messages"][-1]["tool_call_id"] == "mine"
    env.close()


@pytest.mark.parametrize(
    "text", ["", "数据库", "{", "[1]", "3", '{"answer": 4}', '{"content": "x"}', "null", "\ud800", "[" * 100_000]
)
def test_text_that_is_no_message_is_content(obedient: Obedient, text: str) -> None:
    env = TextActions(HubEnv(obedient))
    env.reset(seed=1)
    observation, *_ = env.step(text)
    spoken = observation["messages"][-2]
    assert (spoken["content"], spoken["tool_calls"]) == (text.replace("\ud800", "\ufffd"), ())
    env.close()


def test_malformed_calls_are_answered_not_raised() -> None:
    env = TextActions(HubEnv("calculator"))
    env.reset(seed=1)
    bad = [call("add", {"a": 1}), {"function": None}, "nonsense", call("", "{}"), call("add", "{")]
    observation, reward, terminated, truncated, _ = env.step({"tool_calls": bad})
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert all(message["content"].startswith("Error") for message in observation["messages"][-5:])
    env.close()


def test_what_no_assistant_could_say_is_refused() -> None:
    env = TextActions(HubEnv("calculator"))
    env.reset(seed=1)
    with pytest.raises(InvalidRequestError, match="role"):
        env.step({"role": "user", "content": "x"})
    with pytest.raises(InvalidRequestError, match="tool_calls"):
        env.step('{"tool_calls": 3}')
    env.close()


def test_sampled_text_is_a_valid_action() -> None:
    env = TextActions(HubEnv("calculator"))
    env.action_space.seed(1)
    env.reset(seed=1)
    text = env.action_space.sample()
    assert isinstance(text, str)
    env.step(text)
    env.close()


def test_wrappers_are_kept_in_the_spec() -> None:
    env = TextObservations(TextActions(gymnasium.make("envhub.gym:envhub/Calculator-v1")))
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert isinstance(again, TextObservations)
    assert again.reset(seed=4)[0] == env.reset(seed=4)[0]
    env.close()
    again.close()


def test_vector_actions_as_text() -> None:
    envs = VectorTextActions(HubVectorEnv(2, "calculator"))
    envs.reset(seed=1)
    observations, *_ = envs.step(("hello", json.dumps({"tool_calls": [call("add", '{"a": 1, "b": 2}')]})))
    assert [messages[-1]["role"] for messages in observations["messages"]] == ["user", "tool"]
    sampled = envs.action_space.sample()
    assert sampled in envs.action_space
    envs.step(sampled)
    envs.close()

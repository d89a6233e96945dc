"""Text in, text out: wrappers for policies that write and read strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorActionWrapper, VectorEnv
from gymnasium.vector.utils import batch_space

from envhub.core.types import JSON
from envhub.gym.records import Action, Record, message_of_text
from envhub.gym.spaces import Unicode

Said: TypeAlias = str | Mapping[str, JSON]
"""An OpenAI assistant message, the same as JSON text, or any other text, which becomes its content."""


class TextActions(gymnasium.ActionWrapper[Record, Said, Action], RecordConstructorArgs):
    """Actions are what a model wrote. Text counts as a message when it is a JSON object with the key ``tool_calls``.

    Malformed tool calls are passed on: the environment answers them with an error text for the model to read.
    """

    def __init__(self, env: gymnasium.Env[Record, Action]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.ActionWrapper.__init__(self, env)
        self.action_space = Unicode()

    def action(self, action: Said) -> Action:
        return message_of_text(action)


class VectorTextActions(VectorActionWrapper[Record, Sequence[Said], Any, npt.NDArray[Any]]):
    """TextActions for every slot of a HubVectorEnv."""

    def __init__(self, env: VectorEnv[Record, Any, npt.NDArray[Any]]) -> None:
        super().__init__(env)
        self.single_action_space = Unicode()
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def actions(self, actions: Sequence[Said]) -> Sequence[Action]:
        return [message_of_text(each) for each in actions]


class TextObservations(gymnasium.ObservationWrapper[str, Any, Record], RecordConstructorArgs):
    """Observations are the text that is new since the last action: its messages' contents, joined by an empty line."""

    def __init__(self, env: gymnasium.Env[Record, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.ObservationWrapper.__init__(self, env)
        self.observation_space = Unicode()
        self._n_seen = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._n_seen = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        self._n_seen += 1  # the agent's own message
        return super().step(action)

    def observation(self, observation: Record) -> str:
        messages = observation["messages"]
        text = "\n\n".join(message["content"] for message in messages[self._n_seen :])
        self._n_seen = len(messages)
        return text

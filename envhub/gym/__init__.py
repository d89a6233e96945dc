"""Gymnasium environments for everything the hub knows: ``gymnasium.make("envhub.gym:envhub/DB-v1", split="train")``.

Importing this module registers one id per known environment. Needs the extra ``gym``.
"""

from __future__ import annotations

from envhub.envs.registry import missing_extra

try:
    import gymnasium as _gymnasium  # noqa: F401
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as error:
    raise missing_extra("envhub.gym", "gym", error) from None

from envhub.gym.env import HubEnv
from envhub.gym.registration import environment_id, register_all
from envhub.gym.spaces import Choice, Unicode
from envhub.gym.vector import HubVectorEnv, VectorEpisodeError
from envhub.gym.wrappers import TextActions, TextObservations, VectorTextActions

register_all()

__all__ = [
    "Choice",
    "HubEnv",
    "HubVectorEnv",
    "TextActions",
    "TextObservations",
    "Unicode",
    "VectorEpisodeError",
    "VectorTextActions",
    "environment_id",
    "register_all",
]

"""The ids under which gymnasium knows the hub's environments.

Invariant: every environment name that the registry knows has exactly one id, and registering twice changes nothing.
"""

from __future__ import annotations

import re

import gymnasium

from envhub.envs.registry import names

_SPELLING = {"alfworld": "ALFWorld", "db": "DB", "kg": "KG", "os": "OS", "webshop": "WebShop"}


def environment_id(name: str) -> str:
    """``db`` is ``envhub/DB-v1``; a name without a customary spelling is written in camel case."""
    words = re.split(r"[^A-Za-z0-9]+", name)
    return f"envhub/{_SPELLING.get(name) or ''.join(word[:1].upper() + word[1:] for word in words)}-v1"


def register_all() -> None:
    """Register every known environment that is not registered yet."""
    for name in names():
        if environment_id(name) not in gymnasium.registry:
            gymnasium.register(
                environment_id(name),
                entry_point="envhub.gym.env:HubEnv",
                vector_entry_point="envhub.gym.vector:HubVectorEnv",
                kwargs={"environment": name},
            )

"""Every test of ``place`` runs in this process and at a hub over a loopback socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from envhub.client.sync import LoopThread
from envhub.envs import registry
from envhub.testing.hub import served_hub
from tests.gym.obedient import Obedient, Place


@pytest.fixture
def obedient() -> Obedient:
    return Obedient()


@pytest.fixture(params=["process", "url"])
def place(request: pytest.FixtureRequest, obedient: Obedient) -> Iterator[Place]:
    if request.param == "process":
        yield Place(obedient, None)
        return
    loop = LoopThread()
    stack = AsyncExitStack()
    environments = {"obedient": obedient, "calculator": registry.create("calculator")}
    served = loop.run(stack.enter_async_context(served_hub(environments)))
    try:
        yield Place(obedient, served.url)
    finally:
        loop.run(stack.aclose())
        loop.close()

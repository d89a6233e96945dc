"""The real packages, as a backend, keep the contract that every environment keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envhub.envs.alfworld import expert
from envhub.envs.alfworld.env import AlfworldEnvironment
from envhub.envs.alfworld.tasks import TaskSet
from envhub.envs.alfworld.textworld_backend import StagePool
from envhub.envs.alfworld.world import build
from envhub.testing.contract import CHECKS, Check
from tests.alfworld.real import real_python
from tests.alfworld.test_engine import KITCHEN


@pytest.mark.alfworld
@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_textworld_backend_keeps_the_contract(check: Check) -> None:
    game = replace(KITCHEN, walkthrough=expert.plan(build(KITCHEN)) or ())
    games = TaskSet("kitchen", 1, lambda _: game, dataset_hash="kitchen")
    stages = StagePool(python=real_python(), size=2)
    environment = AlfworldEnvironment({"test": games}, backend="textworld", stages=stages)
    try:
        await check(environment)
    finally:
        await environment.close()

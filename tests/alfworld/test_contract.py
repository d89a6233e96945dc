"""The environment keeps the contract of every environment, with each of its backends."""

from __future__ import annotations

import pytest

from envhub.envs.alfworld.env import AlfworldEnvironment, create
from envhub.testing.contract import CHECKS, Check
from tests.alfworld.real import real_python


@pytest.fixture(scope="module")
def native() -> AlfworldEnvironment:
    return create({})


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_native_play_keeps_the_contract(check: Check, native: AlfworldEnvironment) -> None:
    await check(native)


@pytest.mark.alfworld
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_textworld_backend_keeps_the_contract(check: Check) -> None:
    environment = create({"backend": "textworld", "python": real_python(), "processes": 2})
    try:
        await check(environment)
    finally:
        await environment.close()

"""The real packages, as a backend, keep the contract that every environment keeps."""

from __future__ import annotations

import pytest

from envhub.envs.alfworld.env import create
from envhub.testing.contract import CHECKS, Check
from tests.alfworld.real import real_python


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

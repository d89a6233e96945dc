"""The sandbox contract on every driver of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from envhub.core.sandbox import SandboxDriver
from envhub.testing.sandbox_contract import CHECKS, Check
from tests.sandbox.drivers import NAMES, opened

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(params=NAMES, scope="module", loop_scope="module")
async def driver(request: pytest.FixtureRequest) -> AsyncIterator[SandboxDriver]:
    async with opened(request) as found:
        yield found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(driver: SandboxDriver, check: Check) -> None:
    await check(driver)

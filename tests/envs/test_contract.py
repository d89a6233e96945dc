"""Every environment that ships keeps the contract of ``envhub.testing.contract``. Covers B005 and B006 for all of them."""

import pytest

from envhub.envs import registry
from envhub.testing.contract import CHECKS


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_environment_keeps_its_contract(name, check):
    environment = registry.create(name)
    try:
        await check(environment)
    finally:
        await environment.close()

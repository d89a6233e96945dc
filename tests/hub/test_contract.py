"""The hub's contract, in one process and over a socket."""

from typing import Any

import pytest

from envhub.testing.hub import local_hub, served_hub
from envhub.testing.hub_contract import HUB_CHECKS, HubCheck


@pytest.mark.parametrize("hub_of", [local_hub, served_hub])
@pytest.mark.parametrize("check", HUB_CHECKS, ids=lambda check: check.__name__)
async def test_hub_keeps_its_contract(check: HubCheck, hub_of: Any) -> None:
    async with hub_of() as hub:
        await check(hub.hub)
        assert hub.worker.table.n_slots_taken == 0

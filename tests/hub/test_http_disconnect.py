"""A client that gives up in the middle of a call is noticed, through the whole application as it is served."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

import envhub.controller
from envhub.config import Settings
from envhub.controller.app import HubApp
from envhub.controller.archive import MemoryArchive
from envhub.controller.main import build
from envhub.core.clock import SystemClock
from envhub.testing.clock import settle
from envhub.testing.hub import served_hub
from tests.hub.environments import ProbeEnvironment, records

TURN = json.dumps({"turn": 0, "message": {"role": "assistant", "content": "hold"}}).encode()


async def until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


async def test_a_client_that_leaves_an_interact_detaches_its_session_b004() -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}) as served:
        session = served.hub.session("probe")
        await session.start()
        environment.gate.clear()
        (worker,) = served.controller.workers.all()
        async with aiohttp.ClientSession(served.url) as http:
            call = asyncio.create_task(http.post(f"/v1/sessions/{session.id}/interact", data=TURN))
            await until(lambda: environment.counts.steps == 1)
            call.cancel()
        await until(lambda: not worker.pending)
        live = served.worker.table.find(session.id)
        await until(lambda: live.detached)
        environment.gate.set()
        # whoever comes back for the answer gets it, and the step was played once
        answer = json.loads(await served.hub.request("POST", f"/v1/sessions/{session.id}/interact", TURN))
        assert answer["turn"] == 1 and environment.counts.steps == 1 and not live.detached


async def test_a_client_that_leaves_for_good_frees_the_slot_after_the_grace_b004() -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}) as served:
        session = served.hub.session("probe", lease_s=3600)
        await session.start()
        live = served.worker.table.find(session.id)
        async with aiohttp.ClientSession(served.url) as http:
            environment.gate.clear()
            call = asyncio.create_task(http.post(f"/v1/sessions/{session.id}/interact", data=TURN))
            await until(lambda: environment.counts.steps == 1)
            call.cancel()
        await until(lambda: live.detached)
        environment.gate.set()
        await until(lambda: live.detached and live.turn == 1)
        live.detach(0.0)  # the grace of 60 s is over
        served.worker.table.tick()
        await until(lambda: served.worker.table.n_slots_taken == 0)
        (record,) = records(served)
        assert record.reason is not None and "disconnected" in record.reason and record.episode_return is None


@pytest.mark.parametrize("slow", ["open_s", "reset_s"])
async def test_a_client_that_leaves_a_start_frees_what_it_took_b004(slow: str) -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}, capacity=1) as served:
        async with aiohttp.ClientSession(served.url) as http:
            start = asyncio.create_task(
                http.post("/v1/sessions", json={"environment": "probe", "options": {slow: 30.0}})
            )
            n_opens = 1 if slow == "reset_s" else 0
            await until(lambda: (served.worker.table.n_slots_taken, environment.counts.opens) == (1, n_opens))
            start.cancel()
        await until(lambda: served.worker.table.n_slots_taken == 0)  # long before the 30 s are over
        assert environment.counts.opens == environment.counts.closes
        (worker,) = served.controller.workers.all()
        await until(lambda: (worker.reserved, len(worker.sessions)) == (0, 0))


def test_nothing_stands_between_a_route_and_the_disconnect_of_its_client_b004() -> None:
    """No middleware in the application, and none written: BaseHTTPMiddleware hides ``http.disconnect`` from what it wraps."""
    app, _ = build(Settings(), clock=SystemClock(), archive=MemoryArchive())
    assert type(app) is HubApp
    assert app.api.user_middleware == []
    for path in Path(envhub.controller.__file__).parent.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            assert name not in ("middleware", "add_middleware", "BaseHTTPMiddleware"), path


async def test_a_buffering_layer_would_be_noticed_b004() -> None:
    """The guard of the tests above: with a layer that swallows the disconnect, they fail."""
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}) as served:
        session = served.hub.session("probe")
        await session.start()
        environment.gate.clear()
        inner = served.app._http
        swallowed = asyncio.Event()

        async def hiding(scope: object, receive: Callable[[], object], send: object) -> None:
            async def deaf() -> object:
                message = await receive()  # type: ignore[misc]
                if message["type"] == "http.disconnect":
                    swallowed.set()
                    await asyncio.Event().wait()
                return message

            await inner(scope, deaf, send)  # type: ignore[arg-type]

        served.app._http = hiding  # type: ignore[method-assign]
        (worker,) = served.controller.workers.all()
        async with aiohttp.ClientSession(served.url) as http:
            call = asyncio.create_task(http.post(f"/v1/sessions/{session.id}/interact", data=TURN))
            await until(lambda: environment.counts.steps == 1)
            call.cancel()
        await until(swallowed.is_set)
        await settle()
        assert len(worker.pending) == 1 and not served.worker.table.find(session.id).detached
        await session.cancel()

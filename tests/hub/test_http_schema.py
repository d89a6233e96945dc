"""A schemathesis run against the OpenAPI page of a live hub: whatever the page allows, and what it does not, is never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from envhub.client.sync import LoopThread
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.main import build
from envhub.core.clock import SystemClock
from envhub.core.types import Message
from envhub.embedded import EmbeddedHub
from envhub.testing.hub import served_hub
from tests.hub.environments import ProbeEnvironment

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


def page() -> dict[str, Any]:
    app, _ = build(Settings(), clock=SystemClock(), archive=MemoryArchive())
    found: dict[str, Any] = json.loads(json.dumps(app.api.openapi()))
    return found


OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(page()).get_all_operations()]


class Live:
    """A hub over a socket in a thread of its own, with one session that must survive everything."""

    def __init__(self) -> None:
        self.n_interacts = 0
        self.loop = LoopThread()
        self._context = served_hub({"probe": ProbeEnvironment(max_turns=100_000)}, capacity=64)
        self.hub: EmbeddedHub = self.loop.run(self._context.__aenter__())
        self.session = self.hub.hub.session("probe", lease_s=3600)
        self.loop.run(self.session.start())

    @property
    def turn(self) -> int:
        return self.hub.worker.table.find(self.session.id).turn

    def check_alive(self) -> None:
        """After everything that the run sent, its session goes on and nothing in the hub has failed."""
        assert self.n_interacts == 0 or self.turn > 10, "the run has hardly played the session"
        self.session.turn = self.turn
        assert not self.loop.run(self.session.interact(Message.assistant("still here"))).done
        assert not self.hub.controller.failures and not self.hub.worker.failures

    def close(self) -> None:
        self.loop.run(self._context.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    running = Live()
    try:
        yield running
        running.check_alive()
    finally:
        running.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_nothing_that_the_page_describes_gives_a_500(
    operation: APIOperation[Any, Any, Any, Any], live: Live, data: st.DataObject
) -> None:
    strategy = operation.as_strategy()
    if operation.body or operation.query:
        strategy |= operation.as_strategy(GenerationMode.NEGATIVE)
    case = data.draw(strategy)
    _make_playable(case, live)
    case.call_and_validate(base_url=live.hub.url, checks=CHECKS)


def _make_playable(case: schemathesis.Case[Any], live: Live) -> None:
    """Let starts find the environment at times, not wait for slots, and turns find the session; keep that session alive."""
    body = case.body
    if case.path == "/v1/sessions" and isinstance(body, dict):
        body["wait_s"] = 0
        if "environment" in body and len(body) % 2:
            body["environment"] = "probe"
    if case.path.endswith(("/interact", "/renew", "/trace")) and case.path_parameters is not None:
        case.path_parameters["session_id"] = live.session.id
    if case.path.endswith("/renew") and isinstance(body, dict):
        lease_s = body.get("lease_s")
        if isinstance(lease_s, (int, float)) and 0 < lease_s < 3600:
            body["lease_s"] = 3600
    if case.path.endswith("/interact") and isinstance(body, dict):
        live.n_interacts += 1
        body["turn"] = live.turn

"""A start that is given up in the very moment in which it succeeds."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from envhub.controller.service import Answered
from envhub.controller.workers import Worker
from envhub.testing.hub import local_hub
from tests.hub.environments import ProbeEnvironment


async def test_a_start_given_up_between_its_success_and_its_note_of_it_leaves_no_session_b001_b030(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = ProbeEnvironment()
    async with local_hub({"probe": environment}) as hub:
        service = hub.controller
        make = service._make_on
        given_up: list[asyncio.Task[Answered]] = []

        async def make_and_give_up(worker: Worker, op: str, body: bytes) -> Answered:
            answer = await make(worker, op, body)
            given_up.append(asyncio.create_task(service.cancel_start("key")))  # runs before the start's done callback
            return answer

        monkeypatch.setattr(service, "_make_on", make_and_give_up)
        answer = await service.start(msgspec.json.encode({"environment": "probe", "request_key": "key"}))
        assert answer.status == 200
        assert (await given_up[0]).status == 200
        assert environment.counts.opens == environment.counts.closes == 1
        assert hub.worker.table.n_slots_taken == 0

"""The blocking client: the same hub, without an event loop of its own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from envhub.client.sync import LoopThread, SyncHub
from envhub.core.errors import EpisodeFailedError
from envhub.core.types import Message
from envhub.testing.clock import FakeClock
from tests.client.scripted_transport import ScriptedTransport, error, hub


def sync_hub(**script: Any) -> tuple[SyncHub, ScriptedTransport]:
    _, transport = hub(FakeClock(), **script)
    return SyncHub(transport=transport), transport


def test_a_session_is_played_and_left_early() -> None:
    client, transport = sync_hub()
    with client, client.session("calculator", task=3) as session:
        assert session.interact(Message.assistant("x")).reward == 0.0
        assert session.id.startswith("wone1.") and not session.done
    assert transport.verbs() == ["sessions", "interact", "cancel"] and transport.closed


def test_errors_of_the_hub_are_raised_in_the_calling_thread() -> None:
    client, _ = sync_hub(interact=error(EpisodeFailedError("broke")))
    with client, pytest.raises(EpisodeFailedError, match="broke"), client.session("calculator") as session:
        session.interact(Message.assistant("x"))


def test_the_thread_ends_with_the_hub() -> None:
    before = set(threading.enumerate())
    loop = LoopThread()
    assert len(set(threading.enumerate()) - before) == 1
    loop.close()
    assert set(threading.enumerate()) <= before

"""Keys: asked for on every route, compared in constant time, and required beyond loopback."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.auth import Keys, is_loopback
from envhub.controller.main import build
from envhub.core.clock import SystemClock
from envhub.core.errors import AuthenticationError
from envhub.embedded import EmbeddedHub, served_hub
from tests.hub.environments import ProbeEnvironment

SETTINGS = Settings(port=0, client_key="client-secret", worker_key="worker-secret")


@asynccontextmanager
async def guarded() -> AsyncIterator[EmbeddedHub]:
    environments = {"probe": ProbeEnvironment()}
    async with served_hub(environments, settings=SETTINGS, archive=MemoryArchive()) as hub:
        yield hub


def routes(hub: EmbeddedHub) -> list[tuple[str, str]]:
    paths = hub.app.api.openapi()["paths"]
    listed = [
        (method.upper(), path.format(session_id="x", environment="probe", worker_id="w"))
        for path, operations in paths.items()
        for method in operations
    ]
    return [
        *listed,
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("POST", "/v1/workers/w12345/heartbeat"),
        ("GET", "/no"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "client-secret"},
        {"Authorization": "Basic client-secret"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer \xff\xfe"},
        {"Cookie": "key=client-secret"},
    ],
)
async def test_every_route_but_the_probes_asks_for_a_key(headers: dict[str, str]) -> None:
    async with guarded() as hub, aiohttp.ClientSession(hub.url, headers=headers) as http:
        for method, path in routes(hub):
            async with http.request(method, path) as answer:
                if path in ("/healthz", "/readyz"):
                    assert answer.status == 200
                    continue
                assert answer.status == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert (await answer.json())["error"]["code"] == "authentication"


async def test_one_key_does_not_open_the_other_door() -> None:
    async with guarded() as hub:
        async with aiohttp.ClientSession(hub.url, headers={"Authorization": "Bearer worker-secret"}) as http:
            async with http.get("/v1/environments") as answer:
                assert answer.status == 401
            async with http.post("/v1/workers/w12345/heartbeat") as answer:
                assert answer.status == 200
            async with http.ws_connect("/v1/link") as socket:
                assert not socket.closed
        async with aiohttp.ClientSession(hub.url, headers={"Authorization": "bearer client-secret"}) as http:
            async with http.get("/v1/environments") as answer:
                assert answer.status == 200
            async with http.post("/v1/workers/w12345/heartbeat") as answer:
                assert answer.status == 401
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect("/v1/link")
            assert refused.value.status == 403


async def test_a_client_without_the_key_gets_the_same_class_at_once() -> None:
    async with guarded() as hub:
        assert hub.url is not None
        async with Hub(hub.url, key="wrong") as stranger:
            with pytest.raises(AuthenticationError):
                await stranger.environments()
        assert [info.name for info in await hub.hub.environments()] == ["probe"]


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any]] = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    Keys(client="secret").check_client([(b"authorization", b"Bearer secret")])
    with pytest.raises(AuthenticationError):
        Keys(worker="secret").check_worker([(b"authorization", b"Bearer guess")])
    assert compared == [(b"secret", b"secret"), (b"guess", b"secret")]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "hub.example", ""])
@pytest.mark.parametrize("keys", [{}, {"client_key": "a"}, {"worker_key": "b"}, {"client_key": "", "worker_key": ""}])
def test_listening_beyond_loopback_needs_both_keys(host: str, keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without keys: set ENVHUB_"):
        build(Settings(host=host, **keys), clock=SystemClock(), archive=MemoryArchive())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_loopback_needs_none(host: str) -> None:
    assert is_loopback(host)
    build(Settings(host=host), clock=SystemClock(), archive=MemoryArchive())

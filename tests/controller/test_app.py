"""The HTTP edge without a socket: keys, envelopes, the documentation and the metrics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from envhub import wire
from envhub.config import Settings
from envhub.controller import asgi
from envhub.controller.archive import MemoryArchive
from envhub.controller.asgi import ClientGoneError, read_body
from envhub.controller.main import build
from envhub.core.errors import BodyTooLargeError, NoCapacityError
from envhub.core.types import Message
from envhub.embedded import EmbeddedHub, embedded_hub
from envhub.testing.clock import FakeClock
from envhub.transport import AsgiTransport, HttpAnswer
from tests.worker.scripted import ScriptedEnvironment


@asynccontextmanager
async def hub(**settings: Any) -> AsyncIterator[tuple[EmbeddedHub, AsgiTransport]]:
    """A hub with one scripted environment, and a transport that sends no key."""
    clock = FakeClock()
    environments = {"scripted": ScriptedEnvironment(clock)}
    async with embedded_hub(environments, settings=Settings(**settings), clock=clock) as made:
        yield made, AsgiTransport(made.app)


async def ask(transport: AsgiTransport, method: str, path: str, body: Any = None) -> HttpAnswer:
    return await transport.request(method, path, b"" if body is None else json.dumps(body).encode(), 10.0)


def page() -> dict[str, Any]:
    app, _ = build(Settings(), clock=FakeClock(), archive=MemoryArchive())
    return app.api.openapi()


PAGE = page()
OPERATIONS = [(method, path, operation) for path, each in PAGE["paths"].items() for method, operation in each.items()]


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in OPERATIONS])
async def test_every_route_but_two_needs_the_key(method: str, path: str) -> None:
    async with hub(client_key="secret", worker_key="other") as (_, transport):
        answer = await ask(transport, method.upper(), path.replace("{", "").replace("}", ""))
        if path in ("/healthz", "/readyz"):
            assert answer.status == 200
        else:
            assert answer.status == 401 and json.loads(answer.body)["error"]["code"] == "authentication"


async def test_with_the_key_the_hub_is_played() -> None:
    async with hub(client_key="secret", worker_key="other") as (made, _), made.hub.session("scripted") as session:
        assert (await session.interact(Message.assistant("end 1"))).reward == 1.0


async def test_a_heartbeat_needs_the_workers_key() -> None:
    async with hub(client_key="secret", worker_key="other") as (made, _):
        path = f"/v1/workers/{made.worker.worker_id}/heartbeat"
        for key, status in ((None, 401), ("secret", 401), ("other", 200)):
            answer = await ask(AsgiTransport(made.app, key=key), "POST", path)
            assert answer.status == status
        assert json.loads(answer.body) == {"linked": True}


def test_a_hub_without_keys_refuses_to_listen_to_others() -> None:
    with pytest.raises(ValueError, match=r"refusing to listen on 0\.0\.0\.0"):
        build(Settings(host="0.0.0.0"), clock=FakeClock(), archive=MemoryArchive())


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "invalid_request"),
        ("PUT", "/v1/sessions", 405, "invalid_request"),
        ("GET", "/v1/environments/chess/tasks", 404, "environment_not_found"),
        ("GET", "/v1/sessions?limit=0", 400, "invalid_request"),
        ("GET", "/v1/sessions?tag=x", 400, "invalid_request"),
        ("GET", "/v1/sessions/nothing", 404, "session_not_found"),
        ("POST", "/v1/sessions/nothing/renew", 404, "session_not_found"),
        ("POST", "/v1/workers/wnobody/drain", 404, "session_not_found"),
    ],
)
async def test_every_error_comes_in_the_one_envelope(method: str, path: str, status: int, code: str) -> None:
    async with hub() as (_, transport):
        answer = await ask(transport, method, path)
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert set(error) == {"code", "message", "details"} and error["message"]


async def test_a_worker_that_refuses_for_now_says_when_to_come_back() -> None:
    async with hub(capacity=1) as (made, transport):
        async with made.hub.session("scripted"):
            answer = await ask(transport, "POST", "/v1/sessions", {"environment": "scripted", "wait_s": 0})
        assert (answer.status, answer.retry_after_s) == (503, 1.0)


async def test_an_idle_hub_is_healthy_and_ready() -> None:
    async with hub() as (made, transport):
        assert json.loads((await ask(transport, "GET", "/healthz")).body)["ok"] is True
        assert json.loads((await ask(transport, "GET", "/readyz")).body) == {"ready": True, "workers": 1}
        made.worker.table.drain()
        assert (await ask(transport, "GET", "/readyz")).status == 503


async def test_environments_and_workers_are_listed() -> None:
    async with hub() as (made, transport):
        (info,) = json.loads((await ask(transport, "GET", "/v1/environments")).body)["environments"]
        assert info["name"] == "scripted" and info["splits"]["test"] == 100
        (worker,) = json.loads((await ask(transport, "GET", "/v1/workers")).body)["workers"]
        assert (worker["id"], worker["state"]) == (made.worker.worker_id, "ready")


async def test_a_body_is_read_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_BODY_BYTES", 10)

    def receiver(*parts: bytes) -> Any:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        messages.append({"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> Any:
            return messages.pop(0)

        return receive

    assert await read_body(receiver(b"12345", b"67890")) == b"1234567890"
    with pytest.raises(BodyTooLargeError):
        await read_body(receiver(b"12345", b"67890", b"1"))

    async def gone() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGoneError):
        await read_body(gone)


def test_retry_after_is_a_whole_number_of_seconds() -> None:
    assert asgi.error_headers(NoCapacityError("x", retry_after_s=0.2)) == [(b"retry-after", b"1")]
    assert asgi.error_headers(NoCapacityError("x", retry_after_s=4.6)) == [(b"retry-after", b"5")]


# --- metrics --------------------------------------------------------------------------------------------------------


async def test_the_metrics_page_counts_sessions_calls_errors_and_slots() -> None:
    async with hub(capacity=4) as (made, transport):
        async with made.hub.session("scripted") as session:
            await session.interact(Message.assistant("x"))
            await ask(transport, "POST", "/v1/sessions/nothing/renew")
            failed = {"environment": "scripted", "options": {"fail": "open"}}
            assert (await ask(transport, "POST", "/v1/sessions", failed)).status == 502
            text = (await ask(transport, "GET", "/metrics")).body.decode()
        await ask(transport, "GET", "/metrics")
        after = (await ask(transport, "GET", "/metrics")).body.decode()
    for line in (
        'envhub_sessions{environment="scripted"} 1.0',
        'envhub_starts_waiting{environment="scripted"} 0.0',
        'envhub_slots{state="taken"} 1.0',
        'envhub_slots{state="free"} 3.0',
        'envhub_workers{state="ready"} 1.0',
        'envhub_errors_total{code="session_not_found"} 1.0',
        'envhub_errors_total{code="episode_failed"} 1.0',
        'envhub_call_seconds_count{call="interact"} 1.0',
    ):
        assert line in text.splitlines(), line
    assert 'envhub_sessions{environment="scripted"} 0.0' in after and 'envhub_slots{state="free"} 4.0' in after
    assert 'envhub_episodes_total{environment="scripted",outcome="cancelled"} 1.0' in after
    assert session.id not in text


# --- the documentation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS])
def test_every_route_documents_its_answer_and_its_errors(method: str, path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    assert responses["4XX"] == responses["5XX"] == {"$ref": "#/components/responses/Error"}
    (content,) = responses["200"]["content"].values()
    assert content["schema"] and responses["200"]["description"]
    assert set(responses) == {"200", "4XX", "5XX"}
    declared = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
    assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}


@pytest.mark.parametrize(
    ("path", "record", "required"),
    [
        ("/v1/sessions", "StartRequest", True),
        ("/v1/sessions/{session_id}/interact", "InteractRequest", True),
        ("/v1/sessions/{session_id}/renew", "RenewRequest", False),
        ("/v1/sessions/{session_id}/cancel", "CancelRequest", False),
    ],
)
def test_a_body_is_documented_by_its_record(path: str, record: str, required: bool) -> None:
    body = PAGE["paths"][path]["post"]["requestBody"]
    assert body["required"] is required
    assert body["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{record}"}


def test_the_page_has_every_route_of_the_api() -> None:
    wanted = {
        ("get", "/v1/environments"),
        ("get", "/v1/environments/{environment}/tasks"),
        ("post", "/v1/sessions"),
        ("get", "/v1/sessions"),
        ("get", "/v1/sessions/{session_id}"),
        ("delete", "/v1/sessions/{session_id}"),
        ("get", "/v1/sessions/{session_id}/trace"),
        ("post", "/v1/sessions/{session_id}/interact"),
        ("post", "/v1/sessions/{session_id}/renew"),
        ("post", "/v1/sessions/{session_id}/cancel"),
        ("get", "/v1/workers"),
        ("post", "/v1/workers/{worker_id}/drain"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    }
    assert wanted <= {(method, path) for method, path, _ in OPERATIONS}


def test_every_record_of_the_api_is_on_the_page_and_every_reference_leads_somewhere() -> None:
    schemas = PAGE["components"]["schemas"]
    for record in (
        wire.StartRequest,
        wire.InteractRequest,
        wire.RenewRequest,
        wire.CancelRequest,
        wire.Started,
        wire.Stepped,
        wire.SessionState,
    ):
        assert set(schemas[record.__name__]["properties"]) == set(record.__struct_fields__)
    text = json.dumps(PAGE)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        node: Any = PAGE
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
    assert PAGE["components"]["securitySchemes"]["key"]["scheme"] == "bearer"

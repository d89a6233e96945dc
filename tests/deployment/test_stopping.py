"""Deployments that are stopped while everything waits: answers, time, exit codes, and what is left (B032)."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime

import pytest

from envhub.client.hub import Hub
from envhub.core.errors import EnvhubError
from tests.deployment.deployment import Deployment, docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("deployment"),
]
Make = Callable[..., Deployment]
GRACE_S, AT_ONCE_S = 30, 15
N_CLIENTS = 200
N_DB, N_OS, N_SILENT = 40, 10, 25
QUERY = ("execute_sql", {"query": "SELECT SLEEP(50)"})
COMMAND = ("bash_action", {"script": "sleep 50"})


def turn(name: str, arguments: dict[str, str]) -> bytes:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return json.dumps({"turn": 0, "message": {"role": "assistant", "tool_calls": [call]}}).encode()


async def said(hub: Hub, path: str, body: bytes) -> str:
    """What a call came to: ``ok``, or the error's code."""
    try:
        await hub.request("POST", path, body, retry_for_s=0)
    except EnvhubError as error:
        return error.code
    return "ok"


async def silent(port: int, key: str) -> str:
    """A connection that begins to ask and never ends; what it hears when the other side hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/sessions HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n\r\n{{"
    writer.write(head.encode())
    try:
        heard = await reader.read()
    except ConnectionResetError:
        heard = b""
    finally:
        writer.close()
    return "shutting_down" if b'"shutting_down"' in heard else heard[:40].decode() or "closed"


def finished_s(container: dict[str, dict[str, str]], since: float) -> float:
    ended = datetime.fromisoformat(container["State"]["FinishedAt"][:26].rstrip("Z") + "+00:00")
    return ended.timestamp() - since


async def test_200_clients_that_wait_are_answered_when_everything_is_stopped_b032(make: Make) -> None:
    hub_of_all = make("full", HUB_WORKER_CAPACITY=str(N_DB), HUB_OS_CAPACITY=str(N_OS))
    await asyncio.to_thread(hub_of_all.up, "controller", "mariadb", "db", "os")
    async with Hub(hub_of_all.url, key=hub_of_all.client_key) as hub, AsyncExitStack() as stack:
        held = []
        for environment, n_sessions, what in (("db", N_DB, QUERY), ("os", N_OS, COMMAND)):
            sessions = [hub.session(environment, "test", index) for index in range(n_sessions)]
            await asyncio.gather(*(session.start() for session in sessions))
            held += [said(hub, f"/v1/sessions/{session.id}/interact", turn(*what)) for session in sessions]
        start = b'{"environment":"db","split":"test","task":0,"wait_s":120}'
        n_starts = N_CLIENTS - N_DB - N_OS - N_SILENT
        held += [said(hub, "/v1/sessions", start) for _ in range(n_starts)]
        held += [silent(hub_of_all.port, hub_of_all.client_key) for _ in range(N_SILENT)]
        waiting = [asyncio.create_task(each) for each in held]
        assert len(waiting) == N_CLIENTS
        stack.callback(lambda: [task.cancel() for task in waiting])
        await asyncio.sleep(3)
        metrics = (await hub.request("GET", "/metrics")).decode()
        assert f'envhub_starts_waiting{{environment="db"}} {n_starts}.0' in metrics
        assert not any(task.done() for task in waiting)
        began, stopped_at = time.monotonic(), time.time()
        await asyncio.to_thread(hub_of_all.compose, "stop")
        took_s = time.monotonic() - began
        async with asyncio.timeout(2):
            answers = await asyncio.gather(*waiting)
    ended = {
        each["Name"]: (each["State"]["ExitCode"], finished_s(each, stopped_at)) for each in hub_of_all.containers()
    }
    print(f"stopped in {took_s:.1f} s: {ended}; answers: {Counter(answers)}")
    assert took_s < GRACE_S
    assert {code for code, _ in ended.values()} == {0}, ended
    assert Counter(answers[: N_DB + N_OS]).keys() <= {"session_lost", "session_ended", "episode_failed"}
    assert set(answers[N_DB + N_OS :]) == {"shutting_down"}
    logs = [
        docker("logs", each["Id"], merged=True) for each in hub_of_all.containers() if "mariadb" not in each["Name"]
    ]
    assert not [log for log in logs if "Traceback" in log or '"level": "ERROR"' in log]
    await asyncio.to_thread(hub_of_all.down)
    assert hub_of_all.left() == []


@pytest.mark.parametrize("after_s", [0.0, 0.3, 0.6, 1.0])
def test_a_deployment_that_is_stopped_while_it_starts_stops_in_time_b032(make: Make, after_s: float) -> None:
    begun = make("small")
    begun.up("controller")
    begun.compose("up", "--detach", "--no-deps", "os")
    time.sleep(after_s)
    began = time.monotonic()
    begun.compose("stop")
    took_s = time.monotonic() - began
    codes = {each["Name"]: each["State"]["ExitCode"] for each in begun.containers()}
    assert took_s < AT_ONCE_S and set(codes.values()) <= {0, 143}, codes

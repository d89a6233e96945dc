"""A small controller that speaks AgentRL's HTTP protocol, so that its worker can be measured without the Go program.

It does what a round of sessions needs (registration, dispatch, start, interact, cancel) and as little work as it can:
``standin_controller.py PORT``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import msgspec
import uvloop
from aiohttp import web

_KEEP_ALIVE_S = 4.0  # below the 5 s after which the worker's uvicorn closes an idle connection
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class Refused(Exception):
    """Becomes a 400 with this text."""


class Heartbeat(msgspec.Struct):
    name: str
    address: str
    concurrency: int
    indices: list[int | str]


class StartSample(msgspec.Struct):
    name: str
    index: int | str
    custom_task: dict[str, Any] | None = None


class Interact(msgspec.Struct):
    messages: msgspec.Raw


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """The keys that reach the client; all others are dropped."""

    role: str
    content: Any
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET


class Output(msgspec.Struct):
    """What a worker says of a session."""

    messages: list[ChatMessage]
    status: str
    tools: msgspec.Raw = msgspec.Raw(b"null")
    reward: float = 0.0
    metric: msgspec.Raw = msgspec.Raw(b"null")


class Interaction(msgspec.Struct):
    env_out: Output


@dataclass(slots=True)
class Worker:
    address: str
    task: str
    indices: list[int | str]
    capacity: int
    current: int = 0


class Controller:
    """Workers by address, and the worker of each live session."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._sessions: dict[int, Worker] = {}
        self._numbers = count(1)
        self._cancels: set[asyncio.Task[None]] = set()
        self._http: aiohttp.ClientSession | None = None

    async def clean_up(self, app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S)
        async with aiohttp.ClientSession(connector=connector) as self._http:
            yield

    async def receive_heartbeat(self, request: web.Request) -> web.Response:
        beat = msgspec.json.decode(await request.read(), type=Heartbeat)
        if not beat.indices or beat.concurrency <= 0:
            raise Refused("indices and concurrency must not be empty")
        self._workers.setdefault(
            beat.address, Worker(beat.address, beat.name, beat.indices, beat.concurrency)
        ).capacity = beat.concurrency
        return answer(None)

    async def get_indices(self, request: web.Request) -> web.Response:
        name = request.query.get("name", "")
        for worker in self._workers.values():
            if worker.task == name:
                return answer(worker.indices)
        raise Refused(f"task {name} does not exist")

    async def start_sample(self, request: web.Request) -> web.Response:
        sample = msgspec.json.decode(await request.read(), type=StartSample)
        worker = self._freest(sample.name)
        number = next(self._numbers)
        self._sessions[number] = worker
        worker.current += 1
        body = {"index": sample.index, "session_id": number, "custom_task": sample.custom_task}
        try:
            output = msgspec.json.decode(await self._call(worker, "start_sample", body), type=Output)
        except aiohttp.ClientError:
            self._forget(number)
            raise
        if output.status != "running":
            self._forget(number)
        return answer({"messages": output.messages, "tools": output.tools}, {"session_id": str(number)})

    async def interact(self, request: web.Request) -> web.Response:
        number, worker = self._session(request)
        messages = msgspec.json.decode(await request.read(), type=Interact).messages
        body = {"session_id": number, "messages": messages}
        output = msgspec.json.decode(await self._call(worker, "interact", body), type=Interaction).env_out
        if output.status != "running":
            self._forget(number)
        return answer(
            {
                "finish": output.status != "running",
                "reward": output.reward,
                "status": output.status,
                "messages": output.messages,
                "metrics": output.metric,
            }
        )

    async def cancel(self, request: web.Request) -> web.Response:
        """Answers at once; the worker reports with a notice."""
        number, worker = self._session(request)
        task = asyncio.create_task(self._cancel(worker, number))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)
        return answer(None)

    async def cancel_notice(self, request: web.Request) -> web.Response:
        self._forget(int(request.headers["session_id"]))
        return answer(None)

    async def _cancel(self, worker: Worker, number: int) -> None:
        try:
            await self._call(worker, "cancel_with_notice", {"session_id": number})
        except aiohttp.ClientError:
            self._forget(number)

    def _freest(self, task: str) -> Worker:
        free = [each for each in self._workers.values() if each.task == task and each.current < each.capacity]
        if not free:
            raise Refused(f"no workers available for task {task}")
        return max(free, key=lambda each: each.capacity - each.current)

    def _session(self, request: web.Request) -> tuple[int, Worker]:
        number = int(request.headers.get("session_id", 0))
        if number not in self._sessions:
            raise Refused("session not found")
        return number, self._sessions[number]

    def _forget(self, number: int) -> None:
        worker = self._sessions.pop(number, None)
        if worker:
            worker.current -= 1

    async def _call(self, worker: Worker, path: str, body: dict[str, Any]) -> bytes:
        assert self._http
        async with self._http.post(
            f"{worker.address}/{path}",
            data=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            raise_for_status=True,
        ) as response:
            return await response.read()


def answer(body: Any, headers: dict[str, str] | None = None, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), headers=headers, status=status, content_type="application/json")


@web.middleware
async def with_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except (Refused, ValueError) as error:
        return answer({"message": str(error)}, status=400)
    except aiohttp.ClientError as error:
        return answer({"message": f"failed to interact with session: {error}"}, status=500)


async def version(request: web.Request) -> web.Response:
    return answer({"variant": "standin", "version": 1})


def application() -> web.Application:
    controller = Controller()
    app = web.Application(middlewares=[with_errors], client_max_size=_MAX_MESSAGE_BYTES)
    app.cleanup_ctx.append(controller.clean_up)
    app.router.add_get("/api/version", version)
    app.router.add_get("/api/get_indices", controller.get_indices)
    for handler in (
        controller.receive_heartbeat,
        controller.start_sample,
        controller.interact,
        controller.cancel,
        controller.cancel_notice,
    ):
        app.router.add_post(f"/api/{handler.__name__}", handler)
    return app


if __name__ == "__main__":
    web.run_app(
        application(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )

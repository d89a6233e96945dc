"""A scripted OpenAI-compatible chat endpoint on a real loopback socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Reply:
    """What the endpoint answers: a status and a JSON body, or raw text."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def said(
    content: str | None = None,
    calls: Sequence[Any] | None = None,
    *,
    finish: str = "stop",
    usage: Any = None,
    **extra: Any,
) -> Reply:
    message: dict[str, Any] = {"role": "assistant", "content": content, **extra}
    if calls is not None:
        message["tool_calls"] = list(calls)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    counted = {"prompt_tokens": 10, "completion_tokens": 3} if usage is None else usage
    return Reply(200, {"object": "chat.completion", "choices": [choice], "usage": counted})


def call(name: str, arguments: Any, call_id: Any = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def failed(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    return Reply(status, {"error": {"message": message, "code": code}}, headers)


class ChatServer:
    """Answers with ``script``: a list that is used up, or a function of the request. Keeps every request."""

    def __init__(self, script: Sequence[Reply] | Callable[[dict[str, Any]], Reply]) -> None:
        self._script = script if callable(script) else iter(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.url = ""

    async def __aenter__(self) -> ChatServer:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        record = await request.json()
        self.requests.append(record)
        self.headers.append(dict(request.headers))
        reply = self._script(record) if callable(self._script) else next(self._script)
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        return web.Response(
            status=reply.status, text=text, content_type="application/json", headers=dict(reply.headers)
        )

"""Plays the counter task over the AgentRL controller's HTTP interface: ``agentrl_client.py URL``."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp
from rounds import MakeSession, serve


class TaskSession:
    def __init__(self, http: aiohttp.ClientSession, index: int) -> None:
        self._http = http
        self._index = index
        self._headers: dict[str, str] = {}

    async def start(self) -> None:
        body = {"name": "counter", "index": self._index, "custom_task": None}
        async with self._http.post("/api/start_sample", json=body, raise_for_status=True) as answer:
            self._headers = {"session_id": answer.headers["session_id"]}
            await answer.json()

    async def add(self, a: int, b: int) -> str:
        function = {"name": "add", "arguments": json.dumps({"a": a, "b": b})}
        call = {"id": "1", "type": "function", "function": function}
        found = await self._post("interact", {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]})
        return str(found["messages"][0]["content"])

    async def end(self) -> None:
        await self._post("cancel", {})

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._http.post(f"/api/{path}", json=body, headers=self._headers, raise_for_status=True) as answer:
            return await answer.json()


@asynccontextmanager
async def connect() -> AsyncIterator[MakeSession]:
    numbers = count()
    async with aiohttp.ClientSession(sys.argv[1], connector=aiohttp.TCPConnector(limit=0)) as http:
        yield lambda: TaskSession(http, next(numbers) % 1000)


if __name__ == "__main__":
    serve(connect)

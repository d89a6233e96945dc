"""The client's side of HTTP: over sockets with aiohttp, or straight into an ASGI app of the same process.

Invariant: a transport answers with a status and bytes, or raises UnavailableError when nobody answered; it never retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from envhub.core.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes
    retry_after_s: float | None = None


class Transport(Protocol):
    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        """One request. Raises UnavailableError when it may or may not have been received."""

    async def close(self) -> None: ...


class HttpTransport:
    """aiohttp with keep-alive; ``max_connections`` 0 means as many as there are concurrent calls."""

    def __init__(self, url: str, *, key: str | None = None, max_connections: int = 0) -> None:
        self._base = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        session = self._open()
        try:
            async with session.request(
                method, self._base + path, data=body or None, timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as answer:
                return HttpAnswer(answer.status, await answer.read(), _seconds(answer.headers.get("retry-after")))
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise ValueError(f"not a URL of a hub: {self._base}") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            text = f"no answer from {self._base}: {type(error).__name__}: {error}"
            raise UnavailableError(text, retry_after_s=0.2) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._max_connections, keepalive_timeout=30.0)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._session


AsgiApp = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


class AsgiTransport:
    """Calls an ASGI app of this process; a cancelled request is a client that disconnected."""

    def __init__(self, app: AsgiApp, *, key: str | None = None) -> None:
        self._app = app
        self._headers = [(b"authorization", f"Bearer {key}".encode())] if key else []

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        exchange = _Exchange(body)
        plain, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": plain,
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"hub"), *self._headers],
            "client": ("127.0.0.1", 0),
            "server": ("hub", 80),
        }
        serving = asyncio.ensure_future(self._app(scope, exchange.receive, exchange.send))
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(serving)
        except TimeoutError as error:
            raise UnavailableError("no answer from the hub in time", retry_after_s=0.2) from error
        finally:
            exchange.leave()
            if not serving.done():
                await asyncio.wait({serving}, timeout=5.0)
                serving.cancel()
        return HttpAnswer(exchange.status, b"".join(exchange.parts), exchange.retry_after_s)

    async def close(self) -> None:
        pass


class _Exchange:
    """One request and its answer, from the app's point of view."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self.status = 500
        self.retry_after_s: float | None = None
        self.parts: list[bytes] = []

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {bytes(name).lower(): bytes(value) for name, value in message.get("headers", ())}
            self.retry_after_s = _seconds(headers.get(b"retry-after", b"").decode() or None)
        elif message["type"] == "http.response.body":
            self.parts.append(message.get("body", b""))

    def leave(self) -> None:
        self._left.set()


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header is not None else None
    except ValueError:
        return None

"""The few calls of a Docker engine that sandboxes need, over its socket: JSON calls, tar streams, and attached byte streams.

Invariant: an answer of the engine that is the caller's to handle is an EngineError with its status; an engine that is down, slow
or failing is an UnavailableError. Every stream has its own connection, which only its own end closes, and is read no faster than
its reader asks.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from envhub.core.errors import SandboxUnavailableError, UnavailableError

DEFAULT_URL = "unix:///var/run/docker.sock"
STDOUT, STDERR = 1, 2
_CHUNK = 1 << 16
_HEADER = struct.Struct(">BxxxL")
_CALL_S = 60.0
_CONNECT_S = 10.0


class EngineError(Exception):
    """The engine refused: 404 no such thing, 409 conflict, 304 nothing to do, ..."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"Docker answered {status}: {message}")
        self.status = status
        self.message = message


class Engine:
    """``url``: ``unix:///path`` or ``tcp://host:port``."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        parts = urlsplit(url)
        self.url = url
        self._path: str | None = None
        if parts.scheme == "unix":
            self._path = parts.path
            self._base = "http://docker"
        elif parts.scheme in ("tcp", "http") and parts.hostname:
            self._host, self._port = parts.hostname, parts.port or 2375
            self._base = f"http://{self._host}:{self._port}"
        else:
            raise SandboxUnavailableError(f"Docker address {url!r} is neither unix:///path nor tcp://host:port")
        self._session: aiohttp.ClientSession | None = None

    @property
    def is_local(self) -> bool:
        return self._path is not None

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout_s: float = _CALL_S,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The decoded answer. Raises EngineError, UnavailableError."""
        async with self._answer(method, path, params, timeout_s, json=body) as answer:
            content = await answer.read()
        return json.loads(content) if content and answer.content_type == "application/json" else None

    async def upload(
        self, path: str, content: AsyncIterator[bytes], *, timeout_s: float, params: Mapping[str, str]
    ) -> bytes:
        """POST a tar stream; what the engine said. Raises EngineError, UnavailableError."""
        headers = {"Content-Type": "application/x-tar"}
        async with self._answer("POST", path, params, timeout_s, data=content, headers=headers) as answer:
            return await answer.read()

    async def download(self, path: str, *, timeout_s: float) -> AsyncIterator[bytes]:
        """GET a tar stream. Raises EngineError, UnavailableError."""
        async with self._answer("GET", path, None, timeout_s) as answer:
            async for chunk in answer.content.iter_chunked(_CHUNK):
                yield chunk

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, params: Mapping[str, str] | None, timeout_s: float, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            request = self._http().request(method, self._base + path, params=params, timeout=timeout, **options)
            async with request as answer:
                if answer.status >= 300:
                    raise _refusal(answer.status, await answer.read())
                yield answer
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnavailableError(
                f"Docker at {self.url} did not answer {method} {path}: {error or type(error).__name__}"
            ) from error

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            if self._path is not None:
                connector: aiohttp.BaseConnector = aiohttp.UnixConnector(self._path, limit=0)
            else:
                connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def attach(self, path: str, body: Any = None, *, params: Mapping[str, str] | None = None) -> Attached:
        """POST that turns its connection into a two-way stream. Raises EngineError, UnavailableError."""
        payload = b"" if body is None else json.dumps(body).encode()
        target = quote(path) + (f"?{urlencode(params)}" if params else "")
        head = (
            f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await self._connect()
        except (TimeoutError, OSError) as error:
            raise UnavailableError(f"cannot connect to Docker at {self.url}: {error}") from error
        try:
            writer.write(head.encode() + payload)
            async with asyncio.timeout(_CALL_S):
                status, refusal = await _read_head(reader)
            if status not in (101, 200):
                raise _refusal(status, refusal)
            return Attached(reader, writer)
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            writer.transport.abort()
            raise UnavailableError(f"Docker at {self.url} did not attach: {error or type(error).__name__}") from error
        except BaseException:
            writer.transport.abort()
            raise

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._path is not None:
            return await asyncio.open_unix_connection(self._path, limit=_CHUNK)
        return await asyncio.open_connection(self._host, self._port, limit=_CHUNK)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def ask(url: str, path: str) -> Any:
    """GET, at once and blocking, for start-up and the doctor. Raises EngineError, UnavailableError."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "docker", parts.port or 2375, timeout=_CONNECT_S)
    try:
        if parts.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_CONNECT_S)
            connection.sock.connect(parts.path)
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"Docker at {url} does not answer: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status >= 300:
        raise _refusal(answer.status, content)
    return json.loads(content)


class Attached:
    """Stdin of a process, and its stdout and stderr as the engine frames them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._kind = STDOUT
        self._left = 0

    async def send(self, data: bytes) -> None:
        """Raises OSError when the connection is gone."""
        self._writer.write(data)
        await self._writer.drain()

    def send_eof(self) -> None:
        self._writer.write_eof()

    async def receive(self) -> tuple[int, bytes]:
        """STDOUT or STDERR and at most 64 KiB of it; no bytes once the process or the connection is gone."""
        try:
            while self._left == 0:
                self._kind, self._left = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            data = await self._reader.read(min(self._left, _CHUNK))
        except (asyncio.IncompleteReadError, OSError):
            return STDOUT, b""
        self._left -= len(data)
        return self._kind, data

    def close(self) -> None:
        self._writer.transport.abort()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status, and the body when it is a refusal."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    if status in (101, 200):
        return status, b""
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    return status, await reader.readexactly(int(headers.get("content-length", "0")))


def _refusal(status: int, content: bytes) -> EngineError | UnavailableError:
    try:
        message = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        message = content.decode("utf-8", "replace").strip()
    if status >= 500:
        return UnavailableError(f"Docker failed ({status}): {message}")
    return EngineError(status, message)

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
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
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
    """``url``: ``unix:///path`` or ``tcp://host:port``. Raises SandboxUnavailableError for any other."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self.url = url
        self._path, self._host, self._port = address_of(url)
        named = f"[{self._host}]" if ":" in self._host else self._host
        self._base = "http://docker" if self._path is not None else f"http://{named}:{self._port}"
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

    async def events(self, since_s: float, until_s: float, filters: Mapping[str, Sequence[str]]) -> list[Any]:
        """What the engine says has happened between two moments of its clock. Raises EngineError, UnavailableError."""
        params = {"since": f"{since_s:.9f}", "until": f"{until_s:.9f}", "filters": json.dumps(filters)}
        async with self._answer("GET", "/events", params, _CALL_S) as answer:
            content = await answer.read()
        return [json.loads(line) for line in content.splitlines() if line]

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
    try:
        answer = get(url, path, limit_s=_CONNECT_S)
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"Docker at {url} does not answer: {error or type(error).__name__}") from error
    if answer.status >= 300:
        raise _refusal(answer.status, answer.content)
    return json.loads(answer.content)


@dataclass(frozen=True, slots=True)
class Answer:
    """``headers`` by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def get(url: str, path: str, *, limit_s: float) -> Answer:
    """GET, blocking, within ``limit_s`` however slowly the other side speaks.

    Raises OSError (TimeoutError at the limit), http.client.HTTPException, SandboxUnavailableError for a url of another kind.
    """
    at, host, port = address_of(url)
    connection = http.client.HTTPConnection(host, port, timeout=limit_s)
    try:
        if at is None:
            connection.connect()
        else:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(limit_s)
            connection.sock.connect(at)
        with _cut_off(connection.sock, limit_s):
            connection.request("GET", path)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers, answer.read())
    finally:
        connection.close()


@contextmanager
def _cut_off(connected: socket.socket, limit_s: float) -> Iterator[None]:
    """Whatever is read from ``connected`` inside ends after ``limit_s``. Raises TimeoutError then."""
    late = threading.Event()

    def cut() -> None:
        late.set()
        with suppress(OSError):  # it is closed already
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        if late.is_set():
            raise TimeoutError(f"no answer within {limit_s:g} s") from error
        raise
    finally:
        timer.cancel()


def address_of(url: str) -> tuple[str | None, str, int]:
    """The path of a socket, else a host and a port. Raises SandboxUnavailableError."""
    if url.startswith("unix://"):
        return url.removeprefix("unix://") or DEFAULT_URL.removeprefix("unix://"), "docker", 0
    try:
        parts = urlsplit(url)
        port = parts.port or 2375
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("tcp", "http") or not parts.hostname:
        raise SandboxUnavailableError(f"Docker address {url!r} is neither unix:///path nor tcp://host:port")
    return None, parts.hostname, port


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

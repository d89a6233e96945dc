"""A triple store behind the SPARQL 1.1 protocol, such as Virtuoso with Freebase.

Invariant: an answer is used only when it is whole: a partial, cut or unreadable one is a failure of the store. A query is
repeated a few times when the store does not answer, which is safe because queries change nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EnvhubError, EpisodeFailedError, EpisodeTimeoutError, UnavailableError
from envhub.core.types import JSON
from envhub.envs.kg.store import StoreLimits, term_of_iri, term_of_literal
from envhub.envs.kg.terms import Term

log = logging.getLogger(__name__)

_RESULTS = "application/sparql-results+json"
_AGAIN_AFTER_S = (0.2, 1.0)
_PARTIAL = "S1TAT"
"""What Virtuoso says in X-SQL-State when its own time limit cut an answer short."""


@dataclass(frozen=True, slots=True)
class HttpLimits(StoreLimits):
    """``n_at_once`` is also the size of the connection pool; ``again_after_s`` are the pauses before a query is sent again."""

    n_at_once: int = 32
    connect_s: float = 5.0
    max_bytes: int = 64 * 2**20
    again_after_s: Sequence[float] = field(default=_AGAIN_AFTER_S)


class HttpStore:
    """``url`` is the query endpoint, ``http://host:3001/sparql``; ``graph`` the default graph, when it has to be named."""

    name = "sparql"

    def __init__(
        self, url: str, *, graph: str | None = None, limits: HttpLimits | None = None, clock: Clock | None = None
    ) -> None:
        self._url = url
        self._where = urlsplit(url).netloc.rpartition("@")[2]
        self._graph = graph
        self._limits = limits or HttpLimits()
        self._clock = clock or SystemClock()
        self._slots = asyncio.Semaphore(self._limits.n_at_once)
        self._session: aiohttp.ClientSession | None = None

    async def ready(self) -> None:
        """An endpoint without a single triple is not ready: every question would be answered with nothing."""
        if not await self.select("SELECT ?x WHERE { ?x ?p ?o } LIMIT 1"):
            where = f"the graph <{self._graph}>" if self._graph else "the default graph"
            raise UnavailableError(f"{self._where} has no triples in {where}", retry_after_s=60.0)

    async def select(self, query: str) -> Sequence[Term]:
        answer = await self._ask(query)
        try:
            return [_term(row["x"]) for row in answer["results"]["bindings"] if row]
        except (KeyError, TypeError, ValueError) as error:
            raise EpisodeFailedError(f"{self._where} gave an answer without rows of ?x: {error!r}") from error

    async def _ask(self, query: str) -> Mapping[str, JSON]:
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._slots.acquire()
        except TimeoutError:
            raise UnavailableError(f"no query could be sent for {self._limits.queue_s:g} s") from None
        try:
            return await self._ask_patiently(query)
        finally:
            self._slots.release()

    async def _ask_patiently(self, query: str) -> Mapping[str, JSON]:
        failure: EnvhubError = UnavailableError(f"{self._where} was not asked")
        for pause_s in (0.0, *self._limits.again_after_s):
            if pause_s:
                log.warning("%s; asking again in %g s", failure.message, pause_s)
                await self._clock.sleep(pause_s)
            try:
                return await self._ask_once(query)
            except (UnavailableError, EpisodeTimeoutError) as error:
                failure = error
        raise failure

    async def _ask_once(self, query: str) -> Mapping[str, JSON]:
        """One request. Raises UnavailableError and EpisodeTimeoutError, worth another try, and EpisodeFailedError."""
        form = {"query": query} | ({"default-graph-uri": self._graph} if self._graph else {})
        try:
            async with self._pool().post(self._url, data=form, headers={"Accept": _RESULTS}) as response:
                return self._read(await self._body(response))
        except aiohttp.ConnectionTimeoutError as error:
            raise UnavailableError(f"{self._where} does not accept connections") from error
        except TimeoutError as error:
            raise EpisodeTimeoutError(f"{self._where} took over {self._limits.timeout_s:g} s") from error
        except aiohttp.ClientError as error:
            raise UnavailableError(f"{self._where} cannot be reached: {type(error).__name__}: {error}") from error

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        if response.status == 400:
            text = (await response.content.read(300)).decode(errors="replace")
            raise EpisodeFailedError(f"{self._where} refused a query: {text}")
        partial = response.headers.get("X-SQL-State") == _PARTIAL
        if response.status != 200 or partial:
            what = "cut its answer short" if partial else f"answered {response.status}"
            raise UnavailableError(f"{self._where} {what}")
        body = bytearray()
        async for chunk in response.content.iter_chunked(1 << 16):
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise EpisodeFailedError(f"{self._where} gave over {self._limits.max_bytes} bytes")
        return bytes(body)

    def _read(self, body: bytes) -> Mapping[str, JSON]:
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise UnavailableError(f"{self._where} gave an answer that is not JSON: {error}") from error
        if not isinstance(answer, dict):
            raise UnavailableError(f"{self._where} gave an answer that is no JSON object")
        return answer

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            limits = self._limits
            timeout = aiohttp.ClientTimeout(total=limits.timeout_s, sock_connect=limits.connect_s)
            connector = aiohttp.TCPConnector(limit=limits.n_at_once)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _term(binding: Mapping[str, str]) -> Term:
    if binding["type"] == "uri":
        return term_of_iri(binding["value"])
    if binding["type"] in ("literal", "typed-literal"):
        return term_of_literal(binding["value"], binding.get("datatype", ""), binding.get("xml:lang", ""))
    raise ValueError(f"a term of type {binding['type']!r}")

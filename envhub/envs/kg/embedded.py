"""The embedded triple store: Oxigraph over files that every process of a host reads, built once from a shipped graph.

Invariant: files below ``<graph hash>-<engine version>`` are complete and never change. They are written elsewhere and moved
there in one step by whoever holds the lock of that name; the others wait and then find them.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyoxigraph
from pyoxigraph import Store

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EpisodeFailedError, EpisodeTimeoutError, UnavailableError
from envhub.envs.kg.sparql import NS, XSD
from envhub.envs.kg.store import StoreLimits, term_of_iri, term_of_literal
from envhub.envs.kg.terms import Term, Triple

log = logging.getLogger(__name__)


class EmbeddedStore:
    """``load`` opens the store when it is first needed. Queries run on threads of their own; the engine leaves the interpreter
    free meanwhile."""

    name = "oxigraph"

    def __init__(
        self,
        load: Callable[[], Store],
        *,
        limits: StoreLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._load = load
        self._loaded: asyncio.Future[Store] | None = None
        self._limits = limits or StoreLimits()
        self._clock = clock or SystemClock()
        self._threads = ThreadPoolExecutor(self._limits.n_at_once, thread_name_prefix="kg-store")
        self._slots = asyncio.Semaphore(self._limits.n_at_once)

    async def ready(self) -> None:
        await self._store()

    async def _store(self) -> Store:
        """Opened once, whoever asks first and even when they stop waiting; tried again after a failure."""
        if self._loaded is None:
            self._loaded = asyncio.wrap_future(self._threads.submit(self._load))
        loaded = self._loaded
        try:
            return await asyncio.shield(loaded)
        except (OSError, ValueError, RuntimeError) as error:
            if self._loaded is loaded:
                self._loaded = None
            raise UnavailableError(f"the graph cannot be opened: {error}", retry_after_s=10.0) from error

    async def select(self, query: str) -> Sequence[Term]:
        store = await self._store()
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._slots.acquire()
        except TimeoutError:
            raise UnavailableError(f"no query of the graph could start for {self._limits.queue_s:g} s") from None
        loop = asyncio.get_running_loop()
        until = self._clock.now() + self._limits.timeout_s
        running = self._threads.submit(self._run, store, query, until)
        running.add_done_callback(lambda _: self._give_back(loop))
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await asyncio.wrap_future(running)
        except TimeoutError:
            raise self._too_slow() from None

    def _too_slow(self) -> EpisodeTimeoutError:
        return EpisodeTimeoutError(f"a query of the graph took over {self._limits.timeout_s:g} s")

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """A slot is free when its thread is, not when nobody waits for it any more."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._slots.release)

    def _run(self, store: Store, query: str, until: float) -> Sequence[Term]:
        found: list[Term] = []
        try:
            rows = store.query(query)
            if not isinstance(rows, pyoxigraph.QuerySolutions):
                raise EpisodeFailedError("the graph was not asked for rows")
            for row in rows:
                found.append(_term(row[0]))
                if len(found) % 1024 == 0 and self._clock.now() > until:
                    raise self._too_slow()
        except (OSError, RuntimeError, SyntaxError) as error:
            raise EpisodeFailedError(f"the graph could not be queried: {error}") from error
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _term(value: object) -> Term:
    if isinstance(value, pyoxigraph.NamedNode):
        return term_of_iri(value.value)
    if isinstance(value, pyoxigraph.Literal):
        return term_of_literal(value.value, value.datatype.value, value.language or "")
    raise EpisodeFailedError(f"the graph holds {value!r}, which is no term of it")


def in_memory(triples: Iterable[Triple]) -> Store:
    """A store of this process alone."""
    store = Store()
    store.bulk_load(n_triples(triples), pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def open_store(cache: Path | None, key: str, triples: Callable[[], Iterable[Triple]]) -> Store:
    """The store of the graph named ``key``, opened read-only; its files are built first when ``cache`` lacks them. Without a
    ``cache`` the store lives in memory.

    Raises OSError when the folder cannot be used or its files are damaged.
    """
    if cache is None:
        return in_memory(triples())
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{key}-oxigraph-{pyoxigraph.__version__}"
    if not folder.is_dir():
        with _locked(cache / f"{folder.name}.lock"):
            if not folder.is_dir():
                _build(folder, triples())
    try:
        return Store.read_only(str(folder))
    except (OSError, RuntimeError) as error:
        raise OSError(f"{error}; delete {folder} to have it built again") from error


def _build(folder: Path, triples: Iterable[Triple]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        store = Store(str(scratch))
        store.bulk_load(n_triples(triples), pyoxigraph.RdfFormat.N_TRIPLES)
        store.flush()
        del store
        os.rename(scratch, folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    log.info("built the graph store %s", folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time; the system frees it when that process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def n_triples(triples: Iterable[Triple]) -> bytes:
    return "".join(
        f"<{NS}{subject}> <{NS}{predicate}> {_object(value)} .\n" for subject, predicate, value in triples
    ).encode()


def _object(value: Term) -> str:
    if isinstance(value, str):
        return f"<{NS}{value}>"
    text = value.text.translate(_ESCAPES)
    if value.lang:
        return f'"{text}"@{value.lang}'
    return f'"{text}"' if value.type == "string" else f'"{text}"^^<{XSD}{value.type}>'


_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r"}

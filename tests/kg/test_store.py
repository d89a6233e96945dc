"""Triple stores: the embedded one is built once and bounded, the HTTP one survives what a server may do to it."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.core.errors import EpisodeFailedError, EpisodeTimeoutError, UnavailableError
from envhub.core.types import TaskRef
from envhub.envs.kg import embedded
from envhub.envs.kg.embedded import EmbeddedStore, in_memory, open_store
from envhub.envs.kg.http import HttpLimits, HttpStore
from envhub.envs.kg.programs import parse
from envhub.envs.kg.sparql import Compiler
from envhub.envs.kg.store import StoreLimits
from envhub.envs.kg.terms import Literal
from envhub.testing.clock import FakeClock
from tests.kg import films

FILMS_BY_ANN = Compiler(films.ONTOLOGY).answers(parse("(JOIN (R people.person.directed) m.ann)"))
SOON = HttpLimits(again_after_s=(0.01, 0.01))
QUICK = replace(SOON, timeout_s=0.5)
"""For a server that does not answer, and for none that does: a busy machine may take as long."""


async def names(store: EmbeddedStore | HttpStore) -> set[object]:
    return set(await store.select(FILMS_BY_ANN))


def _build_and_read(cache: str, started: object, results: object) -> None:
    started.wait()  # type: ignore[attr-defined]
    store = open_store(Path(cache), "films", lambda: films.TRIPLES)
    results.put(len(list(store.query(FILMS_BY_ANN))))  # type: ignore[attr-defined,arg-type]


def test_workers_that_race_build_it_once_and_share_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    started, results = context.Event(), context.Queue()
    workers = [context.Process(target=_build_and_read, args=(str(tmp_path), started, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    started.set()
    assert [results.get(timeout=60) for _ in workers] == [3, 3, 3]
    for worker in workers:
        worker.join(30)
    assert len([each for each in tmp_path.iterdir() if each.is_dir()]) == 1, "nothing half-built is left"


def test_files_are_built_once(tmp_path: Path) -> None:
    n_built = 0

    def triples() -> tuple[object, ...]:
        nonlocal n_built
        n_built += 1
        return films.TRIPLES

    for _ in range(2):
        open_store(tmp_path, "films", triples)  # type: ignore[arg-type]
    assert n_built == 1
    open_store(tmp_path, "other", triples)  # type: ignore[arg-type]
    assert n_built == 2


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def triples() -> object:
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        open_store(tmp_path, "films", triples)  # type: ignore[arg-type]
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]
    assert len(open_store(tmp_path, "films", lambda: films.TRIPLES)) == len(set(films.TRIPLES))


async def test_store_is_opened_once_and_again_after_a_failure() -> None:
    attempts: list[int] = []

    def load() -> embedded.Store:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("disk full")
        return in_memory(films.TRIPLES)

    store = EmbeddedStore(load)
    with pytest.raises(UnavailableError, match="disk full"):
        await store.ready()
    assert await asyncio.gather(*(names(store) for _ in range(8))) == [{"m.f1", "m.f2", "m.f3"}] * 8
    assert len(attempts) == 2
    await store.close()


def _damaged(cache: Path) -> Path:
    open_store(cache, "films", lambda: films.TRIPLES)
    (folder,) = (each for each in cache.iterdir() if each.is_dir())
    for file in folder.glob("*.sst"):
        file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))
    return folder


async def test_damaged_files_are_told_and_used_again_once_they_are_built_anew(tmp_path: Path) -> None:
    """Damage that the engine finds when it opens the files is not an OSError of its own."""
    folder = _damaged(tmp_path)
    store = EmbeddedStore(lambda: open_store(tmp_path, "films", lambda: films.TRIPLES))
    with pytest.raises(UnavailableError, match=f"delete {folder}"):
        await store.ready()
    shutil.rmtree(folder)
    assert await names(store) == {"m.f1", "m.f2", "m.f3"}
    await store.close()


async def test_refused_query_is_our_failure() -> None:
    store = films.store()
    with pytest.raises(EpisodeFailedError):
        await store.select("SELECT nonsense")
    await store.close()


async def test_slow_query_is_given_up_and_its_thread_not_lent_twice() -> None:
    """An engine cannot be stopped, so a stuck query keeps its slot until it ends."""
    stuck = threading.Event()

    class Stuck(EmbeddedStore):
        def _run(self, store: embedded.Store, query: str, until: float) -> list[object]:  # type: ignore[override]
            if query == "stuck":
                stuck.wait(20)
            return []

    store = Stuck(lambda: in_memory(()), limits=StoreLimits(timeout_s=0.05, queue_s=0.05, n_at_once=1))
    await store.ready()
    with pytest.raises(EpisodeTimeoutError):
        await store.select("stuck")
    with pytest.raises(UnavailableError):
        await store.select("quick")
    stuck.set()
    store._limits = StoreLimits()  # on a busy machine a query that is not stuck may take as long
    assert await store.select("quick") == []
    await store.close()


async def test_rows_stop_at_the_deadline() -> None:
    store = films.store()
    loaded = in_memory(films.TRIPLES)
    product = "SELECT ?x WHERE { ?x ?a ?b . ?c ?d ?e . ?f ?g ?h }"
    with pytest.raises(EpisodeTimeoutError):
        store._run(loaded, product, until=0.0)
    await store.close()


async def test_http_gives_what_the_embedded_store_gives(sparql_server: str) -> None:
    here, there = films.store(), HttpStore(f"{sparql_server}/sparql")
    await there.ready()
    for text in (
        "(JOIN (R people.person.directed) m.ann)",
        "(COUNT (JOIN (R people.person.directed) m.ann))",
        "(ARGMAX (JOIN (R people.person.directed) m.ann) film.film.minutes)",
        "(JOIN (R film.film.released) (JOIN (R people.person.directed) m.ann))",
        "(JOIN (R type.object.name) (JOIN (R people.person.directed) m.ann))",
    ):
        query = Compiler(films.ONTOLOGY).answers(parse(text))
        assert set(await here.select(query)) == set(await there.select(query)) != set(), text
    assert Literal("1990-01-01", "date") in await there.select(
        Compiler(films.ONTOLOGY).answers(parse("(JOIN (R film.film.released) m.f1)"))
    )
    await asyncio.gather(here.close(), there.close(), there.close())


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("500", UnavailableError),
        ("503", UnavailableError),
        ("429", UnavailableError),
        ("206", UnavailableError),
        ("302", UnavailableError),
        ("400", EpisodeFailedError),
        ("partial", UnavailableError),
        ("garbage", UnavailableError),
        ("shape", EpisodeFailedError),
        ("hangup", UnavailableError),
        ("slow", EpisodeTimeoutError),
        ("drip", EpisodeTimeoutError),
    ],
)
async def test_broken_server_is_our_failure(sparql_server: str, kind: str, error: type[Exception]) -> None:
    """D15, D19: whatever the server does, the episode fails with a class and the worker lives."""
    limits = QUICK if error is EpisodeTimeoutError else SOON
    store = HttpStore(f"{sparql_server}/broken/{kind}", limits=limits)
    with pytest.raises(error):
        await store.select(FILMS_BY_ANN)
    await store.close()


@pytest.mark.parametrize("kind", ["503", "garbage", "hangup", "partial", "slow"])
async def test_flaky_server_is_asked_again(sparql_server: str, kind: str) -> None:
    limits = replace(SOON, timeout_s=3.0) if kind == "slow" else SOON
    store = HttpStore(f"{sparql_server}/flaky/{kind}/2/{kind}-twice", limits=limits)
    assert await names(store) == {"m.f1", "m.f2", "m.f3"}
    await store.close()


async def test_refused_query_is_not_sent_again(sparql_server: str) -> None:
    store = HttpStore(f"{sparql_server}/flaky/400/9/refused", limits=SOON)
    with pytest.raises(EpisodeFailedError, match="refused a query"):
        await store.select(FILMS_BY_ANN)
    with await asyncio.to_thread(urllib.request.urlopen, f"{sparql_server}/count/refused") as answer:
        assert answer.read() == b"1"
    await store.close()


async def test_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        store = HttpStore(f"http://user:secret@127.0.0.1:{taken.getsockname()[1]}/sparql", limits=SOON)
        with pytest.raises(UnavailableError) as caught:
            await store.ready()
        await store.close()
    assert "secret" not in str(caught.value)


async def test_endpoint_without_triples_is_not_ready(sparql_server: str) -> None:
    """An empty store would answer every question with nothing, and every episode would earn 0."""
    store = HttpStore(f"{sparql_server}/broken/nothing", limits=SOON)
    with pytest.raises(UnavailableError, match="no triples"):
        await store.ready()
    await store.close()


async def test_pauses_before_another_try_are_kept(sparql_server: str) -> None:
    slept: list[float] = []

    class Hurried(FakeClock):
        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    limits = HttpLimits(again_after_s=(7.0, 70.0))
    store = HttpStore(f"{sparql_server}/flaky/503/1/paused", limits=limits, clock=Hurried())
    assert await names(store) == {"m.f1", "m.f2", "m.f3"}
    assert slept == [7.0]
    await store.close()


async def test_whole_episode_over_http(sparql_server: str) -> None:
    made = films.environment(HttpStore(f"{sparql_server}/sparql"))
    for index in range(len(films.TASKS)):
        episode = await films.opened(made, index)
        await episode.reset()
        for message in made.solution(TaskRef("kg", "test", index)) or ():
            result = await episode.step(message)
        assert result.reward == 1.0
    await made.close()

"""Virtuoso 7.2, the server AgentBench-FC keeps Freebase in: compiled programs mean there what the reference says.

Runs where ``virtuoso-t`` and ``isql-vt`` are on the path (Debian: virtuoso-opensource-7-bin); it needs no running service.
"""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from envhub.core.errors import EpisodeFailedError, UnavailableError
from envhub.core.types import TaskRef
from envhub.envs.kg import env
from envhub.envs.kg.embedded import n_triples
from envhub.envs.kg.http import HttpLimits, HttpStore
from envhub.envs.kg.programs import Count, show
from envhub.envs.kg.reference import Evaluator, Graph
from envhub.envs.kg.sparql import Compiler
from envhub.envs.kg.terms import Term, Triple, value_of
from tests.hub.processes import free_port
from tests.kg import films, worlds
from tests.require import lacking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.xdist_group("virtuoso")]

SETTINGS = """
[Database]
DatabaseFile = {folder}/v.db
ErrorLogFile = {folder}/v.log
LockFile = {folder}/v.lck
TransactionFile = {folder}/v.trx
xa_persistent_file = {folder}/v.pxa
[TempDatabase]
DatabaseFile = {folder}/t.db
TransactionFile = {folder}/t.trx
[Parameters]
ServerPort = 127.0.0.1:{sql_port}
DirsAllowed = {folder}
NumberOfBuffers = 10000
[HTTPServer]
ServerPort = 127.0.0.1:{http_port}
[SPARQL]
ResultSetMaxRows = 100001
"""

Load = Callable[[str, Sequence[Triple]], HttpStore]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Puts triples into a graph of that name and gives a store over it."""
    server, isql = shutil.which("virtuoso-t"), shutil.which("isql-vt")
    if not server or not isql:
        lacking("virtuoso", "virtuoso-t and isql-vt are not on the path (Debian: virtuoso-opensource-7-bin)")
    folder = tmp_path_factory.mktemp("virtuoso")
    sql_port, http_port = free_port(), free_port()
    (folder / "v.ini").write_text(SETTINGS.format(folder=folder, sql_port=sql_port, http_port=http_port))
    process = subprocess.Popen([server, "-f", "-c", str(folder / "v.ini")], cwd=folder, stderr=subprocess.DEVNULL)

    def load_graph(name: str, triples: Sequence[Triple]) -> HttpStore:
        (folder / "graph.nt").write_bytes(n_triples(triples))
        command = f"exec=DB.DBA.TTLP(file_to_string_output('{folder}/graph.nt'), '', '{name}');"
        done = subprocess.run([isql, f"127.0.0.1:{sql_port}", "dba", "dba", command], capture_output=True, text=True)
        assert "Error" not in done.stdout + done.stderr, done.stdout + done.stderr
        limits = HttpLimits(timeout_s=20, again_after_s=(0.1, 0.1))
        return HttpStore(f"http://127.0.0.1:{http_port}/sparql", graph=name, limits=limits)

    try:
        _wait_for(sql_port, process)
        _wait_for(http_port, process)
        yield load_graph
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


def values(terms: Sequence[Term] | frozenset[Term]) -> set[object]:
    return {value_of(term) for term in terms}


@pytest.mark.parametrize("seed", range(3))
async def test_programs_mean_what_the_reference_says(load: Load, seed: int) -> None:
    rng = random.Random(seed)
    triples = worlds.graph(rng)
    store = load(f"http://example.org/{seed}", triples)
    await store.ready()
    reference, compiler = Evaluator(Graph(triples), worlds.ONTOLOGY), Compiler(worlds.ONTOLOGY)
    for _ in range(100):
        program = worlds.program(rng)
        found = await store.select(compiler.answers(program))
        assert values(found) == values(reference.answers(program)), show(program)
        if not isinstance(program, Count):
            properties = await store.select(compiler.properties(program))
            assert set(properties) == reference.properties(program), show(program)
    await store.close()


@pytest.mark.parametrize("grading", ["strict", "agentbench"])
async def test_tasks_are_solved(load: Load, grading: str) -> None:
    made = films.environment(load("http://example.org/films", films.TRIPLES))
    for index in range(len(films.TASKS)):
        task = TaskRef("kg", "test", index)
        episode = await made.open(task, seed=0, options={**env.OPTIONS, "grading": grading})
        await episode.reset()
        for message in made.solution(task) or ():
            result = await episode.step(message)
        assert result.reward == 1.0
    await made.close()


async def test_endpoint_that_holds_nothing_is_not_ready(load: Load) -> None:
    store = load("http://example.org/empty", ())
    with pytest.raises(UnavailableError, match="no triples"):
        await store.ready()
    with pytest.raises(EpisodeFailedError, match="refused"):
        await store.select("SELECT nonsense")
    await store.close()

"""The film graph, and a SPARQL server process that serves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envhub.envs.kg.embedded import n_triples
from tests.kg import films


@pytest.fixture(scope="session")
def sparql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``http://127.0.0.1:port`` of a server process over the film graph."""
    graph = tmp_path_factory.mktemp("sparql") / "films.nt"
    graph.write_bytes(n_triples(films.TRIPLES))
    script = Path(__file__).with_name("sparql_server.py")
    process = subprocess.Popen([sys.executable, str(script), str(graph)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()

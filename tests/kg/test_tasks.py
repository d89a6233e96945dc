"""The native files: what is written is read back, equal records give equal bytes, damage is noticed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from envhub.core.errors import InvalidRequestError
from envhub.core.types import TaskRef
from envhub.envs.kg import env
from envhub.envs.kg.ontology import decode_schema
from envhub.envs.kg.tasks import decode_triple, load_graph, load_ontology, load_split, write_dataset
from envhub.envs.kg.workspace import Call
from tests.kg import films


def write(folder: Path, *, order: int = 1) -> Path:
    write_dataset(
        folder / "kg",
        {"train": films.TASKS, "dev": films.TASKS[:1]},
        graph=films.TRIPLES[::order],
        classes=films.CLASSES,
        properties=films.PROPERTIES,
        name="kg",
        version="1.2.3",
        generator={"seed": 7},
    )
    return folder / "kg"


def test_dataset_is_read_back(tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert list(load_split(folder, "train")) == list(films.TASKS)
    assert set(load_graph(folder)) == set(films.TRIPLES)
    ontology = load_ontology(folder)
    assert ontology == films.ONTOLOGY
    assert ontology.attributes == {"film.film.minutes", "film.film.released"}
    assert "type.object.name" not in ontology.relations | ontology.attributes
    assert ontology.reverses["film.film.cast"] == "film.actor.films"


def test_order_of_triples_does_not_matter(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a"), write(tmp_path / "b", order=-1)
    for name in ("graph.tsv.gz", "train.jsonl.gz", "manifest.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_damage_is_noticed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "graph.tsv.gz").write_bytes(gzip.compress(b"m.1\ta.b.c\tm.2\n"))
    with pytest.raises(ValueError, match="sha256"):
        load_graph(folder)
    with pytest.raises(KeyError, match="train, dev"):
        load_split(folder, "test")


@pytest.mark.parametrize("line", ["m.1\ta.b.c", "m.1\ta.b.c\tnot an id", 'm.1\ta.b.c\t"1"^^int32', 'm.1\ta.b.c\t"open'])
def test_line_that_is_no_triple_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        decode_triple(line)


def test_property_that_comes_twice_is_refused() -> None:
    record = {"property": "a.b.c", "domain": "a.b", "range": "type.int"}
    with pytest.raises(ValueError, match=r"a\.b\.c"):
        decode_schema([record, record])


@pytest.mark.parametrize(
    "text", ["", "count", "count(#0", "count(#0) #1", "union(#0,#1)", "intersection(#0)", "count()"]
)
def test_text_that_is_no_call_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Call.parse(text)


async def test_shipped_files_make_an_environment(tmp_path: Path) -> None:
    write(tmp_path)
    made = env.create({"datasets": tmp_path, "cache": tmp_path / "cache"})
    assert made.info().splits == {"train": 3, "dev": 1}
    task = TaskRef("kg", "train", 1)
    episode = await made.open(task, seed=0, options=env.OPTIONS)
    for message in made.solution(task) or ():
        result = await episode.step(message)
    assert result.reward == 1.0
    await made.close()
    other = env.create({"datasets": tmp_path, "cache": "memory"})
    assert other.info() == made.info()
    await other.close()
    with pytest.raises(InvalidRequestError, match="no setting 'url'"):
        env.create({"url": "x"})

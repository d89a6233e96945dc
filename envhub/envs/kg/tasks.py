"""Knowledge-graph tasks: what one is, and the files that a graph and its questions ship in. A task, a schema and a graph read
back equal those written.

Native format, one folder per dataset (``datasets/kg``); manifest as in ``envhub.envs.datasets``::

    manifest.json       splits, and under "files" the two below as "graph" and "ontology"
    graph.tsv.gz        one triple a line, ``subject TAB predicate TAB object``; objects as in ``terms.write_object``:
                        an id, "3"^^integer, "1990-05-01"^^date, "Oslo"@en, "text". No line comes twice
    ontology.jsonl.gz   {"class": id, "parents"?: [id, ...], "mediator"?: true} or
                        {"property": id, "domain": class, "range": class, "reverse"?: property}, see ``ontology.py``
    <split>.jsonl.gz    one TASK a line, task *n* of the split is line *n*

    TASK    {"id", "question", "entities": {surface name: id}, "answer": [TERM, ...], "program": s-expression,
             "solution": [CALL, ...], "kind": "join", "n_hops": 2, "source"?, "difficulty"?, "tags"?}
    TERM    "m.0k3q", {"value": "3", "type": "integer"} or {"value": "Oslo", "lang": "en"}
    CALL    a tool call as in the official files, ``get_neighbors(#0,people.person.nationality)``; the variable made by the
            last call that makes one is the answer

Ids: entities ``m.xxx`` or ``g.xxx``, classes ``domain.type``, properties ``domain.type.property``. Both directions of a
relation are triples of their own when both exist (``reverse``). ``type.object.type`` holds every class of an entity,
inherited ones included; ``type.object.name`` its name (``@en``), which mediator nodes lack.
Literals are written canonically: ``integer`` and ``decimal`` without leading or trailing zeros, ``date``, ``gYear`` and
``dateTime`` without zone, years from 0001 on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envhub.core.types import JSON
from envhub.envs import datasets
from envhub.envs.datasets import FileEntry, Manifest, SplitEntry, compact, read_manifest
from envhub.envs.kg.ontology import Class, Ontology, Property, decode_schema, encode_class, encode_property
from envhub.envs.kg.terms import Term, Triple, decode_term, encode_term, read_object, write_object

GRAPH, ONTOLOGY = "graph", "ontology"


@dataclass(frozen=True, slots=True)
class KGTask:
    """One question over a graph.

    ``entities`` are the names in the question by the ids they mean; ``kind`` is the shape of its program (join, and, count,
    argmax, argmin, comparison); ``program`` and ``solution`` are empty when unknown.
    """

    id: str
    question: str
    entities: Mapping[str, str]
    answer: tuple[Term, ...]
    program: str = ""
    solution: tuple[str, ...] = ()
    kind: str = ""
    n_hops: int = 0
    source: str = ""
    difficulty: str = ""
    tags: tuple[str, ...] = ()


TaskSet = datasets.TaskSet[KGTask]


def encode_task(task: KGTask) -> dict[str, JSON]:
    record: dict[str, JSON] = {
        "id": task.id,
        "question": task.question,
        "entities": dict(task.entities),
        "answer": [encode_term(term) for term in task.answer],
        "program": task.program,
        "solution": list(task.solution),
        "kind": task.kind,
        "n_hops": task.n_hops,
    }
    optional = {"source": task.source, "difficulty": task.difficulty, "tags": list(task.tags)}
    return record | {key: value for key, value in optional.items() if value}


def decode_task(record: Mapping[str, JSON]) -> KGTask:
    return KGTask(
        id=record["id"],
        question=record["question"],
        entities=record["entities"],
        answer=tuple(decode_term(term) for term in record["answer"]),
        program=record["program"],
        solution=tuple(record["solution"]),
        kind=record["kind"],
        n_hops=record["n_hops"],
        source=record.get("source", ""),
        difficulty=record.get("difficulty", ""),
        tags=tuple(record.get("tags", ())),
    )


def encode_triple(triple: Triple) -> str:
    return f"{triple.subject}\t{triple.predicate}\t{write_object(triple.object)}"


def decode_triple(line: str) -> Triple:
    """Raises ValueError for a line that is no triple."""
    subject, predicate, value = line.split("\t")
    return Triple(subject, predicate, read_object(value))


def load_split(folder: Path, split: str) -> TaskSet:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    manifest = read_manifest(folder)
    lines = datasets.read_split_lines(folder, manifest, split)
    entry = manifest.splits[split]
    if len(lines) != entry.n_tasks:
        raise ValueError(f"{folder / entry.file} holds {len(lines)} tasks; the manifest says {entry.n_tasks}")

    def decode(index: int) -> KGTask:
        return decode_task(json.loads(lines[index]))

    return TaskSet(f"{manifest.name}/{split}", len(lines), decode, dataset_hash=entry.sha256)


def load_ontology(folder: Path) -> Ontology:
    """Raises ValueError when the file is not what the manifest says."""
    lines = datasets.read_lines(folder, read_manifest(folder).files[ONTOLOGY])
    return Ontology.of(*decode_schema(json.loads(line) for line in lines))


def load_graph(folder: Path) -> Iterator[Triple]:
    """The triples in file order. Raises ValueError when the file is not what the manifest says."""
    entry = read_manifest(folder).files[GRAPH]
    lines = datasets.read_lines(folder, entry)
    if len(lines) != entry.n_records:
        raise ValueError(f"{folder / entry.file} holds {len(lines)} triples; the manifest says {entry.n_records}")
    return (decode_triple(line.decode()) for line in lines)


def write_dataset(
    folder: Path,
    splits: Mapping[str, Iterable[KGTask]],
    *,
    graph: Iterable[Triple],
    classes: Iterable[Class],
    properties: Iterable[Property],
    name: str,
    version: str,
    generator: Mapping[str, JSON],
) -> Manifest:
    """Write the graph, its schema, every split and the manifest; equal records give equal bytes. The triples are a set."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {GRAPH: write_graph(folder, graph), ONTOLOGY: _write_ontology(folder, classes, properties)}
    entries = {split: _write_split(folder, split, tasks) for split, tasks in splits.items()}
    manifest = Manifest(name, version, generator, entries, files)
    datasets.write_manifest(folder, manifest)
    return manifest


def write_graph(folder: Path, graph: Iterable[Triple]) -> FileEntry:
    lines = sorted({encode_triple(triple) for triple in graph}, key=_by_predicate)
    return datasets.write_file(folder, "graph.tsv.gz", lines, n_records=len(lines))


def _by_predicate(line: str) -> tuple[str, str, str]:
    """Lines that look alike lie together and pack better."""
    subject, predicate, value = line.split("\t")
    return predicate, subject, value


def _write_ontology(folder: Path, classes: Iterable[Class], properties: Iterable[Property]) -> FileEntry:
    lines = [compact(encode_class(each)) for each in classes] + [compact(encode_property(each)) for each in properties]
    return datasets.write_file(folder, "ontology.jsonl.gz", lines, n_records=len(lines))


def _write_split(folder: Path, split: str, tasks: Iterable[KGTask]) -> SplitEntry:
    lines = [compact(encode_task(task)) for task in tasks]
    return datasets.write_split(folder, split, lines, n_tasks=len(lines))

"""The shipped KG dataset: a rich graph, sizes, reproducibility, fair questions, and gold answers that the engine confirms."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from envhub.core.types import Message, TaskRef
from envhub.envs.kg.env import OPTIONS, KGEnvironment, create
from envhub.envs.kg.ontology import NAME, TYPE, Ontology
from envhub.envs.kg.programs import ProgramError, parse, show, type_of
from envhub.envs.kg.tasks import KGTask, load_graph, load_ontology, load_split
from envhub.envs.kg.terms import Literal, Term
from envhub.envs.kg.workspace import Call

DATASET = Path(__file__).resolve().parents[2] / "datasets" / "kg"
SIZES = {"train": 2000, "dev": 200, "test": 300}
KINDS = {"join", "and", "count", "argmax", "argmin", "comparison"}
MIB = 1 << 20

Tasks = dict[str, list[KGTask]]
Objects = dict[str, dict[str, set[Term]]]


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return {split: list(load_split(DATASET, split)) for split in SIZES}


@pytest.fixture(scope="module")
def ontology() -> Ontology:
    return load_ontology(DATASET)


@pytest.fixture(scope="module")
def graph() -> Objects:
    """Subject -> predicate -> objects."""
    found: Objects = defaultdict(lambda: defaultdict(set))
    n_triples = 0
    for triple in load_graph(DATASET):
        found[triple.subject][triple.predicate].add(triple.object)
        n_triples += 1
    assert n_triples == sum(len(objects) for held in found.values() for objects in held.values())
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment() -> AsyncIterator[KGEnvironment]:
    made = create({"datasets": str(DATASET.parent), "cache": "memory"})
    yield made
    await made.close()


def _all(tasks: Tasks) -> Iterator[KGTask]:
    return (task for found in tasks.values() for task in found)


def _tag(task: KGTask, name: str) -> str:
    return next(tag.partition(":")[2] for tag in task.tags if tag.startswith(f"{name}:"))


def _relations(task: KGTask) -> set[str]:
    return set(re.findall(r"[a-z_]+\.[a-z_0-9]+\.[a-z_0-9]+", task.program))


def _generate(out: Path, *arguments: str, hash_seed: str) -> dict[str, dict[str, dict[str, str]]]:
    run = subprocess.run(
        [sys.executable, str(DATASET / "generate" / "main.py"), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    made: dict[str, dict[str, dict[str, str]]] = json.loads((out / "manifest.json").read_text("utf-8"))
    return made


def _hashes(manifest: dict[str, dict[str, dict[str, str]]]) -> dict[str, str]:
    return {name: entry["sha256"] for part in ("splits", "files") for name, entry in manifest[part].items()}


def test_splits_have_the_promised_sizes(tasks: Tasks) -> None:
    assert {split: len(found) for split, found in tasks.items()} == SIZES
    assert (DATASET / "graph.tsv.gz").stat().st_size < 4 * MIB
    assert sum((DATASET / f"{split}.jsonl.gz").stat().st_size for split in SIZES) < MIB


def test_readme_shows_the_hashes_of_the_files() -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    readme = (DATASET.parent / "README.md").read_text("utf-8")
    assert [name for name, digest in _hashes(manifest).items() if digest not in readme] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_generator_reproduces_every_file(tmp_path: Path) -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    again = _generate(tmp_path, "--seed", str(manifest["generator"]["seed"]), hash_seed="1")
    assert _hashes(again) == _hashes(manifest)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_another_seed_gives_another_world(tmp_path: Path, tasks: Tasks) -> None:
    _generate(tmp_path, "--seed", "7", hash_seed="2")
    other = {task.question for task in load_split(tmp_path, "test")}
    assert len(other) == SIZES["test"]
    assert len(other & {task.question for task in tasks["test"]}) < 10


# --- the graph


def test_graph_is_large_and_spans_many_domains(graph: Objects, ontology: Ontology) -> None:
    assert sum(len(objects) for found in graph.values() for objects in found.values()) >= 200_000
    used = {predicate for found in graph.values() for predicate in found}
    assert used == ontology.relations | ontology.attributes | {TYPE, NAME}
    assert len({name.partition(".")[0] for name in ontology.relations}) >= 12
    assert {each[0] for each in graph} == {"m", "g"}


def test_relations_hold_in_both_directions(graph: Objects, ontology: Ontology) -> None:
    assert set(ontology.reverses) == ontology.relations
    ways = {relation: {back} for relation, back in ontology.reverses.items()}
    for relation, back in ontology.reverses.items():
        ways[back].add(relation)
    for subject, found in graph.items():
        for relation in found.keys() & ontology.relations:
            for each in found[relation]:
                back_again = (graph[str(each)].get(way, ()) for way in ways[relation])
                assert any(subject in objects for objects in back_again), (subject, relation, each)


def test_types_are_inherited_and_fit_the_schema(graph: Objects, ontology: Ontology) -> None:
    assert sum(len(each.parents) > 1 or each.parents != ("common.topic",) for each in ontology.classes.values()) >= 40
    for subject, found in graph.items():
        types = found[TYPE]
        for name in types:
            assert isinstance(name, str)
            assert set(ontology.classes[name].parents) <= types, subject
        for predicate in found.keys() - {TYPE, NAME}:
            assert ontology.domain_of(predicate) in types, (subject, predicate)
            if predicate in ontology.relations:
                assert all(ontology.range_of(predicate) in graph[str(each)][TYPE] for each in found[predicate])


def test_mediators_have_no_name_and_tie_things_together(graph: Objects, ontology: Ontology) -> None:
    mediators = {name for name, each in ontology.classes.items() if each.mediator}
    assert len(mediators) >= 12
    for subject, found in graph.items():
        if found[TYPE] & mediators:
            assert NAME not in found and subject.startswith("g.")
            assert len(found.keys() & ontology.relations) >= 1
        else:
            assert len(found[NAME]) == 1


def test_names_repeat_within_and_across_domains(graph: Objects) -> None:
    bearers = defaultdict(list)
    for subject, found in graph.items():
        for name in found.get(NAME, ()):
            bearers[name].append(subject)
    twins = [subjects for subjects in bearers.values() if len(subjects) > 1]
    across = [subjects for subjects in twins if len({min(map(str, graph[each][TYPE])) for each in subjects}) > 1]
    assert len(twins) > 300
    assert len(across) > 100


def test_values_are_numbers_and_dates(graph: Objects, ontology: Ontology) -> None:
    kinds = Counter(ontology.kind_of(name) for name in ontology.attributes)
    assert min(kinds["number"], kinds["time"]) >= 20
    for found in graph.values():
        for name in found.keys() & ontology.attributes:
            [value] = found[name]
            assert isinstance(value, Literal) and value.kind == ontology.kind_of(name)


# --- the questions


def test_no_question_and_no_program_comes_twice(tasks: Tasks) -> None:
    for seen in (Counter(task.question for task in _all(tasks)), Counter(task.program for task in _all(tasks))):
        assert [text for text, times in seen.items() if times > 1] == []


def test_every_split_has_every_kind_depth_and_difficulty(tasks: Tasks) -> None:
    for found in tasks.values():
        assert {task.kind for task in found} == KINDS
        assert {task.n_hops for task in found} == {1, 2, 3, 4}
        assert {task.difficulty for task in found} == {"easy", "medium", "hard"}
        assert sum("(AND " in task.program for task in found) > 0.3 * len(found)


def test_programs_are_well_formed_and_typed(tasks: Tasks, ontology: Ontology) -> None:
    for task in _all(tasks):
        program = parse(task.program)
        assert show(program) == task.program
        try:
            assert type_of(program, ontology)
        except ProgramError as error:
            pytest.fail(f"{task.id}: {error}")


def test_solutions_are_short(tasks: Tasks) -> None:
    for task in _all(tasks):
        assert 2 <= len(task.solution) <= 12
        assert {Call.parse(text).name for text in task.solution} <= {
            "get_relations", "get_neighbors", "intersection", "get_attributes", "argmax", "argmin", "count",
        }  # fmt: skip


def test_answers_are_few_and_rarely_the_same(tasks: Tasks) -> None:
    for found in tasks.values():
        sizes = [len(task.answer) for task in found]
        assert min(sizes) == 1 and max(sizes) <= 50
        assert sum(size <= 5 for size in sizes) > 0.8 * len(sizes)
        _, times = Counter(task.answer for task in found).most_common(1)[0]
        assert times <= 0.02 * len(found)
        assert all(task.answer[0] not in {Literal("0", "integer"), Literal("1", "integer")} for task in found)


def test_questions_name_their_entities(tasks: Tasks, graph: Objects) -> None:
    for task in _all(tasks):
        for name, id in task.entities.items():
            assert name in task.question, task.id
            assert graph[id][NAME] == {Literal(name, lang="en")}, task.id
        assert set(re.findall(r"\b[mg]\.\w+", task.program)) == set(task.entities.values())
        assert not set(task.entities.values()) & set(task.answer)


def test_questions_are_whole_sentences(tasks: Tasks) -> None:
    for task in _all(tasks):
        assert task.question[0].isupper(), task.question
        assert task.question[-1] in ".?", task.question
        assert not re.search(
            r"[\[\]{}<>|]|\bNone\b|  | [.,?]|\bthe the\b|\b[Aa] [AEIOaeio]\w|[a-z]\.[a-z]+\.", task.question
        ), task.question
        assert len(task.question) < 260


def test_test_split_asks_what_train_does_not(tasks: Tasks) -> None:
    """A fifth of the test tasks need relations that train lacks, two fifths combine known ones anew."""
    known = {relation for task in tasks["train"] for relation in _relations(task)}
    levels = Counter(_tag(task, "generalization") for task in tasks["test"])
    assert levels == {"zero-shot": 60, "compositional": 120, "iid": 120}
    for task in (*tasks["dev"], *tasks["test"]):
        level = _tag(task, "generalization")
        assert (level == "zero-shot") == (not _relations(task) <= known), task.id
        assert (level != "iid") == ("held_out" in task.tags)
    entities = {id for task in tasks["train"] for id in task.entities.values()}
    unseen = [task for task in tasks["test"] if not entities & set(task.entities.values())]
    assert unseen and unseen == [task for task in tasks["test"] if "unseen_entities" in task.tags]


# --- fairness


def _follow(graph: Objects, ontology: Ontology, start: set[Term], position: int) -> set[Term]:
    """What the first or last listed relation of a set leads to."""
    relations = sorted({name for each in start for name in graph[str(each)].keys() & ontology.relations})
    return {found for each in start for found in graph[str(each)].get(relations[position], ())} if relations else set()


def _blind(depth: int, position: int, entity: int = 0) -> Callable[[Objects, Ontology, KGTask], set[Term]]:
    def reached(graph: Objects, ontology: Ontology, task: KGTask) -> set[Term]:
        found: set[Term] = {list(task.entities.values())[entity]}
        for _ in range(depth):
            found = _follow(graph, ontology, found, position)
        return found

    return reached


def _meeting(graph: Objects, ontology: Ontology, task: KGTask) -> set[Term]:
    starts = [_follow(graph, ontology, {id}, 0) for id in task.entities.values()]
    return set.intersection(*starts)


TRICKS: dict[str, Callable[[Objects, Ontology, KGTask], set[Term]]] = {
    "echo": lambda graph, ontology, task: set(task.entities.values()),
    "first relation": _blind(1, 0),
    "last relation": _blind(1, -1),
    "first relation of the last entity": _blind(1, 0, -1),
    "first relation twice": _blind(2, 0),
    "last relation twice": _blind(2, -1),
    "meeting of the first relations": _meeting,
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("count", [False, True], ids=["set", "count"])
def test_tricks_do_not_pay(tasks: Tasks, graph: Objects, ontology: Ontology, trick: str, count: bool) -> None:
    for split, found in tasks.items():
        paid = []
        for task in found:
            given = TRICKS[trick](graph, ontology, task)
            answer = {Literal(str(len(given)), "integer")} if count else given
            paid += [task.id] * (answer == set(task.answer))
        assert len(paid) <= 0.02 * len(found), (split, paid)


def test_every_step_of_a_solution_is_needed(tasks: Tasks, graph: Objects) -> None:
    """No variable made before the last one already is the answer of a set question."""
    for task in _all(tasks):
        if task.kind == "count":
            continue
        *before, last = _variables(task, graph)
        assert last == set(task.answer), task.id
        if task.kind != "join":
            assert last not in before, task.id


def _variables(task: KGTask, graph: Objects) -> list[set[Term]]:
    """What each variable of the solution holds, worked out on the triples alone."""
    made: list[set[Term]] = []

    def held(argument: str) -> set[Term]:
        return made[int(argument[1:])] if argument.startswith("#") else {argument}

    for text in task.solution:
        name, _, rest = text.rstrip(")").partition("(")
        first, *others = rest.split(",")
        if name == "get_neighbors":
            made.append({found for each in held(first) for found in graph[str(each)].get(others[0], ())})
        elif name == "intersection":
            made.append(held(first) & held(others[0]))
        elif name == "count":
            made.append({Literal(str(len(held(first))), "integer")})
        elif name in ("argmax", "argmin"):
            made.append(_extreme(held(first), others[0], graph, most=name == "argmax"))
    return made


def _extreme(things: set[Term], attribute: str, graph: Objects, *, most: bool) -> set[Term]:
    values = {each: next(iter(graph[str(each)][attribute])).value for each in things}  # type: ignore[union-attr]
    best = (max if most else min)(values.values())
    found = {each for each, value in values.items() if value == best}
    assert len(found) == 1, "a superlative has one answer"
    return found


def test_counts_agree_with_the_triples(tasks: Tasks, graph: Objects) -> None:
    for task in _all(tasks):
        if task.kind == "count":
            assert _variables(task, graph)[-1] == set(task.answer), task.id


# --- the engine


async def _wrong(environment: KGEnvironment, split: str, n_tasks: int, options: dict[str, object]) -> list[str]:
    """Tasks whose reference solution, played through an episode, does not earn everything."""
    wrong = []
    for index in range(n_tasks):
        task = TaskRef("kg", split, index)
        episode = await environment.open(task, seed=0, options={**OPTIONS, **options})
        await episode.reset()
        solution = environment.solution(task)
        assert solution is not None
        results = [await episode.step(message) for message in solution]
        said = [message.content or "" for result in results for message in result.messages]
        if results[-1].reward != 1.0 or not results[-1].terminated or any("Error" in text for text in said):
            wrong.append(f"{task}: {said[-2:]}")
        await episode.close()
    return wrong


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("grading", ["strict", "agentbench"])
async def test_engine_confirms_the_gold_of_dev_and_test(environment: KGEnvironment, grading: str) -> None:
    for split in ("dev", "test"):
        assert await _wrong(environment, split, SIZES[split], {"grading": grading}) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="module")
async def test_engine_confirms_the_gold_of_train(environment: KGEnvironment) -> None:
    assert await _wrong(environment, "train", SIZES["train"], {}) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_an_entity_alone_earns_nothing(environment: KGEnvironment) -> None:
    """Silence, and an answer without a single call, on every dev task."""
    for index in range(SIZES["dev"]):
        episode = await environment.open(TaskRef("kg", "dev", index), seed=0, options=OPTIONS)
        await episode.reset()
        for text in ("I do not know.", "Final Answer: #0"):
            result = await episode.step(Message.assistant(text))
            assert not result.reward, index
        await episode.close()

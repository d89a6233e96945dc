"""AgentBench's published knowledge-graph tasks and the Freebase schema they speak of, read from its repository's folders.

The questions need a store that holds Freebase. Their gold uses a few properties that the published vocabulary lacks; these
are added to the schema, since the tasks could not be solved without them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from envhub.core.types import JSON, Defect, TaskRef
from envhub.envs.kg.ontology import LITERAL_RANGES, TOPIC, Class, Ontology
from envhub.envs.kg.tasks import KGTask, TaskSet
from envhub.envs.kg.terms import plain
from envhub.envs.kg.workspace import Call, Workspace, trace

FILES: Mapping[str, str] = {
    "agentbench-std": "std.json",
    "agentbench-dev": "dev.json",
    "agentbench-train": "kg_rl_all.json",
}
"""Split name to the file below ``QUESTIONS`` that holds it."""

QUESTIONS = Path("data/knowledgegraph")
SCHEMA = Path("src/server/tasks/knowledgegraph/ontology")

_MISSING_RANGES: Mapping[str, str] = {
    "topic_server.population_number": "type.int",
    "american_football.football_position.players": "american_football.football_roster_position",
}
"""Properties that the gold uses and the published list of properties does not have."""
_ADDED_ATTRIBUTES = frozenset({"topic_server.population_number"})
_ADDED_RELATIONS = frozenset({"american_football.football_position.players", "common.image.appears_in_topic_gallery"})
"""What the gold uses and the published vocabulary does not have."""

_FORM = re.compile(r"\((COUNT|ARGMAX|ARGMIN)\b")


def load_questions(path: Path) -> TaskSet:
    """Raises FileNotFoundError, or ValueError for a file that is no list of questions."""
    content = path.read_bytes()
    items = json.loads(content)
    if not isinstance(items, list):
        raise ValueError(f"{path} is not a list of questions")
    for number, item in enumerate(items):
        missing = {"question", "qid", "entities", "answer", "s_expression", "actions"} - set(item)
        if missing:
            raise ValueError(f"{path}, item {number}: without {', '.join(sorted(missing))}")

    def decode(index: int) -> KGTask:
        return decode_item(items[index])

    return TaskSet(path.stem, len(items), decode, dataset_hash=hashlib.sha256(content).hexdigest())


def decode_item(item: Mapping[str, JSON]) -> KGTask:
    program = item["s_expression"]
    form = _FORM.match(program)
    return KGTask(
        id=item["qid"],
        question=item["question"],
        entities=item["entities"],
        answer=tuple(plain(answer["answer_argument"]) for answer in item["answer"]),
        program=program,
        solution=tuple(item["actions"]),
        kind=form[1].lower() if form else "and" if "intersection(" in " ".join(item["actions"]) else "join",
        n_hops=sum(action.startswith("get_neighbors(") for action in item["actions"]),
        source=item.get("source", ""),
    )


def load_schema(folder: Path) -> Ontology:
    """The published vocabulary and property list. Raises FileNotFoundError, or ValueError for a file of another kind."""
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    domains: dict[str, str] = {}
    ranges: dict[str, str] = {}
    for line in (folder / "fb_roles").read_text("utf-8").splitlines():
        for domain, name, of in _roles(line):
            domains[name], ranges[name] = domain, of
    for name, of in _MISSING_RANGES.items():
        domains[name], ranges[name] = TOPIC, of
    return Ontology(
        relations=frozenset(vocabulary["relations"]) | _ADDED_RELATIONS,
        attributes=frozenset(vocabulary["attributes"]) | _ADDED_ATTRIBUTES,
        ranges=MappingProxyType(ranges),
        domains=MappingProxyType(domains),
        classes=MappingProxyType({name: Class(name) for name in vocabulary["classes"]}),
    )


def _roles(line: str) -> Iterator[tuple[str, str, str]]:
    """The properties of a line: ``domain property range``. In one published line two are run together."""
    words = line.split()
    if len(words) == 3:
        yield words[0], words[1], words[2]
    elif len(words) == 5:
        prefix = next((each for each in LITERAL_RANGES if words[2].startswith(each)), "")
        if not prefix:
            raise ValueError(f"two properties on a line that cannot be told apart: {line}")
        yield words[0], words[1], prefix
        yield words[2].removeprefix(prefix), words[3], words[4]
    elif words:
        raise ValueError(f"not a property: {line}")


def lint(tasks: TaskSet, ontology: Ontology, *, environment: str, split: str) -> Iterator[Defect]:
    """What can be told without a store, in index order."""
    first_seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        ref = TaskRef(environment, split, index)
        earlier = first_seen.setdefault(repr((task.question, dict(task.entities))), index)
        if earlier != index:
            yield Defect(ref, f"same question as task {earlier}")
        for problem in problems(task, ontology):
            yield Defect(ref, problem)


def problems(task: KGTask, ontology: Ontology) -> Iterator[str]:
    """What is wrong with the gold trace of a task, here or in the published environment."""
    if not task.answer:
        yield "the answer is empty"
    try:
        calls = [Call.parse(action) for action in task.solution]
    except ValueError as error:
        yield f"the gold trace cannot be read: {error}"
        return
    yield from trace(calls, Workspace(ontology, task.entities), ontology)
    if not (calls and calls[-1].makes_variable):
        yield "the gold trace does not end in a variable"
    arguments = {name for call in calls for name in call.arguments}
    if lacking := arguments & (_ADDED_ATTRIBUTES | _ADDED_RELATIONS):
        yield f"the published vocabulary lacks {', '.join(sorted(lacking))}, which the gold uses"
    if any(name.startswith("g.") for name in arguments):
        yield "the published environment refuses ids that start with g., which the gold uses"
    if next(iter(trace(calls, Workspace(ontology, task.entities, exact_types=True), ontology)), None):
        yield "the gold intersects sets of different types, which the published environment refuses"

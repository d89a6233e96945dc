"""AgentBench's published questions: all load, their gold makes sense, and the odd ones are found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from envhub.config import Settings
from envhub.core.errors import TaskUnusableError
from envhub.core.types import TaskRef
from envhub.doctor import examine
from envhub.envs.kg import env, official, programs
from envhub.envs.kg.ontology import Ontology
from envhub.envs.kg.tasks import TaskSet
from envhub.envs.kg.workspace import Call, Workspace, trace
from tests.kg import test_tasks
from tests.require import SHARED, published

FOLDER = SHARED / "data/agentbench"
SIZES = {"agentbench-std": 150, "agentbench-dev": 20, "agentbench-train": 1214}


@pytest.fixture(scope="module")
def ontology() -> Ontology:
    published("data/agentbench")
    return official.load_schema(FOLDER / official.SCHEMA)


@pytest.fixture(params=SIZES)
def tasks(request: pytest.FixtureRequest, ontology: Ontology) -> TaskSet:
    loaded = official.load_questions(FOLDER / official.QUESTIONS / official.FILES[request.param])
    assert len(loaded) == SIZES[request.param]
    return loaded


def test_schema_is_complete(ontology: Ontology) -> None:
    assert len(ontology.attributes) == 3384 + 1 and len(ontology.relations) == 13100 + 2
    assert not ontology.attributes & ontology.relations
    assert (ontology.relations | ontology.attributes) <= ontology.ranges.keys()
    assert ontology.range_of("base.cyclocross.bicycle_wheel.holes") == "type.int"
    joined = "base.litcentral.financial_support_provider.financing_government_agency"
    assert ontology.range_of(joined) == "government.government_agency"


def test_gold_traces_parse_and_make_sense(tasks: TaskSet, ontology: Ontology) -> None:
    for task in tasks:
        calls = [Call.parse(action) for action in task.solution]
        workspace = Workspace(ontology, task.entities)
        assert list(trace(calls, workspace, ontology)) == [], task.id
        assert calls[-1].makes_variable and len(calls) < env.MAX_TURNS, task.id
        assert len(workspace) == sum(call.makes_variable for call in calls)


def test_gold_programs_parse_and_make_sense(tasks: TaskSet, ontology: Ontology) -> None:
    for task in tasks:
        program = programs.parse(task.program)
        assert programs.show(program) == task.program
        programs.type_of(program, ontology)


def test_trace_builds_a_program_of_the_shape_of_the_gold(tasks: TaskSet, ontology: Ontology) -> None:
    for task in tasks:
        workspace = Workspace(ontology, task.entities)
        assert not list(trace([Call.parse(action) for action in task.solution], workspace, ontology))
        built = workspace.variable(f"#{len(workspace) - 1}").program
        assert isinstance(built, programs.Count) == task.program.startswith("(COUNT")
        assert isinstance(built, programs.Superlative) == task.program.startswith("(ARG")


def test_tasks_the_published_environment_cannot_solve_are_named(ontology: Ontology) -> None:
    """D14: ids that start with g., properties outside the vocabulary; and sets of different types that are intersected."""
    found: dict[str, Counter[str]] = {}
    for name, file in official.FILES.items():
        loaded = official.load_questions(FOLDER / official.QUESTIONS / file)
        defects = list(official.lint(loaded, ontology, environment="kg", split=name))
        assert [defect.task.index for defect in defects] == sorted(defect.task.index for defect in defects)
        found[name] = Counter(
            kind
            for defect in defects
            for kind in ("start with g.", "vocabulary lacks", "types")
            if kind in defect.problem
        )
    assert found["agentbench-std"] == {"start with g.": 3, "vocabulary lacks": 4, "types": 7}
    assert found["agentbench-dev"] == {"types": 2}
    assert found["agentbench-train"] == {"start with g.": 14, "vocabulary lacks": 28, "types": 81}


async def test_without_an_endpoint_they_are_listed_and_refused(ontology: Ontology, tmp_path: Path) -> None:
    test_tasks.write(tmp_path)
    made = env.create({"datasets": tmp_path, "cache": "memory", "official": FOLDER})
    assert {name: made.info().splits[name] for name in SIZES} == SIZES
    defects = list(made.lint("agentbench-std"))
    assert len(defects) == 150 and not any(defect.usable for defect in defects)
    with pytest.raises(TaskUnusableError, match="endpoint"):
        await made.open(TaskRef("kg", "agentbench-std", 0), seed=0, options=env.OPTIONS)
    await made.close()


async def test_with_an_endpoint_they_can_be_played(ontology: Ontology, sparql_server: str, tmp_path: Path) -> None:
    test_tasks.write(tmp_path)
    settings = {"datasets": tmp_path, "cache": "memory", "official": FOLDER, "endpoint": f"{sparql_server}/sparql"}
    made = env.create(settings)
    assert not any(not defect.usable for defect in made.lint("agentbench-dev"))
    episode = await made.open(TaskRef("kg", "agentbench-dev", 0), seed=0, options=env.OPTIONS)
    await episode.reset()
    solution = made.solution(TaskRef("kg", "agentbench-dev", 0)) or ()
    assert (await episode.step(solution[0])).messages[0].content == "Observation: []", "the server holds films only"
    await made.close()


def test_doctor_says_that_the_endpoint_is_missing() -> None:
    (found,) = [each for each in examine(Settings(environments=("calculator",))) if each.what == "SPARQL endpoint"]
    assert found.state == "missing" and "ENVHUB_KG_ENDPOINT" in found.advice

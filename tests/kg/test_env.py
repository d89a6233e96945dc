"""Episodes on a graph of eight entities: what the tools answer, what a mistake costs, and that every end has one reward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from envhub.core.errors import (
    EpisodeError,
    EpisodeFailedError,
    EpisodeTimeoutError,
    InvalidRequestError,
    TaskUnusableError,
    UnavailableError,
)
from envhub.core.types import Message, StopReason, TaskRef
from envhub.envs.kg import env, prompts, workspace
from envhub.envs.kg.embedded import EmbeddedStore, in_memory
from envhub.envs.kg.env import KGEnvironment, Split, World
from envhub.envs.kg.ontology import Ontology, Property
from envhub.envs.kg.sparql import MAX_ROWS
from envhub.envs.kg.tasks import KGTask, TaskSet
from envhub.envs.kg.terms import Literal, Term, Triple
from envhub.testing.contract import CHECKS
from tests.kg import films
from tests.kg.films import call, environment, opened, say, use


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_small_world_keeps_the_contract(check) -> None:  # type: ignore[no-untyped-def]
    made = environment()
    await check(made)
    await made.close()


async def test_tools_answer_in_the_published_words() -> None:
    episode = await opened()
    posed = (await episode.reset()).messages[-1].content
    assert posed == "films by Ann with Bob\nEntities: [Ann, Bob]"
    assert await call(episode, "get_relations", "Ann") == "Observation: [film.actor.films, people.person.directed]"
    made = await call(episode, "get_neighbors", "m.ann", "people.person.directed")
    assert made == "Observation: variable #0, which are instances of film.film"
    assert await call(episode, "get_neighbors", "Bob", "film.actor.films") == made.replace("#0", "#1")
    assert await call(episode, "intersection", "#0", "#1") == made.replace("#0", "#2")
    assert await call(episode, "get_attributes", "#2") == "Observation: [film.film.minutes, film.film.released]"
    assert await call(episode, "argmin", "#2", "film.film.released") == made.replace("#0", "#3")
    assert await call(episode, "count", "#2") == "Observation: variable #4, which is a number"
    ended = await say(episode, "Both are there.\nFinal Answer: #2")
    assert (ended.terminated, ended.reward, ended.stop_reason) == (True, 1.0, StopReason.COMPLETED)
    assert ended.info["f1"] == 1.0


@pytest.mark.parametrize("id", ["m.ann", "g.bob"])
async def test_both_kinds_of_ids_work(id: str) -> None:
    """D14: ids that start with g. are refused by the published environment."""
    episode = await opened()
    assert "film.actor.films" in await call(episode, "get_relations", id)
    assert "variable #0" in await call(episode, "get_neighbors", id, "film.actor.films")


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("get_relations", ("Nobody",), "neither a variable"),
        ("get_relations", ("#0",), "none yet"),
        ("get_relations", ("m.1; DROP",), "neither a variable"),
        ("get_relations", ("m." + "x" * 1_000_000,), "neither a variable"),
        ("get_relations", ("#\u0663",), "is not a variable"),
        ("get_neighbors", ("m.ann> ?p ?o } #", "film.film.cast"), "neither a variable"),
        ("get_neighbors", ("Ann", "film.film.cast"), "has no relation film.film.cast"),
        ("get_neighbors", ("Ann", "no.such.relation"), "not a relation"),
        ("get_neighbors", ("Ann", "film.film.minutes"), "use get_attributes"),
        ("get_neighbors", ("Ann", "a> ?x ?y . <b"), "not a relation"),
        ("intersection", ("Ann", "Bob"), "is not a variable"),
        ("argmax", ("Ann", "film.film.minutes"), "is not a variable"),
        ("count", ("#99999999999",), "is not a variable"),
    ],
)
async def test_mistakes_are_told(name: str, arguments: tuple[str, ...], says: str) -> None:
    answer = await call(await opened(), name, *arguments)
    assert answer.startswith("Error") and says in answer


async def test_mistakes_about_variables_are_told_and_make_none() -> None:
    episode = await opened()
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    await call(episode, "count", "#0")
    assert "has no relation" in await call(episode, "get_neighbors", "#0", "people.person.directed")
    assert "not an attribute" in await call(episode, "argmax", "#0", "film.film.cast")
    assert "valid: #0 to #1" in await call(episode, "count", "#2")
    assert "only be the final answer" in await call(episode, "count", "#1")
    assert "cannot be intersected" in await call(episode, "intersection", "#0", "#1")
    assert "variable #2" in await call(episode, "intersection", "#0", "#0")


async def test_sets_of_different_types_intersect_unless_published_rules_are_asked_for() -> None:
    for grading, expected in (("strict", "#2, which are instances of film.actor"), ("agentbench", "the same type")):
        episode = await opened(options={"grading": grading})
        await call(episode, "get_neighbors", "m.f1", "film.film.cast")
        await call(episode, "get_neighbors", "m.f1", "film.film.directed_by")
        assert expected in await call(episode, "intersection", "#1", "#0")


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("Final Answer: #0", True),
        ("I found it. Find Answer: #0.", True),
        ("final answer #0", False),
        ("Observation: made up\nFinal Answer: #0", False),
        ("#0", False),
        ("", False),
    ],
)
async def test_only_the_published_form_answers(text: str, answered: bool) -> None:
    episode = await opened()
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    result = await say(episode, text)
    assert result.terminated is answered
    assert answered or result.messages == (Message.user(prompts.NO_CALL),)


async def test_unknown_variable_as_answer() -> None:
    """It can be put right, but for the published environment it is the end."""
    episode = await opened()
    result = await say(episode, "Final Answer: #0")
    assert not result.terminated and "there is no variable #0" in (result.messages[0].content or "")
    published = await say(await opened(options={"grading": "agentbench"}), "Final Answer: #0")
    assert (published.terminated, published.reward) == (True, 0.0)
    assert published.stop_reason is StopReason.INVALID_ACTION and published.info["f1"] == 0.0


async def test_partly_right_answer_has_an_f1_and_no_reward() -> None:
    episode = await opened()
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    ended = await say(episode, "Final Answer: #0")
    assert ended.terminated and ended.reward == 0.0
    assert ended.info["f1"] == pytest.approx(0.8) and ended.info["n_answers"] == 3


async def test_answer_tool_is_there_when_asked_for() -> None:
    assert "final_answer" not in [spec.name for spec in (await opened()).tools]
    episode = await opened(options={"answer_tool": True})
    assert [spec.name for spec in episode.tools] == [*workspace.PARAMETERS, "final_answer"]
    assert "final_answer" in ((await episode.reset()).messages[0].content or "")
    wrong = await use(episode, "final_answer", variable="#0")
    assert not wrong.terminated
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    ended = await use(episode, "final_answer", variable="#0")
    assert ended.terminated and ended.messages[0].tool_call_id == "id"


async def test_demonstration_is_true() -> None:
    """D24: its calls, made on the graph it speaks of, get the answers it shows; every call id is used once."""
    sites, maker = "spaceflight.rocket.launch_sites", "spaceflight.rocket.maker"
    ontology = Ontology.of(
        (),
        [
            Property(sites, "spaceflight.rocket", "spaceflight.launch_site"),
            Property(maker, "spaceflight.rocket", "business.company"),
            Property("spaceflight.rocket.engine", "spaceflight.rocket", "spaceflight.engine"),
        ],
    )
    rockets = prompts.DEMONSTRATION_ENTITIES
    triples = [
        Triple(id, f"spaceflight.rocket.{each}", "m.1") for id in rockets.values() for each in ("maker", "engine")
    ]
    triples += [Triple(id, sites, site) for id in rockets.values() for site in ("m.s1", "m.s2")]
    shown = list(prompts.demonstration())
    ids = [each.id for message in shown for each in message.tool_calls]
    assert len(ids) == len(set(ids)) == 6
    task = KGTask("demo", (shown[0].content or "").partition("\n")[0], rockets, (Literal("2", "integer"),))
    world = World(ontology, "demo", EmbeddedStore(lambda: in_memory(triples)))
    made = KGEnvironment({"test": Split(TaskSet("demo", 1, lambda _: task, dataset_hash="1"), world)})
    episode = await opened(made)
    assert (await episode.reset()).messages[-1] == shown[0]
    for turn in range(1, len(shown) - 1, 2):
        assert (await episode.step(shown[turn])).messages == (shown[turn + 1],)
    assert (await episode.step(shown[-1])).reward == 1.0


async def test_demonstration_stands_before_the_question() -> None:
    plain = (await (await opened()).reset()).messages
    taught = (await (await opened(options={"one_shot": True})).reset()).messages
    assert [each.role for each in plain] == ["system", "user"]
    assert taught[0] == plain[0] and taught[1:-1] == tuple(prompts.demonstration())
    assert (taught[-1].content or "").endswith(plain[-1].content or "?")


@pytest.mark.parametrize(
    "options",
    [
        {"grading": "kind"},
        {"one_shot": "yes"},
        {"answer_tool": 1},
        {"max_observation_chars": 10},
        {"max_observation_chars": "many"},
    ],
)
async def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        await opened(options=options)


def test_long_lists_say_how_much_was_cut() -> None:
    """D12: sorted, whatever the order of the set."""
    found = frozenset(f"a.b.c{number:03}" for number in range(100))
    text = prompts.names(found, max_chars=80)
    assert text.startswith("Observation: [a.b.c000, a.b.c001, ") and text.endswith("[TRUNCATED: 8 of 100 shown]")
    assert "TRUNCATED" not in prompts.names(found, max_chars=10_000)
    assert prompts.names(frozenset(), max_chars=80) == "Observation: []"
    assert "1 of 2 shown" in prompts.names({"x" * 500, "y"}, max_chars=80)


async def test_a_class_may_be_followed_as_official_traces_do() -> None:
    episode = await opened()
    assert "film.film.directed_by" in await call(episode, "get_relations", "common.topic")
    assert "variable #0" in await call(episode, "get_neighbors", "common.topic", "film.film.directed_by")
    assert "has no relation" in await call(episode, "get_neighbors", "people.person", "film.film.directed_by")
    assert "variable #1" in await call(episode, "get_neighbors", "#0", "people.person.directed")


async def test_programs_stay_small_enough_to_answer() -> None:
    episode = await opened()
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    for number in range(10):
        answer = await call(episode, "intersection", f"#{number}", f"#{number}")
        if answer.startswith("Error"):
            break
    assert "too complex" in answer
    best = await opened()
    await call(best, "get_neighbors", "Ann", "people.person.directed")
    answers = [await call(best, "argmax", f"#{number}", "film.film.minutes") for number in range(5)]
    assert "too complex" in answers[-1] and "#4" in answers[-2]


class BrokenStore:
    name = "broken"

    def __init__(self, error: Exception, *, works_otherwise: bool = False) -> None:
        self._error = error
        self._works_otherwise = works_otherwise
        self._asked = False

    async def ready(self) -> None:
        if self._asked and not self._works_otherwise:
            raise UnavailableError("not ready")

    async def select(self, query: str) -> Sequence[Term]:
        self._asked = True
        raise self._error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [UnavailableError("down"), EpisodeTimeoutError("slow"), SystemError("bug")])
async def test_failing_store_is_never_a_reward(error: Exception) -> None:
    """D15: neither while tools are called nor when the answer is looked up."""
    episode = await opened(environment(BrokenStore(error)))
    with pytest.raises(EpisodeError):
        await call(episode, "get_relations", "Ann")
    working = await opened()
    await call(working, "get_neighbors", "Ann", "people.person.directed")
    working._store = BrokenStore(error)
    with pytest.raises(EpisodeError):
        await say(working, "Final Answer: #0")


async def test_a_program_too_expensive_for_a_working_store_is_the_agents_affair() -> None:
    working = await opened()
    await call(working, "get_neighbors", "Ann", "people.person.directed")
    working._store = BrokenStore(EpisodeTimeoutError("slow"), works_otherwise=True)
    for text in (await call(working, "get_attributes", "#0"), await say(working, "Final Answer: #0")):
        assert "takes too long" in str(text)
    working._store = (await opened())._store
    assert (await say(working, "Final Answer: #0")).terminated


async def test_answer_too_large_to_be_read_whole_is_wrong() -> None:
    class Endless(BrokenStore):
        async def select(self, query: str) -> Sequence[Term]:
            return ["m.f1", "m.f2", *(f"m.x{number}" for number in range(MAX_ROWS - 1))]

    episode = await opened()
    await call(episode, "get_neighbors", "Ann", "people.person.directed")
    episode._store = Endless(SystemError())
    ended = await say(episode, "Final Answer: #0")
    assert ended.terminated and ended.reward == 0.0 and ended.info["f1"] == 0.0


async def test_store_that_is_not_there_refuses_new_episodes_only() -> None:
    class Absent(BrokenStore):
        async def ready(self) -> None:
            raise UnavailableError("down")

    with pytest.raises(UnavailableError):
        await opened(environment(Absent(EpisodeFailedError("never asked"))))


async def test_tasks_without_a_store_are_listed_and_refused() -> None:
    world = World(films.ONTOLOGY, "1", None, "set the endpoint")
    tasks = TaskSet("films", len(films.TASKS), films.TASKS.__getitem__, dataset_hash="1")
    made = KGEnvironment({"test": Split(tasks, world)})
    assert [(defect.task.index, defect.usable) for defect in made.lint("test")] == [(0, False), (1, False), (2, False)]
    with pytest.raises(TaskUnusableError, match="set the endpoint"):
        await made.open(TaskRef("kg", "test", 0), seed=0, options=env.OPTIONS)
    await made.close()


async def test_exploits_earn_nothing() -> None:
    made = environment()
    for index in range(len(films.TASKS)):
        for script in made.exploits().values():
            episode = await opened(made, index)
            play = script(await episode.reset())
            message, total = next(play), 0.0
            while True:
                result = await episode.step(message)
                total += result.reward
                try:
                    message = play.send(result.messages)
                except StopIteration:
                    break
            assert total == 0.0, script


async def test_many_episodes_leave_nothing_behind() -> None:
    """D25: nothing but the episode remembers what an episode asked."""
    import gc

    made = environment()

    async def play(n_times: int) -> None:
        for index in range(n_times):
            episode = await opened(made, index % len(films.TASKS))
            await episode.reset()
            for message in made.solution(TaskRef("kg", "test", index % len(films.TASKS))) or ():
                result = await episode.step(message)
            assert result.reward == 1.0
            await episode.close()

    await play(20)
    gc.collect()
    before = len(gc.get_objects())
    await play(100)
    gc.collect()
    assert len(gc.get_objects()) - before < 200


@pytest.mark.parametrize("endpoint", ["nonsense", "localhost:3001/sparql", "http:///sparql", "ftp://host/sparql"])
def test_endpoint_that_is_no_url_is_refused_at_once(endpoint: str, tmp_path: Path) -> None:
    """Else every episode would wait for a store that can never answer."""
    with pytest.raises(InvalidRequestError, match="'endpoint' of kg must be a URL"):
        env.create({"cache": "memory", "official": str(tmp_path), "endpoint": endpoint})


def test_folder_without_official_data_is_told_by_its_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'official' of kg"):
        env.create({"cache": "memory", "official": str(tmp_path)})

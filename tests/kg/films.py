"""A graph of eight entities that a reader can hold in mind, with tasks over it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from envhub.core.types import JSON, Message, StepResult, TaskRef, ToolCall
from envhub.envs.kg import env, prompts
from envhub.envs.kg.embedded import EmbeddedStore, in_memory
from envhub.envs.kg.env import KGEnvironment, KGEpisode, Split, World
from envhub.envs.kg.ontology import NAME, TYPE, Class, Ontology, Property
from envhub.envs.kg.store import TripleStore
from envhub.envs.kg.tasks import KGTask, TaskSet
from envhub.envs.kg.terms import Literal, Triple

CLASSES = (
    Class("common.topic"),
    Class("film.film", ("common.topic",)),
    Class("people.person", ("common.topic",)),
    Class("film.actor", ("people.person",)),
)
PROPERTIES = (
    Property("film.film.directed_by", "film.film", "people.person", "people.person.directed"),
    Property("people.person.directed", "people.person", "film.film", "film.film.directed_by"),
    Property("film.film.cast", "film.film", "film.actor", "film.actor.films"),
    Property("film.actor.films", "film.actor", "film.film", "film.film.cast"),
    Property("film.film.minutes", "film.film", "type.int"),
    Property("film.film.released", "film.film", "type.datetime"),
    Property(NAME, "common.topic", "type.text"),
)
ONTOLOGY = Ontology.of(CLASSES, PROPERTIES)


def _film(id: str, director: str, cast: str, minutes: int, released: str) -> list[Triple]:
    return [
        Triple(id, TYPE, "film.film"),
        Triple(id, NAME, Literal(f"Film {id}", lang="en")),
        Triple(id, "film.film.directed_by", director),
        Triple(director, "people.person.directed", id),
        *(Triple(id, "film.film.cast", actor) for actor in cast.split()),
        *(Triple(actor, "film.actor.films", id) for actor in cast.split()),
        Triple(id, "film.film.minutes", Literal(str(minutes), "integer")),
        Triple(id, "film.film.released", Literal(released, "date")),
    ]


TRIPLES = (
    *_film("m.f1", "m.ann", "g.bob m.ann", 90, "1990-01-01"),
    *_film("m.f2", "m.ann", "g.bob", 120, "1991-01-01"),
    *_film("m.f3", "m.ann", "m.cas", 120, "1992-01-01"),
    *_film("m.f4", "m.dan", "g.bob m.cas", 80, "1993-01-01"),
    *(Triple(person, TYPE, "people.person") for person in ("m.ann", "m.dan", "g.bob", "m.cas")),
    *(Triple(actor, TYPE, "film.actor") for actor in ("g.bob", "m.cas")),
    *(
        Triple(each, TYPE, "common.topic")
        for each in ("m.f1", "m.f2", "m.f3", "m.f4", "m.ann", "m.dan", "g.bob", "m.cas")
    ),
)


def task(question: str, entities: dict[str, str], answer: tuple[str | Literal, ...], *solution: str) -> KGTask:
    return KGTask(question, question, entities, answer, solution=solution, kind="and", n_hops=1)


TASKS = (
    task(
        "films by Ann with Bob",
        {"Ann": "m.ann", "Bob": "g.bob"},
        ("m.f1", "m.f2"),
        "get_relations(m.ann)",
        "get_neighbors(m.ann,people.person.directed)",
        "get_relations(g.bob)",
        "get_neighbors(g.bob,film.actor.films)",
        "intersection(#0,#1)",
    ),
    task(
        "longest films by Ann",
        {"Ann": "m.ann"},
        ("m.f2", "m.f3"),
        "get_relations(Ann)",
        "get_neighbors(Ann,people.person.directed)",
        "get_attributes(#0)",
        "argmax(#0,film.film.minutes)",
    ),
    task(
        "how many others play in films of Bob",
        {"Bob": "g.bob"},
        (Literal("2", "integer"),),
        "get_neighbors(Bob,film.actor.films)",
        "get_neighbors(#0,film.film.cast)",
        "count(#1)",
    ),
)


def store() -> EmbeddedStore:
    return EmbeddedStore(lambda: in_memory(TRIPLES))


def environment(stored: TripleStore | None = None, *, tasks: tuple[KGTask, ...] = TASKS) -> KGEnvironment:
    world = World(ONTOLOGY, "films", stored or store())
    return KGEnvironment({"test": Split(TaskSet("films", len(tasks), tasks.__getitem__, dataset_hash="1"), world)})


async def opened(
    made: KGEnvironment | None = None, index: int = 0, options: Mapping[str, JSON] | None = None
) -> KGEpisode:
    made = made or environment()
    return await made.open(TaskRef("kg", "test", index), seed=0, options={**env.OPTIONS, **(options or {})})


async def call(episode: KGEpisode, name: str, *arguments: str) -> str:
    """The text a tool answers."""
    result = await episode.step(Message.assistant(None, prompts.call("id", name, arguments)))
    assert not result.terminated
    return result.messages[0].content or ""


async def use(episode: KGEpisode, name: str, **arguments: str) -> StepResult:
    return await episode.step(Message.assistant(None, ToolCall("id", name, json.dumps(arguments))))


async def say(episode: KGEpisode, text: str) -> StepResult:
    return await episode.step(Message.assistant(text))

"""Programs: text and back, what is refused, and a thousand random ones that mean the same in SPARQL and in plain Python."""

from __future__ import annotations

import random

import pytest

from envhub.envs.kg import programs
from envhub.envs.kg.embedded import EmbeddedStore, in_memory
from envhub.envs.kg.programs import (
    And,
    Compare,
    Count,
    Entity,
    Instances,
    Join,
    ProgramError,
    Superlative,
    Value,
    parse,
)
from envhub.envs.kg.reference import Evaluator, Graph
from envhub.envs.kg.sparql import Compiler
from envhub.envs.kg.terms import Literal, Triple
from tests.kg import worlds


def test_text_is_read_as_published() -> None:
    text = "(ARGMAX (AND biology.breed (JOIN (R a.b.c) (JOIN a.b.d g.0_1))) a.b.size)"
    inner = Join("a.b.c", Join("a.b.d", Entity("g.0_1")), inverse=True)
    assert parse(text) == Superlative("ARGMAX", And(Instances("biology.breed"), inner), "a.b.size")
    assert parse("(COUNT (JOIN a.b.c m.01))") == Count(Join("a.b.c", Entity("m.01")))
    year = Literal("2012", "gYear")
    assert parse("(lt a.b.c 2012^^http://www.w3.org/2001/XMLSchema#gYear)") == Compare("lt", "a.b.c", year)
    assert parse('(JOIN a.b.c "a \\" (b)"@en)') == Join("a.b.c", Value(Literal('a " (b)', lang="en")))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        ")",
        "m.01 m.02",
        "(JOIN a.b.c m.01",
        "(JOIN a.b.c m.01))",
        "(JOIN a.b.c)",
        "(JOIN (S a.b.c) m.01)",
        "(JOIN m.01 m.02)",
        "(OR m.01 m.02)",
        "(AND (COUNT m.01) m.02)",
        "(COUNT (COUNT m.01))",
        "film.film",
        '"text"',
        '(AND "text" m.01)',
        '(JOIN (R a.b.c) "text")',
        '(JOIN a.b.c "1"^^no_such_type)',
        "(lt a.b.c m.01)",
        "(ARGMAX m.01 (JOIN a.b.c a.b.d))",
        "((JOIN) a.b.c m.01)",
        "(JOIN a.b.c drop table)",
        "(COUNT " * 10_000,
    ],
)
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(ProgramError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("m.f1", None),
        ("(JOIN (R film.film.director) m.f1)", "people.person"),
        ("(JOIN film.film.director m.p1)", "film.film"),
        ("(AND film.actor (JOIN (R film.film.director) m.f1))", "film.actor"),
        ("(ARGMIN (JOIN (R people.person.directed) m.p1) film.film.length)", "film.film"),
        ('(ge people.person.born "1990"^^gYear)', "people.person"),
        ("(COUNT (JOIN film.film.director m.p1))", "type.int"),
    ],
)
def test_program_has_the_type_its_schema_says(text: str, type: str | None) -> None:
    assert programs.type_of(parse(text), worlds.ONTOLOGY) == type


@pytest.mark.parametrize(
    "text",
    [
        "(JOIN (R no.such.property) m.f1)",
        "(JOIN (R film.film.director) (JOIN (R film.film.length) m.f1))",
        "(AND film.film (JOIN (R film.film.length) m.f1))",
        '(lt film.film.length "1990"^^gYear)',
        "(ARGMAX (JOIN (R film.film.length) m.f1) film.film.length)",
        "(JOIN film.film.length (JOIN (R film.film.director) m.f1))",
    ],
)
def test_program_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ProgramError):
        programs.type_of(parse(text), worlds.ONTOLOGY)


@pytest.mark.parametrize("seed", range(10))
async def test_compiled_programs_mean_what_the_reference_says(seed: int) -> None:
    """1,000 programs in all, over ten graphs."""
    rng = random.Random(seed)
    triples = worlds.graph(rng)
    reference = Evaluator(Graph(triples), worlds.ONTOLOGY)
    compiler = Compiler(worlds.ONTOLOGY)
    store = EmbeddedStore(lambda: in_memory(triples))
    n_answered = 0
    for _ in range(100):
        program = worlds.program(rng)
        shown = programs.show(program)
        assert parse(shown) == program
        expected = reference.answers(program)
        assert frozenset(await store.select(compiler.answers(program))) == expected, shown
        if not isinstance(program, Count):
            properties = frozenset(await store.select(compiler.properties(program)))
            assert properties == reference.properties(program), shown
        n_answered += bool(expected)
    await store.close()
    assert n_answered >= 30, "most programs gave nothing: the test says little"


async def answers(triples: list[Triple], text: str, *, published: bool = False) -> frozenset[object]:
    store = EmbeddedStore(lambda: in_memory(triples))
    compiler = Compiler(worlds.ONTOLOGY, "published" if published else "all")
    try:
        return frozenset(await store.select(compiler.answers(parse(text))))
    finally:
        await store.close()


def lengths(**minutes: Literal) -> list[Triple]:
    made = [Triple("m.p1", "people.person.directed", f"m.{film}") for film in minutes]
    return made + [Triple(f"m.{film}", "film.film.length", value) for film, value in minutes.items()]


LONGEST = "(ARGMAX (JOIN (R people.person.directed) m.p1) film.film.length)"


async def test_ties_are_complete_and_compared_by_value() -> None:
    triples = lengths(f1=Literal("120", "integer"), f2=Literal("120.0", "double"), f3=Literal("9", "integer"))
    assert await answers(triples, LONGEST) == {"m.f1", "m.f2"}


async def test_published_superlative_takes_one_term_and_all_who_have_it() -> None:
    triples = lengths(f1=Literal("9", "integer"), f2=Literal("120", "integer"), f3=Literal("120", "integer"))
    assert await answers(triples, LONGEST, published=True) == {"m.f2", "m.f3"}
    triples = lengths(f1=Literal("120", "integer"), f2=Literal("120.0", "double"))
    assert len(await answers(triples, LONGEST, published=True)) == 1


async def test_entities_of_the_question_are_not_its_answers() -> None:
    """A friend of a friend is never oneself; what lies between may be."""
    knows = "people.person.friend"
    triples = [Triple("m.p1", knows, "m.p2"), Triple("m.p2", knows, "m.p1"), Triple("m.p2", knows, "m.p3")]
    friends = f"(JOIN (R {knows}) (JOIN (R {knows}) m.p1))"
    assert await answers(triples, friends) == {"m.p3"}
    assert await answers(triples, f"(COUNT {friends})") == {Literal("1", "integer")}
    assert await answers(triples, f"(JOIN (R {knows}) {friends})") == {"m.p2"}


async def test_superlative_does_not_look_at_entities_of_the_question() -> None:
    knows, born = "people.person.friend", "people.person.born"
    triples = [Triple("m.p1", knows, "m.p2"), Triple("m.p2", knows, "m.p1"), Triple("m.p2", knows, "m.p3")]
    triples += [Triple("m.p1", born, Literal("1999", "gYear")), Triple("m.p3", born, Literal("1990", "gYear"))]
    latest = f"(ARGMAX (JOIN (R {knows}) (JOIN (R {knows}) m.p1)) {born})"
    assert await answers(triples, latest) == {"m.p3"}
    assert await answers(triples, f"(JOIN (R {born}) {latest})") == {Literal("1990", "gYear")}


async def test_a_moment_is_compared_as_far_as_the_literal_goes() -> None:
    born = "people.person.born"
    triples = [
        Triple("m.p1", born, Literal("1990-12-31", "date")),
        Triple("m.p2", born, Literal("1990", "gYear")),
        Triple("m.p3", born, Literal("1991-01-01", "date")),
    ]
    assert await answers(triples, f'(le {born} "1990"^^gYear)') == {"m.p1", "m.p2"}
    assert await answers(triples, f'(gt {born} "1990"^^gYear)') == {"m.p3"}
    assert await answers(triples, f'(JOIN {born} "1990"^^gYear)') == {"m.p1", "m.p2"}

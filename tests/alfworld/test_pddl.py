"""Official files are read exactly, or refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envhub.core.errors import TaskUnusableError
from envhub.envs.alfworld.game import Family, Game, GameFormatError, Goal, Text, decode, encode, kind_told_by
from envhub.envs.alfworld.pddl import (
    GameFile,
    UnsupportedGameError,
    mangle,
    parse_game,
    problem_text,
    text_version,
    unmangle,
)
from tests.alfworld.test_goldens import GOLDENS

RULES: dict[str, dict[str, str]] = json.loads(gzip.decompress(Path(__file__).with_name("rules.json.gz").read_bytes()))
GAMES = [decode(record["game"]) for record in GOLDENS]


def file_of(game: Game, *, rules: str = "2.1.2") -> GameFile:
    grammar = RULES[rules]["grammar"]
    for sentence in ("UNKNOWN GOAL.", "put two newspaper in drawer."):
        grammar = grammar.replace(sentence, game.task)
    return GameFile(RULES[rules]["domain"], grammar, problem_text(game), game.walkthrough, solvable=True)


def parsed(game: Game, *replaced: tuple[str, str]) -> Game:
    file = file_of(game)
    problem = file.problem
    for old, new in replaced:
        assert old in problem
        problem = problem.replace(old, new, 1)
    return parse_game(replace(file, problem=problem), name=game.id)


@pytest.mark.parametrize("game", GAMES, ids=[game.id for game in GAMES])
def test_a_written_game_is_read_back_the_same(game: Game) -> None:
    rules: Text = game.text
    assert parse_game(file_of(game, rules=rules), name=game.id) == game


@pytest.mark.parametrize("game", GAMES, ids=[game.id for game in GAMES])
def test_the_compact_form_keeps_everything(game: Game) -> None:
    assert decode(json.loads(json.dumps(encode(game)))) == game


@pytest.mark.parametrize(("rules", "version"), [("2.1.1", "2.1.1"), ("2.1.2", "2.1.2"), ("package", "2.1.2")])
def test_known_rules_are_told_apart(rules: str, version: str) -> None:
    assert text_version(RULES[rules]["domain"], RULES[rules]["grammar"]) == version


def test_comments_and_layout_of_the_domain_do_not_matter() -> None:
    domain = RULES["2.1.2"]["domain"].replace("\n", "\n  ; a comment\n")
    assert text_version(domain, RULES["2.1.2"]["grammar"]) == "2.1.2"


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("domain", "(not (holdsAny ?a))", ""),
        ("domain", "(isClean ?o)\n", "(isClean ?o) (isHot ?o)\n"),
        ("domain", "?l - location, ?r - receptacle", "?l - location ?r - receptacle"),
        ("grammar", "You open the", "You opened the"),
        ("grammar", "go to [", "walk to ["),
    ],
)
def test_other_rules_or_texts_are_refused(part: str, old: str, new: str) -> None:
    rules = {**RULES["2.1.2"]}
    assert old in rules[part]
    rules[part] = rules[part].replace(old, new)
    with pytest.raises(UnsupportedGameError, match="rules or texts"):
        text_version(rules["domain"], rules["grammar"])


def test_rules_of_two_versions_do_not_mix() -> None:
    with pytest.raises(UnsupportedGameError):
        text_version(RULES["2.1.1"]["domain"], RULES["2.1.2"]["grammar"])


def test_a_refusal_is_a_task_that_cannot_be_used() -> None:
    with pytest.raises(TaskUnusableError):
        parse_game(GameFile("(define (domain other))", "", "", (), solvable=True), name="x")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "null", '{"pddl_domain": 1}', '{"pddl_domain": "", "grammar": ""}']
)
def test_what_is_no_game_file_is_refused(content: str) -> None:
    with pytest.raises(UnsupportedGameError, match="not a"):
        GameFile.of(content)


GAME = next(game for game in GAMES if game.goal.family is Family.PLACE and len(game.receptacles) > 5)
RECEPTACLE = GAME.receptacles[0]
OTHER = GAME.receptacles[1]
TYPED = f"(receptacleType {mangle(RECEPTACLE.id)} {RECEPTACLE.kind}Type)"
PLACED = f"(receptacleAtLocation {mangle(RECEPTACLE.id)} {mangle('loc|' + RECEPTACLE.place)})"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(:init\n", f"(:init\n(opened {mangle(RECEPTACLE.id)})", "fact"),
        ("(:init\n", "(:init\n(isClean mug_bar_1)", "fact"),
        ("(:init\n", "(:init\n(pickupable a_bar_1 b_bar_2)", "fact"),
        ("(:init\n", "(:init\n(= (total-cost) 0)", "fact"),
        ("(:init\n", "(:init\n(pickupable Mug)", "identifier"),
        (TYPED, TYPED + TYPED.replace(f"{RECEPTACLE.kind}Type", "BoxType"), "two kinds"),
        (TYPED, "", "no kind or no place"),
        (PLACED, "", "no kind or no place"),
        ("(:init\n", "(:init\n(inReceptacle mug_bar_9 nowhere_bar_9)", "no place"),
        ("(:init\n", "(:init\n(pickupable MUG_bar_1) (pickupable mug_bar_1)", "case"),
        ("(atLocation agent1", "(objectAtLocation agent_bar_1", "exactly one place"),
        ("(inReceptacle ?o ?r) (objectType", "(objectType", "goal"),
        ("(:goal", "(:aim", "no goal"),
        ("(canContain ", "(openable ", "fact"),
    ],
)
def test_problems_that_the_engine_does_not_understand_are_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(UnsupportedGameError, match=reason):
        parsed(GAME, (old, new))


def test_a_receptacle_that_takes_other_things_is_refused() -> None:
    kinds = {each.kind for each in GAME.things}
    fact = next(
        f"  (canContain {line}\n"
        for line in problem_text(GAME).split("  (canContain ")[1:]
        if line.split()[1].removesuffix("Type)") in kinds
        for line in [line.split("\n")[0]]
    )
    with pytest.raises(UnsupportedGameError, match="does not take"):
        parsed(GAME, (fact, ""))


def test_an_empty_room_is_refused() -> None:
    with pytest.raises(UnsupportedGameError, match="empty"):
        parse_game(file_of(replace(GAME, things=())), name="x")


@pytest.mark.parametrize("sentence", ["put #look.feedback# here.", "put {o} there.", "a|b.", "a [b]."])
def test_task_sentences_with_a_meaning_in_the_grammar_are_refused(sentence: str) -> None:
    file = file_of(replace(GAME, task=sentence))
    with pytest.raises(UnsupportedGameError, match="sentence"):
        parse_game(file, name="x")


@pytest.mark.parametrize("family", Family)
def test_every_family_of_goals_is_written_and_read(family: Family) -> None:
    game = replace(GAME, goal=Goal(family, "Apple", "Fridge"))
    assert parse_game(file_of(game), name=game.id).goal == game.goal


@pytest.mark.parametrize("identifier", ["Mug|+01.00|-02.30|+00.00", "Egg|1,2|EggCracked_0", "Sink|0|0|SinkBasin"])
def test_identifiers_survive_the_spelling_of_pddl(identifier: str) -> None:
    assert unmangle(mangle(identifier)) == identifier
    assert set(mangle(identifier)) & set("|+-.,") == set()


def test_the_kind_is_told_by_the_identifier() -> None:
    assert kind_told_by("Sink|+00.00|SinkBasin") == "SinkBasin"
    assert kind_told_by("Mug|+01.00|-02.30") == "Mug"


def broken(**changes: Any) -> dict[str, Any]:
    return {**encode(GAME), **changes}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"id": "x"},
        broken(text="2.0"),
        broken(goal=["dance", "Mug", "Shelf"]),
        broken(goal=["pick_and_place_simple"]),
        broken(start=10_000),
        broken(receptacles=[["Shelf|1", 10_000, 0]]),
        broken(things=[["Mug|1", 0, [10_000], "p", []]]),
        broken(things=[["Mug|1", 0, 0, "z", []]]),
        broken(things=None),
        broken(things=[]),
        broken(things=[*encode(GAME)["things"], ["Mug|9", [], [], "", [], None]]),
        broken(things=[["Mug|1", 0, 0, "p", []], ["mug|1", 0, 0, "p", []]]),
    ],
)
def test_a_broken_compact_form_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(GameFormatError):
        decode(record)

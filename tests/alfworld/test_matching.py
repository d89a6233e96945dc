"""What an agent writes is carried out as written or not at all (B018)."""

from __future__ import annotations

import random

import pytest

from envhub.envs.alfworld import matching
from envhub.envs.alfworld.game import Family, Game, Goal, Receptacle, Thing, Trait
from envhub.envs.alfworld.matching import Mode, bleu, matched, most_similar
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.reasons import why_not
from envhub.envs.alfworld.world import build

PICK = frozenset({Trait.PICKUPABLE})
GAME = Game(
    id="small",
    task="put a mug in shelf.",
    goal=Goal(Family.PLACE, "Mug", "Shelf"),
    start="0|0|0|0",
    receptacles=(
        Receptacle("Desk|1", "Desk", "0|1|0|0"),
        Receptacle("Shelf|1", "Shelf", "0|2|0|0"),
        Receptacle("Shelf|2", "Shelf", "0|3|0|0"),
        Receptacle("Safe|1", "Safe", "0|4|0|0", openable=True),
    ),
    things=(
        Thing("Mug|1", "Mug", ("0|1|0|0",), ("Desk|1",), PICK),
        Thing("Pillow|1", "Pillow", ("0|1|0|0",), ("Desk|1",), PICK),
        Thing("Watch|1", "Watch", ("0|4|0|0",), ("Safe|1",), PICK),
    ),
)


@pytest.fixture
def play() -> Play:
    """At the desk, where mug 1 and pillow 1 are."""
    found = Play(build(GAME))
    assert found.step("go to desk 1")
    return found


def carried_out(written: str, play: Play, mode: Mode = "normalised") -> str | None:
    return matched(written, play.actions, mode, put=play.world.wording.put)


@pytest.mark.parametrize(
    ("written", "published"),
    [
        ("take mug 2 from desk 1", "take mug 1 from desk 1"),
        ("put mug 1 in/on desk 1", "take mug 1 from desk 1"),
        ("go to shelf 12", "go to shelf 1"),
    ],
)
def test_b018_no_other_action_than_the_one_written(play: Play, written: str, published: str) -> None:
    assert carried_out(written, play) is None
    assert carried_out(written, play, "exact") is None
    assert carried_out(written, play, "agentbench") == published


@pytest.mark.parametrize(
    "written", ["GO TO Shelf 1", "go to shelf 1.", "go  to   shelf 1", " go to shelf 1\n", "go to\tshelf 1"]
)
def test_b018_case_blanks_and_a_full_stop_do_not_matter(play: Play, written: str) -> None:
    assert carried_out(written, play) == "go to shelf 1"


@pytest.mark.parametrize(
    "written", ["go to shelf 1\nlook", "shelf 1", "go to shelf", "", ".", "go to shelf 1 now", "x" * 5000]
)
def test_b018_anything_else_is_not_admissible(play: Play, written: str) -> None:
    assert carried_out(written, play) is None


def test_a_command_padded_beyond_any_length_is_not_cut_to_another_one(play: Play) -> None:
    assert carried_out("look" + " " * 5000 + "around", play) is None


@pytest.mark.parametrize("verb", ["put", "move", "PUT"])
@pytest.mark.parametrize("into", ["in/on", "in", "on", "into", "onto", "to"])
@pytest.mark.parametrize("text", ["2.1.1", "2.1.2"])
def test_b018_put_and_move_are_one_action_in_every_wording(verb: str, into: str, text: str) -> None:
    play = Play(build(GAME, text))  # type: ignore[arg-type] # parametrised over the literals
    play.step("go to desk 1")
    play.step("take mug 1 from desk 1")
    play.step("go to shelf 1")
    expected = {"2.1.1": "put mug 1 in/on shelf 1", "2.1.2": "move mug 1 to shelf 1"}[text]
    assert carried_out(f"{verb} mug 1 {into} shelf 1", play) == expected


def test_exact_mode_takes_no_variant(play: Play) -> None:
    assert carried_out(" go to shelf 1 ", play, "exact") == "go to shelf 1"
    assert carried_out("Go to shelf 1", play, "exact") is None
    play.step("take mug 1 from desk 1")
    assert carried_out("put mug 1 in/on desk 1", play, "exact") is None


@pytest.mark.parametrize(
    ("reference", "candidate", "value"),
    [
        ("go to shelf 1", "go to shelf 12", 0.43146827293898643),
        ("take mug 1 from desk 1", "put mug 1 in/on desk 1", 0.1374292659508281),
        ("look", "look", 1.0),
        ("examine desk 1", "desk 1", 0.13427896671164932),
        ("inventory", "dance now", 0.0),
    ],
)
def test_bleu_is_that_of_nltk(reference: str, candidate: str, value: float) -> None:
    assert bleu(reference.split(), candidate.split()) == pytest.approx(value, abs=1e-12)


def test_fuzzy_matching_gives_nothing_for_nothing_alike() -> None:
    assert most_similar("dance", ["look", "inventory"]) is None
    assert most_similar("LOOK\nthen go", ["look", "inventory"]) == "look"
    assert most_similar("look", []) is None


def test_fuzzy_matching_does_not_count_the_words_of_a_text_too_long_to_match(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "take mug 1 from desk 1"
    for longest in ("desk " * 2001, f"{command} " + "mug " * 1995, f"{command} " * 400):
        assert bleu(command.split(), longest.split()) <= 0.01
    counted: list[int] = []
    monkeypatch.setattr(matching, "_grams", lambda words, order: counted.append(len(words)))
    assert most_similar("desk " * 200_000, [command]) is None
    assert not counted


def test_reasons_name_what_is_in_the_way(play: Play) -> None:
    assert why_not("go to desk 1", play) == "You are already at desk 1."
    assert why_not("go to moon 1", play) == "There is no receptacle named moon 1."
    assert why_not("open desk 1", play) == "The desk 1 cannot be opened or closed."
    assert why_not("take mug 2 from desk 1", play) == "There is no mug 2 in or on desk 1."
    assert why_not("take mug 1 from shelf 1", play) == "You are not at shelf 1; go to shelf 1 first."
    assert why_not("put mug 1 in desk 1", play) == "You are not carrying anything."
    assert why_not("take mug from desk", play).startswith("Name things")
    assert why_not("dance", play).startswith("There is no such command")
    play.step("take pillow 1 from desk 1")
    assert why_not("take mug 1 from desk 1", play) == "You are carrying pillow 1; you can carry one thing only."
    assert why_not("put pillow 1 on desk 1", play) == "The pillow 1 cannot be put in or on desk 1."


@pytest.mark.parametrize(
    ("written", "spelled"),
    [("GO TO Shelf 1", "go to shelf 1"), ("Look.", "look"), ("Put mug 1 in/on desk 1", "move mug 1 to desk 1")],
)
def test_in_exact_mode_the_reason_is_the_spelling(play: Play, written: str, spelled: str) -> None:
    play.step("take mug 1 from desk 1")
    assert carried_out(written, play, "exact") is None
    assert why_not(written, play) == f"Write it exactly so: {spelled}"


def test_reasons_do_not_tell_what_is_hidden(play: Play) -> None:
    play.step("go to safe 1")
    assert why_not("take watch 1 from safe 1", play) == why_not("take vase 1 from safe 1", play)
    assert "open safe 1" in why_not("take watch 1 from safe 1", play)


def test_every_command_that_does_nothing_has_a_reason(play: Play) -> None:
    rng = random.Random(5)
    verbs = ("go to", "open", "close", "take", "put", "move", "clean", "heat", "cool", "use", "slice", "examine")
    words = (*verbs, "mug 1", "pillow 1", "desk 1", "safe 1", "shelf 2", "mug", "from", "in/on", "with")
    for _ in range(3000):
        written = " ".join(rng.choice(words) for _ in range(rng.randint(1, 4)))
        if carried_out(written, play) is None:
            assert why_not(written, play)
        else:
            play.step(carried_out(written, play) or "")

"""The rules that surprise, one by one; the goldens show that they are TextWorld's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envhub.envs.alfworld.game import Family, Game, Goal, Receptacle, Thing, Trait
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.progress import Subgoals, subgoals
from envhub.envs.alfworld.world import build

TAKEABLE = frozenset({Trait.PICKUPABLE})
FOOD = TAKEABLE | {Trait.CLEANABLE, Trait.HEATABLE, Trait.COOLABLE, Trait.SLICEABLE}
KITCHEN = Game(
    id="kitchen",
    task="cool some apple and put it in countertop.",
    goal=Goal(Family.COOL, "Apple", "CounterTop"),
    start="0|0|0|0",
    receptacles=(
        Receptacle("CounterTop|1", "CounterTop", "0|1|0|0"),
        Receptacle("CounterTop|2", "CounterTop", "0|1|0|0"),
        Receptacle("Fridge|1", "Fridge", "0|2|0|0", openable=True),
        Receptacle("Microwave|1", "Microwave", "0|3|0|0", openable=True),
        Receptacle("Sink|1|SinkBasin", "SinkBasin", "0|4|0|0"),
        Receptacle("Cabinet|1", "Cabinet", "0|5|0|0", openable=True),
        Receptacle("SideTable|1", "SideTable", "0|1|0|0"),
    ),
    things=(
        Thing("Apple|1", "Apple", ("0|1|0|0",), ("CounterTop|1",), FOOD),
        Thing("Bowl|1", "Bowl", ("0|1|0|0",), ("CounterTop|2",), TAKEABLE | {Trait.HOLDER}),
        Thing("Egg|1", "Egg", ("0|1|0|0",), (), frozenset(), holders=("Bowl|1",)),
        Thing("Egg|1|EggCracked_0", None, ("0|1|0|0",)),
        Thing("Knife|1", "Knife", ("0|1|0|0",), ("CounterTop|2",), TAKEABLE),
        Thing("Tomato|1", "Tomato", ("0|2|0|0",), ("Fridge|1",), FOOD | {Trait.COOL}),
        Thing("DeskLamp|1", "DeskLamp", ("0|5|0|0",), ("Cabinet|1",), frozenset({Trait.TOGGLEABLE})),
        Thing("Sink|1", "Sink", ("0|4|0|0",)),
    ),
)
BY_LAMP = replace(KITCHEN, goal=Goal(Family.LIGHT, "Apple", "DeskLamp"))
MOVED_ON = (
    "go to countertop 1",
    "take apple 1 from countertop 2",
    "move apple 1 to countertop 1",
    "take apple 1 from countertop 1",
    "move apple 1 to sidetable 1",
    "look",
)
REHEATED = (
    "go to countertop 1",
    "take apple 1 from countertop 2",
    "go to fridge 1",
    "cool apple 1 with fridge 1",
    "go to microwave 1",
    "heat apple 1 with microwave 1",
    "go to countertop 1",
    "move apple 1 to countertop 1",
)
LIT_TWICE = (
    "go to countertop 1",
    "take apple 1 from countertop 2",
    "go to cabinet 1",
    "use desklamp 1",
    "use desklamp 1",
)


def play(*commands: str, game: Game = KITCHEN) -> Play:
    found = Play(build(game))
    for command in commands:
        assert found.step(command), f"{command!r} is not admissible after {found.observation!r}"
    return found


def answers(*commands: str) -> Sequence[str]:
    found = Play(build(KITCHEN))
    said = []
    for command in commands:
        found.step(command)
        said.append(found.observation)
    return said


def test_looking_around_before_the_first_move_shows_nothing() -> None:
    assert (
        "you see a cabinet 1, a countertop 2, a countertop 1, a fridge 1, a microwave 1, a sidetable 1, and a sinkbasin 1."
        in play().observation
    )
    assert answers("look") == ["You are in the middle of a room. Looking quickly around you, you see nothing."]


def test_receptacles_of_one_place_are_all_at_hand_and_one_cannot_go_where_one_is() -> None:
    found = play("go to countertop 1")
    assert "take apple 1 from countertop 2" in found.admissible and "take knife 1 from countertop 1" in found.admissible
    assert not found.step("go to countertop 2") and not found.step("go to countertop 1")
    assert play("go to countertop 1", "look").observation == (
        "You are facing the countertop 2, countertop 1, and sidetable 1. Next to it, you see nothing."
    )


def test_what_was_taken_from_one_receptacle_into_the_next_lies_beside_them() -> None:
    found = play("go to countertop 1", "take apple 1 from countertop 2", "move apple 1 to countertop 1", "look")
    assert found.observation.endswith("Next to it, you see a apple 1.")
    for command in ("take apple 1 from countertop 1", "move apple 1 to countertop 2", "look"):
        assert found.step(command)
    assert found.observation.endswith("Next to it, you see a apple 1.")


def test_what_left_two_receptacles_of_one_place_lies_beside_them_twice() -> None:
    assert play(*MOVED_ON).observation.endswith("Next to it, you see a apple 1, and a apple 1.")


def test_what_was_heated_is_no_longer_cool() -> None:
    assert play(*REHEATED[:-2]).won is False
    assert play(*REHEATED).won is False
    assert play(*(command for command in REHEATED if "microwave" not in command)).won is True


def test_a_lamp_that_is_used_twice_still_shines() -> None:
    assert play(*LIT_TWICE, game=BY_LAMP).won is True


def test_things_that_do_nothing_count_in_the_numbers() -> None:
    found = play("go to countertop 1", "take bowl 1 from countertop 1", "examine bowl 1")
    assert found.observation == "This is a normal bowl 1. In it, you see a egg 2."


def test_only_what_is_carried_can_be_examined() -> None:
    found = play("go to countertop 1")
    assert not found.step("examine apple 1")
    assert found.step("take apple 1 from countertop 2") and found.step("examine apple 1")
    assert found.observation == "There's nothing special about apple 1."


def test_appliances_need_not_be_open_and_warmth_replaces_cold() -> None:
    said = answers(
        "go to countertop 1",
        "take apple 1 from countertop 2",
        "go to fridge 1",
        "cool apple 1 with fridge 1",
        "examine apple 1",
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "examine apple 1",
        "go to sinkbasin 1",
        "clean apple 1 with sinkbasin 1",
        "examine apple 1",
        "go to fridge 1",
        "cool apple 1 with fridge 1",
        "examine apple 1",
    )
    assert said[3] == "You cool the apple 1 using the fridge 1."
    assert [said[4], said[7], said[10], said[13]] == [
        "This is a cold apple 1.",
        "This is a hot apple 1.",
        "This is a hot and clean apple 1.",
        "This is a cool and clean apple 1.",
    ]


def test_what_starts_cold_is_cold() -> None:
    found = play("go to fridge 1", "open fridge 1", "take tomato 1 from fridge 1", "examine tomato 1")
    assert found.observation == "This is a cold tomato 1."


def test_a_lamp_in_a_closed_receptacle_can_be_used_and_is_never_turned_off() -> None:
    found = play("go to cabinet 1", "use desklamp 1")
    assert found.observation == "You turn on the desklamp 1."
    state = found.state
    assert found.step("use desklamp 1") and found.observation == "You turn on the desklamp 1."
    assert found.state == state and found.state.used


def test_a_thing_can_be_sliced_where_it_was_and_where_it_is_again_and_again() -> None:
    found = play(
        "go to fridge 1",
        "open fridge 1",
        "take tomato 1 from fridge 1",
        "go to sinkbasin 1",
        "move tomato 1 to sinkbasin 1",
        "go to countertop 1",
        "take knife 1 from countertop 1",
    )
    assert found.step("slice apple 1 with knife 1") and found.step("slice apple 1 with knife 1")
    assert not found.step("slice tomato 1 with knife 1")
    assert found.step("go to sinkbasin 1") and found.step("slice tomato 1 with knife 1")
    assert found.observation == "You sliced the tomato 1 with the knife 1."
    found.step("go to fridge 1")
    assert not found.step("slice tomato 1 with knife 1"), "taking it where it was noted removes the note"


def test_slicing_asks_for_no_open_door() -> None:
    found = play("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1")
    assert found.step("slice tomato 1 with knife 1")


def test_a_sliced_thing_tells_all_about_itself() -> None:
    found = play("go to countertop 1", "take knife 1 from countertop 1", "slice apple 1 with knife 1")
    for command in ("move knife 1 to countertop 1", "take apple 1 from countertop 2", "examine apple 1"):
        assert found.step(command)
    assert found.observation == "This is a sliced apple 1."
    for command, told in (
        ("cool apple 1 with fridge 1", "cool sliced"),
        ("heat apple 1 with microwave 1", "hot sliced"),
        ("clean apple 1 with sinkbasin 1", "hot and clean sliced"),
    ):
        assert (
            found.step(f"go to {command.split(' with ')[1]}") and found.step(command) and found.step("examine apple 1")
        )
        assert found.observation == f"This is a {told} apple 1."


def test_one_thing_can_be_carried() -> None:
    found = play("go to countertop 1", "take apple 1 from countertop 2")
    assert not any(command.startswith("take ") for command in found.admissible)
    found.step("inventory")
    assert found.observation == "You are carrying: a apple 1."


def test_closed_receptacles_give_and_take_nothing() -> None:
    found = play("go to fridge 1")
    assert found.observation == "You arrive at fridge 1. The fridge 1 is closed."
    assert not found.step("take tomato 1 from fridge 1")
    assert found.step("open fridge 1") and found.step("take tomato 1 from fridge 1") and found.step("close fridge 1")
    assert not found.step("move tomato 1 to fridge 1") and found.step("open fridge 1")
    assert found.step("move tomato 1 to fridge 1")


def test_going_back_to_a_snapshot_undoes_everything() -> None:
    found = play("go to countertop 1")
    before, admissible = found.state, found.admissible
    for command in ("take apple 1 from countertop 2", "go to fridge 1", "cool apple 1 with fridge 1", "open fridge 1"):
        assert found.step(command)
    found.restore(before)
    assert found.state == before and found.admissible == admissible


def test_progress_follows_the_goal() -> None:
    found = play("go to countertop 1", "take apple 1 from countertop 2")
    assert subgoals(found.world, found.state) == Subgoals(carried=True, changed=False, lit=None, n_placed=0, n_needed=1)
    for command in (
        "go to fridge 1",
        "cool apple 1 with fridge 1",
        "go to countertop 1",
        "move apple 1 to countertop 1",
    ):
        assert not found.won and found.step(command)
    assert found.won
    assert subgoals(found.world, found.state, carried=True) == Subgoals(
        carried=True, changed=True, lit=None, n_placed=1, n_needed=1
    )
    found = play(*LIT_TWICE[:3], game=BY_LAMP)
    assert subgoals(found.world, found.state).lit is False and not found.won
    assert found.step("use desklamp 1") and found.won
    assert subgoals(found.world, found.state).lit is True
    assert found.step("go to fridge 1") and not found.won

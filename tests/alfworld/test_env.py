"""Episodes: rewards, endings, options, tools, forks, and what is told along the way."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envhub.core.errors import InvalidRequestError
from envhub.core.types import JSON, Message, StepResult, StopReason, TaskRef, ToolCall
from envhub.envs.alfworld import expert
from envhub.envs.alfworld.env import AlfworldEnvironment, AlfworldEpisode, create
from envhub.envs.alfworld.game import Family, Game
from envhub.envs.alfworld.options import OPTIONS
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.tasks import TaskSet, load_split
from envhub.envs.alfworld.world import build
from envhub.envs.datasets import dataset_dir
from envhub.testing.hub import local_hub
from tests.alfworld.test_matching import GAME

WIN = ("go to desk 1", "take mug 1 from desk 1", "go to shelf 1", "move mug 1 to shelf 1")


@pytest.fixture(scope="module")
def shipped() -> AlfworldEnvironment:
    return create({})


@pytest.fixture(scope="module")
def games() -> TaskSet:
    return load_split(dataset_dir("alfworld"), "valid_unseen")


def small(*, game: Game = GAME) -> AlfworldEnvironment:
    return AlfworldEnvironment({"test": TaskSet("small", 1, lambda _: game, dataset_hash="small")})


async def opened(**options: JSON) -> AlfworldEpisode:
    return await small().open(TaskRef("alfworld", "test", 0), seed=1, options={**OPTIONS, **options})


def call(action: str) -> Message:
    return Message.assistant(None, ToolCall("c", "take_action", json.dumps({"action": action})))


def verb(name: str, **arguments: str) -> Message:
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


def text(result: StepResult) -> str:
    return result.messages[-1].content or ""


async def played(episode: AlfworldEpisode, *actions: str) -> StepResult:
    result = StepResult()
    for action in actions:
        result = await episode.step(call(action))
    return result


async def test_b017_sixty_looks_pay_nothing_and_end_by_the_limit() -> None:
    async with local_hub({"alfworld": small()}) as hub:
        session = hub.hub.session("alfworld", "test", 0, options={"max_turns": 50})
        await session.start()
        results = []
        while not results or not results[-1].done:
            results.append(await session.interact(call("look")))
    assert len(results) == 50
    assert sum(result.reward for result in results) == 0
    assert results[-1].truncated and results[-1].stop_reason is StopReason.TURN_LIMIT
    assert results[-1].info["won"] is False


async def test_b017_a_win_on_the_very_last_turn_is_a_win() -> None:
    async with local_hub({"alfworld": small()}) as hub:
        session = hub.hub.session("alfworld", "test", 0, options={"max_turns": 50})
        await session.start()
        for _ in range(46):
            assert not (await session.interact(call("look"))).done
        results = [await session.interact(call(action)) for action in WIN]
    assert [result.reward for result in results] == [0, 0, 0, 1]
    assert results[-1].terminated and not results[-1].truncated
    assert results[-1].stop_reason is StopReason.COMPLETED


async def test_a_win_pays_after_malformed_turns() -> None:
    episode = await opened()
    await episode.reset()
    for message in (
        Message.assistant("I would go to the desk."),
        Message.assistant(None, ToolCall("c", "take_action", "{")),
        Message.assistant(None, ToolCall("c", "no_such_tool", "{}")),
    ):
        result = await episode.step(message)
        assert not result.terminated and result.reward == 0
    result = await played(episode, *WIN)
    assert result.terminated and result.reward == 1 and result.info["won"] is True


async def test_one_action_per_message() -> None:
    episode = await opened()
    calls = [ToolCall(str(number), "take_action", json.dumps({"action": action})) for number, action in enumerate(WIN)]
    result = await episode.step(Message.assistant(None, *calls))
    assert [message.tool_call_id for message in result.messages] == ["0", "1", "2", "3"]
    assert result.info["n_actions"] == 1 and not result.terminated
    assert all("not executed" in (message.content or "") for message in result.messages[1:])


async def test_b018_an_action_that_is_not_admissible_changes_nothing() -> None:
    episode = await opened(admissible="never")
    before = await played(episode, "go to desk 1")
    for action in ("take mug 2 from desk 1", "put mug 1 in/on desk 1", "go to shelf 12", "go to shelf 1\nlook"):
        result = await played(episode, action)
        assert text(result) == "Nothing happens." and result.info["executed"] is None
    assert text(await played(episode, "examine desk 1")) == text(before).removeprefix("You arrive at desk 1. ")


@pytest.mark.parametrize(
    ("listing", "first", "later"), [("always", True, True), ("first", True, False), ("never", False, False)]
)
async def test_the_list_of_admissible_actions_is_shown_as_asked(listing: str, first: bool, later: bool) -> None:
    episode = await opened(admissible=listing)
    observation = await episode.reset()
    assert ("Available actions:\ngo to desk 1" in (observation.messages[-1].content or "")) is first
    assert ("Available actions:\nexamine desk 1" in text(await played(episode, "go to desk 1"))) is later


async def test_reasons_are_given_when_asked() -> None:
    plain, explained = await opened(admissible="never"), await opened(admissible="never", reasons=True)
    assert text(await played(plain, "open desk 1")) == "Nothing happens."
    assert text(await played(explained, "open desk 1")) == "Nothing happens. You are not at desk 1; go to desk 1 first."


async def test_the_older_wording_answers_in_its_words() -> None:
    episode = await opened(text="2.1.1", admissible="never")
    answers = [text(await played(episode, each)) for each in WIN]
    assert answers == [
        "You arrive at loc 4. On the desk 1, you see a mug 1, and a pillow 1.",
        "You pick up the mug 1 from the desk 1.",
        "You arrive at loc 2. On the shelf 1, you see nothing.",
        "You put the mug 1 in/on the shelf 1.",
    ]


async def test_agentbench_mode_speaks_and_acts_as_the_published_environment() -> None:
    episode = await opened(grading="agentbench")
    observation = await episode.reset()
    assert (observation.messages[-1].content or "").startswith("Here is your task. You are in the middle of a room. ")
    assert (observation.messages[-1].content or "").endswith(
        "put a mug in shelf. AVAILABLE ACTIONS: go to desk 1\ngo to safe 1\ngo to shelf 1\ngo to shelf 2\ninventory\nlook\n"
    )
    assert text(await played(episode, "GO TO DESK 1")).startswith(
        "On the desk 1, you see a mug 1, and a pillow 1. AVAILABLE ACTIONS: examine desk 1\n"
    )
    result = await played(episode, "take mug 2 from desk 1")
    assert result.info["executed"] == "take mug 1 from desk 1"
    result = await played(episode, "look", "look", "look")
    assert result.terminated and result.reward == 0 and result.stop_reason is StopReason.INVALID_ACTION


async def test_agentbench_mode_pays_for_a_win() -> None:
    episode = await opened(grading="agentbench")
    result = await played(episode, *WIN[:3], "put mug 1 in/on shelf 1")
    assert result.terminated and result.reward == 1


@pytest.mark.parametrize(
    "options",
    [
        {"grading": "lenient"},
        {"tools": "both"},
        {"admissible": True},
        {"matching": "bleu"},
        {"matching": "agentbench"},
        {"text": "2.1.3"},
        {"reasons": 1},
        {"reasons": "yes"},
        {"grading": "agentbench", "tools": "verbs"},
        {"grading": "agentbench", "reasons": True},
        {"grading": "agentbench", "matching": "exact"},
        {"grading": ["strict"]},
    ],
)
async def test_options_that_make_no_sense_are_refused(options: Mapping[str, JSON]) -> None:
    with pytest.raises(InvalidRequestError, match="alfworld"):
        await opened(**options)


@pytest.mark.parametrize(
    "settings",
    [
        {"no": 1},
        {"backend": "c"},
        {"official": "/nowhere"},
        {"agentbench": "x"},
        {"backend": "auto", "processes": "many"},
        {"backend": "auto", "processes": 0},
        {"backend": "auto", "processes": True},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Mapping[str, JSON]) -> None:
    with pytest.raises(InvalidRequestError, match="alfworld"):
        create(settings)


@pytest.mark.parametrize("value", ["1", "yes", 0, ""])
def test_a_partial_release_is_asked_for_in_so_many_words(tmp_path: Path, value: JSON) -> None:
    game = tmp_path / "json_2.1.1/train/pick_and_place_simple-Mug-None-Shelf-1/trial/game.tw-pddl"
    game.parent.mkdir(parents=True)
    content = {"pddl_domain": "", "grammar": "", "pddl_problem": "", "solvable": True, "walkthrough": []}
    game.write_text(json.dumps(content))
    with pytest.raises(InvalidRequestError, match="or set partial=true"):
        create({"official": str(tmp_path)})
    with pytest.raises(InvalidRequestError, match="'partial' of alfworld must be true or false"):
        create({"official": str(tmp_path), "partial": value})
    assert "official-train" in create({"official": str(tmp_path), "partial": "True"}).info().splits


async def test_progress_is_told() -> None:
    episode = await opened()
    info = (await episode.reset()).info
    assert info["family"] == "pick_and_place_simple" and info["won"] is False
    carried = [(await played(episode, action)).info["subgoals"]["carried"] for action in WIN]
    assert carried == [False, True, True, True]
    changed = await small(game=replace(GAME, goal=replace(GAME.goal, family=Family.TWO))).open(
        TaskRef("alfworld", "test", 0), seed=1, options=OPTIONS
    )
    subgoals = (await played(changed, *WIN)).info["subgoals"]
    assert subgoals == {"carried": True, "changed": None, "lit": None, "n_placed": 1, "n_needed": 2}


async def test_a_fork_goes_its_own_way() -> None:
    episode = await opened()
    await played(episode, *WIN[:3])
    twin = await episode.fork()
    assert twin is not None
    assert (await played(twin, WIN[3])).reward == 1
    assert not episode.player.won
    assert (await played(episode, "go to desk 1", "move mug 1 to desk 1")).reward == 0
    assert (await played(episode, *WIN)).reward == 1


VERBS = {
    "go to": ("go_to", ("receptacle",)),
    "open": ("open", ("receptacle",)),
    "close": ("close", ("receptacle",)),
    "take": ("take", ("object", "receptacle")),
    "move": ("put", ("object", "receptacle")),
    "use": ("use", ("object",)),
    "clean": ("clean", ("object", "receptacle")),
    "heat": ("heat", ("object", "receptacle")),
    "cool": ("cool", ("object", "receptacle")),
    "slice": ("slice", ("object", "knife")),
    "examine": ("examine", ("target",)),
    "look": ("look", ()),
    "inventory": ("inventory", ()),
}


def as_verb(command: str) -> Message:
    """The call of a verb's tool that says what the command says."""
    name = "go to" if command.startswith("go to") else command.split()[0]
    tool, parameters = VERBS[name]
    rest = command.removeprefix(name).strip()
    for link in (" from ", " to ", " with "):
        rest = rest.replace(link, "|")
    values = rest.split("|") if rest else []
    return verb(tool, **dict(zip(parameters, values, strict=True)))


@pytest.mark.parametrize("index", range(0, 134, 9))
async def test_a_tool_for_each_verb_does_what_the_text_does(
    shipped: AlfworldEnvironment, games: TaskSet, index: int
) -> None:
    rng = random.Random(index)
    task = TaskRef("alfworld", "valid_unseen", index)
    by_text = await shipped.open(task, seed=1, options=OPTIONS)
    by_verb = await shipped.open(task, seed=1, options={**OPTIONS, "tools": "verbs"})
    assert (await by_text.reset()).messages[-1] == (await by_verb.reset()).messages[-1]
    play = Play(build(games[index]))
    for _ in range(40):
        kinds = sorted({command.split()[0] for command in play.admissible} - {"help"})
        kind = rng.choice(kinds)
        command = rng.choice([each for each in play.admissible if each.split()[0] == kind])
        play.step(command)
        first, second = await by_text.step(call(command)), await by_verb.step(as_verb(command))
        assert first.messages[0].content == second.messages[0].content, command
        assert (first.reward, first.terminated, first.info) == (second.reward, second.terminated, second.info)
        if first.terminated:
            return


@pytest.mark.parametrize("wording", ["2.1.1", "2.1.2"])
@pytest.mark.parametrize("matching", ["exact", "normalised"])
async def test_verbs_win_in_every_wording_and_matching(wording: str, matching: str) -> None:
    episode = await opened(tools="verbs", text=wording, matching=matching)
    results = [await episode.step(as_verb(command)) for command in WIN]
    assert [result.reward for result in results] == [0, 0, 0, 1]


async def test_verbs_are_described_for_function_calling() -> None:
    episode = await opened(tools="verbs")
    tools = (await episode.reset()).tools
    assert {each.name for each in tools} == {name for name, _ in VERBS.values()}
    assert all(each.description and each.parameters["additionalProperties"] is False for each in tools)


@pytest.mark.parametrize("index", range(0, 134, 4))
def test_the_expert_wins_from_where_a_random_player_left_off(games: TaskSet, index: int) -> None:
    rng = random.Random(index)
    play = Play(build(games[index]))
    for _ in range(rng.randint(0, 40)):
        state = play.state
        play.step(rng.choice(play.admissible))
        if play.won or expert.plan(play.world, play.state) is None:
            play.restore(state)
    plan = expert.plan(play.world, play.state)
    assert plan is not None and len(plan) <= 14
    assert all(play.step(command) for command in plan)
    assert play.won


async def test_an_episode_tells_the_expert_s_way_from_where_it_is() -> None:
    episode = await opened()
    whole = episode.expert_plan()
    assert whole is not None and whole[:2] == WIN[:2] and len(whole) == 4
    await played(episode, *WIN[:2])
    rest = episode.expert_plan()
    assert rest == whole[2:]
    assert (await played(episode, *rest)).reward == 1


def test_the_expert_knows_when_there_is_no_way() -> None:
    play = Play(build(GAME))
    assert play.step("go to desk 1") and play.step("take pillow 1 from desk 1")
    assert expert.plan(play.world, play.state) is None, "nothing here takes a pillow, so it stays in hand for ever"
    play = Play(build(GAME))
    for command in WIN:
        play.step(command)
    assert expert.plan(play.world, play.state) == ()

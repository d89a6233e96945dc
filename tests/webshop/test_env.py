"""Episodes: prompts, moves, refusals, rewards, forks, limits, and a hub full of them. Covers B047 and B048."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from envhub.bench.verify import VerifyOptions, verify
from envhub.client.rollout import rollout
from envhub.core.errors import InvalidRequestError, TaskNotFoundError
from envhub.core.types import JSON, Message, StepResult, StopReason, TaskRef, ToolCall
from envhub.envs.webshop import oracle
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.env import OPTIONS, WebShopEnvironment, WebShopEpisode, create
from envhub.envs.webshop.shop import Shop
from envhub.envs.webshop.tasks import Tasks, open_tasks
from envhub.testing.contract import CHECKS
from envhub.testing.hub import local_hub
from tests.webshop.shelves import product, stored

LAMP = product(
    "B1",
    "Brass lamp",
    price=20.0,
    options={"color": ("red", "12 oz (pack of 2)", "größe 5")},
    nouns=("brass", "lamp"),
    bullets=("soft light",),
)
PLAIN = product("B2", "Plain lamp", price=30.0, nouns=("plain", "lamp"))
CHAIR = product(
    "B3", "Oak chair", price=5.0, nouns=("oak", "chair"), attributes=("hard",), query="seats", categories=""
)
GOALS = {
    "exact": Goal("B1", "a soft red lamp", ("soft",), ("red",), 20.0),
    "no options": Goal("B2", "a soft lamp", ("soft",), (), 40.0),
    "no bound": Goal("B1", "a lamp", ("soft",), (), 0.0),
}


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[WebShopEnvironment]:
    """Three products and the three goals above."""
    stored(tmp_path, [LAMP, PLAIN, CHAIR], {"test": list(GOALS.values())}).close()
    tasks = open_tasks(str(tmp_path / "catalogue"))
    yield WebShopEnvironment(tasks)
    tasks.close()


@pytest.fixture
def environment(catalogues: Path, tiny: Tasks) -> Iterator[WebShopEnvironment]:
    """Of its own, as a hub closes what it serves."""
    tasks = open_tasks("tiny", cache=catalogues)
    yield WebShopEnvironment(tasks)
    tasks.close()


async def opened(environment: WebShopEnvironment, goal: str = "exact", **options: JSON) -> WebShopEpisode:
    task = TaskRef("webshop", "test", list(GOALS).index(goal))
    return await environment.open(task, seed=1, options={**OPTIONS, **options})


def search(keywords: str, call_id: str = "c") -> Message:
    return Message.assistant(None, ToolCall(call_id, "search_action", json.dumps({"keywords": keywords})))


def click(value: str, call_id: str = "c") -> Message:
    return Message.assistant(None, ToolCall(call_id, "click_action", json.dumps({"value": value})))


def text(result: StepResult) -> str:
    return result.messages[-1].content or ""


async def played(episode: WebShopEpisode, *actions: str) -> StepResult:
    """``?words`` searches, anything else clicks."""
    result = StepResult()
    for action in actions:
        result = await episode.step(search(action[1:]) if action.startswith("?") else click(action))
    return result


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_environment_keeps_its_contract(check, environment: WebShopEnvironment) -> None:
    await check(environment)


async def test_the_first_message_shows_the_page_and_what_can_be_done(shelf: WebShopEnvironment) -> None:
    episode = await opened(shelf)
    observation = await episode.reset()
    assert [message.role for message in observation.messages] == ["system", "user"]
    assert observation.messages[1].content == (
        "The initial observation:\nWebShop [SEP] Instruction: [SEP] a soft red lamp [SEP] Search\n\n"
        "Available Actions:\n{'has_search_bar': True, 'clickables': ['search']}"
    )
    assert {spec.name: list(spec.parameters["properties"]) for spec in observation.tools} == {
        "search_action": ["keywords"],
        "click_action": ["value"],
    }
    assert all(spec.parameters["additionalProperties"] is False for spec in observation.tools)
    assert observation.info == {"catalogue": "test", "n_products": 3}


async def test_a_move_shows_the_next_page(shelf: WebShopEnvironment) -> None:
    episode = await opened(shelf)
    shown = text(await played(episode, "?brass lamp"))
    assert shown == (
        "Action: search[brass lamp]\n\nObservation:\nInstruction: [SEP] a soft red lamp [SEP] Back to Search [SEP] "
        "Page 1 (Total results: 2) [SEP] Next > [SEP] B1 [SEP] Brass lamp [SEP] $20.0 [SEP] B2 [SEP] Plain lamp [SEP] $30.0\n\n"
        "Available Actions:\n{'has_search_bar': False, 'clickables': ['back to search', 'next >', 'b1', 'b2']}"
    )


async def test_the_right_purchase_earns_exactly_one_and_says_why(shelf: WebShopEnvironment) -> None:
    result = await played(await opened(shelf), "?brass lamp", "b1", "red", "buy now")
    assert result.terminated and result.reward == 1.0 and result.stop_reason is StopReason.COMPLETED
    assert result.info == {
        "score": 1.0,
        "success": True,
        "r_type": 1.0,
        "r_att": 1.0,
        "r_option": 1.0,
        "r_price": True,
        "asin": "B1",
        "options": {"color": "red"},
        "catalogue": "test",
        "n_products": 3,
    }
    assert "You bought B1. Your score (from 0.0 to 1.0): 1.0" in text(result)


@pytest.mark.parametrize(
    ("goal", "actions", "reward"),
    [
        ("exact", ["?brass", "b1", "buy now"], 2 / 3),
        ("exact", ["?brass", "b1", "12 oz (pack of 2)", "buy now"], 2 / 3),
        ("exact", ["?plain", "b2", "buy now"], 1 / 3),
        ("exact", ["?oak", "b3", "buy now"], 0.0),
        ("no options", ["?plain", "b2", "buy now"], 1.0),
        ("no options", ["?brass", "b1", "red", "buy now"], 1.0),
        ("no bound", ["?brass", "b1", "buy now"], 1.0),
    ],
)
async def test_a_purchase_earns_its_share(
    shelf: WebShopEnvironment, goal: str, actions: Sequence[str], reward: float
) -> None:
    """B048: without options, with a price equal to the bound (20 of 20), above it, with no bound, with nothing in common."""
    result = await played(await opened(shelf, goal), *actions)
    assert result.terminated and result.reward == pytest.approx(reward, abs=1e-12)
    assert result.info["success"] is (reward == 1.0)


@pytest.mark.parametrize("value", ["RED", "Red", "12 oz (pack of 2)", "12 OZ (Pack of 2)", "größe 5", "Größe 5"])
async def test_options_are_clicked_as_they_are_read(shelf: WebShopEnvironment, value: str) -> None:
    """B048: capitals, brackets and letters beyond ASCII."""
    episode = await opened(shelf)
    result = await played(episode, "?brass", "b1", value)
    assert "Invalid action" not in text(result) and value.lower() in episode._state.options.values()


@pytest.mark.parametrize(
    ("before", "action", "reason"),
    [
        ([], "buy now", "search for keywords"),
        ([], "search", "search for keywords"),
        ([], "?", "needs keywords"),
        (["?lamp"], "b9", "nothing called 'b9'"),
        (["?lamp"], "< prev", "nothing called '< prev'"),
        (["?lamp", "b1"], "blue", "nothing called 'blue'"),
        (["?lamp", "b1"], "click[red]", "nothing called 'click[red]'"),
        (["?lamp", "b1"], "12 oz [pack of 2]", "nothing called '12 oz [pack of 2]'"),
        (["?lamp", "b1"], "", "nothing called ''"),
        (["?lamp", "b1", "description"], "buy now", "nothing called 'buy now'"),
        (["?lamp", "b1"], "search", "no search button"),
    ],
)
async def test_an_invalid_action_gets_a_reason_and_changes_nothing(
    shelf: WebShopEnvironment, before: Sequence[str], action: str, reason: str
) -> None:
    episode = await opened(shelf)
    await played(episode, *before)
    state = episode._state
    result = await played(episode, action)
    assert episode._state is state and result.reward == 0.0 and not result.terminated
    assert "Invalid action, nothing has changed." in text(result) and reason in text(result)
    assert text(result).endswith(
        str({"has_search_bar": not before, "clickables": list(shelf._shops["webshop"].clickables(state))})
    )


async def test_a_search_works_from_every_page(shelf: WebShopEnvironment) -> None:
    episode = await opened(shelf)
    for before in (["?lamp"], ["b1"], ["description"]):
        await played(episode, "?lamp", *(["b1"] if before == ["description"] else []), *before)
        assert "Page 1 (Total results: 1)" in text(await played(episode, "?oak"))


@pytest.mark.parametrize(
    "keywords",
    [" ", "\n", "lamp\nbrass", "🪔", "zzz", "<r>", "<c> things", "<q> things", "<a> hard", "[", "x" * 4_000],
)
async def test_any_keywords_are_only_keywords(shelf: WebShopEnvironment, keywords: str) -> None:
    result = await played(await opened(shelf), f"?{keywords}")
    found = 2 if keywords == "lamp\nbrass" else 0
    assert f"Page 1 (Total results: {found})" in text(result) and result.reward == 0.0


async def test_every_call_of_a_message_runs_in_order_until_the_purchase(shelf: WebShopEnvironment) -> None:
    calls = [*search("brass", "1").tool_calls, *click("b1", "2").tool_calls, *click("no", "3").tool_calls]
    calls += [*click("red", "4").tool_calls, *click("buy now", "5").tool_calls, *search("late", "6").tool_calls]
    result = await (await opened(shelf)).step(Message.assistant("all at once", *calls))
    assert [message.tool_call_id for message in result.messages] == ["1", "2", "3", "4", "5", "6"]
    assert result.reward == 1.0 and "not executed" in text(result)


async def test_text_without_a_call_is_answered(shelf: WebShopEnvironment) -> None:
    result = await (await opened(shelf)).step(Message.assistant("click[buy now]"))
    assert [message.role for message in result.messages] == ["user"] and not result.terminated


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("text", "Instruction: [SEP] a soft red lamp"),
        ("text_rich", "[button] Back to Search [button_]"),
        ("html", "<html"),
        ("url", "/search_results/0/lamp/1"),
    ],
)
async def test_an_observation_comes_in_the_mode_asked_for(shelf: WebShopEnvironment, mode: str, shown: str) -> None:
    assert shown in text(await played(await opened(shelf, observation=mode), "?lamp"))


@pytest.mark.parametrize(("name", "value"), [("reward_mode", "kind"), ("observation", "pixels"), ("observation", 3)])
async def test_options_that_do_not_exist_are_refused(shelf: WebShopEnvironment, name: str, value: JSON) -> None:
    with pytest.raises(InvalidRequestError, match=f"option '{name}' of webshop must be one of"):
        await opened(shelf, **{name: value})


async def test_the_consistent_mode_pays_what_the_published_one_cannot(tmp_path: Path) -> None:
    shoes = product("B1", "Lamp shoes", options={"color": ("1877brown", "red")})
    stored(tmp_path, [shoes], {"test": [Goal("B1", "shoes", ("soft",), {"color": "1877brown"}, 20.0)]}).close()
    environment = create({"catalogue": str(tmp_path / "catalogue")})
    task = TaskRef("webshop", "test", 0)
    rewards = {}
    for mode in ("webshop", "consistent"):
        episode = await environment.open(task, seed=1, options={**OPTIONS, "reward_mode": mode})
        rewards[mode] = (await played(episode, "?lamp", "b1", "1877brown", "buy now")).reward
    assert rewards == {"webshop": pytest.approx(2 / 3), "consistent": 1.0}
    (defect,) = environment.lint("test")
    assert defect.task == task and defect.usable and "earns 0.666667" in defect.problem
    assert environment.solution(task) is None
    await environment.close()


async def test_a_fork_goes_its_own_way(shelf: WebShopEnvironment) -> None:
    episode = await opened(shelf)
    await played(episode, "?brass", "b1", "red")
    fork = await episode.fork()
    assert (await played(fork, "12 oz (pack of 2)", "buy now")).reward == pytest.approx(2 / 3)
    await fork.close()
    assert (await played(episode, "buy now")).reward == 1.0


async def test_a_hub_doubles_a_session_in_the_middle_of_a_purchase(environment: WebShopEnvironment) -> None:
    solution = environment.solution(TaskRef("webshop", "test", 1)) or ()
    async with local_hub({"webshop": environment}) as local, local.hub.session("webshop", "test", 1) as session:
        for message in solution[:-1]:
            await session.interact(message)
        async with await session.fork() as fork:
            assert fork.fork_kind == "native"
            assert (await fork.interact(click("back to search"))).reward == 0.0
            assert (await session.interact(solution[-1])).reward == 1.0
            assert "Nothing can be clicked" in ((await fork.interact(click("buy now"))).messages[-1].content or "")


async def test_a_solution_is_the_same_every_time_and_earns_one(environment: WebShopEnvironment) -> None:
    for index in range(environment.info().splits["dev"]):
        task = TaskRef("webshop", "dev", index)
        solution = environment.solution(task)
        assert solution is not None and environment.solution(task) == solution
        episode = await environment.open(task, seed=index, options=dict(OPTIONS))
        results = [await episode.step(message) for message in solution]
        assert [result.reward for result in results] == [0.0] * (len(results) - 1) + [1.0]
        assert not any("Invalid action" in text(result) for result in results)


async def test_what_is_too_long_is_refused_and_changes_nothing(shelf: WebShopEnvironment) -> None:
    episode = await opened(shelf, observation="url")
    for action in ("?" + "lamp " * 900_000, "?" + "é" * 4_001, "b" * 4_001):
        result = await played(episode, action)
        assert "at most 4000 characters" in text(result) and len(text(result)) < 1_000
        assert episode.state == (await opened(shelf)).state and not result.terminated
    await played(episode, "?" + "lamp".ljust(4_000))
    assert episode.state.rows


def test_the_identity_names_catalogue_size_and_hash(environment: WebShopEnvironment, tiny: Tasks) -> None:
    info = environment.info()
    assert info.version == "1-tiny-200" and info.dataset_hash == tiny.dataset_hash
    assert info.max_turns == 20 and info.default_split == "test"
    assert info.splits == {"train": 40, "dev": 20, "test": 40}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"catalog": "tiny"}, "no setting 'catalog'; valid: catalogue, cache, compiled"),
        ({"catalogue": "gigantic"}, "neither a name"),
        ({"compiled": "perhaps"}, "must be true or false"),
        ({"cache": ""}, "setting 'cache' of webshop must be a text that is not empty, not ''"),
        ({"cache": 3}, "setting 'cache' of webshop must be a text"),
        ({"cache": None}, "setting 'cache' of webshop must be a text"),
        ({"catalogue": ""}, "setting 'catalogue' of webshop must be a text"),
        ({"catalogue": ["tiny"]}, "setting 'catalogue' of webshop must be a text"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings: dict[str, JSON], problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        create(settings)


async def test_a_hub_plays_it_and_refuses_an_index_beyond_the_goals(environment: WebShopEnvironment) -> None:
    async with local_hub({"webshop": environment}) as local:
        solution = iter(environment.solution(TaskRef("webshop", "test", 3)) or ())

        class Known:
            async def act(self, messages: object, tools: object) -> Message:
                return next(solution)

        async with local.hub.session("webshop", "test", 3) as session:
            assert session.identity.version == "1-tiny-200"
            trajectory = await rollout(session, Known())
        assert trajectory.episode_return == 1.0
        with pytest.raises(TaskNotFoundError, match=r"no task 40; valid: 0\.\.39"):
            async with local.hub.session("webshop", "test", 40):
                pass


async def test_running_out_of_turns_is_an_outcome_of_no_reward(environment: WebShopEnvironment) -> None:
    async with local_hub({"webshop": environment}) as local, local.hub.session("webshop", "test", 0) as session:
        for _ in range(20):
            step = await session.interact(search("lamp"))
        assert step.truncated and step.stop_reason is StopReason.TURN_LIMIT and step.reward == 0.0


async def test_every_session_of_a_group_gets_the_same_task(environment: WebShopEnvironment) -> None:
    """B047: eight samples of index 17."""
    async with local_hub({"webshop": environment}) as local:

        async def first_message(seed: int) -> str:
            async with local.hub.session("webshop", "test", 17, seed=seed) as session:
                return session.messages[1].content or ""

        shown = await asyncio.gather(*(first_message(seed) for seed in range(8)))
        assert len(set(shown)) == 1 and len(local.worker.table.environments) == 1
        assert local.worker.table.n_slots_taken == 0


async def test_tricks_do_not_pay_and_solutions_do(environment: WebShopEnvironment) -> None:
    async with local_hub({"webshop": environment}) as local:
        report = await verify(local.hub, environment, "dev", VerifyOptions(jobs=8))
    assert report.ok, report
    assert {each.agent: each.n_paid for each in report.agents if each.agent != "oracle"} == {
        "null": 0,
        "browsing": 0,
        "buying_at_once": 0,
        "buying_from_results": 0,
        "back_doors": 0,
        "claiming": 0,
    }


async def test_ten_thousand_episodes_leave_nothing_behind(environment: WebShopEnvironment) -> None:
    """B048: the original keeps every session for ever."""
    info = environment.info()
    plans = [environment.solution(TaskRef("webshop", "test", index)) or () for index in range(40)]

    async def play(n_episodes: int) -> None:
        for number in range(n_episodes):
            task = TaskRef("webshop", "test", number % 40)
            episode = await environment.open(task, seed=number, options=dict(info.options))
            await episode.reset()
            for message in plans[number % 40][: number % 3]:
                await episode.step(message)
            await episode.close()

    await play(400)
    gc.collect()
    before = len(gc.get_objects()), resident_bytes()
    await play(10_000)
    gc.collect()
    grown = len(gc.get_objects()) - before[0], resident_bytes() - before[1]
    assert grown[0] < 1_000 and grown[1] < 4 << 20, f"{grown} (objects, bytes) more after 10,000 episodes"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_plan_is_what_a_shopper_could_do(tiny: Tasks) -> None:
    shop = Shop(tiny.catalogue)
    goal = tiny.splits["test"][0]
    plan = oracle.plan(shop, goal)
    assert plan is not None
    assert oracle.play(shop, goal, plan.actions).reward == plan.reward == 1.0
    with pytest.raises(ValueError, match="Nothing can be clicked"):
        oracle.play(shop, goal, (oracle.Action("click", "b1"),))


def test_a_product_that_no_search_finds_has_no_plan() -> None:
    class Blind:
        n_products = 1
        digest = ""

        def product(self, asin: str) -> Product:
            return LAMP

        def heads(self, rows: Sequence[int]) -> Sequence[object]:
            return []

        def search(self, keywords: Sequence[str]) -> Sequence[int]:
            return []

    assert oracle.plan(Shop(Blind()), GOALS["exact"]) is None

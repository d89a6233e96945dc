"""The site in a real Chromium without JavaScript: by mouse, by keyboard alone, beside tools, twice at once, and in small windows.

With ENVHUB_TEST_PICTURES set to a folder, the pictures of the documentation are written there.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from envhub.client.hub import Hub
from envhub.config import Settings
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.env import WebShopEnvironment
from envhub.envs.webshop.tasks import open_tasks
from envhub.webshop_site.serve import served_site
from tests.webshop.browser import Browser, Tab, chromium
from tests.webshop.shelves import product, stored

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

EVIL = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
LAMP = product(
    "B1",
    "Brass lamp",
    price=20.0,
    options={"color": ("red", 'wine "dark" & <b>'), "size": ("small", "x-large")},
    description=EVIL,
    bullets=("Soft light", EVIL),
    nouns=("brass", "lamp"),
)
PLAIN = [product(f"C{number}", f"Plain lamp {number}", nouns=("plain", "lamp")) for number in range(10, 34)]
GOAL = Goal("B1", "a soft red small lamp", ("soft",), ("red", "small"), 40.0)


@dataclass(frozen=True, slots=True)
class Shop:
    url: str
    hub: Hub
    browser: Browser

    async def enter(self, *, javascript: bool = False) -> Tab:
        """A tab on the search page of a new session."""
        tab = await self.browser.tab(javascript=javascript)
        await tab.open(self.url)
        await tab.press("button", "Start shopping")
        return tab

    async def state(self, tab: Tab) -> dict[str, object]:
        """What the hub says of the tab's session."""
        return json.loads(await self.hub.request("GET", f"/v1/sessions/{await session_of(tab)}"))

    async def tool(self, tab: Tab, turn: int, name: str, **arguments: str) -> dict[str, object]:
        call = {"id": "t", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        body = {"turn": turn, "message": {"role": "assistant", "tool_calls": [call]}}
        path = f"/v1/sessions/{await session_of(tab)}/interact"
        return json.loads(await self.hub.request("POST", path, json.dumps(body).encode()))


async def session_of(tab: Tab) -> str:
    return (await tab.url()).split("/")[4]


@asynccontextmanager
async def opened(environment: WebShopEnvironment, browser: Browser) -> AsyncIterator[Shop]:
    async with served_site(environment, Settings(port=0)) as url, Hub(url) as hub:
        yield Shop(url, hub, browser)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with chromium(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    stored(folder, [LAMP, *PLAIN], {"test": [GOAL, GOAL]}).close()
    async with opened(WebShopEnvironment(open_tasks(str(folder / "catalogue"))), browser) as shop:
        yield shop


async def search(tab: Tab, words: str) -> None:
    await tab.write("searchbox", "What are you looking for?", words)
    await tab.press("button", "Search")


async def test_searching_paging_choosing_and_buying(shop: Shop) -> None:
    tab = await shop.enter()
    assert GOAL.text in await tab.text()
    await search(tab, "plain lamp")
    assert "Products 1 to 10 of" in await tab.text()
    await tab.press("button", "Next page")
    await tab.press("button", "Next page")
    assert "Page 3 of 3" in await tab.text() and "Next page ›" not in await tab.names("button")
    await tab.press("button", "‹ Previous page")
    assert "Page 2 of 3" in await tab.text()
    await tab.press("button", "‹ Back to search")
    await search(tab, "brass lamp")
    await tab.press("button", "Brass lamp")
    await tab.point("radio", "red")
    await tab.press("button", "Choose these options")
    chosen = {node.name for node in await tab.seen() if node.role == "radio" and node.checked}
    assert chosen == {"red"} and "Color: red" in await tab.names("group")
    await tab.point("radio", "small")
    for name in ("Description", "Features", "Reviews"):
        await tab.press("button", name)
        assert (await tab.find("heading", name)).level == 1
        await tab.press("button", "‹ Back to the product")
    chosen = {node.name for node in await tab.seen() if node.role == "radio" and node.checked}
    assert chosen == {"red", "small"}, "what was selected is kept while reading"
    await tab.press("button", "Buy now")
    text = await tab.text()
    assert "Thank you for shopping with us!" in text and "Kind of product" in text
    assert '<data id="score" value="1.0">1</data>' in await tab.html()
    state = await shop.state(tab)
    assert state["episode_return"] == 1.0 and state["state"] == "ended"


async def test_a_purchase_without_the_wanted_options_shows_the_parts_of_its_score(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "brass")
    await tab.press("button", "Brass lamp")
    await tab.point("radio", "wine")
    await tab.press("button", "Buy now")
    assert 'value="0.5">0.5</data>' in await tab.html()
    cells = await tab.names("cell")
    assert cells == ["100 %", "25 %", "0 %", "50 %", "100 %", "25 %", "100 %", "× 1"]
    assert (await shop.state(tab))["episode_return"] == 0.5


async def test_a_person_and_tools_take_turns_and_earn_what_tools_earn_alone(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "brass lamp")
    await shop.tool(tab, 1, "click_action", value="b1")
    await tab.reload()
    assert (await tab.find("heading", "Brass lamp")).level == 1
    await tab.point("radio", "red")
    await tab.press("button", "Choose these options")
    answer = await shop.tool(tab, 3, "click_action", value="small")
    assert "[clicked" not in json.dumps(answer) and answer["turn"] == 4
    await tab.reload()
    await tab.press("button", "Buy now")
    mixed = (await shop.state(tab))["episode_return"]
    async with shop.hub.session("webshop", "test", 0) as alone:
        await alone.interact(call("search_action", keywords="brass lamp"))
        for value in ("b1", "red", "small"):
            await alone.interact(call("click_action", value=value))
        result = await alone.interact(call("click_action", value="buy now"))
    assert mixed == result.reward == 1.0
    assert f'value="{mixed}"' in await tab.html()


def call(name: str, **arguments: str) -> Message:
    return Message.assistant(None, ToolCall("c", name, json.dumps(arguments)))


async def test_a_double_click_a_reload_and_the_way_back_play_nothing_twice(shop: Shop) -> None:
    tab = await shop.enter()
    await tab.write("searchbox", "What are you", "lamp")
    await tab.press("button", "Search", times=2)
    assert (await shop.state(tab))["turn"] == 1
    await tab.press("button", "Next page", times=3)
    await tab.reload()
    assert (await shop.state(tab))["turn"] == 2 and "Page 2 of 3" in await tab.text()
    await tab.back()
    await tab.press("button", "Next page")
    assert (await shop.state(tab))["turn"] == 2 and "Page 2 of 3" in await tab.text(), "it was played already"
    await tab.back()
    await tab.press("button", "‹ Back to search")
    assert (await shop.state(tab))["turn"] == 2 and "Page 2 of 3" in await tab.text()
    assert any("That was not done" in each for each in await alerts(tab))
    await tab.open(f"{shop.url}/s/{await session_of(tab)}/1")
    assert (await shop.state(tab))["turn"] == 2 and "Page 2 of 3" in await tab.text()
    assert any("moved on since that page was shown" in each for each in await alerts(tab))


async def test_a_page_that_tools_have_left_behind_says_so(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "lamp")
    await shop.tool(tab, 1, "search_action", keywords="brass lamp")
    await tab.press("button", "Next page")
    assert any("had already moved on" in each for each in await alerts(tab))
    assert (await shop.state(tab))["turn"] == 2 and "brass lamp" in await tab.text()


async def alerts(tab: Tab) -> list[str]:
    text = await tab.text()
    return [text] if "alert" in [node.role for node in await tab.seen()] else []


async def test_wrong_input_is_told_and_costs_nothing(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "   ")
    assert any("Type what you are looking for" in each for each in await alerts(tab))
    await search(tab, EVIL)
    assert (await shop.state(tab))["turn"] == 1
    assert EVIL in await tab.text(), "shown as what it is"


async def test_two_sessions_at_once_stay_apart(shop: Shop) -> None:
    one, two = await shop.enter(), await shop.enter()
    await search(one, "brass lamp")
    await search(two, "plain lamp")
    await one.press("button", "Brass lamp")
    await two.press("button", "Next page")
    assert "Brass lamp" in await one.text() and "Products 11 to 20" in await two.text()
    assert await session_of(one) != await session_of(two)
    assert (await shop.state(one))["turn"] == (await shop.state(two))["turn"] == 2


async def test_hostile_texts_run_nothing_even_with_javascript(shop: Shop) -> None:
    tab = await shop.enter(javascript=True)
    await search(tab, f"brass {EVIL}")
    await tab.press("button", "Brass lamp")
    for name in ("Description", "Features"):
        await tab.press("button", name)
        assert EVIL in await tab.text() and "owned</title>" not in await tab.html()
        assert "<img" not in await tab.html()
        await tab.press("button", "‹ Back to the product")


# --- the keyboard and the screen reader -------------------------------------------------------------------------------


async def to(tab: Tab, role: str, name: str, *, most: int = 40) -> list[str]:
    """Press Tab until it has the focus; what was passed."""
    passed = []
    for _ in range(most):
        await tab.key("Tab")
        focus = await tab.focus()
        assert focus is not None, f"the focus is nowhere, after {passed}"
        if focus.role == role and focus.name.startswith(name):
            return passed
        passed.append(f"{focus.role} {focus.name}")
    raise AssertionError(f"{role} {name!r} is not reached; passed {passed}")


async def enter(tab: Tab) -> None:
    async with tab.loading():
        await tab.key("Enter")


async def test_everything_can_be_done_with_the_keyboard_alone(shop: Shop) -> None:
    tab = await shop.browser.tab()
    await tab.open(shop.url)
    assert await to(tab, "link", "Skip to the content") == [], "the way past the header comes first"
    await to(tab, "button", "Start shopping")
    await enter(tab)
    await to(tab, "searchbox", "What are you looking for?")
    await tab.type("brass lamp")
    await enter(tab)
    await to(tab, "button", "Brass lamp")
    await enter(tab)
    await to(tab, "radio", "red")
    await tab.key("ArrowRight")
    assert (await tab.focus()).name.startswith("wine")
    passed = await to(tab, "radio", "small")
    assert passed == [], "one group is one stop"
    await tab.key("Space")
    await enter(tab)  # the form's first button chooses, it does not buy
    assert (await shop.state(tab))["state"] == "live"
    chosen = [node.name for node in await tab.seen() if node.role == "radio" and node.checked]
    assert sorted(chosen) == ["small", 'wine "dark" & <b>']
    await to(tab, "button", "Features")
    await enter(tab)
    await to(tab, "button", "‹ Back to the product")
    await enter(tab)
    await to(tab, "button", "Buy now")
    await enter(tab)
    assert 'id="score"' in await tab.html()
    assert (await shop.state(tab))["episode_return"] == 0.75


async def test_the_skip_link_leads_past_the_header(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "lamp")
    await to(tab, "link", "Skip to the content")
    await tab.key("Enter")
    await tab.key("Tab")
    assert (await tab.focus()).name == "‹ Back to search"


async def test_a_screen_reader_finds_landmarks_headings_and_a_name_for_every_control(shop: Shop) -> None:
    tab = await shop.enter()
    await search(tab, "lamp")
    await check_accessible(tab, landmarks={"banner", "main", "search", "contentinfo", "navigation", "region"})
    await search_again(tab, "brass")
    await tab.press("button", "Brass lamp")
    await check_accessible(tab, landmarks={"banner", "main", "search", "contentinfo", "navigation", "region"})
    assert {"Color", "Size"} <= set(await tab.names("group"))
    await tab.press("button", "Features")
    await check_accessible(tab, landmarks={"banner", "main", "contentinfo", "navigation"})
    await tab.press("button", "‹ Back to the product")
    await tab.press("button", "Buy now")
    await check_accessible(tab, landmarks={"banner", "main", "contentinfo", "region"})
    await tab.open(shop.url)
    await check_accessible(tab, landmarks={"banner", "main", "navigation", "region"})


async def search_again(tab: Tab, words: str) -> None:
    await tab.press("button", "‹ Back to search")
    await search(tab, words)


async def check_accessible(tab: Tab, *, landmarks: set[str]) -> None:
    seen = await tab.seen()
    assert landmarks <= {node.role for node in seen}
    assert [node.level for node in seen if node.role == "heading"].count(1) == 1
    controls = [node for node in seen if node.role in ("button", "link", "radio", "searchbox", "textbox", "combobox")]
    assert controls and all(node.name.strip() for node in controls)
    page = await tab.html()
    assert '<html lang="en">' in page and "<title>" in page


# --- what it looks like -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 1000])
async def test_no_page_is_wider_than_its_window(shop: Shop, width: int) -> None:
    tab = await shop.enter()
    await tab.resize(width, 800)
    await search(tab, f"lamp {'x' * 200}")
    await fits(tab, width)
    await tab.press("button", "‹ Back to search")
    await search(tab, "brass")
    await tab.press("button", "Brass lamp")
    await fits(tab, width)
    await tab.press("button", "Description")
    await fits(tab, width)
    await tab.press("button", "‹ Back to the product")
    await tab.press("button", "Buy now")
    await fits(tab, width)
    await tab.open(shop.url)
    await fits(tab, width)


async def fits(tab: Tab, width: int) -> None:
    content = (await tab.call("Page.getLayoutMetrics"))["cssContentSize"]
    assert content["width"] <= width, f"{await tab.url()} is {content['width']} wide"


async def test_pictures_of_every_kind_of_page(catalogues: Path, browser: Browser) -> None:
    """Real pixels come out; with ENVHUB_TEST_PICTURES they are kept for the documentation."""
    tasks = open_tasks("small", cache=catalogues)
    environment = WebShopEnvironment(tasks)
    task = TaskRef("webshop", "test", 1)
    wanted = environment.goal(task).asin
    pictures: dict[str, bytes] = {}
    async with opened(environment, browser) as shop:
        tab = await shop.browser.tab(width=900, height=720)
        await tab.open(f"{shop.url}/?split={task.split}&task={task.index}")
        pictures["start"] = await tab.picture()
        await tab.press("button", "Start shopping")
        pictures["search"] = await tab.picture()
        await search(tab, "ivory water bottle")
        pictures["results"] = await tab.picture()
        await tab.press("button", tasks.catalogue.product(wanted).title)
        await tab.point("radio", "ivory")
        await tab.press("button", "Choose these options")
        pictures["item"] = await tab.picture()
        await tab.press("button", "Features")
        pictures["features"] = await tab.picture()
        await tab.press("button", "‹ Back to the product")
        await tab.press("button", "Buy now")
        pictures["score"] = await tab.picture()
    for name, picture in pictures.items():
        assert picture.startswith(b"\x89PNG") and 10_000 < len(picture) < 150_000, name
    if folder := os.environ.get("ENVHUB_TEST_PICTURES"):
        for name, picture in pictures.items():
            (Path(folder) / f"webshop-{name}.png").write_bytes(picture)

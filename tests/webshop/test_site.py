"""The site over a hub of this process: pages, forms, turns played once, mixed play, hostile input, and what ends a session."""

from __future__ import annotations

import asyncio
import html
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from envhub import webshop_site as site_package
from envhub.client.hub import Hub
from envhub.config import ConfigError, Settings
from envhub.core.types import Message, StepResult, TaskRef, ToolCall
from envhub.embedded import embedded_hub
from envhub.envs.calculator import CalculatorEnvironment
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.env import OPTIONS, WebShopEnvironment
from envhub.envs.webshop.tasks import Tasks, open_tasks
from envhub.testing.clock import FakeClock
from envhub.testing.hub import served_hub
from envhub.webshop_site import sessions as sessions_module
from envhub.webshop_site.app import Pages
from envhub.webshop_site.guard import Guard
from envhub.webshop_site.serve import Offer, served_site
from envhub.webshop_site.sessions import LEASE_S, Sessions
from tests.webshop.shelves import product, stored

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
LAMP = product(
    "B1",
    f"Brass lamp {EVIL}",
    price=20.0,
    options={
        "color": ("red", 'wine "dark" & <b>', "rectangular", "same"),
        f"size{EVIL}": ("small", "same", "buy now", "search"),
    },
    description=EVIL,
    bullets=(EVIL, " ", "soft light"),
    nouns=("brass", "lamp"),
)
OTHERS = [product(f"B{number}", f"Plain lamp {number}", nouns=("plain", "lamp")) for number in range(2, 25)]
GOAL = Goal("B1", f"a soft red lamp {EVIL}", ("soft",), ("red",), 20.0)
SHAPE = Goal("B1", f"a soft rectangular lamp {EVIL}", ("soft",), {"color": "rectangular"}, 20.0)
"""The published reward misses its colour, the consistent one does not."""


@dataclass(frozen=True, slots=True)
class Site:
    http: httpx.AsyncClient
    hub: Hub
    clock: FakeClock

    async def start(self, split: str = "test", task: int = 0, **more: str) -> str:
        """The address of a new session."""
        answer = await self.http.post("/sessions", data={"split": split, "task": str(task), **more})
        assert answer.status_code == 303, heading(answer.text)
        return answer.headers["location"]

    async def send(self, address: str, turn: int, **fields: str) -> httpx.Response:
        return await self.http.post(address, data={"turn": str(turn), **fields})

    async def play(self, address: str, *actions: str) -> str:
        """``?words`` searches, anything else clicks; from the current turn on; the page that it leads to."""
        page = (await self.http.get(address)).text
        for action in actions:
            fields = {"keywords": action[1:]} if action.startswith("?") else {"click": action}
            answer = await self.send(address, turn_of(page), **fields)
            assert answer.status_code == 303, f"{action}: {notice(answer.text)}"
            page = (await self.http.get(answer.headers["location"])).text
        return page

    async def tool(self, address: str, turn: int, *calls: ToolCall) -> Mapping[str, object]:
        """A turn played through the API of the hub."""
        message = {"role": "assistant", "tool_calls": [_call(call) for call in calls]}
        body = json.dumps({"turn": turn, "message": message}).encode()
        return json.loads(await self.hub.request("POST", f"/v1/sessions/{session_of(address)}/interact", body))


def _call(call: ToolCall) -> Mapping[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def search(keywords: str) -> ToolCall:
    return ToolCall("tool", "search_action", json.dumps({"keywords": keywords}))


def click(value: str) -> ToolCall:
    return ToolCall("tool", "click_action", json.dumps({"value": value}))


def session_of(address: str) -> str:
    return address.split("/")[2]


def turn_of(page: str) -> int:
    return int(re.search(r"Steps used: <strong>(\d+)", page)[1])


def heading(page: str) -> str:
    return html.unescape(re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)[1])


def notice(page: str) -> str | None:
    found = re.search(r'role="alert">(.*?)</p>', page)
    return found and html.unescape(found[1])


def score(page: str) -> float:
    return float(re.search(r'id="score" value="([^"]+)"', page)[1])


async def sited(environment: WebShopEnvironment) -> AsyncIterator[Site]:
    clock = FakeClock()
    environments = {"webshop": environment, "calculator": CalculatorEnvironment()}
    async with embedded_hub(environments, clock=clock) as embedded:
        task = TaskRef("webshop", environment.info().default_split, 0)
        app = Guard(Pages(Sessions(embedded.hub, environment), environment, task=task).app(), loopback_only=True)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http:
            yield Site(http, embedded.hub, clock)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A shop with a hostile product among plain ones."""
    stored(tmp_path, [LAMP, *OTHERS], {"test": [GOAL], "dev": [GOAL, SHAPE]}).close()
    async for opened in sited(WebShopEnvironment(open_tasks(str(tmp_path / "catalogue")))):
        yield opened


@pytest.fixture
async def tiny_site(catalogues: Path, tiny: Tasks) -> AsyncIterator[Site]:
    async for opened in sited(WebShopEnvironment(open_tasks("tiny", cache=catalogues))):
        yield opened


# --- choosing a task ------------------------------------------------------------------------------------------------


async def test_the_start_page_shows_the_instruction_and_starts_the_task(tiny_site: Site, tiny: Tasks) -> None:
    page = (await tiny_site.http.get("/?split=dev&task=3")).text
    assert tiny.splits["dev"][3].text in html.unescape(page)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
    address = await tiny_site.start(fields["split"], int(fields["task"]), request_key=fields["request_key"])
    page = (await tiny_site.http.get(address)).text
    assert heading(page) == "Search the shop" and tiny.splits["dev"][3].text in html.unescape(page)
    assert "webshop/dev/3" in page and "0</strong> of 20" in page


async def test_starting_twice_with_one_form_makes_one_session(site: Site) -> None:
    assert await site.start(request_key="k") == await site.start(request_key="k")
    assert await site.start() != await site.start()


@pytest.mark.parametrize(
    ("query", "status"),
    [("?task=1", 404), ("?split=nowhere", 404), ("?task=x", 400), ("?task=-1", 400), ("?task=99999999999999", 400)],
)
async def test_a_task_that_is_not_there_is_a_page_that_says_so(site: Site, query: str, status: int) -> None:
    answer = await site.http.get("/" + query)
    assert answer.status_code == status and heading(answer.text)


async def test_opening_a_session_by_its_id_never_leads_elsewhere(site: Site) -> None:
    for wanted in ("//evil.example/x", "https://evil.example", "..//evil.example", "\\\\evil.example"):
        answer = await site.http.get("/open", params={"session": wanted})
        assert answer.status_code == 303 and re.match(r"/s/[^/\\]+$", answer.headers["location"])
        assert (await site.http.get(answer.headers["location"])).status_code == 404
    assert (await site.http.get("/open?session=")).status_code == 400


# --- playing --------------------------------------------------------------------------------------------------------


async def test_pages_and_tools_earn_the_same_for_the_same_actions(tiny_site: Site, tiny: Tasks) -> None:
    environment = WebShopEnvironment(tiny)
    rewards = set()
    for index in range(12):
        task = TaskRef("webshop", "test", index)
        solution = environment.solution(task)
        assert solution is not None
        episode = await environment.open(task, seed=0, options=OPTIONS)
        await episode.step(solution[0])
        first = Message.assistant(None, click(episode.state.heads[0].asin))
        messages = solution if index % 3 == 0 else [solution[0], first, solution[-1]]
        result = StepResult()
        for message in messages[1:]:
            result = await episode.step(message)
        page = await tiny_site.play(await tiny_site.start("test", index), *map(action, messages))
        assert heading(page) == "Thank you for shopping with us!" and score(page) == result.reward
        rewards.add(result.reward)
    assert len(rewards) > 3, "too few kinds of rewards to prove anything"


def action(message: Message) -> str:
    (call,) = message.tool_calls
    value = next(iter(json.loads(call.arguments).values()))
    return "?" + value if call.name == "search_action" else value


async def test_a_page_a_tool_and_a_page_play_one_session(site: Site) -> None:
    address = await site.start()
    page = await site.play(address, "?brass lamp")
    assert "Results for" in heading(page)
    answer = await site.tool(address, 1, click("b1"))
    assert "Brass lamp" in json.dumps(answer["messages"])
    page = (await site.http.get(address)).text
    assert heading(page) == LAMP.title and turn_of(page) == 2
    answer = await site.send(address, 2, option_0="red", click="buy now")
    page = (await site.http.get(answer.headers["location"])).text
    assert score(page) == 1.0
    assert page.count("on the page</span>") == 3 and page.count("by a tool</span>") == 1
    state = json.loads(await site.hub.request("GET", f"/v1/sessions/{session_of(address)}"))
    assert state["episode_return"] == 1.0 and state["turn"] == 3


async def test_options_and_a_purchase_fit_in_one_form(site: Site) -> None:
    address = await site.start()
    await site.play(address, "?brass lamp", "b1")
    answer = await site.send(address, 2, option_0='wine "dark" & <b>')
    assert answer.headers["location"] == f"{address}/3"
    page = (await site.http.get(answer.headers["location"])).text
    assert "Color: <strong>wine &#34;dark&#34; &amp; &lt;b&gt;</strong>" in page
    assert page.count(" checked") == 1 and "1</strong> of" not in page
    answer = await site.send(address, 3, option_0="red", option_1="small", click="features")
    assert heading((await site.http.get(answer.headers["location"])).text) == "Features"
    page = await site.play(address, "< prev")
    assert "Color: <strong>red</strong>" in page and ": <strong>small</strong>" in page
    assert score(await site.play(address, "buy now")) == 1.0


async def test_a_value_that_the_shop_takes_for_something_else_cannot_be_chosen(site: Site) -> None:
    page = await site.play(await site.start(), "?brass lamp", "b1")
    disabled = re.findall(r'name="option_(\d)" value="([^"]*)" disabled', page)
    assert disabled == [("0", "same"), ("1", "buy now"), ("1", "search")]


async def test_results_are_paged(site: Site) -> None:
    address = await site.start()
    page = await site.play(address, "?lamp")
    assert "Products 1 to 10 of 24" in page and "Previous page" not in page and "Next page" in page
    assert 'aria-current="page">Page 1 of 3' in page
    page = await site.play(address, "next >", "next >")
    assert "Products 21 to 24 of 24" in page and "Previous page" in page and "Next page" not in page
    await site.tool(address, 3, click("next >"))
    page = (await site.http.get(address)).text
    assert "There are no more results" in page and "Previous page" in page
    assert "Nothing was found" in await site.play(address, "?nothingofthekind")


async def test_visited_products_are_marked(site: Site) -> None:
    page = await site.play(await site.start(), "?lamp", "b10", "< prev")
    assert page.count("looked at") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("description", "onerror"), ("features", "soft light"), ("reviews", "There are no reviews yet.")],
)
async def test_what_is_said_of_a_product_has_pages_of_its_own(site: Site, name: str, text: str) -> None:
    page = await site.play(await site.start(), "?brass", "b1", name)
    assert heading(page) == name.capitalize() and text in page
    assert page.count("<li>") - page.count("<li><code>") == (2 if name == "features" else 0)


# --- once -----------------------------------------------------------------------------------------------------------


async def test_a_form_sent_twice_plays_one_turn(site: Site) -> None:
    address = await site.start()
    both = await asyncio.gather(*(site.send(address, 0, keywords="brass lamp") for _ in range(2)))
    again = await site.send(address, 0, keywords="brass lamp")
    assert {answer.headers["location"] for answer in (*both, again)} == {f"{address}/1"}
    await site.play(address, "b1", "buy now")
    again = await site.send(address, 1, click="b1")
    assert again.headers["location"] == f"{address}/2"
    page = (await site.http.get(f"{address}/2")).text
    assert turn_of(page) == 3 and heading(page).startswith("Thank you")


async def test_choosing_the_same_options_twice_plays_one_turn(site: Site) -> None:
    address = await site.start()
    await site.play(address, "?brass", "b1")
    both = await asyncio.gather(*(site.send(address, 2, option_0="red", option_1="small") for _ in range(2)))
    assert [answer.headers["location"] for answer in both] == [f"{address}/3"] * 2


async def test_two_different_forms_of_one_page_play_one_turn(site: Site) -> None:
    address = await site.start()
    both = await asyncio.gather(*(site.send(address, 0, keywords=words) for words in ("brass lamp", "plain lamp")))
    assert sorted(answer.status_code for answer in both) == [303, 409]
    assert turn_of((await site.http.get(address)).text) == 1


async def test_a_stale_page_says_kindly_that_it_is_stale(site: Site) -> None:
    address = await site.start()
    await site.play(address, "?brass lamp")
    await site.tool(address, 1, click("b1"))
    late = await site.send(address, 1, click="next >")
    assert late.status_code == 409 and heading(late.text) == LAMP.title and turn_of(late.text) == 2
    assert "had already moved on" in notice(late.text)
    old = await site.http.get(f"{address}/1")
    assert old.status_code == 200 and heading(old.text) == LAMP.title and "moved on" in notice(old.text)
    assert (await site.send(address, 7, click="buy now")).status_code == 409
    assert turn_of((await site.http.get(address)).text) == 2


# --- wrong and hostile ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"keywords": ""}, "Type what you are looking for"),
        ({"keywords": " \t\r\n "}, "Type what you are looking for"),
        ({"keywords": "x" * 301}, "at most 300 characters"),
        ({"click": "b1"}, "cannot be clicked"),
        ({"click": "search"}, "cannot be clicked"),
        ({"click": EVIL}, "cannot be clicked"),
        ({}, "Nothing new was chosen"),
        ({"option_0": "red"}, "Nothing new was chosen"),
    ],
)
async def test_a_wrong_form_costs_no_turn_and_says_what_to_do(site: Site, fields: dict[str, str], words: str) -> None:
    address = await site.start()
    answer = await site.send(address, 0, **fields)
    assert answer.status_code == 422 and words in notice(answer.text) and heading(answer.text) == "Search the shop"
    assert turn_of((await site.http.get(address)).text) == 0


@pytest.mark.parametrize("value", ["blue", "same", "buy now", EVIL])
async def test_an_option_that_is_not_offered_buys_nothing(site: Site, value: str) -> None:
    address = await site.start()
    await site.play(address, "?brass", "b1")
    answer = await site.send(address, 2, option_0=value, click="buy now")
    assert answer.status_code == 422 and "no such color" in notice(answer.text) and heading(answer.text) == LAMP.title


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"turn=x&keywords=a", 400),
        (b"keywords=a", 400),
        (b"turn=-1&keywords=a", 400),
        (b"turn=99999999999&keywords=a", 400),
        ("turn=٣&keywords=a".encode(), 400),
        (b"\xff\xfe", 400),
        (b"&".join(b"a=%d" % number for number in range(500)), 400),
        (b"turn=0&keywords=" + b"a" * 70_000, 413),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(site: Site, body: bytes, status: int) -> None:
    address = await site.start()
    answer = await site.http.post(address, content=body)
    assert answer.status_code == status and heading(answer.text)


async def test_any_bytes_can_be_searched_for(site: Site) -> None:
    address = await site.start()
    for turn, words in enumerate((b"%00%ff%ed%a0%80", b"%F0%9F%98%80", b"%3Cscript%3E", b"a+b%0D%0Ac", b"<r>")):
        answer = await site.http.post(address, content=b"turn=%d&keywords=%s" % (turn, words))
        assert answer.status_code == 303
        assert (await site.http.get(answer.headers["location"])).status_code == 200


async def test_no_text_of_a_catalogue_or_a_shopper_becomes_markup(site: Site) -> None:
    address = await site.start()
    shown = [(await site.http.get("/")).text, (await site.http.get(address)).text]
    for action in (f"?lamp {EVIL}", "b1", "description", "< prev", "features", "< prev", "buy now"):
        shown.append(await site.play(address, action))
    shown.append((await site.send(address, 7, click=EVIL)).text)
    shown.append((await site.http.get(f"/?split={EVIL}")).text)
    for page in shown:
        assert "<script" not in page.lower() and "<img" not in page.lower() and " style=" not in page.lower()
        assert "&lt;img" in page or "split" in page
    assert sum("&lt;script" in page for page in shown) == len(shown)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:2"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_form_of_another_site_is_refused(site: Site, headers: dict[str, str]) -> None:
    address = await site.start()
    answer = await site.http.post(address, data={"turn": "0", "keywords": "lamp"}, headers=headers)
    assert answer.status_code == 403
    assert (await site.http.post("/sessions", data={"task": "0"}, headers=headers)).status_code == 403
    assert turn_of((await site.http.get(address, headers=headers)).text) == 0
    own = {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-origin"}
    assert (await site.http.post(address, data={"turn": "0", "keywords": "lamp"}, headers=own)).status_code == 303


async def test_a_name_that_is_rebound_to_this_machine_is_refused(site: Site) -> None:
    for host, status in (("evil.example", 421), ("", 421), ("[::1]:80", 200), ("localhost:5", 200), ("[", 421)):
        assert (await site.http.get("/", headers={"host": host})).status_code == status


async def test_every_answer_forbids_scripts_frames_and_other_sites(site: Site) -> None:
    address = await site.start()
    await site.play(address, "?lamp")
    answers = [await site.http.get(path) for path in ("/", address, "/nowhere", "/s/none", "/shop.css", "/icon.svg")]
    answers += [await site.send(address, 0, keywords="x"), await site.http.put("/"), await site.http.get("/?task=x")]
    answers += [await site.http.get("/", headers={"host": "evil.example"})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "form-action 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        if "/shop.css" not in str(answer.url) and "/icon.svg" not in str(answer.url) and answer.status_code < 300:
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/s/none", 404),
        ("GET", "/s/none/3", 404),
        ("POST", "/s/none", 404),
        ("POST", "/s/none/leave", 404),
        ("GET", "/s/a%2F..%2Fb", 404),
        ("GET", "/s/x/../../shop.css", 404),
        ("GET", "/sessions", 405),
        ("POST", "/", 405),
        ("DELETE", "/s/none", 405),
        ("GET", "/v1/sessions", 404),
        ("HEAD", "/", 200),
    ],
)
async def test_unknown_pages_and_wrong_methods(site: Site, method: str, path: str, status: int) -> None:
    answer = await site.http.request(method, path, content=b"turn=0&keywords=a" if method == "POST" else None)
    assert answer.status_code == status or (path.endswith("shop.css") and answer.status_code == 200)


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_two_sessions_at_once_do_not_mix(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_MOST_MIRRORS", 1)
    one, two = await site.start(), await site.start("dev", 1)
    await asyncio.gather(site.play(one, "?brass lamp", "b1"), site.play(two, "?plain lamp", "b17", "features"))
    page = (await site.http.get(one)).text
    assert heading(page) == LAMP.title and session_of(two) not in page and "webshop/test/0" in page
    page = (await site.http.get(two)).text
    assert heading(page) == "Features" and "Plain lamp 17" in page and "webshop/dev/1" in page


async def test_a_session_that_expired_says_what_happened(site: Site) -> None:
    address = await site.start()
    await site.play(address, "?lamp")
    await site.clock.advance(LEASE_S + 30)
    answer = await site.http.get(address)
    assert answer.status_code == 200 and heading(answer.text) == "The session is over"
    assert "idle for more than 1800 s" in answer.text and "<form" not in answer.text
    late = await site.send(address, 1, click="b1")
    assert late.status_code == 409 and "this session is over" in notice(late.text)


async def test_the_last_step_ends_the_session_with_score_0(site: Site) -> None:
    address = await site.start()
    page = await site.play(address, *(["?lamp"] * 20))
    assert heading(page) == "The session is over" and "All the steps of this task are used up" in page


async def test_leaving_ends_the_session_once(site: Site) -> None:
    address = await site.start()
    for _ in range(2):
        answer = await site.http.post(f"{address}/leave")
        assert answer.status_code == 303 and answer.headers["location"] == address
    page = (await site.http.get(address)).text
    assert heading(page) == "The session is over" and "left by the shopper" in page


async def test_what_tools_say_wrongly_changes_nothing_and_is_told(site: Site) -> None:
    address = await site.start()
    await site.tool(address, 0, search("brass lamp"), click("b1"), click("red"))
    page = (await site.http.get(address)).text
    assert heading(page) == LAMP.title and "Color: <strong>red</strong>" in page and notice(page) is None
    bad = [ToolCall("t", "click_action", "{"), ToolCall("t", "nothing", "[1]"), ToolCall("t", "click_action", "null")]
    for turn, calls in enumerate([[click(EVIL)], bad, []], start=1):
        await site.tool(address, turn, *calls)
        page = (await site.http.get(address)).text
        assert heading(page) == LAMP.title and notice(page) == "The last step changed nothing."
    assert score(await site.play(address, "buy now")) == 1.0


@pytest.mark.parametrize(("n_words", "shown"), [(800, "Products 1 to 10"), (20_000, "at most 4000 characters")])
async def test_a_call_of_any_length_makes_a_page_of_bounded_length(site: Site, n_words: int, shown: str) -> None:
    address = await site.start()
    answer = await site.tool(address, 0, search("lamp " * n_words))
    page = (await site.http.get(address)).text
    assert shown in page + json.dumps(answer["messages"]) and len(page) < 40_000


@pytest.mark.parametrize(("mode", "reward", "options"), [("webshop", 2 / 3, "0 %"), ("consistent", 1.0, "100 %")])
async def test_a_session_keeps_its_options_and_its_limits(site: Site, mode: str, reward: float, options: str) -> None:
    async with site.hub.session("webshop", "dev", 1, options={"reward_mode": mode, "max_turns": 5}) as session:
        address = f"/s/{session.id}"
        assert "0</strong> of 5" in (await site.http.get(address)).text
        await session.interact(Message.assistant(None, search("brass"), click("b1"), click("rectangular")))
        page = await site.play(address, "buy now")
    assert score(page) == reward
    assert re.search(r"Options<.*?<td>(.*?)</td>", page, re.DOTALL)[1] == options


async def test_a_session_without_a_shop_is_refused(site: Site) -> None:
    async with site.hub.session("calculator") as session:
        answer = await site.http.get(f"/s/{session.id}")
    assert answer.status_code == 400 and "which has no shop" in answer.text


async def test_a_session_of_another_catalogue_is_refused(site: Site, tiny: Tasks) -> None:
    address = await site.start()
    other = WebShopEnvironment(tiny)
    app = Pages(Sessions(site.hub, other), other, task=TaskRef("webshop", "test", 0)).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:1") as http:
        answer = await http.get(address)
    assert answer.status_code == 400 and "another catalogue" in answer.text


# --- looks ----------------------------------------------------------------------------------------------------------


def test_texts_and_edges_stand_out_from_what_is_behind_them() -> None:
    style = (Path(site_package.__file__).parent / "static" / "shop.css").read_text("utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", style))
    for front, behind in (
        ("ink", "paper"),
        ("soft", "paper"),
        ("main", "tint"),
        ("main-dark", "tint"),
        ("ink", "warm"),
    ):
        assert contrast(colours[front], colours[behind]) >= 4.5, (front, behind)
    assert contrast("#ffffff", colours["main"]) >= 4.5
    (focus,) = set(re.findall(r":focus-visible[^{]*{ outline: 3px solid (#\w+)", style))
    for behind in ("paper", "card", "tint"):
        assert contrast(focus, colours[behind]) >= 3 and contrast(colours["edge"], colours["card"]) >= 3


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, 1.4.3."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# --- serving --------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(catalogues: Path, tiny: Tasks) -> WebShopEnvironment:
    """Of its own, as the site closes what it serves."""
    return WebShopEnvironment(open_tasks("tiny", cache=catalogues))


async def test_the_site_and_the_api_of_its_hub_have_one_address(environment: WebShopEnvironment) -> None:
    async with (
        served_site(environment, Settings(port=0), offer=Offer("dev", 2)) as url,
        Hub(url) as hub,
        httpx.AsyncClient(base_url=url) as http,
    ):
        assert "Task 2 of dev" in (await http.get("/")).text
        async with hub.session("webshop", "dev", 2) as session:
            await session.interact(Message.assistant(None, search("red")))
            assert heading((await http.get(f"/s/{session.id}")).text) == "Results for “red”"


async def test_the_site_stands_in_front_of_a_running_hub(environment: WebShopEnvironment, catalogues: Path) -> None:
    own = WebShopEnvironment(open_tasks("tiny", cache=catalogues))
    async with (
        served_hub({"webshop": environment}) as served,
        served_site(own, Settings(port=0, hub=served.url)) as url,
        httpx.AsyncClient(base_url=url) as http,
        served.hub.session("webshop", "test", 0) as session,
    ):
        assert heading((await http.get(f"/s/{session.id}")).text) == "Search the shop"
        assert (await http.get("/v1/environments")).status_code == 404
        await http.post(f"/s/{session.id}", data={"turn": "0", "keywords": "red"})
        answer = await served.hub.request("GET", f"/v1/sessions/{session.id}")
        assert json.loads(answer)["turn"] == 1


@pytest.mark.parametrize("offer", [Offer("nowhere"), Offer("test", 10**6), Offer("test", -1)])
async def test_an_offer_that_is_not_there_is_refused(environment: WebShopEnvironment, offer: Offer) -> None:
    with pytest.raises(ConfigError, match="valid: "):
        async with served_site(environment, Settings(port=0), offer=offer):
            pass
    await environment.close()


async def test_the_site_is_not_opened_to_others_without_keys(environment: WebShopEnvironment) -> None:
    with pytest.raises(ValueError, match="without keys"):
        async with served_site(environment, Settings(port=0, host="0.0.0.0")):
            pass
    await environment.close()


@pytest.mark.slow
async def test_the_command_serves_until_it_is_told_to_stop(catalogues: Path, tiny: Tasks, tmp_path: Path) -> None:
    words = ["webshop", "serve", "--catalogue", "tiny", "--cache", str(catalogues), "--port", "0", "--task", "4"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "envhub.cli", *words, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    url = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
    async with httpx.AsyncClient() as http:
        assert "Task 4 of test" in (await http.get(url)).text
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0

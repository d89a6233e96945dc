"""Pages and moves: every rule of the shop, every observation mode, and what no action can do."""

from __future__ import annotations

import gc
import tracemalloc
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.envs.webshop.pages import Page, State, nodes
from envhub.envs.webshop.published import TextEpisode, parse_action
from envhub.envs.webshop.shop import Move, ObservationMode, Shop
from tests.webshop.small_shop import CROWD, GOAL, PRODUCTS, SHIRT, TRICKY, MemoryCatalogue

SHOP = Shop(MemoryCatalogue(PRODUCTS))
START = SHOP.enter(GOAL)


def at(*actions: str, shop: Shop = SHOP, start: State = START) -> State:
    """Searches for what begins with ``?``, clicks all else; every action must be valid."""
    state = start
    for action in actions:
        move = shop.search(state, action[1:]) if action.startswith("?") else shop.click(state, action)
        assert move.valid, (action, move.problem)
        state = move.state
    return state


SHIRT_PAGE = at("?cotton", SHIRT.asin)
TRICKY_PAGE = at("?tricky", TRICKY.asin)


def test_search_works_on_every_page() -> None:
    for state in (
        START,
        at("?mug"),
        SHIRT_PAGE,
        at("?cotton", SHIRT.asin, "features"),
        at("?cotton", SHIRT.asin, "buy now"),
    ):
        found = SHOP.search(state, "Stone Cotton").state
        assert (found.page, found.number, found.keywords) == (Page.RESULTS, 1, ("stone", "cotton"))
        assert [head.asin for head in found.heads] == ["B0SHIRT001", "B0MUG00001"]
        assert (found.product, dict(found.options)) == (None, {})


def test_empty_search_is_refused_and_blank_search_finds_nothing() -> None:
    refused = SHOP.search(SHIRT_PAGE, "")
    assert (refused.state, refused.problem) == (SHIRT_PAGE, "The search needs keywords.")
    blank = at("? ")
    assert SHOP.clickables(blank) == ("back to search", "next >")
    assert "Page 1 (Total results: 0)" in SHOP.observe(blank)


def test_paging_has_no_end_and_goes_back() -> None:
    first = at("?plain")
    assert "< prev" not in SHOP.clickables(first)
    last = at(*["next >"] * 4, start=first)
    assert (last.number, len(last.heads)) == (5, 10)
    beyond = at("next >", "NEXT >", start=last)
    assert (beyond.number, beyond.heads) == (7, ())
    assert SHOP.clickables(beyond) == ("back to search", "< prev", "next >")
    assert at("< prev", "< prev", start=beyond) == last


def test_previous_of_an_item_is_its_page_of_results_without_options() -> None:
    results = at("?plain", "next >")
    item = at(results.heads[3].asin.lower(), start=results)
    assert (item.item, item.number) == (CROWD[13], 2)
    assert at("< prev", start=item).heads == results.heads
    assert dict(at("small", "< prev", start=SHIRT_PAGE).options) == {}


def test_back_to_search_forgets_everything() -> None:
    assert at("small", "features", "back to search", start=SHIRT_PAGE) == START


def test_options_stay_through_sub_pages_and_replace_each_other() -> None:
    state = at("small", "navy blue", "description", "< prev", "features", "< prev", start=SHIRT_PAGE)
    assert dict(state.options) == {"size": "small", "color": "navy blue"}
    assert dict(at("X-LARGE", "x-large", start=state).options) == {"size": "x-large", "color": "navy blue"}


def test_b048_values_with_brackets_quotes_and_capitals_can_be_clicked() -> None:
    assert dict(at("12 oz [pack of 2]", start=SHIRT_PAGE).options) == {"color": "12 oz [pack of 2]"}
    assert dict(at('Wine "Dark"', start=SHIRT_PAGE).options) == {"color": 'wine "dark"'}
    assert dict(at("Über GROß", "it's", start=TRICKY_PAGE).options) == {"style": "über groß", "other": "it's"}


def test_a_button_wins_over_an_option_of_its_name_and_the_last_group_over_others() -> None:
    assert dict(at("same", "next >", start=TRICKY_PAGE).options) == {"other": "same", "style": "next >"}
    assert at("description", start=TRICKY_PAGE).sub_page == "Description"
    assert at("attributes", start=TRICKY_PAGE).sub_page == "Attributes"
    assert SHOP.click(TRICKY_PAGE, "buy now").bought
    assert "search" in SHOP.clickables(TRICKY_PAGE) and "search" not in SHOP.values(TRICKY_PAGE)


@pytest.mark.parametrize(
    ("state", "value", "problem"),
    [
        (START, "search", "Nothing can be clicked on the search page: search for keywords."),
        (START, "buy now", "Nothing can be clicked on the search page: search for keywords."),
        (at("?mug"), "search", "There is no search button on this page: search for keywords, or go back to search."),
        (at("?mug"), "< prev", "There is nothing called '< prev' to click on this page."),
        (at("?mug"), "B0SHIRT001", "There is nothing called 'b0shirt001' to click on this page."),
        (SHIRT_PAGE, "attributes", "There is nothing called 'attributes' to click on this page."),
        (SHIRT_PAGE, "small\n", "There is nothing called 'small\\n' to click on this page."),
        (SHIRT_PAGE, "", "There is nothing called '' to click on this page."),
        (at("?cotton", SHIRT.asin, "buy now"), "buy now", "Nothing can be clicked here: the purchase is made."),
    ],
)
def test_an_invalid_click_says_why_and_changes_nothing(state: State, value: str, problem: str) -> None:
    assert SHOP.click(state, value) == Move(state, 0.0, False, problem)


def test_backdoor_keywords_are_ordinary_words() -> None:
    for keyword in ("<r>", "<c> fashion", "<q> mugs", "<a> x y"):
        assert SHOP.search(START, keyword).state.page is Page.RESULTS
    assert at("?<r>").rows == ()


def test_purchase_ends_with_its_score_and_shopping_may_go_on() -> None:
    bought = SHOP.click(at("small", "navy blue", start=SHIRT_PAGE), "Buy Now")
    assert (bought.reward, bought.bought, bought.state.page) == (1.0, True, Page.DONE)
    assert bought.state.score is not None and bought.state.score.r_option == 1.0
    assert SHOP.values(bought.state) == ()
    again = at("?cotton", SHIRT.asin, start=bought.state)
    assert SHOP.click(again, "buy now").reward == 0.5


def test_states_are_values_so_going_on_twice_is_a_fork() -> None:
    small, large = at("small", start=SHIRT_PAGE), at("x-large", start=SHIRT_PAGE)
    assert (dict(SHIRT_PAGE.options), dict(small.options)) == ({}, {"size": "small"})
    assert dict(large.options) == {"size": "x-large"}


def test_attributes_page_is_there_on_demand() -> None:
    shop = Shop(MemoryCatalogue(PRODUCTS), show_attributes=True)
    assert "attributes" in shop.clickables(SHIRT_PAGE)
    assert "[button] Attributes [button_]" in shop.observe(SHIRT_PAGE, "text_rich")
    page = shop.observe(at("attributes", shop=shop, start=SHIRT_PAGE))
    assert page.endswith(
        "< Prev [SEP] machine wash [SEP] long sleeve [SEP] fashion [SEP] men's shirts [SEP] Clothing › Men › Shirts"
    )


def test_text_of_sub_pages() -> None:
    start = f"Instruction: [SEP] {GOAL.text} [SEP] Back to Search [SEP] < Prev"
    assert (
        SHOP.observe(at("features", start=SHIRT_PAGE)) == f"{start} [SEP] Easy to iron [SEP]  [SEP] Breathable fabric"
    )
    assert SHOP.observe(at("reviews", start=SHIRT_PAGE)) == start
    assert SHOP.observe(at("?stone", "B0MUG00001", "description")) == start


def test_rich_text_shows_what_was_clicked() -> None:
    page = SHOP.observe(at("small", "navy blue", start=SHIRT_PAGE), "text_rich")
    assert page.startswith("You have clicked navy blue.\nYou have clicked small.\nInstruction:\n")
    assert "  [clicked button] small [clicked button_]\n  [button] x-large [button_]\n" in page
    results = SHOP.observe(at("small", "?cotton", start=SHIRT_PAGE), "text_rich")
    assert "\n\n[clicked button] B0SHIRT001 [clicked button_]\nHarbour Cotton Shirt\n" in results


def test_every_visited_item_is_marked() -> None:
    results = at("?mug", "B0MUG00001", "< prev", CROWD[0].asin, "< prev")
    assert SHOP.observe(results, "text_rich").count("[clicked button]") == 2


def test_purchase_page_writes_options_sorted_and_script_safe() -> None:
    done = at("über groß", "it's", "buy now", start=TRICKY_PAGE)
    assert 'options [SEP] {"other": "it\\u0027s", "style": "\\u00fcber gro\\u00df"} [SEP] attrs' in SHOP.observe(done)


def test_rich_text_finds_quoted_values_in_the_address_only() -> None:
    quoted = SHOP.observe(at('wine "dark"', start=SHIRT_PAGE), "text_rich")
    assert "clicked" not in quoted
    searched = SHOP.observe(at('?cotton "small"', SHIRT.asin), "text_rich")
    assert searched.startswith("You have clicked small.\n")


@pytest.mark.parametrize(
    ("actions", "address"),
    [
        ((), "7"),
        (("?big mug", "next >"), "search_results/7/big+mug/2"),
        (("?cotton", SHIRT.asin, "small"), 'item_page/7/B0SHIRT001/cotton/1/{"size": "small"}'),
        (("?cotton", SHIRT.asin, "small", "reviews"), "item_sub_page/7/B0SHIRT001/cotton/1/Reviews/{'size': 'small'}"),
        (("?cotton", SHIRT.asin, "small", "buy now"), "done/7/B0SHIRT001/{'size': 'small'}"),
    ],
)
def test_addresses(actions: tuple[str, ...], address: str) -> None:
    state = at(*actions, start=SHOP.enter(GOAL, "7"))
    assert SHOP.observe(state, "url") == f"http://127.0.0.1:3000/{address}"


class _Visible(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.split("<body>")[1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


@pytest.mark.parametrize(
    "state",
    [
        START,
        at("?mug", "next >"),
        SHIRT_PAGE,
        TRICKY_PAGE,
        at("?cotton", SHIRT.asin, "description"),
        at("?cotton", SHIRT.asin, "features"),
        at("?tricky", TRICKY.asin, "it's", "buy now"),
    ],
)
def test_html_holds_the_same_text_and_marks_what_can_be_clicked(state: State) -> None:
    page = _Visible(SHOP.observe(state, "html"))
    assert page.texts == [node.text.strip() for node in nodes(state) if node.text.strip()]
    marked = [attributes for _, attributes in page.elements if attributes.get("class") in ("btn", "product-link")]
    values = [attributes["value"] for _, attributes in page.elements if attributes.get("type") == "radio"]
    names = [node.text.lower() for node in nodes(state) if node.role in ("button", "item")]
    assert len(marked) == len(names)
    assert {*names, *values} == set(SHOP.clickables(state))
    assert any(attributes.get("id") == "search_input" for _, attributes in page.elements) == (state.page is Page.SEARCH)


def test_html_checks_the_chosen_option() -> None:
    page = _Visible(SHOP.observe(at("small", start=SHIRT_PAGE), "html"))
    radios = [attributes for _, attributes in page.elements if attributes.get("type") == "radio"]
    assert [radio["value"] for radio in radios if "checked" in radio] == ["small"]


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[red dress] trailing", ("search", "red dress")),
        ("click[12 oz [pack of 2]]", ("click[12 oz ", "pack of 2]")),
        ("search[]", ("search[]", None)),
        ("search[a\nb]", ("search[a\nb]", None)),
        ("hello", ("hello", None)),
        ("", ("", None)),
    ],
)
def test_b048_published_action_syntax_keeps_its_quirks(action: str, parsed: tuple[str, str | None]) -> None:
    assert parse_action(action) == parsed
    episode = TextEpisode(SHOP, GOAL)
    episode.step("search[mug]")
    before = episode.state
    assert episode.step(action).reward == 0.0
    assert (episode.state == before) == (parsed[0] != "search")


def test_history_goes_before_the_page_latest_last() -> None:
    episode = TextEpisode(SHOP, GOAL, n_past_observations=1, n_past_actions=2)
    first = episode.page
    assert episode.step("search[stone]").observation == " [SEP] ".join([first, "search[stone]", episode.page])
    second = episode.page
    observation = episode.step("click[b0mug00001]").observation
    assert observation == " [SEP] ".join(["search[stone]", second, "click[b0mug00001]", episode.page])
    assert TextEpisode(SHOP, GOAL).step("search[stone]").observation == second


@pytest.mark.slow
def test_b048_played_sessions_leave_nothing_behind() -> None:
    def play(n_sessions: int) -> int:
        for number in range(n_sessions):
            state = at("?cotton", SHIRT.asin, "small", "features", "< prev", start=SHOP.enter(GOAL, str(number)))
            assert SHOP.click(state, "buy now").bought and SHOP.observe(state)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = play(100)
        assert play(3000) - before < 20_000
    finally:
        tracemalloc.stop()


ACTIONS = st.one_of(
    st.tuples(st.just("search"), st.sampled_from(["mug", "shirt", "plain", "cotton", " ", "", "<r>", "zzz"])),
    st.tuples(
        st.just("click"), st.one_of(st.text(max_size=8), st.sampled_from(["buy now", "same", "Small", "< prev"]))
    ),
    st.tuples(st.just("valid"), st.integers(0, 50)),
)
MODES: tuple[ObservationMode, ...] = ("text", "text_rich", "url", "html")


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_any_actions_keep_the_rules(actions: list[tuple[str, str | int]]) -> None:
    state = START
    for kind, what in actions:
        values = SHOP.values(state)
        if kind == "valid":
            move = SHOP.click(state, values[int(what) % len(values)]) if values else SHOP.search(state, "shirt")
            assert move.valid
        elif kind == "search":
            move = SHOP.search(state, str(what))
        else:
            move = SHOP.click(state, str(what))
            assert move.valid == (str(what).lower() in values)
        if move.valid:
            assert 0.0 <= move.reward <= 1.0 and move.bought == (move.state.page is Page.DONE)
        else:
            assert move.state is state and not move.bought and move.reward == 0.0
        if {state.page, move.state.page} <= {Page.ITEM, Page.SUB_PAGE, Page.DONE}:
            assert state.options.keys() <= move.state.options.keys()
        state = move.state
        for value in SHOP.values(state):
            assert SHOP.click(state, value.upper() if value.upper().lower() == value else value).valid
        assert all(isinstance(SHOP.observe(state, mode), str) for mode in MODES[:3])
    assert SHOP.observe(state, "html").startswith("<!DOCTYPE html>")

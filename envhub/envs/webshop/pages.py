"""What a shopper sees: the pages of a session, what can be clicked on them, and how they read as text.

Invariant: a page is a pure function of its ``State``; its texts and its clickables equal those of the original's pages, in the
same order. States are values: keeping one is a snapshot, going on from one twice is a fork.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from envhub.envs.webshop.catalogue import Goal, Head, Product
from envhub.envs.webshop.reward import Score

PAGE_SIZE = 10
BASE_URL = "http://127.0.0.1:3000"
"""Where the original's pages seem to lie; part of the ``url`` observation."""

SEARCH_BUTTON = "search"
BACK_TO_SEARCH = "back to search"
PREVIOUS = "< prev"
NEXT = "next >"
BUY_NOW = "buy now"
SUB_PAGES: Mapping[str, str] = MappingProxyType(
    {name.lower(): name for name in ("Description", "Features", "Reviews", "Attributes")}
)
"""Button text in lower case to the name of the page it opens."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Page(StrEnum):
    SEARCH = "index"
    RESULTS = "search_results"
    ITEM = "item_page"
    SUB_PAGE = "item_sub_page"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class State:
    """Where a session stands. ``rows`` are all results of ``keywords``; ``number`` is the page of them, from 1, and is kept
    while an item is looked at. ``options`` are the chosen values by group, in the order of the first choices. ``visited`` are the
    items opened since the last return to the search page. ``score`` judges the last purchase.
    """

    goal: Goal
    session: str = "0"
    page: Page = Page.SEARCH
    keywords: tuple[str, ...] = ()
    number: int = 0
    rows: tuple[int, ...] = ()
    heads: tuple[Head, ...] = ()
    product: Product | None = None
    sub_page: str = ""
    options: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    visited: frozenset[str] = frozenset()
    score: Score | None = None

    @property
    def item(self) -> Product:
        """The product of an item page, of its sub pages, and of the page after its purchase."""
        if self.product is None:
            raise LookupError(f"the page {self.page} shows no single product")
        return self.product


class Role(StrEnum):
    TEXT = "text"
    BUTTON = "button"
    ITEM = "item"
    OPTION = "option"


class Node(NamedTuple):
    """A piece of visible text, with the white space that the original's markup gives it."""

    role: Role
    text: str


def clickables(state: State, *, show_attributes: bool = False) -> tuple[str, ...]:
    """In lower case: buttons, then items, then option values; each once. The search button is listed but wants keywords."""
    match state.page:
        case Page.SEARCH:
            return (SEARCH_BUTTON,)
        case Page.RESULTS:
            turning = (PREVIOUS, NEXT) if state.number > 1 else (NEXT,)
            return (BACK_TO_SEARCH, *turning, *dict.fromkeys(head.asin.lower() for head in state.heads))
        case Page.ITEM:
            shown = [name for name in SUB_PAGES if show_attributes or name != "attributes"]
            values = (value for values in state.item.options.values() for value in values)
            return tuple(dict.fromkeys((BACK_TO_SEARCH, PREVIOUS, *shown, BUY_NOW, *values)))
        case Page.SUB_PAGE:
            return (BACK_TO_SEARCH, PREVIOUS)
        case Page.DONE:
            return ()


def nodes(state: State, *, show_attributes: bool = False) -> list[Node]:
    """The visible text of the page, top to bottom; what the original's parser would not see is left out."""
    found = _BODIES[state.page](state, show_attributes)
    return [node for node in found if node.text and node.text != "\n"]


def text(state: State, *, show_attributes: bool = False) -> str:
    return " [SEP] ".join(node.text.strip() for node in nodes(state, show_attributes=show_attributes))


def text_rich(state: State, *, show_attributes: bool = False) -> str:
    """One node a line, clickable ones marked, chosen options said again on top (the last group's first)."""
    lines: list[str] = []
    chosen: list[str] = []
    address = url(state)
    for role, content in nodes(state, show_attributes=show_attributes):
        match role:
            case Role.BUTTON:
                lines.append(f"[button] {content} [button_]\n")
            case Role.OPTION if f'"{content}"' in address:
                lines.append(f"  [clicked button] {content} [clicked button_]\n")
                chosen.append(f"You have clicked {content}.\n")
            case Role.OPTION:
                lines.append(f"  [button] {content} [button_]\n")
            case Role.ITEM:
                clicked = "clicked " if content in state.visited else ""
                lines.append(f"\n[{clicked}button] {content} [{clicked}button_]\n")
            case Role.TEXT:
                lines.append(f"{content}\n")
    return "".join((*reversed(chosen), *lines))


def url(state: State) -> str:
    """The original's address of the page."""
    start = f"{BASE_URL}/{state.page}/{state.session}"
    words = "+".join(state.keywords)
    match state.page:
        case Page.SEARCH:
            return f"{BASE_URL}/{state.session}"
        case Page.RESULTS:
            return f"{start}/{words}/{state.number}"
        case Page.ITEM:
            return f"{start}/{state.item.asin}/{words}/{state.number}/{json.dumps(dict(state.options))}"
        case Page.SUB_PAGE:
            return f"{start}/{state.item.asin}/{words}/{state.number}/{state.sub_page}/{dict(state.options)}"
        case Page.DONE:
            return f"{start}/{state.item.asin}/{dict(state.options)}"


def _plain(*texts: str) -> Iterator[Node]:
    return (Node(Role.TEXT, content) for content in texts)


def _top(state: State, *buttons: str) -> Iterator[Node]:
    yield from _plain("Instruction:", state.goal.text)
    yield Node(Role.BUTTON, "Back to Search")
    for button in buttons:
        yield Node(Role.BUTTON, button)


def _search(state: State, show_attributes: bool) -> Iterator[Node]:
    yield from _plain("WebShop", "Instruction: ", state.goal.text)
    yield Node(Role.BUTTON, "Search")


def _results(state: State, show_attributes: bool) -> Iterator[Node]:
    yield from _top(state)
    yield Node(Role.TEXT, f"Page {state.number} (Total results: {len(state.rows)})")
    if state.number > 1:
        yield Node(Role.BUTTON, "< Prev")
    yield Node(Role.BUTTON, "Next >")
    for head in state.heads:
        yield Node(Role.ITEM, head.asin)
        yield from _plain(head.title, head.price_tag)


def _item(state: State, show_attributes: bool) -> Iterator[Node]:
    product = state.item
    yield from _top(state, "< Prev")
    for group, values in product.options.items():
        yield Node(Role.TEXT, group)
        for value in values:
            yield Node(Role.OPTION, value)
    yield from _plain(product.title, f"Price: {product.price_tag}", "Rating: N.A.")
    for name in SUB_PAGES.values():
        if show_attributes or name != "Attributes":
            yield Node(Role.BUTTON, name)
    yield Node(Role.BUTTON, "Buy Now")


def _sub_page(state: State, show_attributes: bool) -> Iterator[Node]:
    product = state.item
    yield from _top(state, "< Prev")
    match state.sub_page:
        case "Description":
            yield from _plain(product.description)
        case "Features":
            yield from _plain(*(f" {bullet}" for bullet in product.bullets))
        case "Attributes":
            yield from _plain(*(f" {attribute}" for attribute in product.attributes))
            yield from _plain(product.category, product.query, product.categories)


def _done(state: State, show_attributes: bool) -> Iterator[Node]:
    """The original fills in hardly any of its fields."""
    score = "None" if state.score is None else str(state.score.total)
    unknown = (line for name in ("attrs", "category", "query", "product category") for line in (name, "None"))
    yield from _plain("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)")
    yield from _plain("Purchased", "asin", state.item.asin, "options", _script_json(state.options), *unknown)
    yield from _plain("Target", "asin", "options", "attrs", "price upper", "instuction text")
    yield from _plain("category", "product category", "query", "Goal ", "None")
    yield from _plain("Reward", "Your score (min 0.0, max 1.0)", score, "Reward Details ", "None")


def _script_json(options: Mapping[str, str]) -> str:
    """Sorted, and safe inside a script element, as the original's templates write it."""
    encoded = json.dumps(dict(options), sort_keys=True)
    for character in "<>&'":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return encoded


_BODIES: Mapping[Page, Callable[[State, bool], Iterator[Node]]] = {
    Page.SEARCH: _search,
    Page.RESULTS: _results,
    Page.ITEM: _item,
    Page.SUB_PAGE: _sub_page,
    Page.DONE: _done,
}


def page_rows(rows: Sequence[int], number: int) -> Sequence[int]:
    """The results on one page; none beyond the last."""
    return rows[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]

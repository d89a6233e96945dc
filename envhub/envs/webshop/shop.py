"""The shop: how actions lead from page to page, and what a purchase earns.

Invariant: an action either is valid and gives the next state, or says why not and leaves the state as it was; no text raises. The
same state and action always give the same next state. There is no limit on steps, and a purchase does not end a session: its owner
ends it, or goes on (the original lets one search again).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from envhub.envs.webshop import pages
from envhub.envs.webshop.catalogue import Catalogue, Goal, Product
from envhub.envs.webshop.markup import page_html
from envhub.envs.webshop.pages import Page, State
from envhub.envs.webshop.reward import RewardMode, judge

ObservationMode = Literal["text", "text_rich", "html", "url"]


@dataclass(frozen=True, slots=True)
class Move:
    """``problem`` says why the action was not valid; then ``state`` is the one before. ``bought`` is true for a purchase only."""

    state: State
    reward: float = 0.0
    bought: bool = False
    problem: str = ""

    @property
    def valid(self) -> bool:
        return not self.problem


@dataclass(frozen=True, slots=True)
class Shop:
    """One for all sessions of a catalogue; it keeps nothing of them."""

    catalogue: Catalogue
    reward_mode: RewardMode = "webshop"
    show_attributes: bool = False

    def enter(self, goal: Goal, session: str = "0") -> State:
        """``session`` is a name for addresses only."""
        return State(goal, session)

    def observe(self, state: State, mode: ObservationMode = "text") -> str:
        match mode:
            case "text":
                return pages.text(state, show_attributes=self.show_attributes)
            case "text_rich":
                return pages.text_rich(state, show_attributes=self.show_attributes)
            case "html":
                return page_html(state, show_attributes=self.show_attributes)
            case "url":
                return pages.url(state)

    def clickables(self, state: State) -> tuple[str, ...]:
        """As the original lists them; ``search`` among them is a button that does nothing without keywords."""
        return pages.clickables(state, show_attributes=self.show_attributes)

    def values(self, state: State) -> tuple[str, ...]:
        """Exactly what ``click`` accepts now, apart from capitals."""
        return tuple(value for value in self.clickables(state) if value != pages.SEARCH_BUTTON)

    def search(self, state: State, keywords: str) -> Move:
        """From any page. Blank keywords find nothing; only empty ones are refused."""
        if not keywords:
            return Move(state, problem="The search needs keywords.")
        words = tuple(keywords.lower().split(" "))
        found = replace(state, keywords=words, rows=tuple(self.catalogue.search(words)))
        return Move(self._results(found, number=1))

    def click(self, state: State, value: str) -> Move:
        """``value`` must be one of ``values``, in any capitals."""
        clicked = value.lower()
        if clicked not in self.values(state):
            return Move(state, problem=_refusal(state, clicked))
        if clicked == pages.BACK_TO_SEARCH:
            return Move(State(state.goal, state.session, score=state.score))
        match state.page:
            case Page.RESULTS:
                return Move(self._from_results(state, clicked))
            case Page.SUB_PAGE:
                return Move(replace(state, page=Page.ITEM, sub_page=""))
            case _:
                return self._from_item(state, clicked)

    def _from_results(self, state: State, clicked: str) -> State:
        if clicked == pages.NEXT:
            return self._results(state, number=state.number + 1)
        if clicked == pages.PREVIOUS:
            return self._results(state, number=state.number - 1)
        asin = next(head.asin for head in state.heads if head.asin.lower() == clicked)
        product = self.catalogue.product(asin)
        return replace(state, page=Page.ITEM, product=product, heads=(), visited=state.visited | {asin})

    def _from_item(self, state: State, clicked: str) -> Move:
        """A button wins over an option value of the same text."""
        if clicked == pages.BUY_NOW:
            return self._buy(state)
        if clicked == pages.PREVIOUS:
            return Move(self._results(state, number=state.number))
        if clicked in pages.SUB_PAGES:
            return Move(replace(state, page=Page.SUB_PAGE, sub_page=pages.SUB_PAGES[clicked]))
        options = MappingProxyType({**state.options, _group(state.item, clicked): clicked})
        return Move(replace(state, options=options))

    def _results(self, state: State, *, number: int) -> State:
        """Leaves any item and its options behind; visited items stay marked."""
        heads = tuple(self.catalogue.heads(pages.page_rows(state.rows, number)))
        nothing: Mapping[str, str] = MappingProxyType({})
        return replace(state, page=Page.RESULTS, number=number, heads=heads, product=None, sub_page="", options=nothing)

    def _buy(self, state: State) -> Move:
        target = self.catalogue.product(state.goal.asin)
        score = judge(state.item, state.options, state.goal, target, mode=self.reward_mode)
        return Move(replace(state, page=Page.DONE, score=score), reward=score.total, bought=True)


def _group(product: Product, value: str) -> str:
    """The last group that has the value."""
    return next(group for group in reversed(tuple(product.options)) if value in product.options[group])


def _refusal(state: State, clicked: str) -> str:
    if state.page is Page.DONE:
        return "Nothing can be clicked here: the purchase is made."
    if state.page is Page.SEARCH:
        return "Nothing can be clicked on the search page: search for keywords."
    if clicked == pages.SEARCH_BUTTON:
        return "There is no search button on this page: search for keywords, or go back to search."
    return f"There is nothing called {clicked[:80]!r} to click on this page."

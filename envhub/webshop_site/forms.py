"""What a form of the shop asks for, as calls of the environment's tools.

Invariant: only what the page offers becomes a call, so a wrong form costs no turn; the calls depend on the form and on the page
that it stood on, and on nothing that happened since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from envhub.envs.webshop import pages
from envhub.envs.webshop.pages import Page, State

MAX_KEYWORDS_CHARS = 300
MAX_BODY_BYTES = 64 * 1024
_MAX_FIELDS = 200
_BUTTONS = frozenset({pages.BACK_TO_SEARCH, pages.PREVIOUS, pages.BUY_NOW, *pages.SUB_PAGES})

Form = Mapping[str, str]


class WrongForm(Exception):
    """The text says what to do instead."""


@dataclass(frozen=True, slots=True)
class Call:
    tool: Literal["search_action", "click_action"]
    value: str

    @property
    def argument(self) -> str:
        return "keywords" if self.tool == "search_action" else "value"


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of an option group. A value that the shop would take for something else cannot be chosen (``usable``)."""

    value: str
    chosen: bool
    usable: bool


def parse(body: bytes) -> Form:
    """Fields of an urlencoded body; of a repeated one the last. Raises WrongForm."""
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=_MAX_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise WrongForm("This form could not be read. Please go back to the page and try again.") from None
    return dict(pairs)


def number(text: str, *, name: str) -> int:
    """Raises WrongForm."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise WrongForm(f"The {name} must be a whole number.")
    return int(text)


def calls(form: Form, state: State) -> Sequence[Call]:
    """What the form asks for on the page ``state``: a search, or newly chosen options and then a click. Raises WrongForm."""
    if state.page is Page.DONE:
        raise WrongForm("The purchase is made: there is nothing more to do in this session.")
    if "keywords" in form:
        return [_search(form["keywords"])]
    asked = [Call("click_action", value) for value in _new_options(form, state)]
    if "click" in form:
        asked.append(_click(form["click"], state))
    if not asked:
        raise WrongForm("Nothing new was chosen. Select an option first, or use one of the other buttons.")
    return asked


def groups(state: State) -> Mapping[str, Sequence[Choice]]:
    """The option groups of an item page."""
    options = state.item.options
    owner = {value: group for group, values in options.items() for value in values}
    return {
        group: [
            Choice(value, state.options.get(group) == value, owner[value] == group and _clickable(value))
            for value in values
        ]
        for group, values in options.items()
    }


def offered(state: State) -> frozenset[str]:
    """What can be clicked on the page."""
    return frozenset(pages.clickables(state)) - {pages.SEARCH_BUTTON}


def _search(keywords: str) -> Call:
    words = " ".join(keywords.split())
    if not words:
        raise WrongForm("Type what you are looking for, then search.")
    if len(words) > MAX_KEYWORDS_CHARS:
        raise WrongForm(f"That is too long to search for: use at most {MAX_KEYWORDS_CHARS} characters.")
    return Call("search_action", words)


def _click(value: str, state: State) -> Call:
    if value.lower() not in offered(state):
        raise WrongForm("That cannot be clicked on this page.")
    return Call("click_action", value)


def _new_options(form: Form, state: State) -> Iterator[str]:
    if state.page is not Page.ITEM:
        return
    for position, (group, choices) in enumerate(groups(state).items()):
        value = form.get(f"option_{position}")
        if value is None or value == state.options.get(group):
            continue
        if value not in {choice.value for choice in choices if choice.usable}:
            raise WrongForm(f"This product has no such {group}.")
        yield value


def _clickable(value: str) -> bool:
    return value == value.lower() and value not in _BUTTONS and value != pages.SEARCH_BUTTON

"""What a shopper is told: the system message, and each page with what can be done on it.

Invariant: a page and its available actions read as in AgentBench; what differs is said for actions that are not valid, which
get a reason there.
"""

from __future__ import annotations

from collections.abc import Sequence

SYSTEM = """You are shopping on the web. An instruction says what to buy; every turn shows you the page you are on and the \
actions that are available there.

Call a tool in every turn: search_action with keywords of your choice, or click_action with a value from the list of \
clickables, word for word. An action that is not available changes nothing. On the page of a product, click the options you \
want before you buy. "Buy Now" ends the task: what you bought, its options and its price are compared with the instruction, \
and you are scored from 0 to 1."""


def first_message(observation: str, *, can_search: bool, clickables: Sequence[str]) -> str:
    return f"The initial observation:\n{observation}\n\n{available(can_search, clickables)}"


def page(action: str, observation: str, *, can_search: bool, clickables: Sequence[str]) -> str:
    return f"Action: {action}\n\nObservation:\n{observation}\n\n{available(can_search, clickables)}"


def refused(action: str, reason: str, *, can_search: bool, clickables: Sequence[str]) -> str:
    return f"Action: {action}\n\nInvalid action, nothing has changed. {reason}\n\n{available(can_search, clickables)}"


def bought(action: str, asin: str, score: float) -> str:
    return (
        f"Action: {action}\n\nThank you for shopping with us! You bought {asin}. Your score (from 0.0 to 1.0): {score}"
    )


def available(can_search: bool, clickables: Sequence[str]) -> str:
    """``can_search`` says that the page has a search bar; a search works from any page."""
    return f"Available Actions:\n{ {'has_search_bar': can_search, 'clickables': list(clickables)} }"

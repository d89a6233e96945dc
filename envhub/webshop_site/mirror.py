"""A session of a hub, played again here so that its page can be drawn.

Invariant: the site never decides what happens. Every step was played by the hub, whoever sent it; the mirror repeats the recorded
messages in an episode of the same environment, which is deterministic, and so stands on the very page that the hub's stands on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envhub import wire
from envhub.core.errors import InvalidRequestError
from envhub.core.types import Message
from envhub.envs.webshop.env import WebShopEpisode
from envhub.envs.webshop.pages import State

PAGE_CALL = "page"
"""How the ids of the calls begin that came from a page of the site."""

_MOST_CHARS = 200
"""Of a call, as it is shown; tools may send any length."""


@dataclass(frozen=True, slots=True)
class Action:
    """One call of a step; ``by_page`` tells those that were made on a page of the site from those of other players."""

    text: str
    by_page: bool


class Mirror:
    """``states[n]`` is where the session stood before turn ``n``; ``messages`` and ``answers`` are those of its turns."""

    def __init__(self, episode: WebShopEpisode) -> None:
        self._episode = episode
        self.states: list[State] = [episode.state]
        self.messages: list[Message] = []
        self.answers: list[wire.Stepped] = []
        self.actions: list[tuple[Action, ...]] = []

    async def follow(self, steps: Sequence[Any]) -> None:
        """Play what is new in the steps of a trace. Raises InvalidRequestError for a record that is not whole."""
        for step in steps[len(self.messages) :]:
            if "message" not in step:
                raise InvalidRequestError(
                    "this session's record is too long to be kept whole, so its page cannot be drawn"
                )
            message = wire.assistant_from_json(step["message"])
            answer = wire.loads(wire.dumps(step["answer"]), wire.Stepped)
            await self._episode.step(message)
            self.states.append(self._episode.state)
            self.messages.append(message)
            self.answers.append(answer)
            self.actions.append(_actions(message))


def _actions(message: Message) -> tuple[Action, ...]:
    return tuple(
        Action(f"{call.name}({_argument(call.arguments)})"[:_MOST_CHARS], call.id.startswith(PAGE_CALL))
        for call in message.tool_calls
    )


def _argument(arguments: str) -> str:
    """The first argument's value, or the text as it is when it is not what a tool takes."""
    try:
        value = json.loads(arguments)
        return str(next(iter(value.values())))
    except (ValueError, AttributeError, StopIteration, RecursionError):
        return arguments

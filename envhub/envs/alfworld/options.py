"""The options of an ALFWorld session, checked.

Invariant: the mode that may carry out another action than the one written (matching ``agentbench``) exists in the grading
mode ``agentbench`` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from envhub.core.errors import InvalidRequestError
from envhub.core.types import JSON
from envhub.envs.alfworld import matching
from envhub.envs.alfworld.game import TEXTS, Text

Grading = Literal["strict", "agentbench"]
Tools = Literal["action", "verbs"]
Listing = Literal["always", "first", "never"]

OPTIONS: Mapping[str, JSON] = {
    "grading": "strict",
    "tools": "action",
    "admissible": "always",
    "matching": "auto",
    "text": "auto",
    "reasons": False,
}
_CHOICES: Mapping[str, tuple[JSON, ...]] = {
    "grading": get_args(Grading),
    "tools": get_args(Tools),
    "admissible": get_args(Listing),
    "matching": ("auto", *matching.MODES),
    "text": ("auto", *TEXTS),
    "reasons": (False, True),
}
_PUBLISHED: Mapping[str, JSON] = {"tools": "action", "matching": "agentbench", "reasons": False}
"""What the published environment is like."""


@dataclass(frozen=True, slots=True)
class Options:
    """``text`` is None for the wording the game was written in; ``reasons`` adds why nothing happened."""

    grading: Grading
    tools: Tools
    admissible: Listing
    matching: matching.Mode
    text: Text | None
    reasons: bool

    @property
    def published(self) -> bool:
        """Whether messages have the form of the published environment."""
        return self.grading == "agentbench"

    @staticmethod
    def of(options: Mapping[str, JSON]) -> Options:
        """Raises InvalidRequestError."""
        for name, choices in _CHOICES.items():
            if (type(options[name]), options[name]) not in [(type(choice), choice) for choice in choices]:
                words = ", ".join(map(str, choices))
                raise InvalidRequestError(f"option {name!r} of alfworld must be one of {words}")
        published = options["grading"] == "agentbench"
        for name, needed in _PUBLISHED.items() if published else ():
            if options[name] not in ("auto", needed):
                raise InvalidRequestError(f"with grading agentbench, option {name!r} of alfworld must be {needed}")
        if options["matching"] == "agentbench" and not published:
            raise InvalidRequestError("matching agentbench of alfworld needs grading agentbench")
        default: matching.Mode = "agentbench" if published else "normalised"
        chosen = options["matching"]
        text = options["text"]
        return Options(
            grading=options["grading"],
            tools=options["tools"],
            admissible=options["admissible"],
            matching=default if chosen == "auto" else chosen,
            text=text if text != "auto" else "2.1.1" if published else None,
            reasons=options["reasons"],
        )

"""The words of the game: how each version of ALFWorld names commands and answers.

Invariant: texts are those of the official grammars, to the letter; what varies between versions is in ``WORDINGS`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envhub.envs.alfworld.game import Text

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
TASK = "Your task is to: "
NOTHING_HAPPENS = "Nothing happens."

_HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


@dataclass(frozen=True, slots=True)
class Wording:
    """``put`` is the command and ``was_put`` its answer; ``arrival`` says whether one arrives at a receptacle or a place.

    ``help`` is None where the command does not exist.
    """

    put: str
    was_put: str
    arrival: Literal["receptacle", "place"]
    help: str | None


WORDINGS: Mapping[Text, Wording] = {
    "2.1.1": Wording("put {} in/on {}", "You put the {} in/on the {}.", "place", None),
    "2.1.2": Wording("move {} to {}", "You move the {} to the {}.", "receptacle", _HELP),
}


def numbered(identifiers: Iterable[str]) -> dict[str, str]:
    """PDDL identifiers, lower case, to the names shown: per word, the last in order gets number 1."""
    words: dict[str, list[str]] = {}
    for identifier in sorted(identifiers):
        word = identifier.split("_bar_", 1)[0] + ("basin" if "basin" in identifier else "")
        words.setdefault(word, []).append(identifier)
    return {
        identifier: f"{word} {len(each) - position}"
        for word, each in words.items()
        for position, identifier in enumerate(each)
    }


def listing(names: Sequence[str]) -> str:
    """``a mug 2, a mug 1, and a cup 1``; ``nothing``."""
    return enumeration([f"a {name}" for name in names])


def enumeration(parts: Sequence[str]) -> str:
    if not parts:
        return "nothing"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"

"""What an agent is told: the system message, and observations with or without the list of admissible actions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envhub.envs.alfworld.wording import BANNER

SYSTEM = """You are in a household and have a task to do there, such as finding an object, cleaning or heating it and putting \
it somewhere. You act by calling a tool, one action per turn; the answer tells you what you see then.

You can go to receptacles (cabinets, tables, a fridge, ...), open and close them, take an object from one and put it into \
another, and carry one object at a time. A sinkbasin cleans, a microwave heats and a fridge cools what you carry. Objects have \
numbers: write "mug 1", not "mug". If nothing happens, the action was not possible. The task ends as soon as it is done."""

SYSTEM_AGENTBENCH = """You act in a household to carry out a task. In every turn you get an observation and the list of \
actions that are allowed; think, then call the tool take_action with one of them. Any other action is illegal, and "Nothing \
happens" means that the action was not valid."""

_ARRIVAL = re.compile(r"You arrive at loc \d+\. ")


def first_message(intro: str, admissible: Sequence[str] | None, *, published: bool) -> str:
    """The user message that poses the task; ``published`` gives it the form that AgentBench gives it."""
    text = intro.removeprefix(BANNER).lstrip("\n")
    return observation(f"Here is your task. {text}" if published else text, admissible, published=published)


def observation(text: str, admissible: Sequence[str] | None, *, published: bool) -> str:
    """An observation, and the admissible actions unless they are None."""
    if published:
        text = _ARRIVAL.sub("", text, count=1) if _ARRIVAL.match(text) else text
        return text if admissible is None else f"{text} AVAILABLE ACTIONS: {chr(10).join(admissible)}\n"
    return text if admissible is None else "\n".join((text, "", "Available actions:", *admissible))

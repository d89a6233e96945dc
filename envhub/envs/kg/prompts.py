"""What the agent of a knowledge-graph task is told, and how results look to it.

Invariant: an observation is a pure function of the result, sorted, within its limit of characters, and says how much was cut.
The demonstration is a true one: its tools answer so on the graph it speaks of.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from envhub.core.types import Message, ToolCall
from envhub.envs.kg.ontology import INT
from envhub.envs.kg.workspace import PARAMETERS

_SYSTEM = """\
You answer questions about a knowledge graph by calling tools. The graph holds entities (written as ids such as m.0k3q or \
g.11b7), relations between them, and attributes with numbers or dates.

A tool works on variables. A variable is a set of entities; variables are numbered #0, #1, #2, ... in the order in which \
the tools make them. Start from the entities named with the question, which every tool that takes an entity accepts by name or \
by id. Look up the relations of an entity or a variable with get_relations before you follow one with get_neighbors, and its \
attributes with get_attributes before you use argmax or argmin. The entities of the question never count among the answers.

Think briefly, then make one call per turn; you have at most {max_turns} turns. When a variable holds the answer and nothing \
else, {ending}"""
_BY_TEXT = "call no tool and reply with its number in exactly this form: Final Answer: #3"
_BY_TOOL = f"call final_answer with that variable, or call no tool, and {_BY_TEXT.removeprefix('call no tool and ')}"
NO_CALL = (
    "Your message contains neither a tool call nor a final answer. Call a tool, or name the variable that holds the answer: "
    "Final Answer: #n"
)


def system(*, max_turns: int, answer_tool: bool) -> str:
    return _SYSTEM.format(max_turns=max_turns, ending=_BY_TOOL if answer_tool else _BY_TEXT)


def question(text: str, entities: Mapping[str, str]) -> str:
    """The user message that poses a task."""
    return f"{text}\nEntities: [{', '.join(entities)}]"


def names(found: Collection[str], *, max_chars: int) -> str:
    """What get_relations and get_attributes return; at least one name is shown."""
    shown: list[str] = []
    n_chars = 0
    for name in sorted(found):
        n_chars += len(name) + 2
        if shown and n_chars > max_chars:
            break
        shown.append(name)
    left = len(found) - len(shown)
    note = f" [TRUNCATED: {len(shown)} of {len(found)} shown]" if left else ""
    return f"Observation: [{', '.join(shown)}]{note}"


def variable(number: int, type: str | None) -> str:
    """What a tool that makes a variable returns."""
    what = "which is a number" if type == INT else f"which are instances of {type or 'an unknown class'}"
    return f"Observation: variable #{number}, {what}"


DEMONSTRATION_ENTITIES: Mapping[str, str] = {"Alva 2": "m.0alva2", "Brune": "g.1brune"}
_QUESTION = "how many launch sites have both Alva 2 and Brune been launched from?"
_SITES = "spaceflight.rocket.launch_sites"
_LISTED = f"Observation: [spaceflight.rocket.engine, {_SITES}, spaceflight.rocket.maker]"
_STEPS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("I start with the relations of the first rocket.", "get_relations", ("Alva 2",), _LISTED),
    (
        "Its launch sites are what I need.",
        "get_neighbors",
        ("Alva 2", _SITES),
        "Observation: variable #0, which are instances of spaceflight.launch_site",
    ),
    ("Now the second rocket.", "get_relations", ("Brune",), _LISTED),
    (
        "The same relation again.",
        "get_neighbors",
        ("Brune", _SITES),
        "Observation: variable #1, which are instances of spaceflight.launch_site",
    ),
    (
        "Sites of both rockets are in both variables.",
        "intersection",
        ("#0", "#1"),
        "Observation: variable #2, which are instances of spaceflight.launch_site",
    ),
    ("The question asks how many there are.", "count", ("#2",), "Observation: variable #3, which is a number"),
)
_DONE = "#3 holds the number of sites that both rockets share.\nFinal Answer: #3"
_NEXT = "Right. Here is the next question; its variables are numbered from #0 again.\n"


def demonstration() -> Iterator[Message]:
    """A whole task, solved, as messages that stand between the system message and the question."""
    yield Message.user(question(_QUESTION, DEMONSTRATION_ENTITIES))
    for number, (thought, name, arguments, observation) in enumerate(_STEPS):
        yield Message.assistant(thought, call(f"demo_{number}", name, arguments))
        yield Message.tool(f"demo_{number}", observation)
    yield Message.assistant(_DONE)


def after_demonstration(text: str) -> str:
    return _NEXT + text


def call(id: str, name: str, arguments: tuple[str, ...]) -> ToolCall:
    named = dict(zip(PARAMETERS[name], arguments, strict=True))
    return ToolCall(id, name, json.dumps(named, ensure_ascii=False))

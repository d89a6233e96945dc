"""The corpus of completions that our parsers and vLLM's are compared on.

``corpus/made.json``: completions written by hand, by family. ``corpus/vllm.json``: those and seeded mutations of them, each with what
vLLM's parser made of it; ``ENVHUB_UPDATE_GOLDEN=1`` and the trainer's environment write it anew (test_parsers_agree.py).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.core.types import Message, ToolSpec

FOLDER = Path(__file__).parent / "corpus"
RECORDED = FOLDER / "vllm.json"
PARSERS = {"hermes": "hermes", "llama3": "llama3_json", "glm45": "glm45"}
"""Our families, and vLLM's names for theirs."""

N_MUTATIONS = 160
_MAX_MUTATED = 400

_EITHER = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
TOOLS = (
    ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}}),
    ToolSpec("wait", "Wait.", {"type": "object", "properties": {"n": {"type": "integer"}}}),
    ToolSpec(
        "every",
        "Has a parameter of every type.",
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "n": {"type": "integer"},
                "x": {"type": "number"},
                "flag": {"type": "boolean"},
                "items": {"type": "array"},
                "obj": {"type": "object"},
                "maybe": {"type": ["string", "null"]},
                "either": _EITHER,
                "mode": {"enum": ["a", 1, None]},
                "any": {},
            },
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a parser made of a completion: names and arguments of calls, and the text that is left."""

    calls: tuple[tuple[str, str], ...]
    content: str

    @staticmethod
    def of(message: Message) -> Answer:
        return Answer(
            tuple((call.name, call.arguments) for call in message.tool_calls), (message.content or "").strip()
        )


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    vllm: Answer


def texts() -> Mapping[str, Sequence[str]]:
    """All completions by family: the hand-made ones, then mutations of them."""
    made: Mapping[str, list[str]] = json.loads((FOLDER / "made.json").read_text())
    return {family: [*lines, *_mutations(family, lines)] for family, lines in made.items()}


def recorded() -> Mapping[str, Sequence[Case]]:
    return {
        family: [Case(text, Answer(tuple((n, a) for n, a in calls), content)) for text, calls, content in cases]
        for family, cases in json.loads(RECORDED.read_text()).items()
    }


def record(answers: Mapping[str, Sequence[Case]]) -> None:
    plain = {
        family: [[case.text, case.vllm.calls, case.vllm.content] for case in cases] for family, cases in answers.items()
    }
    lines = ",\n".join(
        f"{json.dumps(family)}: [\n" + ",\n".join(map(json.dumps, cases)) + "\n]" for family, cases in plain.items()
    )
    RECORDED.write_text("{" + lines + "}\n")


def _mutations(family: str, lines: Sequence[str]) -> list[str]:
    rng = random.Random(f"mutations of {family}")
    sources = [line for line in lines if 8 < len(line) < _MAX_MUTATED]
    found: dict[str, None] = {}
    while len(found) < N_MUTATIONS:
        text = _mutated(rng.choice(sources), rng)
        if text not in lines:
            found[text] = None
    return list(found)


def _mutated(text: str, rng: random.Random) -> str:
    place, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    match rng.randrange(6):
        case 0:
            return text[:place]
        case 1:
            return text[:place] + text[place + 1 :]
        case 2:
            return text[:place] + rng.choice('{}[]",:;\\<> \n') + text[place:]
        case 3:
            return text[:place] + text[end:]
        case 4:
            return text[:end] + text[place:]
        case _:
            return text[:place] + rng.choice(["\n", " ", "</tool_call>", "<tool_call>", "{}"]) + text[place:]

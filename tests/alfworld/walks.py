"""Random players: admissible commands, mostly rare ones, mixed with commands that are wrong in the ways agents are wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

VERBS = (
    "take {} from {}",
    "move {} to {}",
    "put {} in/on {}",
    "heat {} with {}",
    "clean {} with {}",
    "cool {} with {}",
)


class Walk:
    """Picks commands one after the other; equal seeds and equal views give equal commands."""

    def __init__(self, rng: random.Random, intro: str) -> None:
        self._rng = rng
        self._names = sorted(set(re.findall(r"\ba ([a-z]+ \d+)", intro)))

    def command(self, observation: str, admissible: Sequence[str]) -> str:
        self._names = sorted({*self._names, *re.findall(r"\ba ([a-z]+ \d+)", observation)})
        kinds = sorted({self._kind(each) for each in admissible})
        kind = self._rng.choice(kinds)
        chosen = self._rng.choice([each for each in admissible if self._kind(each) == kind])
        return chosen if self._rng.random() < 0.75 else self._wrong(chosen)

    @staticmethod
    def _kind(command: str) -> str:
        return " ".join(command.split()[:2]) if command.startswith("go to") else command.split()[0]

    def _wrong(self, command: str) -> str:
        rng = self._rng
        names = self._names or ["mug 1"]
        return rng.choice(
            (
                re.sub(r"\d+", lambda number: str(int(number[0]) + rng.choice((1, 3))), command, count=1),
                command.upper(),
                f" {command}  ",
                command.replace(" ", "  "),
                f"{command}.",
                f"examine {rng.choice(names)}",
                f"use {rng.choice(names)}",
                f"go to {rng.choice(names)}",
                f"slice {rng.choice(names)} with {rng.choice(names)}",
                rng.choice(VERBS).format(rng.choice(names), rng.choice(names)),
                "go to",
                "",
                "dance",
            )
        )

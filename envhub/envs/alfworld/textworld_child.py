"""One real TextWorld environment in a process of its own, driven by lines of JSON.

It runs under any interpreter that has the packages alfworld and textworld, and imports nothing else, so it also runs as a
plain script. Invariant: one request line in, one answer line out, in order; one environment object lives as long as the
process, since each new one leaks a copy of the planner's library; whatever the packages print goes to standard error.

Requests: ``{"load": path of a game.tw-pddl}``, ``{"problem": PDDL text, "task": sentence}`` (played by the rules and texts that
come with the package) and ``{"step": command}``. Answers: ``{"observation": text, "admissible": [command, ...], "won": bool,
"load_s": .., "reset_s": .., "step_s": .., "rss_kib": ..}`` or ``{"error": text}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


class Stage:
    """The environment, and the game that is loaded in it."""

    def __init__(self) -> None:
        import alfworld.info
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        self._logic = alfworld.info.ALFRED_PDDL_PATH, alfworld.info.ALFRED_TWL2_PATH
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env: Any = AlfredDemangler(PddlEnv(infos))

    def pose(self, problem: str, task: str) -> dict[str, Any]:
        domain, grammar = (_read(path) for path in self._logic)
        grammar = grammar.replace("UNKNOWN GOAL.", task)
        return self.load({"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem, "walkthrough": []})

    def load(self, game: str | dict[str, Any]) -> dict[str, Any]:
        """``game`` is a path, or what such a file holds."""
        started = time.process_time()
        self._env.load(game)
        loaded = time.process_time()
        state = self._env.reset()
        return self._answer(state, load_s=loaded - started, reset_s=time.process_time() - loaded)

    def step(self, command: str) -> dict[str, Any]:
        started = time.process_time()
        state, _, _ = self._env.step(command)
        return self._answer(state, step_s=time.process_time() - started)

    @staticmethod
    def _answer(state: Any, **seconds: float) -> dict[str, Any]:
        return {
            "observation": state.feedback,
            "admissible": list(state["admissible_commands"]),
            "won": bool(state["won"]),
            **seconds,
        }


def main() -> int:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    stage = Stage()
    for line in sys.stdin:
        try:
            answer = _serve(stage, json.loads(line))
        except Exception as error:  # boundary: whatever the packages raise is the caller's to handle
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _serve(stage: Stage, request: dict[str, Any]) -> dict[str, Any]:
    if "load" in request:
        answer = stage.load(request["load"])
    elif "problem" in request:
        answer = stage.pose(request["problem"], request["task"])
    else:
        answer = stage.step(request["step"])
    return {**answer, "rss_kib": int(_read("/proc/self/statm").split()[1]) * _PAGE_KIB}


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main())

"""A process that plays games with the real alfworld and textworld packages, one game at a time.

Invariant: one request is out at a time; once a request got no answer, the process is gone and the object is of no more use.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.core.errors import EpisodeFailedError, EpisodeTimeoutError, MissingExtraError
from envhub.envs.alfworld.game import Game
from envhub.envs.alfworld.pddl import problem_text

_CHILD = Path(__file__).with_name("textworld_child.py")
_CHUNK = 65536
_STDERR_CHARS = 300


@dataclass(frozen=True, slots=True)
class View:
    """What TextWorld answers. ``seconds`` are processor times of the parts: load_s and reset_s, or step_s."""

    observation: str
    admissible: tuple[str, ...]
    won: bool
    seconds: Mapping[str, float]
    rss_kib: float


class Stage:
    """``python`` is an interpreter that has the packages; without one, this one."""

    def __init__(self, *, python: str | None = None, timeout_s: float = 120.0) -> None:
        interpreter = shutil.which(python or sys.executable)
        if interpreter is None:
            raise _missing_packages(f"; {python!r} is no interpreter")
        self._timeout_s = timeout_s
        self._home = tempfile.TemporaryDirectory(prefix="envhub-alfworld-")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [os.path.abspath(interpreter), str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "ALFWORLD_DATA": self._home.name},
            cwd=self._home.name,
            start_new_session=True,
        )
        self._asking = threading.RLock()
        self._rest = b""
        self.rss_kib = 0.0
        self.n_games = 0

    def load(self, path: Path) -> View:
        """Begin the game of a ``game.tw-pddl`` file. Raises EpisodeFailedError, EpisodeTimeoutError, MissingExtraError."""
        self.n_games += 1
        return self._ask({"load": str(path.resolve())})

    def pose(self, game: Game) -> View:
        """Begin a game that is in no official file, by the rules and texts of the package (version 2.1.2)."""
        self.n_games += 1
        return self._ask({"problem": problem_text(game), "task": game.task})

    def step(self, command: str) -> View:
        return self._ask({"step": command})

    def close(self) -> None:
        """End the process; a request that is out, in another thread, fails. Idempotent."""
        if self._process.poll() is None:
            self._process.kill()
        with self._asking:
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._stderr):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        pass
            self._home.cleanup()

    def _ask(self, request: Mapping[str, str]) -> View:
        with self._asking:
            answer = self._answer(json.dumps(request).encode() + b"\n")
        self.rss_kib = answer.get("rss_kib", 0.0)
        if "error" in answer:
            raise EpisodeFailedError(f"TextWorld failed: {answer['error']}")
        seconds = {name: value for name, value in answer.items() if name.endswith("_s")}
        return View(answer["observation"], tuple(answer["admissible"]), answer["won"], seconds, self.rss_kib)

    def _answer(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        until = time.monotonic() + self._timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self.close()
                    raise EpisodeTimeoutError(f"TextWorld did not answer in {self._timeout_s:g} s")
                chunk = os.read(self._process.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise self._ended()
                self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(text)
        return found

    def _ended(self) -> EpisodeFailedError | MissingExtraError:
        self._process.wait()
        said = ""
        if not self._stderr.closed:
            self._stderr.seek(0)
            said = self._stderr.read().decode("utf-8", "replace").strip()
        self.close()
        if "ModuleNotFoundError" in said:
            return _missing_packages()
        return EpisodeFailedError(f"TextWorld ended: {said[-_STDERR_CHARS:]}")


def _missing_packages(detail: str = "") -> MissingExtraError:
    return MissingExtraError(
        f"the TextWorld backend needs the packages alfworld and textworld: pip install 'envhub[alfworld]'{detail}",
        extra="alfworld",
    )

"""The real packages as players: a pool of processes, each playing one game at a time.

Invariant: a process belongs to at most one episode; one whose episode ended in the middle of a request, or that has grown
too large, is ended and never used again. Processes are reused through ``load``, as each new environment leaks memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from envhub.core.errors import NoCapacityError
from envhub.core.types import JSON
from envhub.envs.alfworld import matching
from envhub.envs.alfworld.game import Game, Text
from envhub.envs.alfworld.stage import Stage, View
from envhub.envs.alfworld.wording import WORDINGS

POSED_TEXT: Text = "2.1.2"
"""The wording of games that come from no official file: that of the package."""


class StagePool:
    """At most ``size`` processes, started when first needed. ``python`` is an interpreter that has the packages."""

    def __init__(
        self, *, python: str | None, size: int, wait_s: float = 60.0, max_rss_kib: float = 2**20, max_games: int = 500
    ) -> None:
        self._python = python
        self._wait_s = wait_s
        self._max_rss_kib = max_rss_kib
        self._max_games = max_games
        self._free = asyncio.Semaphore(size)
        self._idle: list[Stage] = []
        self._threads = ThreadPoolExecutor(2 * size, thread_name_prefix="alfworld-stage")

    async def begin(self, source: Path | Game, text: Text) -> TextWorldPlayer:
        """Begin a game, of an official file or any other.

        Raises NoCapacityError when no process gets free in time, EpisodeError when TextWorld fails, MissingExtraError.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise NoCapacityError("every TextWorld process is playing a game", retry_after_s=5.0) from None
        stage: Stage | None = None
        try:
            stage = self._idle.pop() if self._idle else Stage(python=self._python)
            start = partial(stage.load, source) if isinstance(source, Path) else partial(stage.pose, source)
            return TextWorldPlayer(self, stage, await self.run(start), text)
        except BaseException:
            self.give_back(stage, usable=False)
            raise

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._threads.shutdown(wait=False)

    async def run(self, work: Callable[[], View]) -> View:
        """One request to a process, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def give_back(self, stage: Stage | None, *, usable: bool) -> None:
        """The episode is over; ``usable`` says that the process has answered all it was asked."""
        if stage is not None:
            worn = stage.rss_kib > self._max_rss_kib or stage.n_games >= self._max_games
            if usable and not worn:
                self._idle.append(stage)
            else:
                stage.close()
        self._free.release()


class TextWorldPlayer:
    """``text`` is the wording the game is played in."""

    def __init__(self, pool: StagePool, stage: Stage, view: View, text: Text) -> None:
        self._pool = pool
        self._stage: Stage | None = stage
        self._view = view
        self._text = text
        self._answered = True

    @property
    def observation(self) -> str:
        return self._view.observation

    @property
    def admissible(self) -> Sequence[str]:
        return self._view.admissible

    @property
    def won(self) -> bool:
        return self._view.won

    @property
    def put(self) -> str:
        return WORDINGS[self._text].put

    async def step(self, written: str, mode: matching.Mode) -> str | None:
        assert self._stage is not None, "step after close"
        command = matching.matched(written, self._view.admissible, mode, put=self.put)
        self._answered = False
        self._view = await self._pool.run(partial(self._stage.step, command or ""))
        self._answered = True
        return command

    def progress(self) -> JSON:
        return None

    def reason(self, written: str) -> str | None:
        return None

    async def close(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            self._pool.give_back(stage, usable=self._answered)

"""Who plays a game for an episode: the native engine, or the real packages in a process of a pool.

Invariant: both kinds answer alike; an episode cannot tell them apart but by speed and by the subgoals it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

from envhub.core.types import JSON
from envhub.envs.alfworld import expert, matching
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.progress import subgoals
from envhub.envs.alfworld.reasons import why_not


class Player(Protocol):
    """``observation``, ``admissible`` and ``won`` are those after the last step, or of the start."""

    @property
    def observation(self) -> str: ...

    @property
    def admissible(self) -> Sequence[str]: ...

    @property
    def won(self) -> bool: ...

    @property
    def put(self) -> str:
        """How the game spells putting."""

    async def step(self, written: str, mode: matching.Mode) -> str | None:
        """Carry out what was written; the command carried out, or None when nothing was."""

    def progress(self) -> JSON:
        """The subgoals, or None when they are not known."""

    def reason(self, written: str) -> str | None:
        """Why a command that was not carried out does nothing, if known."""

    async def close(self) -> None: ...


class NativePlayer:
    def __init__(self, play: Play) -> None:
        self.play = play
        self._carried = False

    @property
    def observation(self) -> str:
        return self.play.observation

    @property
    def admissible(self) -> Sequence[str]:
        return self.play.admissible

    @property
    def won(self) -> bool:
        return self.play.won

    @property
    def put(self) -> str:
        return self.play.world.wording.put

    async def step(self, written: str, mode: matching.Mode) -> str | None:
        command = matching.matched(written, self.play.actions, mode, put=self.put)
        self.play.step(command if command is not None else "")
        self._carried = subgoals(self.play.world, self.play.state, carried=self._carried).carried
        return command

    def progress(self) -> JSON:
        return asdict(subgoals(self.play.world, self.play.state, carried=self._carried))

    def reason(self, written: str) -> str | None:
        return why_not(written, self.play)

    def expert_plan(self) -> tuple[str, ...] | None:
        return expert.plan(self.play.world, self.play.state)

    def fork(self) -> NativePlayer:
        other = NativePlayer(self.play.fork())
        other._carried = self._carried
        return other

    async def close(self) -> None:
        pass

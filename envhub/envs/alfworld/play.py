"""One run of a game: what the player sees, may do, and has achieved.

Invariant: ``admissible`` are exactly the commands that ``step`` carries out; any other leaves the state as it was.
"""

from __future__ import annotations

from envhub.envs.alfworld import engine
from envhub.envs.alfworld.engine import State
from envhub.envs.alfworld.world import Action, World


class Play:
    """``observation`` is the text after the last command, or the introduction."""

    __slots__ = ("_actions", "_state", "observation", "world")

    def __init__(self, world: World, state: State | None = None) -> None:
        self.world = world
        self._state = engine.start(world) if state is None else state
        self._actions: dict[str, Action] | None = None
        self.observation = engine.intro(world, self._state)

    @property
    def state(self) -> State:
        """A snapshot: immutable, and valid for every play of the same world."""
        return self._state

    @property
    def actions(self) -> dict[str, Action]:
        if self._actions is None:
            self._actions = engine.actions(self.world, self._state)
        return self._actions

    @property
    def admissible(self) -> list[str]:
        return sorted(self.actions)

    @property
    def won(self) -> bool:
        return engine.won(self.world, self._state)

    def step(self, command: str) -> bool:
        """Carry out a command, spelled exactly as an admissible one; whether it was admissible."""
        action = self.actions.get(command)
        if action is not None:
            after = engine.apply(self.world, self._state, action)
            if after is not self._state:
                self._state, self._actions = after, None
        self.observation = engine.feedback(self.world, self._state, action)
        return action is not None

    def fork(self) -> Play:
        """An independent play that goes on from here."""
        other = Play(self.world, self._state)
        other.observation = self.observation
        return other

    def restore(self, state: State) -> None:
        """Go back to a snapshot; ``observation`` stays the last text."""
        self._state, self._actions = state, None

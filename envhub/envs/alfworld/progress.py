"""How far a play has come: subgoals for shaping and diagnosis, never part of the reward.

Invariant: computed from the state alone, but for ``carried``, which remembers.
"""

from __future__ import annotations

from dataclasses import dataclass

from envhub.envs.alfworld import engine
from envhub.envs.alfworld.engine import State
from envhub.envs.alfworld.game import Family
from envhub.envs.alfworld.world import NOBODY, World

_CHANGED = frozenset({Family.CLEAN, Family.HEAT, Family.COOL})


@dataclass(frozen=True, slots=True)
class Subgoals:
    """``carried``: an object sought has been in hand. ``changed``: one is now clean, hot or cool as asked; None when nothing
    is asked. ``lit``: the agent is at a lamp that was switched on; None outside the family. ``n_placed``: the most objects
    sought, as asked, that lie in one target receptacle, ``n_needed`` how many must.
    """

    carried: bool
    changed: bool | None
    lit: bool | None
    n_placed: int
    n_needed: int


def subgoals(world: World, state: State, *, carried: bool = False) -> Subgoals:
    """``carried`` is what was known before this state."""
    family, wanted = world.game.goal.family, world.goal.objects
    in_hand = state.held != NOBODY and bool(wanted >> state.held & 1)
    if family is Family.LIGHT:
        return Subgoals(carried or in_hand, None, engine.lit(world, state), 0, 0)
    fulfilled = engine.fulfilled(world, state)
    return Subgoals(
        carried=carried or in_hand,
        changed=bool(fulfilled) if family in _CHANGED else None,
        lit=None,
        n_placed=max((engine.placed(state, each, fulfilled) for each in world.goal.receptacles), default=0),
        n_needed=engine.n_needed(world),
    )

"""Many conversations at once: ``num_envs`` sessions stepped concurrently over one event loop.

Invariant: for the same seeds and actions the answers are those of gymnasium's SyncVectorEnv around as many HubEnv, in every
autoreset mode; a slot that fails neither stalls nor loses the others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from envhub.core.errors import EnvhubError, EpisodeError, InvalidRequestError, RequestError
from envhub.core.protocols import Environment
from envhub.core.types import JSON
from envhub.gym.env import RENDER, checked_render_mode, task_of, with_max_turns
from envhub.gym.player import Reset
from envhub.gym.records import Action, Record
from envhub.gym.seats import Seats, Source
from envhub.gym.spaces import action_space, observation_space

Flags: TypeAlias = npt.NDArray[np.bool_]
VectorStep: TypeAlias = tuple[Record, npt.NDArray[np.float64], Flags, Flags, dict[str, Any]]


class VectorEpisodeError(EpisodeError):
    """Some slots of a vector environment failed; the others are fine.

    ``errors`` maps a slot to what it failed with. ``result`` is the answer of the whole call: a failed slot has reward NaN,
    ``truncated`` set, and its error in ``infos["error"]``; the next step resets it (or ``reset`` with a mask, when autoreset
    is off).
    """

    def __init__(self, errors: Mapping[int, EnvhubError], result: VectorStep) -> None:
        first, error = next(iter(errors.items()))
        super().__init__(f"{len(errors)} slots failed, slot {first} with {type(error).__name__}: {error}")
        self.errors = errors
        self.result = result


@dataclass(frozen=True, slots=True)
class _Slot:
    """What one call did in one slot. ``final`` is the observation and info of an episode that ended in the same step."""

    info: Record
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    final: Reset | None = None
    error: EnvhubError | None = None


class HubVectorEnv(VectorEnv[Record, Any, npt.NDArray[Any]]):
    """See HubEnv. ``step`` takes a batch of ``action_space`` or a sequence of ``num_envs`` actions of HubEnv.

    When a slot's episode breaks, VectorEpisodeError is raised after all the others have answered; it carries their answers.
    ``reset(options={"task": ...})`` takes one index for all or one per slot, and ``"reset_mask"`` as gymnasium defines it.
    """

    def __init__(
        self,
        num_envs: int,
        environment: str | Environment,
        split: str = "train",
        *,
        url: str | None = None,
        key: str | None = None,
        options: Mapping[str, JSON] | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        checked_render_mode(render_mode)
        if num_envs < 1:
            raise ValueError(f"num_envs must be 1 or more, not {num_envs}")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**RENDER, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = action_space()
        self.single_observation_space = observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._seats = Seats(Source(environment, split, url, key), with_max_turns(options, max_turns), num_envs)

    @property
    def session_ids(self) -> tuple[str | None, ...]:
        """The live sessions, None where there is none."""
        sessions = [player.session for player in self._seats.players]
        return tuple(session.id if session else None for session in sessions)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Record, dict[str, Any]]:
        """Slot ``i`` gets ``seed + i``, or ``seed[i]``."""
        if isinstance(seed, int):
            super().reset(seed=seed)
        mask = _reset_mask(options, self.num_envs)
        tasks = _tasks(options, self.num_envs)
        for slot, each in enumerate(_seeds(seed, self.num_envs)):
            if mask[slot] and each is not None:
                self._rngs[slot] = seeding.np_random(each)[0]
        slots = self._run({slot: self._reset(slot, tasks[slot]) for slot in range(self.num_envs) if mask[slot]})
        for each_slot in slots.values():
            if isinstance(each_slot.error, RequestError):
                raise each_slot.error
        observations, _, _, _, infos = self._answer(slots)
        return observations, infos

    def step(self, actions: Any) -> VectorStep:
        """Nothing is sent when an action is invalid or a slot was never reset."""
        split = self._split(actions)
        for slot, player in enumerate(self._seats.players):
            if self._over[slot] and self.autoreset_mode is AutoresetMode.DISABLED:
                raise ResetNeeded(f"slot {slot} has ended: reset it first with options={{'reset_mask': ...}}")
            if not self._over[slot]:
                player.check(split[slot])
        return self._answer(self._run({slot: self._step(slot, action) for slot, action in enumerate(split)}))

    def render(self) -> tuple[str, ...] | None:
        """The conversations so far, in mode ``ansi``."""
        return tuple(each.transcript() for each in self._seats.players) if self.render_mode == "ansi" else None

    def close_extras(self, **kwargs: Any) -> None:
        """Give every session back."""
        self._seats.close()

    # --- one slot ---------------------------------------------------------------------------------------------------

    async def _reset(self, slot: int, task: int | None = None) -> _Slot:
        rng = self._rngs[slot]
        if rng is None:
            rng = self._rngs[slot] = seeding.np_random()[0]
        try:
            _, info = await self._seats.players[slot].reset(rng, task)
        except EnvhubError as error:
            return _Slot({}, math.nan, truncated=True, error=error)
        return _Slot(info)

    async def _step(self, slot: int, action: Action) -> _Slot:
        if self._over[slot]:
            return await self._reset(slot)
        try:
            observation, reward, terminated, truncated, info = await self._seats.players[slot].step(action)
        except EnvhubError as error:
            return _Slot({}, math.nan, truncated=True, error=error)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not (terminated or truncated):
            return _Slot(info, reward, terminated, truncated)
        fresh = await self._reset(slot)
        return _Slot(fresh.info, reward, terminated, truncated, final=(observation, info), error=fresh.error)

    # --- all slots --------------------------------------------------------------------------------------------------

    def _split(self, actions: Any) -> list[Any]:
        split = list(iterate(self.action_space, actions) if isinstance(actions, Mapping) else actions)
        if len(split) != self.num_envs:
            raise InvalidAction(f"expected {self.num_envs} actions, got {len(split)}")
        return split

    def _run(self, calls: Mapping[int, Coroutine[Any, Any, _Slot]]) -> dict[int, _Slot]:
        async def together() -> list[_Slot]:
            return await asyncio.gather(*calls.values())

        return dict(zip(calls, self._seats.run(together()), strict=True))

    def _answer(self, slots: Mapping[int, _Slot]) -> VectorStep:
        """Batch what the slots did. Raises VectorEpisodeError when some failed."""
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        infos: dict[str, Any] = {}
        for slot, did in slots.items():
            rewards[slot], terminated[slot], truncated[slot] = did.reward, did.terminated, did.truncated
            if did.final is not None:
                infos = self._add_info(infos, {"final_obs": did.final[0], "final_info": did.final[1]}, slot)
            infos = self._add_info(infos, did.info if did.error is None else {"error": did.error}, slot)
            same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
            self._over[slot] = did.error is not None or (not same_step and (did.terminated or did.truncated))
        result = (self._observations(), rewards, terminated.copy(), truncated.copy(), infos)
        errors = {slot: did.error for slot, did in slots.items() if did.error is not None}
        if errors:
            raise VectorEpisodeError(errors, result)
        return result

    def _observations(self) -> Record:
        space = self.single_observation_space
        items = [player.observation() for player in self._seats.players]
        return cast(Record, concatenate(space, items, cast(Record, create_empty_array(space, n=self.num_envs))))

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        """As gymnasium's, except that a value of another type than its slot-mates' is kept instead of cast or refused."""
        for key, value in env_info.items():
            held = vector_infos.get(key)
            if isinstance(held, np.ndarray) and held.dtype != object and not _fits(value, held):
                vector_infos[key] = held.astype(object)
        return super()._add_info(vector_infos, env_info, env_num)


def _fits(value: object, held: npt.NDArray[Any]) -> bool:
    return type(value) in (bool, int, float) and np.dtype(type(value)) == held.dtype


def _seeds(seed: int | Sequence[int | None] | None, n: int) -> Sequence[int | None]:
    if seed is None:
        return [None] * n
    if isinstance(seed, int):
        return [seed + slot for slot in range(n)]
    if len(seed) != n:
        raise ValueError(f"expected {n} seeds, got {len(seed)}")
    return seed


def _reset_mask(options: Mapping[str, Any] | None, n: int) -> Flags:
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(n, dtype=np.bool_)
    if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != np.bool_ or not mask.any():
        raise InvalidRequestError(f"reset_mask: must be a boolean array of shape ({n},) with at least one True")
    return mask


def _tasks(options: Mapping[str, Any] | None, n: int) -> list[int | None]:
    rest = {key: value for key, value in (options or {}).items() if key != "reset_mask"}
    tasks = rest.get("task")
    if not isinstance(tasks, (Sequence, np.ndarray)):
        return [task_of(rest)] * n
    if len(tasks) != n:
        raise InvalidRequestError(f"task: expected one index or {n}, got {len(tasks)}")
    return [task_of({**rest, "task": each}) for each in tasks]

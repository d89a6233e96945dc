"""Doubles of live episodes: by the environment's own copy where it has one, else by playing the same messages again.

Invariant: a double has seen exactly what its original has, or there is none; an original is never changed by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from envhub import wire
from envhub.core.errors import EpisodeFailedError
from envhub.core.protocols import Episode, Forkable
from envhub.worker.closing import close_quietly

ForkKind = Literal["native", "replay"]


@dataclass(frozen=True, slots=True)
class Fork:
    episode: Episode
    kind: ForkKind


async def fork(original: Episode, trace: bytes, open_again: Callable[[], Awaitable[Episode]]) -> Fork:
    """A double of ``original``, whose session has this trace; ``open_again`` opens the same task anew.

    Raises EpisodeFailedError when a replay goes another way, and what opening or copying raises.
    """
    if isinstance(original, Forkable) and (copy := await original.fork()) is not None:
        return Fork(copy, "native")
    history = msgspec.json.decode(trace)
    if any("omitted_bytes" in step for step in history["steps"]):
        raise EpisodeFailedError("the session cannot be replayed: its record is too long to be kept whole")
    episode = await open_again()
    try:
        observation = await episode.reset()
        _compare(0, wire.observation_to_json(observation)[0], history["messages"])
        await _replay(episode, history["steps"])
    except BaseException:
        await close_quietly(episode.close)
        raise
    return Fork(episode, "replay")


async def _replay(episode: Episode, steps: Sequence[dict[str, Any]]) -> None:
    for turn, step in enumerate(steps, start=1):
        result = await episode.step(wire.assistant_from_json(step["message"]))
        again = msgspec.json.decode(wire.dumps(wire.step_to_wire(result, turn)))
        for field in ("messages", "reward", "terminated"):
            _compare(turn, again[field], step["answer"][field])


def _compare(turn: int, again: object, before: object) -> None:
    if again != before:
        raise EpisodeFailedError(
            f"the session cannot be replayed: turn {turn} went another way, so its environment is not deterministic there"
        )

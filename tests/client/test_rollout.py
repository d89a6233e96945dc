"""The rollout loop gives every session back, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from envhub.client import rollout
from envhub.core.types import Message, StopReason, TaskRef, ToolSpec
from envhub.envs.calculator import create
from envhub.testing.hub import local_hub, served_hub

N_EPISODES = 50


class Scripted:
    """Says what it is given; an exception is raised, and after the last word it waits for ever."""

    def __init__(self, *words: Message | Exception) -> None:
        self._words = iter(words)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        word = next(self._words, None)
        if word is None:
            await asyncio.Event().wait()
        if isinstance(word, Exception):
            raise word
        assert word is not None
        return word


async def test_a_solved_task_gives_the_whole_trajectory() -> None:
    solution = create({}).solution(TaskRef("calculator", "test", 3))
    async with local_hub() as hub:
        trajectory = await rollout(hub.hub.session("calculator", "test", 3), Scripted(*solution))
    assert (trajectory.rewards, trajectory.episode_return, trajectory.turns) == ((0.0, 0.0, 1.0), 1.0, 3)
    assert trajectory.stop_reason is StopReason.COMPLETED and trajectory.terminated and not trajectory.truncated
    assert [message.role for message in trajectory.messages] == ["user", *("assistant", "tool") * 3]


@pytest.mark.parametrize("hub_of", [local_hub, served_hub])
async def test_a_policy_that_fails_or_is_cancelled_leaves_no_session_b001(hub_of: Any) -> None:
    hello = Message.assistant("Hello.")
    async with hub_of(capacity=4) as hub:  # fewer slots than episodes: each must come back at once
        for _ in range(N_EPISODES):
            with pytest.raises(RuntimeError, match="budget"):
                await rollout(hub.hub.session("calculator"), Scripted(hello, RuntimeError("no token budget is left")))
        for _ in range(N_EPISODES):
            playing = asyncio.create_task(rollout(hub.hub.session("calculator"), Scripted(hello)))
            while hub.worker.table.n_live == 0:  # noqa: ASYNC110  # the session is about to be started
                await asyncio.sleep(0)
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        assert hub.worker.table.n_slots_taken == 0
        records = hub.archive.all()
    assert len(records) == 2 * N_EPISODES
    assert all(each.stop_reason is StopReason.CANCELLED and each.episode_return is None for each in records)

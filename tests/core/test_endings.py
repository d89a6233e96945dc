"""Waits that outlive the cancellation of whoever waits."""

from __future__ import annotations

import asyncio

import pytest

from envhub.core.endings import ended
from envhub.testing.clock import settle


async def test_nothing_and_what_is_done_are_not_waited_for() -> None:
    done = asyncio.get_running_loop().create_future()
    done.set_exception(RuntimeError("its own affair"))
    await ended([])
    await ended([done])
    assert done.exception()


@pytest.mark.parametrize("n_cancels", [1, 7])
async def test_a_cancelled_wait_ends_when_all_have_and_is_cancelled_then(n_cancels: int) -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    waiting = asyncio.create_task(ended([first, second]))
    await settle()
    for _ in range(n_cancels):
        waiting.cancel()
        await settle()
    first.set_result(None)
    await settle()
    assert not waiting.done() and not second.done()
    second.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await waiting

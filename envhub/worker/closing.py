"""Clean-ups that run to their end, whatever happens to whoever asked for them.

Invariant: a clean-up is bounded in time, and its failure never hides the reason it was needed for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from envhub.core.endings import ended

log = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 30.0


async def close_quietly(close: Callable[[], Awaitable[Any]]) -> None:
    """Run a clean-up to its end, bounded in time; a failure is logged. Cancelled, it first lets the clean-up finish."""

    async def bounded() -> None:
        async with asyncio.timeout(_CLOSE_LIMIT_S):
            await close()

    task = asyncio.ensure_future(bounded())
    try:
        await ended([task])
    finally:
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("an episode did not close cleanly: %s: %s", type(failure).__name__, failure)

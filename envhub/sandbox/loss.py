"""Whose doing the loss of a sandbox was: a session that ends its own system answers for it, anybody else's doing is an error.

Invariant: a loss counts as the session's own only when the driver has seen that its first process ended by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from envhub.core.errors import SandboxLostError


@asynccontextmanager
async def telling_whose_doing(has_ended_itself: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
    """Raises SandboxLostError that says it."""
    try:
        yield
    except SandboxLostError as error:
        if error.by_session or not await has_ended_itself():
            raise
        raise SandboxLostError(error.message, by_session=True) from error

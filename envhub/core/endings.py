"""Waiting for what must come to its end.

Invariant: a wait that begins here ends when all it waits for has, and not before, whoever is cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def ended(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Returns when all are done; they bound their own time. Cancelled meanwhile, however often, it is so when they are."""
    cancelled: asyncio.CancelledError | None = None
    while left := [each for each in tasks if not each.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled

"""What the databases of one driver share: the administrator, the accounts, the owner's lease and the background work.

Invariant: every task started here is awaited by ``settle``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from envhub.core.clock import Clock
from envhub.envs.db.mysql.accounts import Account, Accounts
from envhub.envs.db.mysql.admin import Admin
from envhub.envs.db.mysql.connection import Connection, ConnectionLostError, ServerError, connect
from envhub.envs.db.mysql.settings import Dialect
from envhub.envs.db.mysql.sweep import Owners
from envhub.envs.db.mysql.url import Server

log = logging.getLogger(__name__)

TOO_MANY_CONNECTIONS = 1040
ACCESS_DENIED = 1045
TOO_MANY_USER_CONNECTIONS = 1226
RECONNECT_PAUSE_S = 0.2
MAX_RESULT_PACKET_BYTES = 8 << 20
"""A single row over this ends its result set and its connection."""


@dataclass(frozen=True, slots=True)
class Services:
    server: Server
    admin: Admin
    accounts: Accounts
    owners: Owners
    dialect: Dialect
    clock: Clock
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def connect(self, account: Account) -> Connection:
        return await connect(
            self.server, user=account.name, password=account.password, max_packet_bytes=MAX_RESULT_PACKET_BYTES
        )

    async def reconnect(self, account: Account) -> Connection:
        """Connect again in an episode, past what the agent may have done to prevent it."""
        await self.accounts.disconnect(account.name)
        try:
            return await self.connect(account)
        except ServerError as error:
            if error.code == ACCESS_DENIED:
                await self.accounts.restore_password(account)
            elif error.code not in (TOO_MANY_CONNECTIONS, TOO_MANY_USER_CONNECTIONS):
                raise
        await self.clock.sleep(RECONNECT_PAUSE_S)
        return await self.connect(account)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run in the background; its failure is logged, what it missed is swept later."""
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (ServerError, ConnectionLostError) as error:
        log.warning("background work on the database server failed: %s", error)

"""Who owns which accounts on a shared server, and the removal of what dead owners left.

Invariant: an owner is written down before its first account exists and is alive while it renews its lease by the
server's clock; accounts of a living owner are never touched by another one.
"""

from __future__ import annotations

import logging

from envhub.envs.db.mysql.accounts import NAME, Accounts
from envhub.envs.db.mysql.admin import Admin
from envhub.envs.db.mysql.connection import ConnectionLostError, ServerError
from envhub.envs.db.mysql.values import literal

log = logging.getLogger(__name__)

CATALOGUE = "envhub_admin"
CATALOGUE_LOST = frozenset({1049, 1146})
"""What the server answers when the tables of ``Owners`` are not there: it has started anew on an empty disk."""


class Owners:
    """The table of owners, and the marker that tells one run of the server from the next."""

    def __init__(self, admin: Admin, *, incarnation: str, label: str, lease_s: float) -> None:
        self._admin = admin
        self._incarnation = incarnation
        self._label = label
        self._lease_s = int(lease_s)

    async def create_tables(self) -> None:
        await self._admin.run(
            f"CREATE DATABASE IF NOT EXISTS {CATALOGUE}",
            f"CREATE TABLE IF NOT EXISTS {CATALOGUE}.owners (incarnation VARCHAR(32) PRIMARY KEY, "
            "label VARCHAR(255) NOT NULL, expires_at BIGINT NOT NULL) ENGINE=InnoDB",
            f"CREATE TABLE IF NOT EXISTS {CATALOGUE}.boot (id TINYINT PRIMARY KEY, marker CHAR(36) NOT NULL) ENGINE=MEMORY",
        )

    async def renew(self) -> None:
        expires_at = f"UNIX_TIMESTAMP() + {self._lease_s}"
        await self._admin.run(
            f"INSERT INTO {CATALOGUE}.owners VALUES "
            f"({literal(self._incarnation)}, {literal(self._label[:255])}, {expires_at}) "
            f"ON DUPLICATE KEY UPDATE expires_at = {expires_at}"
        )

    async def leave(self) -> None:
        await self._admin.run(f"DELETE FROM {CATALOGUE}.owners WHERE incarnation = {literal(self._incarnation)}")

    async def living(self) -> set[str]:
        answer = await self._admin.run(
            f"SELECT incarnation FROM {CATALOGUE}.owners WHERE expires_at > UNIX_TIMESTAMP()"
        )
        return {str(row[0]) for row in answer.rows}

    async def forget_dead(self) -> None:
        """Rows long expired; by then every account of theirs was swept."""
        await self._admin.run(
            f"DELETE FROM {CATALOGUE}.owners WHERE expires_at < UNIX_TIMESTAMP() - {10 * self._lease_s + 60}"
        )

    async def boot_marker(self) -> str:
        """Constant while the server runs, new after a restart: a MEMORY table does not survive one."""
        answer = await self._admin.run(
            f"INSERT IGNORE INTO {CATALOGUE}.boot VALUES (1, UUID())", f"SELECT marker FROM {CATALOGUE}.boot"
        )
        return str(answer.rows[0][0])


async def account_names(admin: Admin) -> set[str]:
    """Every account on the server, also half of one (only a user, only a database)."""
    databases = await admin.run(r"SHOW DATABASES LIKE 's\_%'")
    users = await admin.run(r"SELECT DISTINCT User FROM mysql.user WHERE User LIKE 's\\_%'")
    names = {str(row[0]) for row in (*databases.rows, *users.rows)}
    return {name for name in names if NAME.fullmatch(name)}


async def sweep(admin: Admin, accounts: Accounts, owners: Owners) -> int:
    """Remove the accounts of dead owners; how many there were.

    Names are read before owners: an owner that arrives in between is then seen with its lease.
    """
    names = await account_names(admin)
    living = await owners.living()
    orphans = [name for name in sorted(names) if _incarnation(name) not in living]
    for name in orphans:
        try:
            await accounts.destroy(name)
        except (ServerError, ConnectionLostError) as error:
            log.warning("could not remove orphaned database %s: %s", name, error)
    await owners.forget_dead()
    if orphans:
        log.info("removed %d orphaned databases", len(orphans))
    return len(orphans)


def _incarnation(name: str) -> str:
    match = NAME.fullmatch(name)
    assert match is not None
    return match["incarnation"]

"""Episode accounts: one database and one restricted user of the same name, made and removed together.

Invariant: an account's user can reach its own database and nothing else, and its name says which owner must remove it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from envhub.core.errors import UnavailableError
from envhub.envs.db.mysql.admin import Admin
from envhub.envs.db.mysql.connection import Connection, ServerError
from envhub.envs.db.mysql.settings import Dialect
from envhub.envs.db.mysql.values import literal, quoted

PRIVILEGES = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, CREATE TEMPORARY TABLES, CREATE VIEW, SHOW VIEW"
NAME = re.compile(r"(?P<incarnation>s_[a-z0-9]{1,10}_[0-9a-f]{6})_\d+")
"""Every account's name: ``s_<owner>_<token>_<n>``. At most 32 characters, which is all MySQL allows a user."""

LOCK_WAIT_TIMEOUT = 1205


def incarnation_of(owner: str) -> str:
    """The name prefix of one life of an owner; unlike the owner's label it never comes back after a restart."""
    slug = re.sub(r"[^a-z0-9]", "", owner.lower())[:10] or "hub"
    return f"s_{slug}_{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Account:
    """``host`` is where the server sees this process: the user may connect from nowhere else."""

    name: str
    host: str
    password: str = field(repr=False)


class Accounts:
    """Makes and removes accounts."""

    def __init__(self, admin: Admin, dialect: Dialect) -> None:
        self._admin = admin
        self._dialect = dialect
        self._host: str | None = None

    async def create(self, name: str) -> Account:
        account = Account(name, await self._own_host(), secrets.token_urlsafe(18))
        user = _user(account.name, account.host)
        pattern = quoted(name.replace("_", r"\_"))
        await self._admin.run(
            f"CREATE DATABASE IF NOT EXISTS {quoted(name)} CHARACTER SET utf8mb4 COLLATE {self._dialect.collation}",
            f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY {literal(account.password)} WITH MAX_USER_CONNECTIONS 2",
            f"GRANT {PRIVILEGES} ON {pattern}.* TO {user}",
        )
        return account

    async def restore_password(self, account: Account) -> None:
        """Undo a user's change of its own password, which MySQL allows."""
        user = _user(account.name, account.host)
        await self._admin.run(f"ALTER USER {user} IDENTIFIED BY {literal(account.password)}")

    async def disconnect(self, name: str) -> None:
        """End every connection of a user."""
        for connection_id in await self._connections(name):
            await self._admin.kill_connection(connection_id)

    async def destroy(self, name: str) -> None:
        """Remove user, connections and database; whatever of them is gone already is no error."""
        users = await self._admin.run(f"SELECT User, Host FROM mysql.user WHERE User = {literal(name)}")
        await self._admin.run(*(f"DROP USER IF EXISTS {_user(name, str(host))}" for _, host in users.rows), "DO 0")
        await self.disconnect(name)
        drop = f"DROP DATABASE IF EXISTS {quoted(name)}"
        try:
            await self._admin.run(drop)
        except ServerError as error:
            if error.code != LOCK_WAIT_TIMEOUT:
                raise
            await self._roll_back_orphaned_xa()
            await self._admin.run(drop)

    async def check_isolation(self, connection: Connection, name: str) -> None:
        """Raises UnavailableError when the server lets every user reach more than its own database."""
        own = quoted(name.replace("_", r"\_"))
        grants = [str(row[0]) for row in (await connection.command("SHOW GRANTS")).rows]
        foreign = [grant for grant in grants if "GRANT USAGE ON *.*" not in grant and f" ON {own}.* " not in grant]
        if foreign:
            raise UnavailableError(
                f"episodes would not be isolated: the server gives every user {foreign[0]!r}; revoke it",
                retry_after_s=60.0,
            )

    async def close_test_databases(self) -> tuple[str, ...]:
        """Revoke what a default MariaDB installation gives every user on ``test`` databases; the names it was on."""
        found = await self._admin.run(
            r"SELECT User, Host, Db FROM mysql.db WHERE User IN ('', 'PUBLIC') AND Db IN ('test', 'test\\_%')"
        )
        for user, host, database in found.rows:
            grantee = "PUBLIC" if user == "PUBLIC" else _user(str(user), str(host))
            await self._admin.run(f"REVOKE ALL PRIVILEGES ON {quoted(str(database))}.* FROM {grantee}")
        return tuple(str(row[2]) for row in found.rows)

    async def _connections(self, name: str) -> list[int]:
        found = await self._admin.run(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = {literal(name)}")
        return [int(str(row[0])) for row in found.rows]

    async def _roll_back_orphaned_xa(self) -> None:
        """A prepared XA transaction outlives its connection and holds its tables."""
        prepared = await self._admin.run(self._dialect.list_xa)
        for row in prepared.rows:
            try:
                await self._admin.run(f"XA ROLLBACK {_xid(row)}")
            except ServerError:
                continue  # its connection lives, so it is not an orphan and the server refuses

    async def _own_host(self) -> str:
        if self._host is None:
            answer = await self._admin.run("SELECT SUBSTRING_INDEX(USER(), '@', -1)")
            self._host = str(answer.rows[0][0])
        return self._host


def _user(name: str, host: str) -> str:
    return f"{literal(name)}@{literal(host)}"


def _xid(row: tuple[object, ...]) -> str:
    """From XA RECOVER: MariaDB writes the whole id as SQL, MySQL its two parts as one run of hexadecimal digits."""
    format_id, n_global, _, data = row
    if not str(data).startswith("0x"):
        return str(data)
    split = 2 + 2 * int(str(n_global))
    return f"x'{str(data)[2:split]}', x'{str(data)[split:]}', {format_id}"

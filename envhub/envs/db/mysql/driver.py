"""The ``mysql`` driver: episodes as database-and-user pairs on a MariaDB 10.11+ or MySQL 8+ server.

Invariant: every account on the server that carries this driver's name is ready in the pool, held by one open database, or on
its way out; after ``close``, or after the lease of a killed process, there is none.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import ShuttingDownError, UnavailableError
from envhub.envs.db.database import Database, QueryLimits, Table
from envhub.envs.db.mysql.accounts import Account, Accounts, incarnation_of
from envhub.envs.db.mysql.admin import Admin
from envhub.envs.db.mysql.connection import Connection, ConnectionLostError, ServerError
from envhub.envs.db.mysql.database import MysqlDatabase
from envhub.envs.db.mysql.loading import load
from envhub.envs.db.mysql.pool import ReadyPool
from envhub.envs.db.mysql.services import Services
from envhub.envs.db.mysql.settings import dialect_of
from envhub.envs.db.mysql.sweep import CATALOGUE_LOST, Owners, account_names, sweep
from envhub.envs.db.mysql.url import parse_url
from envhub.envs.db.mysql.values import quoted

log = logging.getLogger(__name__)

TAKE_S = 30.0
FREE_S = 15.0
CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Ready:
    """An empty database, its user connected; ``boot`` marks the run of the server it was made in."""

    account: Account
    connection: Connection
    boot: str


class MysqlDriver:
    """Opens databases on one server. ``owner`` names the process in the server's table of owners.

    Nothing is sent before the first ``open`` (or ``start``). The administrator of the url must be allowed to create databases
    and users, to grant, to kill connections and to read ``mysql.user``.
    """

    name = "mysql"

    def __init__(
        self,
        url: str,
        *,
        owner: str,
        password: str | None = None,
        password_file: str | Path | None = None,
        pool_min: int = 4,
        pool_max: int = 32,
        lease_s: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self._server = parse_url(url, password=password, password_file=password_file)
        self._owner = owner
        self._incarnation = incarnation_of(owner)
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self._numbers = itertools.count(1)
        self._pool = ReadyPool(self._make_ready, minimum=pool_min, maximum=pool_max)
        self._held: dict[str, asyncio.Task[None] | None] = {}
        self._databases: dict[str, MysqlDatabase] = {}
        self._services: Services | None = None
        self._starting = asyncio.Lock()
        self._upkeep: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, register the owner, sweep orphans, begin filling the pool. Idempotent. Raises UnavailableError."""
        async with self._starting:
            if self._closing is not None:
                raise ShuttingDownError("the database driver is closing")
            if self._services is None:
                admin = Admin(self._server)
                try:
                    self._services = await self._set_up(admin)
                except (ServerError, ConnectionLostError) as error:
                    await admin.close()
                    raise _unavailable(error) from error
                except BaseException:
                    await admin.close()
                    raise
                self._upkeep = asyncio.create_task(self._keep_up(self._services))

    async def open(self, tables: Sequence[Table], *, limits: QueryLimits = QueryLimits()) -> MysqlDatabase:  # noqa: B008
        """See DatabaseDriver."""
        await self.start()
        services = self._started()
        ready = await self._take()
        try:
            await load(ready.connection, tables)
            await ready.connection.command(services.dialect.episode_settings)
        except BaseException as error:
            await self._free(ready.account.name, ready.connection)
            if isinstance(error, ServerError | ConnectionLostError):
                raise _unavailable(error) from error
            raise
        database = MysqlDatabase(
            ready.account,
            ready.connection,
            boot=ready.boot,
            limits=limits,
            services=services,
            clock=self._clock,
            free=self._free_database,
        )
        self._databases[ready.account.name] = database
        return database

    async def fork(self, database: Database) -> None:
        """See DatabaseDriver: what a session holds on a server (variables, temporary tables) cannot be copied from outside."""

    async def close(self) -> None:
        """Remove every account of this driver. Idempotent; a cancelled caller leaves it running to its end."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _set_up(self, admin: Admin) -> Services:
        answer = await admin.run("SELECT VERSION(), @@max_allowed_packet")
        version, max_packet_bytes = answer.rows[0]
        dialect = dialect_of(str(version), max_packet_bytes=int(str(max_packet_bytes)))
        accounts = Accounts(admin, dialect)
        owners = Owners(admin, incarnation=self._incarnation, label=self._owner, lease_s=self._lease_s)
        await admin.warm_up()
        if (await admin.run("SHOW VARIABLES LIKE 'have_symlink'")).rows == (("have_symlink", "YES"),):
            log.warning("episodes can make table files anywhere: start the database server with --skip-symbolic-links")
        await _prepare(accounts, owners)
        await sweep(admin, accounts, owners)
        log.info("database server ready: %s at %s", version, self._server.address)
        return Services(self._server, admin, accounts, owners, dialect, self._clock)

    async def _take(self) -> Ready:
        """A ready pair whose connection still answers."""
        try:
            async with asyncio.timeout(TAKE_S):
                return await self._take_alive()
        except (ServerError, ConnectionLostError) as error:
            raise _unavailable(error) from error
        except TimeoutError as error:
            raise UnavailableError(f"the database server made no database within {TAKE_S:g} s") from error

    async def _take_alive(self) -> Ready:
        while True:
            ready = await self._pool.take()
            try:
                await ready.connection.command("DO 0")
                return ready
            except (ServerError, ConnectionLostError):
                self._start_free(ready.account.name, ready.connection)
            except BaseException:
                await self._free(ready.account.name, ready.connection)
                raise

    async def _make_ready(self) -> Ready:
        services = self._started()
        name = f"{self._incarnation}_{next(self._numbers)}"
        self._held[name] = None
        connection: Connection | None = None
        try:
            boot = await self._boot_marker(services)
            account = await services.accounts.create(name)
            connection = await services.connect(account)
            await services.accounts.check_isolation(connection, name)
            await connection.command(services.dialect.load_settings)
            await connection.command(f"USE {quoted(name)}")
        except BaseException:
            self._start_free(name, connection)
            raise
        return Ready(account, connection, boot)

    async def _boot_marker(self, services: Services) -> str:
        """Of the server's run. A server whose disk was in memory has lost all of it with a restart, and is prepared again."""
        try:
            return await services.owners.boot_marker()
        except ServerError as error:
            if error.code not in CATALOGUE_LOST:
                raise
        async with self._starting:
            log.warning("the database server started anew without its data; it is prepared again")
            await _prepare(services.accounts, services.owners)
        return await services.owners.boot_marker()

    async def _free_database(self, database: MysqlDatabase) -> None:
        self._disconnect(database.account.name)
        self._start_free(database.account.name, None)
        await self._freed(database.account.name)

    def _disconnect(self, name: str) -> None:
        database = self._databases.pop(name, None)
        if database is not None:
            database.disconnect()

    async def _free(self, name: str, connection: Connection | None) -> None:
        self._start_free(name, connection)
        await self._freed(name)

    def _start_free(self, name: str, connection: Connection | None) -> None:
        """Begin an account's removal, once."""
        if connection is not None:
            connection.drop()
        if name in self._held and self._held[name] is None:
            self._held[name] = asyncio.create_task(self._destroy(name))

    async def _freed(self, name: str) -> None:
        task = self._held.get(name)
        if task is not None:
            await asyncio.shield(task)

    async def _destroy(self, name: str) -> None:
        """Bounded in time; what fails stays on the server under our name until the next upkeep."""
        try:
            async with asyncio.timeout(FREE_S):
                await self._started().accounts.destroy(name)
        except (ServerError, ConnectionLostError, TimeoutError) as error:
            log.warning("could not remove database %s now, will try again: %s", name, error)
        finally:
            del self._held[name]

    async def _keep_up(self, services: Services) -> None:
        """Renew the lease, sweep, refill; for as long as the driver lives."""
        while True:
            self._pool.fill()
            await self._clock.sleep(self._lease_s / 4)
            try:
                await self._boot_marker(services)
                await services.owners.renew()
                await sweep(services.admin, services.accounts, services.owners)
                await self._remove_leftovers(services)
            except (ServerError, ConnectionLostError) as error:
                log.warning("database server upkeep failed: %s", error)
            self._pool.shrink()

    async def _remove_leftovers(self, services: Services) -> None:
        """Our own accounts that nobody holds: their first removal failed."""
        for name in await account_names(services.admin):
            if name.startswith(f"{self._incarnation}_") and name not in self._held:
                await services.accounts.destroy(name)

    async def _close(self) -> None:
        async with self._starting:
            services = self._services
        if services is None:
            return
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_S):
                for ready in await self._pool.close():
                    ready.connection.drop()
                await self._remove_everything(services)
                await services.settle()
                await services.owners.leave()
        except (ServerError, ConnectionLostError, TimeoutError) as error:
            log.warning("the database driver closed without removing all its databases: %s", error)
        finally:
            await services.admin.close()

    async def _remove_everything(self, services: Services) -> None:
        for name in list(self._held):
            self._disconnect(name)
            self._start_free(name, None)
        while tasks := [task for task in self._held.values() if task is not None]:
            await asyncio.wait(tasks)
        await self._remove_leftovers(services)

    def _started(self) -> Services:
        assert self._services is not None
        return self._services


async def _prepare(accounts: Accounts, owners: Owners) -> None:
    """What a server needs before the first account is made on it."""
    for database in await accounts.close_test_databases():
        log.warning("revoked every user's access to database %s", database)
    await owners.create_tables()
    await owners.renew()


def _unavailable(error: ServerError | ConnectionLostError) -> UnavailableError:
    return UnavailableError(f"the database server cannot serve: {error}", retry_after_s=2.0)

"""What a database episode costs on a MySQL-type server: four client libraries on the same work, then the mysql driver.

Run: ``python benchmarks/db_drivers.py [--quick] [--json] [--url mysql://root@127.0.0.1:3306]``. Without a url (or
ENVHUB_MYSQL_URL) a private MariaDB is started in a temporary folder. Clients that are not installed are left out.

Clients run one episode as: CREATE DATABASE + CREATE USER + GRANT over 8 administrator connections, connect as that user, create and
fill a table of eight columns, one grouped SELECT, one UPDATE, read all rows, disconnect, DROP both. Rounds are interleaved; CPU is
this process's own. Claims: ``mysql_open_ms_p50``, and ``mysql_connector_cpu_over_chosen_client`` where that library is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from harness import Claim, arguments, finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from envhub.envs.db.database import Column, QueryLimits, Table
from envhub.envs.db.mysql import MysqlDriver
from envhub.envs.db.mysql.url import Server, parse_url

CHOSEN = "aiomysql"
N_ADMINS = 8
COLUMNS = ("a INT", "b TEXT", "c TEXT", "d TEXT", "e TEXT", "f TEXT", "g TEXT", "h TEXT")
QUERIES = ("SELECT b, COUNT(*) FROM t GROUP BY b", "UPDATE t SET c = 'z' WHERE a = 3", "SELECT * FROM t")


class Client(Protocol):
    """One library, reduced to what an episode needs."""

    name: str
    module: str

    async def connect(self, server: Server, user: str, password: str) -> Any: ...

    async def run(self, connection: Any, sql: str) -> None: ...

    async def close(self, connection: Any) -> None: ...


class Aiomysql:
    name = module = "aiomysql"

    async def connect(self, server: Server, user: str, password: str) -> Any:
        import aiomysql

        return await aiomysql.connect(**_where(server), user=user, password=password, autocommit=True)

    async def run(self, connection: Any, sql: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(sql)
            await cursor.fetchall()

    async def close(self, connection: Any) -> None:
        await connection.ensure_closed()


class Asyncmy(Aiomysql):
    name = module = "asyncmy"

    async def connect(self, server: Server, user: str, password: str) -> Any:
        import asyncmy

        return await asyncmy.connect(**_where(server), user=user, password=password, autocommit=True)


class ConnectorAio:
    name, module = "mysql.connector.aio", "mysql.connector"

    async def connect(self, server: Server, user: str, password: str) -> Any:
        from mysql.connector import aio

        return await aio.connect(**_where(server), user=user, password=password, autocommit=True, ssl_disabled=True)

    async def run(self, connection: Any, sql: str) -> None:
        cursor = await connection.cursor()
        await cursor.execute(sql)
        if cursor.with_rows:
            await cursor.fetchall()
        await cursor.close()

    async def close(self, connection: Any) -> None:
        await connection.close()


class ConnectorSync:
    """In threads, one for each connection in use."""

    name, module = "mysql.connector", "mysql.connector"

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(32 + N_ADMINS)

    async def connect(self, server: Server, user: str, password: str) -> Any:
        from mysql import connector

        return await self._call(
            lambda: connector.connect(
                **_where(server), user=user, password=password, autocommit=True, ssl_disabled=True
            )
        )

    async def run(self, connection: Any, sql: str) -> None:
        await self._call(lambda: self._run(connection, sql))

    async def close(self, connection: Any) -> None:
        await self._call(connection.close)

    def _run(self, connection: Any, sql: str) -> None:
        cursor = connection.cursor()
        cursor.execute(sql)
        if cursor.with_rows:
            cursor.fetchall()
        cursor.close()

    async def _call(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)


CLIENTS: Sequence[type[Client]] = (Aiomysql, Asyncmy, ConnectorSync, ConnectorAio)


@dataclass(frozen=True, slots=True)
class Load:
    n_concurrent: int
    n_episodes: int
    n_rows: int

    def __str__(self) -> str:
        return f"c={self.n_concurrent} rows={self.n_rows}"


def _where(server: Server) -> dict[str, Any]:
    return {"host": server.host, "port": server.port}


def _rows(n_rows: int) -> list[tuple[Any, ...]]:
    return [(n, f"name{n}", "x" * 20, str(n * 1.5), "a", "b", "c", "d") for n in range(n_rows)]


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds: of every episode, and of this process's CPU per episode."""

    spans: list[float]
    cpu_ms: float


async def in_parallel(load: Load, episode: Callable[[], Awaitable[None]]) -> Timing:
    left = iter(range(load.n_episodes))
    spans: list[float] = []

    async def player() -> None:
        for _ in left:
            began = time.perf_counter()
            await episode()
            spans.append((time.perf_counter() - began) * 1e3)

    cpu_began = time.process_time()
    await asyncio.gather(*(player() for _ in range(load.n_concurrent)))
    return Timing(spans, (time.process_time() - cpu_began) * 1e3 / load.n_episodes)


async def time_client(client: Client, server: Server, load: Load, numbers: Iterator[int]) -> Timing:
    insert = "INSERT INTO t VALUES " + ",".join(map(str, _rows(load.n_rows)))
    admins: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(min(N_ADMINS, load.n_concurrent)):
        admins.put_nowait(await client.connect(server, server.user, server.password))

    async def administer(*statements: str) -> None:
        admin = await admins.get()
        for statement in statements:
            await client.run(admin, statement)
        admins.put_nowait(admin)

    async def episode() -> None:
        name = f"bench_{next(numbers)}"
        await administer(
            f"CREATE DATABASE {name}",
            f"CREATE USER {name}@'%' IDENTIFIED BY '{name}' WITH MAX_USER_CONNECTIONS 2",
            f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON {name}.* TO {name}@'%'",
        )
        connection = await client.connect(server, name, name)
        for sql in (f"USE {name}", f"CREATE TABLE t ({', '.join(COLUMNS)})", insert, *QUERIES):
            await client.run(connection, sql)
        await client.close(connection)
        await administer(f"DROP USER {name}@'%'", f"DROP DATABASE {name}")

    try:
        return await in_parallel(load, episode)
    finally:
        while not admins.empty():
            await client.close(admins.get_nowait())


async def time_driver(url: str, load: Load) -> tuple[Timing, list[float]]:
    """The episodes, and the milliseconds of every open."""
    driver = MysqlDriver(url, owner="bench", pool_min=min(32, 2 * load.n_concurrent))
    columns = tuple(Column(name, kind) for name, kind in map(str.split, COLUMNS))
    table = Table("t", columns, tuple(_rows(load.n_rows)))
    opens: list[float] = []

    async def episode() -> None:
        began = time.perf_counter()
        database = await driver.open([table], limits=QueryLimits())
        opens.append((time.perf_counter() - began) * 1e3)
        for sql in QUERIES:
            result = await database.execute(sql)
            assert result.status in ("rows", "done"), result
        await database.close()

    await driver.start()
    await asyncio.sleep(0.5)
    try:
        return await in_parallel(load, episode), opens
    finally:
        await driver.close()


@contextmanager
def some_server(url: str | None) -> Iterator[str]:
    named = url or os.environ.get("ENVHUB_MYSQL_URL")
    if named:
        yield named
        return
    from tests.db.mariadb_server import mariadb_server

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, mariadb_server(Path(folder)) as private:
        yield private


async def measure(url: str, *, quick: bool) -> dict[str, dict[str, float]]:
    """Medians in ms by subject and load."""
    server = parse_url(url)
    clients = [make() for make in CLIENTS if importlib.util.find_spec(make.module.split(".")[0])]
    loads = [Load(c, n, rows) for rows in (20, 200) for c, n in ((1, 30 if quick else 60), (32, 96 if quick else 320))]
    numbers = count(os.getpid() * 100_000)
    found: dict[str, dict[str, list[float]]] = {}

    def note(subject: str, load: Load, values: Sequence[float]) -> None:
        found.setdefault(subject, {}).setdefault(str(load), []).extend(values)

    for _ in range(1 if quick else 3):
        for load in loads:
            for client in clients:
                timing = await time_client(client, server, load, numbers)
                note(client.name, load, timing.spans)
                note(f"{client.name}, CPU", load, [timing.cpu_ms])
            timing, opens = await time_driver(url, load)
            note("mysql driver", load, timing.spans)
            note("mysql driver, open", load, opens)
            note("mysql driver, CPU", load, [timing.cpu_ms])
    return {
        subject: {load: round(statistics.median(values), 2) for load, values in by_load.items()}
        for subject, by_load in sorted(found.items())
    }


def claims(medians: dict[str, dict[str, float]]) -> dict[str, Claim]:
    """The choice of client is claimed in CPU time, which a busy machine does not distort."""
    found = {"mysql_open_ms_p50": Claim(medians["mysql driver, open"]["c=1 rows=20"], 10)}
    if "mysql.connector" in medians:
        cpu = {
            name: medians[f"{name}, CPU"]["c=32 rows=200"]
            for name in (CHOSEN, "mysql.connector", "mysql.connector.aio")
        }
        ratio = min(cpu["mysql.connector"], cpu["mysql.connector.aio"]) / cpu[CHOSEN]
        found["mysql_connector_cpu_over_chosen_client"] = Claim(ratio, 1.3, at_least=True)
    return found


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--url", help="mysql://user:password@host:port of an administrator")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with some_server(args.url) as url:
        medians = asyncio.run(measure(url, quick=args.quick))
    loads = list(next(iter(medians.values())))
    print(f"{'median ms per episode':28}" + "".join(f"{load:>16}" for load in loads))
    for subject, by_load in medians.items():
        print(f"{subject:28}" + "".join(f"{by_load[load]:16.2f}" for load in loads))
    return finish("db_drivers", args, claims(medians), {"medians_ms": medians})


if __name__ == "__main__":
    sys.exit(main())

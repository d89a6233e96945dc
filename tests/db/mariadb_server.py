"""A private MariaDB server for tests: its own data folder, a free port, gone afterwards.

``mariadb_server`` yields the url of a running one; ``MariaDBServer`` can also be killed and started again;
``any_mysql`` prefers the server that ENVHUB_MYSQL_URL names.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pymysql

from tests.db.frozen import freeze
from tests.hub.processes import free_port
from tests.require import lacking

START_S = 30.0
COMMON_OPTIONS = (
    "--no-defaults",
    "--skip-name-resolve",
    "--skip-symbolic-links",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=0",
    *(("--user=root",) if os.geteuid() == 0 else ()),
)


class MariaDBServer:
    """Root has no password and may come from this machine alone."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._data = folder / "data"
        self._log = folder / "server.log"
        self.socket = folder / "server.sock"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._options = [
            *COMMON_OPTIONS,
            f"--datadir={self._data}",
            f"--socket={self.socket}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--pid-file={folder / 'server.pid'}",
            f"--tmpdir={_scratch(folder)}",
            "--skip-innodb-doublewrite",
            "--lower-case-table-names=0",
            *options,
        ]

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}"

    def install(self) -> None:
        shutil.copytree(_installed(), self._data)

    def start(self) -> None:
        """Returns once the server answers."""
        self.launch()
        deadline = time.monotonic() + START_S
        while True:
            try:
                pymysql.connect(host="127.0.0.1", port=self.port, user="root", connect_timeout=2).close()
                return
            except pymysql.err.OperationalError:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    raise RuntimeError(f"mariadbd did not start:\n{self._log.read_text()[-2000:]}") from None
                time.sleep(0.05)

    def launch(self) -> None:
        """Returns at once; the server begins to answer some time later."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_mariadbd(), *self._options], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """As a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_data(self) -> None:
        """Killed, and its disk emptied, as when the disk is in memory; ``start`` brings up a new server."""
        self.remove()
        self.install()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)


def is_installed() -> bool:
    return bool(shutil.which("mariadb-install-db")) and Path(_mariadbd()).exists()


@contextmanager
def mariadb(folder: Path, *options: str) -> Iterator[MariaDBServer]:
    """A running server with further command line options."""
    server = MariaDBServer(folder, *options)
    try:
        server.install()
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def mariadb_server(folder: Path) -> Iterator[str]:
    """The url of a running private server."""
    with mariadb(folder) as server:
        yield server.url


@contextmanager
def any_mysql(folder: Path) -> Iterator[str]:
    """The url of some server: the one the environment names, else a private one; without either the test is skipped."""
    named = os.environ.get("ENVHUB_MYSQL_URL")
    if named:
        yield named
        return
    need_mariadb()
    with mariadb_server(folder) as url:
        yield url


def need_mariadb() -> None:
    """Skip, or fail where the environment says that this machine must have one."""
    if is_installed():
        return
    lacking("mysql", "needs MariaDB: set ENVHUB_MYSQL_URL or install mariadb-server")


@cache
def _installed() -> Path:
    """A fresh data folder, made once in a process and copied for every server."""
    folder = Path(tempfile.mkdtemp(prefix="envhub-mariadb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = folder / "data"
    done = subprocess.run(
        [
            "mariadb-install-db",
            *COMMON_OPTIONS,
            f"--datadir={data}",
            f"--tmpdir={_scratch(folder)}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return data


def _scratch(folder: Path) -> Path:
    """Temporary tables of one server alone: a starting server removes every ``#sql*`` file of its tmpdir, others' too."""
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    return scratch


def _mariadbd() -> str:
    return shutil.which("mariadbd") or "/usr/sbin/mariadbd"

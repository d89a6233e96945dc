"""A Ray cluster of several nodes on this machine; all of its processes are gone when ``Raylets`` is left, and nobody else's.

Every node is a session of processes of its own, so that losing a node is killing that session.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.hub.processes import free_port
from tests.require import lacking

_UP_WITHIN_S = 120.0


def need_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        lacking("ray", "the package ray is not installed: pip install 'envhub[ray]'")


class Raylets:
    """``with Raylets() as cluster: cluster.add(num_cpus=2)``. The head holds no workers."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rays"))  # short: it holds the paths of Unix sockets
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Raylets:
        try:
            self._start(
                "head",
                "--head",
                f"--port={self.port}",
                f"--temp-dir={self._folder}",
                "--num-cpus=0",
                "--include-dashboard=false",
            )
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def add(self, name: str, *, num_cpus: int, resources: Mapping[str, float] | None = None) -> None:
        """Start a node; it is known by the custom resource ``name`` besides its own."""
        own = json.dumps({name: 100, **(resources or {})})
        self._start(
            name,
            f"--address={self.address}",
            f"--num-cpus={num_cpus}",
            f"--resources={own}",
            "--include-log-monitor=false",
        )

    def kill(self, name: str) -> None:
        """The node is lost: all of its processes at once."""
        _end_session(self._nodes.pop(name))

    def node_of(self, name: str) -> str:
        """Ray's id of a node."""
        raylet = next(command for command in self._commands(name) if b"--node_id=" in command)
        return re.search(rb"--node_id=([0-9a-f]+)", raylet)[1].decode()  # type: ignore[index]

    def worker_pids(self) -> list[int]:
        """The worker processes of hubs."""
        members = [pid for leader in self._nodes.values() for pid in session_members(leader.pid)]
        return [pid for pid in members if b"envhub.cluster.program" in _read(pid, "cmdline")]

    def mentions(self, *texts: str) -> list[str]:
        """Where one of the texts is to be seen: in the cluster's logs, or in command lines and variables of its processes."""
        found = [str(path) for path in self._folder.rglob("*") if path.is_file() and _has(path.read_bytes(), texts)]
        for leader in self._nodes.values():
            for pid in session_members(leader.pid):
                found += [f"{pid} {what}" for what in ("cmdline", "environ") if _has(_read(pid, what), texts)]
        return found

    def _commands(self, name: str) -> list[bytes]:
        return [_read(pid, "cmdline") for pid in session_members(self._nodes[name].pid)]

    def _start(self, name: str, *arguments: str) -> None:
        log = self._folder / f"{name}.log"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        command += ["--object-store-memory=80000000", *arguments]
        with log.open("wb") as output:
            popen = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self._nodes[name] = popen
        until = time.monotonic() + _UP_WITHIN_S
        while "will now block" not in log.read_text():
            if popen.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"node {name} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _clear(self) -> None:
        for leader in self._nodes.values():
            _end_session(leader)
        self._nodes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


def _end_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill until none is left: new processes may start while the others die."""
    while members := session_members(leader.pid):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    leader.wait()


def session_members(leader: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and fields[0] != "Z" and int(fields[3]) == leader:
            found.append(int(entry.name))
    return found


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _has(data: bytes, texts: tuple[str, ...]) -> bool:
    return any(text.encode() in data for text in texts)

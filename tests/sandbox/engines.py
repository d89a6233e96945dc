"""Engines that are none, on real sockets: each does one thing to whoever calls."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NOBODY = 65534
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
ANSWERS = {
    "docker": _HEAD + b"Api-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n\r\nOK",
    "podman": _HEAD + b"Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nServer: Libpod/4.3.1 (linux)\r\n\r\nOK",
    "web server": _HEAD + b"Server: nginx\r\n\r\nOK",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "refusing proxy": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    "tls": b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    "hang-up": b"",
}
"""What is said to a caller; besides these, ``silent`` says nothing, ``drip`` never ends a header, ``full`` lets nobody in and
``dead`` does not listen any more."""


class Engines:
    """Closed with everything they opened. ``path`` is short: the path of a socket may have 107 bytes."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="engines-"))
        self._sockets: list[socket.socket] = []

    def unix(self, kind: str, path: Path | None = None) -> str:
        path = path or self.path / f"{len(self._sockets)}.sock"
        path.parent.mkdir(parents=True, exist_ok=True)
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(path))
        self._serve(bound, kind)
        return f"unix://{path}"

    def tcp(self, kind: str, host: str = "127.0.0.1") -> str:
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        bound.bind((host, 0))
        port = bound.getsockname()[1]
        self._serve(bound, kind)
        return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        shutil.rmtree(self.path)

    def _serve(self, bound: socket.socket, kind: str) -> None:
        self._sockets.append(bound)
        if kind == "dead":  # the socket is kept, so that nobody else gets its port
            return
        bound.listen(0 if kind == "full" else 16)
        if kind == "full":
            self._fill(bound)
            return
        threading.Thread(target=self._accept, args=(bound, kind), daemon=True).start()

    def _fill(self, bound: socket.socket) -> None:
        while True:
            caller = socket.socket(bound.family)
            caller.setblocking(False)
            self._sockets.append(caller)
            if caller.connect_ex(bound.getsockname()) != 0:
                return

    def _accept(self, bound: socket.socket, kind: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = bound.accept()
                self._sockets.append(caller)
                threading.Thread(target=_treat, args=(caller, kind), daemon=True).start()


def _treat(caller: socket.socket, kind: str) -> None:
    with contextlib.suppress(OSError):
        if kind == "silent":
            return
        caller.recv(4096)
        while kind == "drip":
            caller.sendall(b"x")
            time.sleep(0.02)
        caller.sendall(ANSWERS[kind])
        caller.close()


@contextlib.contextmanager
def forwarded(path: str, bound: socket.socket) -> Iterator[None]:
    """Whoever connects to ``bound`` speaks with the socket at ``path``."""
    open_sockets = [bound]

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = bound.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(path)
                open_sockets.extend((caller, engine))
                for pair in ((caller, engine), (engine, caller)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    bound.listen(64)
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        for each in open_sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def as_nobody(call: Callable[[], Any]) -> Any:
    """What ``call`` returns to a user without rights: in a child, where this process is root."""
    if os.geteuid() != 0:
        return call()
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(into, pickle.dumps(call()))
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return pickle.loads(said)

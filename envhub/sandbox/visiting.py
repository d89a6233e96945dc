"""Entering a running sandbox from outside: to run a process as the agent's own would run, to write a file, to read one.

Invariant: paths are looked up in the session's own mount namespace, so whatever links it has made, nothing outside is touched; a
process that enters has given up what the session does not have before any code of the session runs in it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
from collections.abc import Mapping
from typing import Any

from envhub.sandbox import reaping, stage, syscalls
from envhub.sandbox.reaping import Session
from envhub.sandbox.supervision import answer, ends_in_time, exit_code

_ALL = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWCGROUP
)
_FILES = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_COPY_BYTES = 1 << 20


class FileError(Exception):
    """The text says why a path cannot be read or written."""


def run(request: Mapping[str, Any], session: Session, fds: list[int]) -> None:
    """Run a process inside; what it started and left behind goes on, unless its time was up."""
    reply, *standard, listener = fds
    told, tell = os.pipe()
    visitor = os.fork()
    if visitor == 0:
        _as_visitor(request, session, standard, tell)
    os.close(tell)
    for fd in standard:
        os.close(fd)
    said = os.read(told, 4096).decode("utf-8", "replace")
    if not said.isdecimal():
        os.waitpid(visitor, 0)
        raise OSError(f"the sandbox could not be entered: {said or 'it is ending'}")
    if ends_in_time(visitor, request["timeout_s"], listener):
        answer(reply, exit_code=exit_code(visitor))
        return
    reaping.reap(session, int(said))
    os.kill(visitor, signal.SIGKILL)
    os.waitpid(visitor, 0)
    answer(reply, exit_code=None)


def _as_visitor(request: Mapping[str, Any], session: Session, standard: list[int], tell: int) -> None:
    """Join the namespaces; the process id namespace is only joined by children, so one more is needed."""
    code = _NOT_EXECUTABLE
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        entrances = session.group.entrances()
        _write("/proc/self/oom_score_adj", "500")  # before the session's /proc, which takes no writes
        _join(session, _ALL)
        inside = os.fork()
        if inside == 0:
            _become(request, entrances, standard)
        os.write(tell, str(inside).encode())
        os.close(tell)
        for fd in standard:
            os.close(fd)
        code = exit_code(inside)
    except BaseException as error:  # boundary: this process only reports
        os.write(tell, str(error).encode())
    finally:
        os._exit(code)


def _become(request: Mapping[str, Any], entrances: list[int], standard: list[int]) -> None:
    """Turn into the program that was asked for, with no more rights than the session has."""
    code = _NOT_EXECUTABLE
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        for fd in entrances:
            os.write(fd, b"0")
        for target, fd in enumerate(standard):
            os.dup2(fd, target)
        os.setsid()
        os.umask(0o022)
        os.chdir(request["cwd"])
        bounded = list(request["session"]["controllers"]["folders"])
        stage.limit_resources(request["limits"]["memory_bytes"], request["limits"]["n_processes"], bounded)
        syscalls.no_new_privileges()
        syscalls.keep_capabilities(syscalls.CAPABILITIES.values())
        if request["seccomp"]:
            syscalls.load_seccomp(bytes.fromhex(request["seccomp"]))
        stage.default_signals()
        os.execvpe(request["argv"][0], request["argv"], request["environment"])
    except FileNotFoundError as error:
        code = _NOT_FOUND
        os.write(2, f"{request['argv'][0]}: {error.strerror}\n".encode())
    except BaseException as error:  # boundary: this process only reports
        os.write(2, f"{request['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(code)


def write_file(session: Session, path: str, content: int, *, mode: int) -> None:
    """``content``: a descriptor that is read from its beginning."""
    _join(session, _FILES)
    os.umask(0o022)
    try:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
        _require_regular(fd, path)
        os.ftruncate(fd, 0)
        os.lseek(content, 0, os.SEEK_SET)
        while chunk := os.read(content, _COPY_BYTES):
            _write_all(fd, chunk)
        os.fchmod(fd, mode)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise FileError(f"{path!r}: {error}") from error


def read_file(session: Session, path: str, max_bytes: int, reply: int) -> None:
    _join(session, _FILES)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        _require_regular(fd, path)
        data = _read_some(fd, max_bytes + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise FileError(f"{path!r}: {error}") from error
    if len(data) > max_bytes:
        raise FileError(f"{path}: larger than {max_bytes} bytes")
    answer(reply, n_bytes=len(data))
    _write_all(reply, data)


def kill_and_wait(pid: int) -> None:
    """Returns when the process has ended; one that is not there has."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGKILL)
        poller = select.poll()
        poller.register(watched, select.POLLIN)
        poller.poll(5000)
    except ProcessLookupError:
        pass
    finally:
        os.close(watched)


def _join(session: Session, kinds: int) -> None:
    try:
        process = os.pidfd_open(session.init)
        syscalls.setns(process, kinds)
        os.close(process)
    except OSError as error:
        if error.errno == errno.ESRCH:
            raise reaping.LostError(f"the first process of sandbox {session.group.name} is gone") from error
        raise


def _require_regular(fd: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise FileError(f"{path}: not a regular file")


def _read_some(fd: int, n_bytes: int) -> bytes:
    chunks, left = [], n_bytes
    while left > 0 and (chunk := os.read(fd, min(left, _COPY_BYTES))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

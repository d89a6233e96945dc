"""The small process that starts and enters sandboxes, so that a big hub never forks and needs no privileges itself.

Invariant: it lives as long as its hub and not longer, and every process it starts dies with it. Each request is served in a child
of its own, which answers on the request's first descriptor; a descriptor that closes without an answer means that it died.
Nothing is imported once a request is read, as a child may by then see the files of a session where Python's own should be.

Requests are packets on the socket whose descriptor is its second argument: JSON and the descriptors it needs. Answers are one
line of JSON, followed by bytes where the request reads a file. A child made ahead takes one start from a socket of its own.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from envhub.core.sandbox import SandboxLimits
from envhub.sandbox import judging, reaping, stage, strays, syscalls, visiting
from envhub.sandbox.cgroups import Controllers, Group
from envhub.sandbox.owner import Owner
from envhub.sandbox.reaping import LostError, Session
from envhub.sandbox.stage import Stage
from envhub.sandbox.supervision import answer, tell

Operation = Callable[[Mapping[str, Any], list[int], int], None]

PACKET_BYTES = 192 << 10
_MAX_FDS = 8
_CHECK_PARENT_MS = 1000
_ROOM_S = 3.0
_ROOM_ERRORS = (11, 12, 24, 28)
"""EAGAIN, ENOMEM, EMFILE, ENOSPC."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[2]))
    parent = os.getppid()
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(woken, select.POLLIN)
    stage.allow_many_files()
    sys.meta_path.clear()
    gc.freeze()
    while os.getppid() == parent:
        for fd, _ in poller.poll(_CHECK_PARENT_MS):
            if fd == woken:
                os.read(woken, 4096)
            elif not _take(control, (woken, wake)):
                return
        _collect_children()


def _take(control: socket.socket, inherited: Sequence[int]) -> bool:
    """Serve one request; False when the hub is gone."""
    data, fds = _receive(control)
    if not data:
        return False
    try:
        if _fork_for(data) == 0:
            _child(control, inherited, data, fds)
    except OSError as error:
        answer(fds[0], error="room", message=f"the machine has no room for another process: {error}")
    finally:
        for fd in fds:
            os.close(fd)
    return True


def _fork_for(data: bytes) -> int:
    """Raises OSError. Where nothing bounds a session's processes they may be all that this machine lets us have: what is to be
    closed is killed by this process itself, and makes the room."""
    try:
        return os.fork()
    except OSError:
        request = json.loads(data)
        if request["op"] != "close":
            raise
        _kill(request)
    until = time.monotonic() + _ROOM_S
    while True:
        _collect_children()
        try:
            return os.fork()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _kill(request: Mapping[str, Any]) -> None:
    """The processes of a sandbox end with its first."""
    for pid in _own_processes(request, os.getpid()).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A packet and its descriptors; an empty one when nobody is there any more."""
    data, ancillary, _, _ = channel.recvmsg(PACKET_BYTES, socket.CMSG_SPACE(_MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC)
    fds = [
        int.from_bytes(raw[i : i + 4], sys.byteorder)
        for level, kind, raw in ancillary
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        for i in range(0, len(raw) - len(raw) % 4, 4)
    ]
    return data, fds


def _child(control: socket.socket, inherited: Sequence[int], data: bytes, fds: list[int]) -> None:
    try:
        spawner = os.getppid()
        syscalls.die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for fd in inherited:
            os.close(fd)
        _serve(_requested, data, fds, spawner)
    finally:
        os._exit(0)


def _serve(operation: Operation, data: bytes, fds: list[int], spawner: int) -> None:
    try:
        operation(json.loads(data), fds, spawner)
    except BaseException as error:  # boundary: a child of the spawner ends with this, whatever happened
        answer(fds[0], **_failure(error))


def _failure(error: BaseException) -> dict[str, str]:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, LostError):
        return {"error": "lost", "message": str(error)}
    if isinstance(error, visiting.FileError):
        return {"error": "file", "message": str(error)}
    if isinstance(error, OSError) and error.errno in _ROOM_ERRORS:
        return {"error": "room", "message": text}
    return {"error": "failed", "message": text}


def _collect_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _requested(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    _OPERATIONS[request["op"]](request, fds, spawner)


def _prepare(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """What every start begins with, ahead of one: the kernel takes its time for it. Descriptors: a socket that brings the start."""
    with socket.socket(fileno=fds[0]) as channel:
        stage.enter(identity=request["identity"])
        data, start_fds = _receive(channel)
    if data:
        _serve(_start_prepared, data, start_fds, spawner)


def _start(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """Becomes bwrap, which answers with its child's pid. Descriptors: answer, stdin, output."""
    stage.enter(identity=request["stage"]["identity"])
    _start_prepared(request, fds, spawner)


def _start_prepared(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    group, limits = _group(request), SandboxLimits(**request["limits"])
    with _leaving_on_error(group):
        group.create(limits)
        _become_sandbox(request, group, limits, fds, None)


def _copy(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """A start with the files of another session. It is stopped by a process of its own, as this one leaves the place from where
    that can be done."""
    source = _session(request["source"], spawner)
    group, limits = _group(request), SandboxLimits(**request["limits"])
    with _leaving_on_error(group):
        group.create(limits)
        end = _stop_meanwhile(source)
        disk = request["stage"]["disk"]
        folder = os.open(f"/proc/{source.monitor}/root{disk}/up", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stage.enter(identity=request["stage"]["identity"])
        _become_sandbox(request, group, limits, fds, (folder, end))


def _stop_meanwhile(source: Session) -> int:
    """Returns once the session is stopped; closing what is returned lets it go on."""
    begun, begin = os.pipe()
    ended, end = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        try:
            os.close(end)
            with reaping.stopped(source):
                os.write(begin, b"x")
                os.read(ended, 1)
        finally:
            os._exit(0)
    os.close(ended)
    os.close(begin)
    os.read(begun, 1)
    os.close(begun)
    return end


def _become_sandbox(
    request: Mapping[str, Any], group: Group, limits: SandboxLimits, fds: list[int], copy: tuple[int, int] | None
) -> None:
    """In the namespaces that ``stage.enter`` made. ``copy``: the folder to copy, and what to close once it is done."""
    reply, stdin, output = fds
    place = Stage.from_json(request["stage"])
    seccomp = bytes.fromhex(request["seccomp"]) if request["seccomp"] else None
    held = None
    if copy is not None or group.controllers.version != 2:
        group.enter()
    else:
        held = _let_in_meanwhile(group, fds)
    stage.mount_disk(place, limits, copy_from=copy[0] if copy else None)
    for fd in copy or ():
        os.close(fd)
    stage.forbid_more_namespaces()
    stage.limit_resources(limits.memory_bytes, limits.n_processes, list(group.controllers.folders))
    tell(reply, monitor=os.getpid())  # raises when nobody waits for the start any more
    argv = [
        place.bwrap, *stage.session_argv(place),
        *stage.isolation_argv(request["environment"], hostname=request["hostname"], cwd=request["cwd"], seccomp=seccomp),
        "--as-pid-1", "--info-fd", str(reply), *(["--block-fd", str(held)] if held is not None else []), "--", *request["argv"],
    ]  # fmt: skip
    os.set_inheritable(reply, True)
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    stage.default_signals()
    os.execv(place.bwrap, argv)


def _let_in_meanwhile(group: Group, fds: Sequence[int]) -> int:
    """Have another process put this one and bwrap's child into the group while they go on: the kernel takes as long for that as
    the rest of a start takes. What is returned is for bwrap to read before it runs the session's first program.

    Where it cannot be done the start is killed; the hub looks at the group again before anybody uses the sandbox.
    """
    held, release = os.pipe()
    os.set_inheritable(held, True)
    monitor, spawner = os.getpid(), os.getppid()
    if os.fork():
        os.close(release)
        return held
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        for fd in (held, *fds):
            os.close(fd)
        group.let_in(monitor)
        group.let_in(_first_process(monitor, spawner))
        os.write(release, b"x")
    except BaseException:  # boundary: a sandbox without bounds must not run
        os.kill(monitor, signal.SIGKILL)
    finally:
        os._exit(0)


def _first_process(monitor: int, spawner: int) -> int:
    """The child of ``monitor`` that has process ids of its own. Raises OSError when there will be none."""
    depth = len(reaping.namespace_pids(os.getpid()))
    while (found := reaping.process(monitor)) is not None and found.parent == spawner:
        for child in reaping.children(monitor):
            if len(reaping.namespace_pids(child)) > depth:
                return child
        time.sleep(0.0003)
    raise OSError("bwrap ended before it had started anything")


@contextmanager
def _leaving_on_error(group: Group) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _leave(group)
        raise


def _leave(group: Group) -> None:
    """Take this process out of a group that could not be used, and remove it."""
    for root in group.controllers.roots():
        try:
            (root.parent / "cgroup.procs").write_text(str(os.getpid()), "utf-8")
        except OSError:
            continue
    for folder in group.folders():
        try:
            folder.rmdir()
        except OSError:
            continue


def _reap(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    session = _session(request["session"], spawner)
    seen = request["runner"]
    if seen is None:
        reaping.reap(session, None)
    elif (runner := reaping.host_pid(session, seen)) is not None:
        reaping.reap(session, runner)
    answer(fds[0])


def _exec(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """Descriptors: answer, stdin, stdout, stderr, and one that is closed when nobody waits any more."""
    session = _session(request["session"], spawner)
    run = judging.run if request["view"] == "judge" else visiting.run
    run(request, session, fds)


def _put(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """Descriptors: answer, content."""
    session = _session(request["session"], spawner)
    visiting.write_file(session, request["path"], fds[1], mode=request["mode"])
    answer(fds[0])


def _get(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    session = _session(request["session"], spawner)
    visiting.read_file(session, request["path"], request["max_bytes"], fds[0])


def _close(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    """Removes what is left of a sandbox, alive or not."""
    group = _group(request)
    ours = _own_processes(request, spawner)
    for pid in ours.values():
        visiting.kill_and_wait(pid)
    if "init" not in ours:
        folder, owner = Path(request["folder"]), Owner.parse(Path(request["folder"]).name)
        strays.kill(folder.parent, lambda found: found == owner, outside=spawner)
    group.controllers.group(judging.group_name(group)).remove()
    if not group.remove():
        raise OSError(f"processes of sandbox {group.name} cannot be killed: {sorted(group.members() or ())[:5]}")
    answer(fds[0], n_processes=0)


def _sweep(request: Mapping[str, Any], fds: list[int], spawner: int) -> None:
    controllers = _controllers(request)
    removed = {group.name: group.remove() for group in controllers.stale(request["alive"])}
    answer(fds[0], removed=[name for name, gone in removed.items() if gone])


def _own_processes(request: Mapping[str, Any], spawner: int) -> dict[str, int]:
    """By role, the processes that the sandbox was started with and that are still there."""
    known = {role: pid for role in ("init", "monitor") if (pid := request[role]) is not None}
    return {role: pid for role, pid in known.items() if _is_ours(pid, request["monitor"], spawner)}


def _is_ours(pid: int, monitor: int, spawner: int) -> bool:
    found = reaping.process(pid)
    return found is not None and found.parent == (spawner if pid == monitor else monitor)


def _session(raw: Mapping[str, Any], spawner: int) -> Session:
    session = Session(_group(raw), raw["monitor"], raw["init"])
    session.check(spawner)
    return session


def _group(raw: Mapping[str, Any]) -> Group:
    return _controllers(raw).group(raw["name"])


def _controllers(raw: Mapping[str, Any]) -> Controllers:
    return Controllers.from_json(raw["controllers"])


_OPERATIONS: Mapping[str, Operation] = {
    "prepare": _prepare,
    "start": _start,
    "copy": _copy,
    "reap": _reap,
    "exec": _exec,
    "put": _put,
    "get": _get,
    "close": _close,
    "sweep": _sweep,
}

"""The judge's view of a sandbox: programs from the untouched image, files as the session left them, nobody of the session awake.

Invariant: what the judge's process executes, loads or resolves by name lies in the image or in the judge's own mounts; from the
session it only gets data, read-only, while the session is stopped. Its /proc shows only itself; the session's processes are to
be seen, and only seen, in ``/run/session/proc``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from envhub.core.sandbox import SandboxLimits
from envhub.sandbox import reaping, stage, syscalls
from envhub.sandbox.cgroups import Group
from envhub.sandbox.reaping import Session
from envhub.sandbox.stage import Layer, Stage
from envhub.sandbox.supervision import answer, ends_in_time, exit_code

SESSION_TREE = "/run/session"
_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_OWN = (*_PROGRAMS, "proc", "dev", "tmp", "sys")
_MAX_TOP_ENTRIES = 256
"""Of the folder ``/``, the image's own first; more than that are only in the session's tree."""
_SCRATCH_BYTES = 32 << 20
_SCRATCH_INODES = 10_000


def run(request: Mapping[str, Any], session: Session, fds: list[int]) -> None:
    """Descriptors: answer, stdin, stdout, stderr, and one that is closed when nobody waits any more."""
    reply, *standard, listener = fds
    group = session.group.controllers.group(group_name(session.group))
    limits = SandboxLimits(**request["limits"])
    group.create(limits)
    try:
        with reaping.stopped(session):
            judge = os.fork()
            if judge == 0:
                _become_judge(request, session, group.entrances(), standard)
            for fd in standard:
                os.close(fd)
            in_time = ends_in_time(judge, request["timeout_s"], listener)
            if not in_time:
                os.kill(judge, signal.SIGKILL)
            code = exit_code(judge)
    finally:
        group.remove()
    answer(reply, exit_code=code if in_time else None)


def group_name(session: Group) -> str:
    return f"{session.name}.judge"


def _become_judge(request: Mapping[str, Any], session: Session, entrances: list[int], standard: list[int]) -> None:
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        for fd in entrances:
            os.write(fd, b"0")
            os.close(fd)
        for target, fd in enumerate(standard):
            os.dup2(fd, target)
        place = Stage.from_json(request["stage"])
        init = _join_stage(session)
        _mount_trees(place, init)
        seccomp = bytes.fromhex(request["seccomp"]) if request["seccomp"] else None
        cwd = request["cwd"] if _is_folder(_merged(place) + request["cwd"]) else "/"
        isolation = stage.isolation_argv(request["environment"], hostname=request["hostname"], cwd=cwd, seccomp=seccomp)
        bounded = list(request["session"]["controllers"]["folders"])
        stage.limit_resources(request["limits"]["memory_bytes"], request["limits"]["n_processes"], bounded)
        arguments = stage.file_with(os.fsencode("\0".join([*_judge_argv(place), *isolation, ""])))
        stage.default_signals()
        os.execv(place.bwrap, [place.bwrap, "--args", str(arguments), "--", *request["argv"]])
    except Exception as error:  # boundary: a view that was not made must not look like a check that failed
        os.write(2, f"bwrap: the judge's view could not be made: {error}\n".encode())
    finally:
        os._exit(1)


def _join_stage(session: Session) -> int:
    """Go to a copy of the mounts the session was made from: its disk and its image, not what it sees; a handle on its init."""
    init = os.pidfd_open(session.init)
    monitor = os.pidfd_open(session.monitor)
    syscalls.setns(monitor, syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    os.close(monitor)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
    return init


def _session_tree(place: Stage) -> str:
    return f"{place.scratch}/session"


def _merged(place: Stage) -> str:
    """The session's root with real folders, whatever it made of them, where the image's programs find their configuration."""
    return f"{place.scratch}/merged"


def _mount_trees(place: Stage, init: int) -> None:
    options = f"size={_SCRATCH_BYTES},nr_inodes={_SCRATCH_INODES},mode=0700"
    syscalls.mount("tmpfs", place.scratch, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    for name in ("session", "merged", "tmp", "tmp-up", "tmp-work"):
        os.mkdir(f"{place.scratch}/{name}")
    os.chmod(f"{place.scratch}/tmp-up", 0o1777)
    root, *others = place.layers
    _overlay(_merged(place), place.guards, place.upper(root), root.lower)
    _overlay(_session_tree(place), place.upper(root), root.lower)
    for layer in others:
        if _is_folder(_session_tree(place) + layer.path):
            _overlay(_session_tree(place) + layer.path, place.upper(layer), layer.lower)
    _mount_proc(f"{_session_tree(place)}/proc", init)
    lowers = _lowers(place, root, "tmp")
    if lowers:
        _overlay(f"{place.scratch}/tmp", *lowers, writes_to=f"{place.scratch}/tmp")
    else:
        os.chmod(f"{place.scratch}/tmp", 0o1777)


def _overlay(target: str, *lowers: str, writes_to: str | None = None) -> None:
    """The first of ``lowers`` is on top. Read-only unless ``writes_to``, the common beginning of two folders, is given."""
    options = f"lowerdir={':'.join(lower.replace(':', chr(92) + ':') for lower in lowers)},userxattr,index=off"
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    if writes_to is None:
        flags |= syscalls.MS_RDONLY
    else:
        options += f",upperdir={writes_to}-up,workdir={writes_to}-work"
    syscalls.mount("overlay", target, "overlay", flags, options)


def _lowers(place: Stage, layer: Layer, name: str) -> list[str]:
    """The folders that make up ``name`` in that layer's root, topmost first; none when it is no folder any more."""
    upper, lower = f"{place.upper(layer)}/{name}", f"{layer.lower}/{name}"
    if not os.path.lexists(upper):
        return [lower] if _is_folder(lower) else []
    if not _is_folder(upper):
        return []
    opaque = "user.overlay.opaque" in os.listxattr(upper, follow_symlinks=False)
    return [upper] if opaque or not _is_folder(lower) else [upper, lower]


def _mount_proc(target: str, init: int) -> None:
    """The session's own /proc, which only a process of its process id namespace can mount."""
    outer = os.fork()
    if outer == 0:
        try:
            syscalls.setns(init, syscalls.CLONE_NEWPID)
            if os.fork() == 0:
                flags = syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
                syscalls.mount("proc", target, "proc", flags)
            else:
                os.wait()
        finally:
            os._exit(0)
    os.waitpid(outer, 0)


def _judge_argv(place: Stage) -> list[str]:
    root, *others = place.layers
    argv: list[str] = []
    for name in _PROGRAMS:
        argv += _shown(f"{root.lower}/{name}", f"/{name}")
    for layer in others:
        argv += ["--ro-bind", layer.lower, layer.path]
    for path in place.hidden:
        argv += ["--tmpfs", path, "--remount-ro", path]
    in_image = set(os.listdir(root.lower))
    there = sorted(os.listdir(_merged(place)), key=lambda name: (name not in in_image, name))
    for name in there[:_MAX_TOP_ENTRIES]:
        if name not in _OWN:
            argv += _shown(f"{_merged(place)}/{name}", f"/{name}")
    for name in sorted(os.listdir(f"{place.guards}/etc")):
        if os.path.exists(f"{root.lower}/etc/{name}"):
            argv += ["--ro-bind", f"{root.lower}/etc/{name}", f"/etc/{name}"]
    argv += ["--ro-bind", _session_tree(place), SESSION_TREE, "--bind", f"{place.scratch}/tmp", "/tmp"]
    return [*argv, *stage.pseudo_argv(), "--remount-ro", "/dev"]


def _shown(source: str, target: str) -> list[str]:
    """A link stays a link: where it points is then looked up in the judge's own root."""
    if os.path.islink(source):
        return ["--symlink", os.readlink(source), target]
    return ["--ro-bind", source, target] if os.path.isdir(source) or os.path.isfile(source) else []


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)

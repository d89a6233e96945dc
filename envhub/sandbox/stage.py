"""The step between the spawner and bwrap: a user and mount namespace in which the session's capped disk is mounted.

Invariant: everything mounted here is private to the namespace and ends with it; the host's mount table never changes.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from envhub.core.sandbox import SandboxLimits
from envhub.sandbox import syscalls

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SAME_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
"""What the kernel does not let a namespace take away; these have the same bits when they are asked for and when they are told."""
_MASKED_PROC = ("kcore", "keys", "timer_list")
_SPARE_INODES = 32
_N_FILES = 131_072
"""Published set-ups write ``echo 123321>file``, which names a descriptor."""


_COPY_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}


class CopyError(Exception):
    """The files of one session do not go into another: what cp said, with paths of the machine."""


@dataclass(frozen=True, slots=True)
class Layer:
    """``lower``, read-only, shows at ``path``; what the session writes there goes to the folder ``name`` of its disk."""

    path: str
    lower: str
    name: str


@dataclass(frozen=True, slots=True)
class Stage:
    """``disk``: mount point of the session's disk; ``scratch``: another, for one judge's."""

    disk: str
    scratch: str
    layers: tuple[Layer, ...]
    hidden: tuple[str, ...]
    guards: str
    identity: bool
    bwrap: str

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Stage:
        layers = tuple(Layer(**layer) for layer in raw["layers"])
        return cls(**{**raw, "layers": layers, "hidden": tuple(raw["hidden"])})

    @property
    def folder(self) -> str:
        """The owner's own, which every bwrap of it names."""
        return os.path.dirname(self.disk)

    def upper(self, layer: Layer) -> str:
        return f"{self.disk}/up/{layer.name}"


def enter(*, identity: bool) -> None:
    """Give this process a user namespace, in which it is root, and a mount namespace.

    ``identity``: users 0..65535 are themselves inside; without it root is whoever runs this.
    """
    if identity:
        os.setgroups([])
        mapper, ready, mapped = _start_mapper(os.getpid())
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        os.write(ready, b"x")
        if os.read(mapped, 1) != b"x":
            raise OSError("the user map could not be written")
        os.close(ready)
        os.close(mapped)
        os.waitpid(mapper, 0)
    else:
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
    _guard_devices()


def _guard_devices() -> None:
    """The devices that bwrap shows to a session are the machine's own: read-only mounts of them take data and keep their modes."""
    for name in _DEVICES:
        path = f"/dev/{name}"
        if not os.path.exists(path):
            continue
        syscalls.mount(path, path, "", syscalls.MS_BIND)
        kept = os.statvfs(path).f_flag
        flags = kept & _SAME_FLAGS | (syscalls.MS_RELATIME if kept & os.ST_RELATIME else 0)
        syscalls.mount("none", path, "", syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | flags)


def mount_disk(stage: Stage, limits: SandboxLimits, *, copy_from: int | None) -> None:
    """Mount the session's disk; ``copy_from`` is a folder open on another's, whose content it gets.

    A full disk leaves a quarter of the memory: else the first process of the session might be the one that has to die for it.
    """
    size = min(limits.disk_bytes, limits.memory_bytes * 3 // 4)
    options = f"size={size},nr_inodes={limits.n_inodes + _SPARE_INODES},mode=0700"
    syscalls.mount("tmpfs", stage.disk, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    os.mkdir(f"{stage.disk}/work")
    for layer in stage.layers:
        os.mkdir(f"{stage.disk}/work/{layer.name}")
    if copy_from is not None:
        _copy(copy_from, f"{stage.disk}/up")
        return
    os.mkdir(f"{stage.disk}/up")
    for layer in stage.layers:
        lower = os.stat(layer.lower)
        os.mkdir(stage.upper(layer))
        os.chmod(stage.upper(layer), lower.st_mode & 0o7777)
    os.mkdir(f"{stage.disk}/up/shm")
    os.chmod(f"{stage.disk}/up/shm", 0o1777)


def _copy(folder: int, target: str) -> None:
    """Raises CopyError."""
    command = ["cp", "-a", f"/proc/self/fd/{folder}/.", target]
    done = subprocess.run(
        command, pass_fds=[folder], stdin=subprocess.DEVNULL, capture_output=True, check=False, env=_COPY_ENVIRONMENT
    )
    if done.returncode != 0:
        said = done.stderr[-2000:].decode("utf-8", "replace").strip()
        raise CopyError(f"cp ended with {done.returncode}: {said}")


def forbid_more_namespaces() -> None:
    """No user namespace below this one, for anybody."""
    _write("/proc/sys/user/max_user_namespaces", "0")


def session_argv(stage: Stage) -> list[str]:
    """bwrap's mounts for the session itself."""
    argv: list[str] = []
    for layer in stage.layers:
        argv += [
            "--overlay-src",
            layer.lower,
            "--overlay",
            stage.upper(layer),
            f"{stage.disk}/work/{layer.name}",
            layer.path,
        ]
    for path in stage.hidden:
        argv += ["--tmpfs", path, "--remount-ro", path]
    return [*argv, *pseudo_argv(), "--bind", f"{stage.disk}/up/shm", "/dev/shm", "--remount-ro", "/dev"]


def pseudo_argv() -> list[str]:
    """/proc and /dev, with what tells too much covered. What /proc takes, and the modes of its files, are the machine's, which a
    root under an identity map could change: it is read-only."""
    argv = ["--proc", "/proc", "--dev", "/dev"]
    for name in _MASKED_PROC:
        if os.path.exists(f"/proc/{name}"):
            argv += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [*argv, "--remount-ro", "/proc"]


def isolation_argv(environment: Mapping[str, str], *, hostname: str, cwd: str, seccomp: bytes | None) -> list[str]:
    """Namespaces, capabilities, seccomp and environment, the same for the session and its judges."""
    argv = [
        "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", hostname,
        "--new-session", "--die-with-parent", "--cap-drop", "ALL",
    ]  # fmt: skip
    for capability in syscalls.CAPABILITIES:
        argv += ["--cap-add", capability]
    if seccomp is not None:
        argv += ["--seccomp", str(file_with(seccomp))]
    argv.append("--clearenv")
    for name, value in environment.items():
        argv += ["--setenv", name, value]
    return [*argv, "--chdir", cwd]


def limit_resources(memory_bytes: int, n_processes: int, bounded: Sequence[str]) -> None:
    """Bounds per process; stand-ins for the controllers that are not in ``bounded``."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    n_files = _N_FILES if hard == resource.RLIM_INFINITY else min(_N_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, n_files), n_files))
    if "memory" not in bounded:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if "pids" not in bounded:
        resource.setrlimit(resource.RLIMIT_NPROC, (n_processes, n_processes))


def default_signals() -> None:
    """Python ignores some, who started it may have ignored others, and what it executes would go on ignoring them."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


def allow_many_files() -> None:
    """Raise this process's own bound to what a session may have, where the machine lets us: inside a namespace it is too late."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _N_FILES:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, _N_FILES))


def file_with(data: bytes) -> int:
    """An inheritable descriptor that reads ``data``."""
    fd = os.memfd_create("arguments")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    return fd


def _start_mapper(target: int) -> tuple[int, int, int]:
    """A process that stays outside and maps users 0..65535 of ``target`` to themselves when told to.

    Its pid, the pipe that tells it, the pipe that says it is done.
    """
    told, tell = os.pipe()
    done, say_done = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        try:
            os.close(tell)
            if os.read(told, 1) == b"x":
                for name in ("uid_map", "gid_map"):
                    _write(f"/proc/{target}/{name}", "0 0 65536")
                os.write(say_done, b"x")
        finally:
            os._exit(0)
    os.close(told)
    os.close(say_done)
    return mapper, tell, done


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

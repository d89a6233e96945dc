"""The mounts of a Docker sandbox, made from outside of it: the session's writable tree on its bounded disk, and a judge's view.

Invariant: nothing of the image or of the session is executed, and no path that a session can change is followed. Standard library
only, no import from envhub: the text of this file also runs in a container of its own where the hub may not enter namespaces.

The session's container has a read-only root and a size- and inode-capped tmpfs at ``/media``. ``tree`` puts an overlay of both in
the root's place before the first command; the old root stays out of sight, under ``/sys/firmware``, which Docker masks anyway.
``judge`` works in a second container of the same image that has the same tmpfs, read-only: the session's tree appears there
below ``/mnt/view`` with the image's programs, libraries and their settings over it, and as it is at ``/run/session`` of the view;
the session's processes are to be seen, and only seen, in ``/run/session/proc``. ``/tmp`` is the judge's own.
"""

from __future__ import annotations

import ctypes
import glob
import os
import subprocess
import sys

DISK = "/media"
STAGE = "/mnt"
VIEW = f"{STAGE}/view"
_HIDDEN = "/sys/firmware"
_FROM_IMAGE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr")
_SETTINGS_OF_PROGRAMS = ("alternatives", "java*", "ld.so.conf.d", "perl", "python[0-9]*", "ssl")
_SETTINGS_OF_LOADER = ("ld.so.cache", "ld.so.conf", "ld.so.preload")
_RDONLY, _NOSUID, _NODEV, _BIND, _MOVE, _DETACH = 0x1, 0x2, 0x4, 0x1000, 0x2000, 0x2
_REC, _REMOUNT = 0x4000, 0x20
_NEWNS = 0x00020000
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_CLONE_RECURSIVELY = 0x1 | 0x8000
_FROM_FD = 0x4

_libc = ctypes.CDLL(None, use_errno=True)


def tree(pid: int) -> None:
    """Give the container whose first process is ``pid`` its writable root."""
    _enter(pid)
    os.umask(0o022)
    upper, work, root = (f"{DISK}/{name}" for name in ("upper", "work", "root"))
    fresh = not os.path.isdir(upper)
    for folder in (upper, work, root):
        os.makedirs(folder, exist_ok=True)
    _mount("overlay", root, "overlay", 0, f"lowerdir=/,upperdir={upper},workdir={work}")
    if fresh:
        _write_names(root)
    for name in ("dev", "sys", "proc"):
        _mount(f"/{name}", f"{root}/{name}", "", _MOVE)
    _checked(_libc.pivot_root(root.encode(), (root + _HIDDEN).encode()), "pivot_root")
    _mount("none", _HIDDEN, "tmpfs", _RDONLY | _NOSUID | _NODEV, "size=4k,mode=0555")
    _mount("none", "/dev", "", _REMOUNT | _BIND | _RDONLY | _NOSUID)


def _write_names(root: str) -> None:
    """Files of the session's own, where Docker shows its. In bytes: in there, Python cannot load what it has not loaded yet."""
    os.makedirs(f"{root}/etc", exist_ok=True)
    texts = (("hosts", b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"), ("hostname", b"localhost\n"), ("resolv.conf", b""))
    for name, text in texts:
        with open(f"{root}/etc/{name}", "wb") as file:
            file.write(text)


def judge(pid: int, session: int) -> None:
    """Make the view in the judge's container, whose first process is ``pid``, anew."""
    _enter(session)
    processes = _libc.syscall(_OPEN_TREE, -100, b"/proc", ctypes.c_uint(_CLONE_RECURSIVELY))
    _checked(min(processes, 0), "open_tree of the session's /proc")
    _enter(pid)
    os.umask(0o022)
    while _libc.umount2(VIEW.encode(), _DETACH) == 0:
        pass
    over = f"{STAGE}/over"
    if not os.path.isdir(over):
        _make_overrides(over)
    os.makedirs(VIEW, exist_ok=True)
    upper = f"{DISK}/upper"
    _mount("overlay", VIEW, "overlay", _RDONLY, f"lowerdir={over}:{upper}:/")
    _mount("overlay", f"{VIEW}/run/session", "overlay", _RDONLY, f"lowerdir={upper}:/")
    for name in _FROM_IMAGE:
        if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"):
            _mount(f"/{name}", f"{VIEW}/{name}", "", _BIND)
    for path in _settings():
        _mount(path, VIEW + path, "", _BIND)
    for name in ("dev", "sys", "proc"):
        _mount(f"/{name}", f"{VIEW}/{name}", "", _BIND)
    _mount("/dev/shm", f"{VIEW}/dev/shm", "", _BIND)
    _mount("none", f"{VIEW}/tmp", "tmpfs", _NOSUID | _NODEV, "size=32m,nr_inodes=10000,mode=1777")
    seen = f"{VIEW}/run/session/proc"
    moved = _libc.syscall(_MOVE_MOUNT, processes, b"", -100, seen.encode(), ctypes.c_uint(_FROM_FD))
    _checked(moved, "move_mount of the session's /proc")
    _mount("none", seen, "", _REMOUNT | _BIND | _RDONLY)


def copy(source: str, target: str) -> None:
    """Copy the tree of one disk to another that has none yet, before ``tree`` is called for it."""
    command = ["cp", "-a", f"{source}/upper", f"{target}/upper"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _make_overrides(over: str) -> None:
    """A layer with what must come from the image, or as a place to mount it on; nothing of the session can show in its stead."""
    for name in _FROM_IMAGE:
        if os.path.islink(f"/{name}"):
            os.makedirs(over, exist_ok=True)
            os.symlink(os.readlink(f"/{name}"), f"{over}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.makedirs(f"{over}/{name}")
    for name in ("dev", "etc", "proc", "run/session", "sys", "tmp"):
        os.makedirs(f"{over}/{name}")
    for path in _settings():
        os.makedirs(over + path)
    for name in _SETTINGS_OF_LOADER:
        content = b""
        if os.path.isfile(f"/etc/{name}"):
            with open(f"/etc/{name}", "rb") as file:
                content = file.read()
        with open(f"{over}/etc/{name}", "wb") as file:
            file.write(content)


def _settings() -> list[str]:
    found = [path for name in _SETTINGS_OF_PROGRAMS for path in glob.glob(f"/etc/{name}")]
    return sorted(path for path in found if os.path.isdir(path) and not os.path.islink(path))


def _enter(pid: int) -> None:
    process = os.pidfd_open(pid)
    _checked(_libc.setns(process, _NEWNS), "setns")
    os.close(process)
    os.chdir("/")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _checked(done, f"mount {kind or source} on {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main(action: str, *arguments: str) -> None:
    if action == "copy":
        copy(*arguments)
    elif action == "tree":
        tree(int(arguments[0]))
    else:
        judge(*map(int, arguments))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))

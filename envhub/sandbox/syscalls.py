"""The Linux calls that Python does not wrap, each raising OSError: namespaces, mounts, capabilities, seccomp, death signals.

Invariant: standard library only and nothing at import but ``ctypes``, so that a process that forks often stays small.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MS_RELATIME = 0x200000

CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
}
"""What a session keeps: enough for chown, su, useradd and package managers, nothing that reaches the kernel or the host."""

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _checked(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _checked(result, f"mount {kind} on {target}")


def die_with_parent(signal: int) -> None:
    """Get ``signal`` when the thread that made this process ends; holds over exec."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def keep_capabilities(kept: Iterable[int]) -> None:
    """Give up every other capability, for this process and all that it will execute."""
    wanted = frozenset(kept)
    with open("/proc/sys/kernel/cap_last_cap", encoding="utf-8") as file:
        last = int(file.read())
    for capability in range(last + 1):
        if capability not in wanted:
            _prctl(_PR_CAPBSET_DROP, capability)
    mask = sum(1 << capability for capability in wanted)
    set_capabilities(mask)


def set_capabilities(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _checked(_libc.capset(header, data), "capset")


def load_seccomp(program: bytes) -> None:
    """``program``: an array of ``struct sock_filter``. Needs no_new_privileges first."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    code = ctypes.create_string_buffer(program, len(program))
    loaded = Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0), "seccomp")


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

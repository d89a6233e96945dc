"""The seccomp filter of a session: calls that reach the kernel's deeper parts, other processes' memory or new namespaces fail.

Invariant: a refused call fails with EPERM or, where programs then try an older call, ENOSYS; it never kills. Built by hand, so
that nothing needs libseccomp. Processes of another word size than the machine's get ENOSYS for every call.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and, for unshare, NEWTIME."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; others (vsock, packet, alg, ...) are not bound to a network namespace or not needed."""
_TERMINAL_INJECTIONS = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX."""


@dataclass(frozen=True, slots=True)
class _Machine:
    audit_arch: int
    calls: Mapping[str, int]


_NEW_CALLS = {
    "pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467,
}  # fmt: skip

_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        {
            "ioctl": 16, "socket": 41, "clone": 56, "ptrace": 101, "syslog": 103, "ustat": 136, "pivot_root": 155,
            "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
            "iopl": 172, "ioperm": 173, "create_module": 174, "init_module": 175, "delete_module": 176, "quotactl": 179,
            "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238,
            "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272,
            "move_pages": 279, "vmsplice": 278, "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
            "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
            "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321,
            "userfaultfd": 323, **_NEW_CALLS,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            "lookup_dcookie": 18, "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42,
            "quotactl": 60, "vmsplice": 75, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105,
            "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "settimeofday": 170,
            "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224,
            "swapoff": 225, "mbind": 235, "set_mempolicy": 237, "migrate_pages": 238, "move_pages": 239,
            "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
            "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
            "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294, **_NEW_CALLS,
        },
    ),
}  # fmt: skip

_WITH_ARGUMENTS = frozenset({"ioctl", "socket", "clone", "unshare"})
_ABSENT = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})
"""Programs fall back to older calls when these are not there."""


def supports(machine: str) -> bool:
    return machine in _MACHINES


def program(machine: str) -> bytes:
    """The filter for ``machine`` (as ``os.uname`` names it): an array of ``struct sock_filter``."""
    known = _MACHINES[machine]
    code = [_one(_LOAD, _ARCH), _one(_JUMP_EQUAL, known.audit_arch, then=1), _refuse(_ENOSYS), _one(_LOAD, _NR)]
    if machine == "x86_64":
        code += [_one(_JUMP_GREATER_EQUAL, 0x40000000, otherwise=1), _refuse(_ENOSYS)]  # the x32 calls
    for name, number in known.calls.items():
        if name not in _WITH_ARGUMENTS:
            code += [_one(_JUMP_EQUAL, number, otherwise=1), _refuse(_ENOSYS if name in _ABSENT else _EPERM)]
    for name in ("clone", "unshare"):
        code += _on_call(
            known.calls[name], [_one(_LOAD, _ARG0), _one(_JUMP_ANY_BIT, _flags(name), otherwise=1), _refuse(_EPERM)]
        )
    allowed = [_one(_JUMP_EQUAL, family, then=len(_FAMILIES) - i) for i, family in enumerate(_FAMILIES)]
    code += _on_call(known.calls["socket"], [_one(_LOAD, _ARG0), *allowed, _refuse(_EAFNOSUPPORT)])
    injected = [step for n in _TERMINAL_INJECTIONS for step in (_one(_JUMP_EQUAL, n, otherwise=1), _refuse(_EPERM))]
    code += _on_call(known.calls["ioctl"], [_one(_LOAD, _ARG1), *injected])
    return b"".join([*code, _one(_RETURN, _ALLOW)])


def _flags(name: str) -> int:
    """In clone's flags the low byte is a signal."""
    return _NEW_NAMESPACES if name == "unshare" else _NEW_NAMESPACES & ~0xFF


def _on_call(number: int, checks: list[bytes]) -> list[bytes]:
    """``checks`` run for that call only; what passes them is allowed."""
    return [_one(_JUMP_EQUAL, number, otherwise=len(checks) + 1), *checks, _one(_RETURN, _ALLOW)]


def _refuse(errno: int) -> bytes:
    return _one(_RETURN, _ERRNO | errno)


def _one(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; ``then`` and ``otherwise`` are how many instructions a jump skips."""
    return struct.pack("=HBBI", code, then, otherwise, value)

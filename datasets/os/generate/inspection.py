"""Functions that check scripts look at files with, shipped inside every state check as the text of this module.

Invariant: standard library only; nothing is followed, run or written; the session's tree is read where the judge has it mounted.
"""

import ctypes
import hashlib
import json
import os
import stat
import sys
from typing import Any, NoReturn

SESSION = "/run/session"
NOBODY = 65534


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def content(path: str, most: int = 4 << 20) -> bytes | None:
    """The bytes of a file of the session; None when it is not a regular file or far too large."""
    try:
        found = os.lstat(SESSION + path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        with open(SESSION + path, "rb") as opened:
            return opened.read()
    except OSError:
        return None


def fact(path: str, how: str = "") -> str:
    """What stands at a path. ``how``: m leaves out the mode, o the owner, c the content, t line ends at the end of the file."""
    try:
        found = os.lstat(SESSION + path)
    except OSError:
        return "nothing"
    words = []
    if "m" not in how and not stat.S_ISLNK(found.st_mode):
        words.append(oct(stat.S_IMODE(found.st_mode)))
    if "o" not in how:
        words.append(f"{found.st_uid}:{found.st_gid}")
    if stat.S_ISLNK(found.st_mode):
        return " ".join(["link", os.readlink(SESSION + path), *words])
    if stat.S_ISDIR(found.st_mode):
        return " ".join(["folder", *words])
    if not stat.S_ISREG(found.st_mode):
        return "other"
    if "c" in how:
        return " ".join(["file", *words])
    data = content(path)
    if data is None:
        return f"large {found.st_size}"
    return " ".join(["file", digest(data.rstrip(b"\r\n") if "t" in how else data), *words])


def below(root: str) -> list[str]:
    """Every path at and below a folder, links not followed."""
    found = []
    pending = [root]
    while pending:
        path = pending.pop()
        found.append(path)
        if stat.S_ISDIR(os.lstat(SESSION + path).st_mode):
            pending += [path.rstrip("/") + "/" + name for name in os.listdir(SESSION + path)]
    return sorted(found, key=os.fsencode)


def json_digest(path: str) -> str:
    """Of the value that a JSON file holds, however it is spelled."""
    try:
        value = json.loads(content(path) or b"")
        return digest(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
    except (ValueError, RecursionError):
        return "not JSON"


def outsider() -> dict[str, Any]:
    """Arguments of ``subprocess.run`` for what the agent wrote: it runs as nobody, where there is one, and cannot reach this check."""
    ctypes.CDLL(None).prctl(
        4, 0, 0, 0, 0
    )  # PR_SET_DUMPABLE: memory and environment of this process are closed to others
    with open("/proc/self/uid_map") as opened:
        spans = [[int(number) for number in line.split()] for line in opened]
    known = any(first <= NOBODY < first + n for first, _, n in spans)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if known else {}


def wrong(why: str) -> NoReturn:
    sys.stdout.write(why + "\n")
    raise SystemExit(1)


def compare(roots: tuple[str, ...], expected: dict[str, tuple[str, str]], rest: str) -> None:
    """``expected``: path to (how, fact). All other paths at and below the roots must together have the digest ``rest``."""
    for path, (how, wanted) in expected.items():
        found = fact(path, how)
        if found != wanted:
            wrong(f"{path!r} is {found!r}, not {wanted!r}")
    others = []
    for root in roots:
        if fact(root) == "nothing":
            wrong(f"{root!r} is gone")
        others += [f"{path} {fact(path)}" for path in below(root) if path not in expected]
    if digest("\n".join(others).encode("utf-8", "surrogateescape")) != rest:
        wrong("something else was changed, removed or added")

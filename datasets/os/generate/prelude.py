"""Functions that set-up scripts make files with, shipped inside every script as the text of this module.

Invariant: standard library only, and equal calls give equal files: no clock, no chance, every time stamp is given.
"""

import gzip
import os
import time

MOMENT = 1_700_000_000
_late: list[tuple[str, int, int]] = []


def rows(seed: int, n: int, form: str, *columns: list[str] | tuple[int, int] | tuple[int, int, int, str]) -> list[str]:
    """``n`` lines of ``form``. A column is a list to draw from, a range (low, high) or a rising (start, low, high, time format)."""
    rising = [column[0] if isinstance(column, tuple) else 0 for column in columns]
    lines = []
    for number in range(n):
        cells: list[str | int] = []
        for at, column in enumerate(columns):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            drawn = seed >> 33
            if isinstance(column, list):
                cells.append(column[drawn % len(column)])
            elif len(column) == 2:
                cells.append(column[0] + drawn % (column[1] - column[0] + 1))
            else:
                rising[at] += column[1] + drawn % (column[2] - column[1] + 1)
                cells.append(time.strftime(column[3], time.gmtime(rising[at])) if column[3] else rising[at])
        lines.append(form.format(*cells, n=number))
    return lines


def text(lines: list[str], end: str = "\n") -> str:
    return "".join(line + end for line in lines)


def folder(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0, mtime: int = MOMENT) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)
    os.chown(path, uid, gid)
    _late.append((path, mtime, mtime))


def file(
    path: str,
    data: str | bytes,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
    mtime: int = MOMENT,
    size: int | None = None,
    packed: bool = False,
) -> None:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    if packed:
        data = gzip.compress(data, 6, mtime=0)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)
        if size is not None:
            out.truncate(size)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    _late.append((path, mtime, mtime))


def link(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def hard(path: str, existing: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.link(existing, path)


def done() -> None:
    for path, accessed, changed in reversed(_late):
        os.utime(path, (accessed, changed))

"""Folders full of files, with the things that make real ones hard to count: odd names, hidden files, links, look-alikes.

Invariant: every file has an explicit size and time; no two entries of a folder have the same name.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Sequence

from drafts import Scope
from tree import Node
from words import CITIES, STEMS

DAY = 86_400
EXTENSIONS = ("log", "txt", "csv", "conf", "md", "json", "bak", "tmp", "dat", "xml")


def folders(scope: Scope, root: str, n: int) -> list[str]:
    """``n`` folders below ``root`` (and ``root`` itself first), some nested, some with a blank in the name, some hidden."""
    found = [root]
    scope.tree.folder(root)
    for _ in range(n):
        parent = scope.pick(*found[-4:], root)
        name = scope.part()
        name = scope.pick(
            name, name, name, f"{name} {scope.between(2, 9)}", f".{name}", f"{name}-{scope.between(1, 12)}"
        )
        if parent.count("/") - root.count("/") >= 3:
            parent = root
        path = f"{parent}/{name}"
        scope.tree.folder(path)
        found.append(path)
    return found


def file_name(scope: Scope, extension: str) -> str:
    stem = f"{scope.pick(*STEMS)}{scope.pick('', '', '-', '_', ' ', '.')}{scope.between(1, 999)}"
    return scope.pick(*["{}"] * 7, ".{}", "{} copy").format(stem) + (f".{extension}" if extension else "")


def fill(
    scope: Scope, places: Sequence[str], n: int, extensions: Sequence[str] = EXTENSIONS, *, largest: int = 60_000
) -> list[str]:
    """``n`` files spread over ``places``; sizes and times vary."""
    made: list[str] = []
    while len(made) < n:
        path = f"{scope.pick(*places)}/{file_name(scope, scope.pick(*extensions))}"
        if path in scope.tree.nodes:
            continue
        scope.tree.file(path, "", size=scope.between(1, largest), mtime=moment(scope))
        made.append(path)
    return made


def moment(scope: Scope) -> int:
    """Noon, or an hour or two off it, on a day of 2022 or 2023."""
    return timegm((2022, 1, 1, 12, 0, 0)) + scope.between(0, 700) * DAY + scope.between(-7200, 7200)


def date(moment_s: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment_s))


def lures(scope: Scope, places: Sequence[str], extension: str) -> None:
    """What a careless command takes for a file with the extension: a folder, a link, a name that only contains it."""
    tree = scope.tree
    targets = [path for path, node in tree.nodes.items() if node.kind == "file"]
    for number in range(scope.between(2, 4)):
        tree.folder(f"{scope.pick(*places)}/{scope.pick(*STEMS)}-set{number}.{extension}")
    for number in range(scope.between(2, 4)):
        tree.link(f"{scope.pick(*places)}/{scope.pick(*STEMS)}-link{number}.{extension}", scope.pick(*targets))
    for number in range(scope.between(2, 5)):
        name = f"{scope.pick(*STEMS)}-{number}.{extension}{scope.pick('.old', 'x', '~', '.1')}"
        tree.file(f"{scope.pick(*places)}/{name}", "", size=scope.between(1, 5000), mtime=moment(scope))


def newline_name(scope: Scope, place: str, extension: str) -> str:
    """A file whose name has a line end in it."""
    path = f"{place}/{scope.pick(*STEMS)}\n{scope.pick(*STEMS)}{scope.between(10, 99)}.{extension}"
    scope.tree.file(path, "", size=scope.between(1, 900), mtime=moment(scope))
    return path


def name(path: str) -> str:
    return path.rpartition("/")[2]


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def has_extension(path: str, extension: str) -> bool:
    return name(path).endswith(f".{extension}")


def sized(nodes: Sequence[Node]) -> int:
    return sum(node.n_bytes for node in nodes)


def city(scope: Scope) -> str:
    return scope.pick(*CITIES)

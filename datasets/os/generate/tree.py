"""A filesystem in memory: what a set-up script makes, and what a state check expects to find afterwards.

Invariant: the model holds exactly the files that the script of ``setup`` makes; folders made on the way are root's, mode 755.
"""

# wordings and scripts are kept in one piece
from __future__ import annotations

import copy
import inspect
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import inspection
import prelude
from prelude import MOMENT

Column = list[str] | tuple[int, int] | tuple[int, int, int, str]

_PRELUDE = inspect.getsource(prelude)
_INSPECTION = inspect.getsource(inspection)


@dataclass(frozen=True, slots=True)
class Node:
    """``kind``: file, folder or link; ``data`` is the content, or the target of a link. ``size`` is that of a sparse file."""

    kind: str
    data: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = MOMENT
    size: int | None = None

    @property
    def n_bytes(self) -> int:
        return len(self.data) if self.size is None else self.size


class Tree:
    """Files to be; the methods add one and note the call that makes it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._calls: list[str] = []

    def folder(self, path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        self._parents(path)
        self.nodes[path] = Node("folder", mode=mode, uid=uid, gid=gid)
        self._call("folder", path, mode=mode, uid=uid, gid=gid)

    def file(
        self,
        path: str,
        data: str | bytes,
        *,
        mode: int = 0o644,
        uid: int = 0,
        gid: int = 0,
        mtime: int = MOMENT,
        size: int | None = None,
    ) -> str:
        """The text is given back. ``size`` makes the rest a hole."""
        self._put(path, encoded(data), mode=mode, uid=uid, gid=gid, mtime=mtime, size=size)
        self._call("file", path, data, mode=mode, uid=uid, gid=gid, mtime=mtime, size=size)
        return data if isinstance(data, str) else ""

    def bulk(
        self,
        path: str,
        seed: int,
        n: int,
        form: str,
        *columns: Column,
        head: str = "",
        end: str = "\n",
        packed: bool = False,
        mode: int = 0o644,
        uid: int = 0,
        gid: int = 0,
        mtime: int = MOMENT,
    ) -> list[str]:
        """A file of lines that the script draws itself; the lines, without ``head``. ``packed`` files hold no model of their bytes."""
        lines = prelude.rows(seed, n, form, *columns)
        self._put(path, encoded(head + prelude.text(lines, end)), mode=mode, uid=uid, gid=gid, mtime=mtime, size=None)
        arguments = ", ".join([str(seed), str(n), repr(form), *map(repr, columns)])
        made = f"{head!r} + " * bool(head) + f"text(rows({arguments})" + f", {end!r}" * (end != "\n") + ")"
        options = _options(mode=mode, uid=uid, gid=gid, mtime=mtime, packed=packed)
        self._calls.append(f"file({path!r}, {made}{options})")
        return lines

    def link(self, path: str, target: str) -> None:
        self._parents(path)
        self.nodes[path] = Node("link", encoded(target))
        self._call("link", path, target)

    def hard(self, path: str, existing: str) -> None:
        self._parents(path)
        self.nodes[path] = self.nodes[existing]
        self._call("hard", path, existing)

    def code(self, lines: str) -> None:
        """Python that the set-up runs at this place; the model does not learn of what it does."""
        self._calls.append(lines)

    def setup(self) -> str:
        return "\n".join([_PRELUDE, *self._calls, "done()", ""])

    # What a solved task has changed; the set-up does not do it.

    def after(self) -> Tree:
        return copy.deepcopy(self)

    def change(self, path: str, **fields: object) -> None:
        self.nodes[path] = replace(self.nodes[path], **fields)  # type: ignore[arg-type]  # fields of Node

    def write(self, path: str, data: str | bytes, **fields: object) -> None:
        self._parents(path)
        self.nodes[path] = replace(Node("file", encoded(data)), **fields)  # type: ignore[arg-type]  # fields of Node

    def make(self, path: str, **fields: object) -> None:
        self._parents(path)
        self.nodes[path] = replace(Node("folder", mode=0o755), **fields)  # type: ignore[arg-type]  # fields of Node

    def remove(self, path: str) -> None:
        for gone in [each for each in self.nodes if each == path or each.startswith(path + "/")]:
            del self.nodes[gone]

    def move(self, path: str, to: str) -> None:
        for old in [each for each in self.nodes if each == path or each.startswith(path + "/")]:
            self._parents(to)
            self.nodes[to + old[len(path) :]] = self.nodes.pop(old)

    def below(self, root: str) -> Iterator[str]:
        """Every path at and below a folder."""
        return iter(sorted((p for p in self.nodes if p == root or p.startswith(root + "/")), key=os.fsencode))

    def files(self, root: str) -> list[tuple[str, Node]]:
        """Regular files below a folder, by path."""
        return [(path, self.nodes[path]) for path in self.below(root) if self.nodes[path].kind == "file"]

    def text(self, path: str) -> str:
        return self.nodes[path].data.decode("utf-8", "surrogateescape")

    def _put(self, path: str, data: bytes, *, mode: int, uid: int, gid: int, mtime: int, size: int | None) -> None:
        self._parents(path)
        self.nodes[path] = Node("file", data, mode, uid, gid, mtime, size)

    def _parents(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent not in ("", "/") and parent not in self.nodes:
            self._parents(parent)
            self.nodes[parent] = Node("folder", mode=0o755)

    def _call(self, name: str, *arguments: object, **options: object) -> None:
        self._calls.append(f"{name}({', '.join(map(repr, arguments))}{_options(**options)})")


def _options(**options: object) -> str:
    usual: dict[str, object] = {"uid": 0, "gid": 0, "mtime": MOMENT, "size": None, "packed": False}
    spelled = {
        key: f"0o{value:o}" if key == "mode" else repr(value)
        for key, value in options.items()
        if value != usual.get(key, "")
    }
    return "".join(f", {key}={value}" for key, value in spelled.items() if (key, value) != ("mode", "0o644"))


def encoded(data: str | bytes) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")


def fact(node: Node | None, how: str = "") -> str:
    """What ``inspection.fact`` says of a file like this."""
    if node is None:
        return "nothing"
    words = [oct(node.mode)] * ("m" not in how and node.kind != "link") + [f"{node.uid}:{node.gid}"] * ("o" not in how)
    if node.kind == "link":
        return " ".join(["link", node.data.decode("utf-8", "surrogateescape"), *words])
    if node.kind == "folder":
        return " ".join(["folder", *words])
    if "c" in how:
        return " ".join(["file", *words])
    if node.n_bytes > 4 << 20:
        return f"large {node.n_bytes}"
    data = node.data + bytes(node.n_bytes - len(node.data))
    return " ".join(["file", inspection.digest(data.rstrip(b"\r\n") if "t" in how else data), *words])


def state_check(
    before: Tree, after: Tree, roots: tuple[str, ...], *, loose: dict[str, str] | None = None, more: str = ""
) -> str:
    """A check that the roots look as in ``after`` and that nothing else in them differs from ``before``.

    ``loose`` says by path how a fact is taken (see ``inspection.fact``); paths named there are looked at wherever they lie.
    ``more`` is Python that goes on to look at what files alone do not show.
    """
    loose = loose or {}
    expected: dict[str, tuple[str, str]] = {}
    rest: list[str] = []
    inside = [path for root in roots for path in sorted({*before.below(root), *after.below(root)}, key=os.fsencode)]
    for path in dict.fromkeys([*inside, *loose]):
        was, is_now = before.nodes.get(path), after.nodes.get(path)
        if path in loose or fact(was) != fact(is_now):
            expected[path] = (loose.get(path, ""), fact(is_now, loose.get(path, "")))
        else:
            rest.append(f"{path} {fact(is_now)}")
    digest = inspection.digest("\n".join(rest).encode("utf-8", "surrogateescape"))
    return f"{_INSPECTION}\n\ncompare({roots!r}, {expected!r}, {digest!r})\n{more}"


def json_check(path: str, value: object) -> str:
    """Goes on in a state check: the file holds that value, however it is spelled."""
    wanted = inspection.digest(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
    return f"if json_digest({path!r}) != {wanted!r}:\n    wrong('other JSON')\n"

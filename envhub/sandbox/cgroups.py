"""Control groups of sandboxes: which controllers this machine lets us use, one group per sandbox, everything bounded and killed by it.

Invariant: a group is named ``OWNER.NAME`` below a folder ``envhub``, so that whose it is can be told from its name alone; what
the machine does not offer is left out, and ``Controllers.words`` says so.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.core.sandbox import SandboxLimits

FOLDER = "envhub"
_CPU_PERIOD_US = 100_000
_EXTRA_PROCESSES = 3
"""bwrap itself and whoever is just entering do not count against the session."""
_KILL_S = 5.0


@dataclass(frozen=True, slots=True)
class Controllers:
    """``folders``: controller (memory, pids, cpu, freezer) to the folder where groups are made. ``version`` 0 when there is none.

    In version 2 all controllers share one folder, and freezing and killing need none.
    """

    version: int
    folders: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Controllers:
        return cls(raw["version"], {name: Path(folder) for name, folder in raw["folders"].items()})

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "folders": {name: str(folder) for name, folder in self.folders.items()}}

    def words(self) -> Mapping[str, str]:
        """How each bound is kept; a bound that is missing is not kept by groups."""
        name = f"cgroup v{self.version}"
        return dict.fromkeys(self.folders, name)

    def group(self, name: str) -> Group:
        return Group(self, name)

    def stale(self, owner_is_alive: Mapping[str, bool]) -> Iterator[Group]:
        """Groups of owners that the mapping says are dead."""
        seen = {entry.name for folder in self.roots() for entry in folder.iterdir() if entry.is_dir()}
        for name in sorted(seen):
            if owner_is_alive.get(name.partition(".")[0]) is False:
                yield Group(self, name)

    def owners(self) -> set[str]:
        return {entry.name.partition(".")[0] for folder in self.roots() for entry in folder.iterdir() if entry.is_dir()}

    def roots(self) -> list[Path]:
        return list(dict.fromkeys(self.folders.values()))


@dataclass(frozen=True, slots=True)
class Group:
    controllers: Controllers
    name: str

    def folders(self) -> list[Path]:
        return [root / self.name for root in self.controllers.roots()]

    def create(self, limits: SandboxLimits) -> None:
        for folder in self.folders():
            folder.mkdir(exist_ok=True)
        for controller, settings in _settings(self.controllers.version, limits).items():
            root = self.controllers.folders.get(controller)
            for file, value in settings if root else ():
                _set(Path(root or "", self.name, file), value, required=file in _REQUIRED)

    def entrances(self) -> list[int]:
        """Files to write ``0`` to: a process of one thread that does it is in the group, with all it starts. The caller closes them.

        Version 1 moves the thread that asks at once; for a whole process the kernel waits until no other can be just starting.
        """
        name = "cgroup.procs" if self.controllers.version == 2 else "tasks"
        return [os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC) for folder in self.folders()]

    def enter(self) -> None:
        for fd in self.entrances():
            os.write(fd, b"0")
            os.close(fd)

    def let_in(self, pid: int) -> None:
        for folder in self.folders():
            (folder / "cgroup.procs").write_text(str(pid), "utf-8")

    def holds(self, pid: int) -> bool:
        """Whether every controller of the group bounds that process."""
        line = str(pid)
        return all(line in (folder / "cgroup.procs").read_text("utf-8").split() for folder in self.folders())

    def members(self) -> set[int] | None:
        """Process ids, as the host sees them; None when there are no groups on this machine."""
        folders = self.folders()
        if not folders:
            return None
        found: set[int] = set()
        for folder in folders:
            try:
                found.update(map(int, (folder / "cgroup.procs").read_text("utf-8").split()))
            except FileNotFoundError:
                continue
        return found

    def freeze(self) -> bool:
        """Stop every member; False when this machine cannot. Returns once they have stopped, or have had a second to."""
        switch = self._switch()
        if switch is None:
            return False
        file, on, _, state, frozen = switch
        _set(file, on, required=True)
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            if frozen in state.read_text("utf-8"):
                return True
            time.sleep(0.001)
        return True

    def thaw(self) -> None:
        switch = self._switch()
        if switch is not None:
            file, _, off, _, _ = switch
            _set(file, off, required=False)

    def _switch(self) -> tuple[Path, str, str, Path, str] | None:
        """File, value to freeze, value to thaw, file that tells the state, text there when frozen."""
        if self.controllers.version == 2:
            folder = self.controllers.folders["freezer"] / self.name
            return folder / "cgroup.freeze", "1", "0", folder / "cgroup.events", "frozen 1"
        freezer = self.controllers.folders.get("freezer")
        if freezer is None:
            return None
        file = freezer / self.name / "freezer.state"
        return file, "FROZEN", "THAWED", file, "FROZEN"

    def remove(self) -> bool:
        """Kill what is in it and remove it; False when something in it will not die. Idempotent."""
        until = time.monotonic() + _KILL_S
        pause_s = 0.0005
        while True:
            self._kill()
            left = [folder for folder in self.folders() if not _removed(folder)]
            if not left:
                return True
            if time.monotonic() > until:
                return False
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)

    def _kill(self) -> None:
        members = self.members()
        if not members:
            return
        for folder in self.folders() if self.controllers.version == 2 else ():
            _set(folder / "cgroup.kill", "1", required=False)
        for pid in members:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.thaw()


def detect(mountinfo: str, own_groups: str) -> Controllers:
    """What ``/proc/self/mountinfo`` and ``/proc/self/cgroup`` offer, tried by making our folder in each place."""
    own = {names: path for _, names, path in (line.split(":", 2) for line in own_groups.splitlines())}
    mounts = [_mount(line) for line in mountinfo.splitlines()]
    folders: dict[str, Path] = {}
    for point, root, kind, options in mounts:
        if kind != "cgroup":
            continue
        for controller in _V1 & set(options):
            if controller not in folders:
                mine = next((path for names, path in own.items() if controller in names.split(",")), "/")
                folder = _made(_below(point, root, mine))
                if folder is not None:
                    folders[controller] = folder
    if folders:
        return Controllers(1, folders)
    for point, root, kind, _ in mounts:
        if kind == "cgroup2" and (found := _unified(_below(point, root, own.get("", "/")))):
            return Controllers(2, found)
    return Controllers(0)


_V1 = {"memory", "pids", "cpu", "freezer"}
_REQUIRED = ("memory.limit_in_bytes", "memory.max", "pids.max", "freezer.state")


def _settings(version: int, limits: SandboxLimits) -> dict[str, Sequence[tuple[str, str]]]:
    memory, pids = str(limits.memory_bytes), str(limits.n_processes + _EXTRA_PROCESSES)
    quota = str(max(1000, int(limits.n_cpus * _CPU_PERIOD_US)))
    if version == 2:
        return {
            "memory": (("memory.max", memory), ("memory.swap.max", "0")),
            "pids": (("pids.max", pids),),
            "cpu": (("cpu.max", f"{quota} {_CPU_PERIOD_US}"),),
        }
    return {
        "memory": (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)),
        "pids": (("pids.max", pids),),
        "cpu": (("cpu.cfs_period_us", str(_CPU_PERIOD_US)), ("cpu.cfs_quota_us", quota)),
    }


def _set(file: Path, value: str, *, required: bool) -> None:
    try:
        file.write_text(value, "utf-8")
    except OSError:
        if required:
            raise


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise
    return True


def _mount(line: str) -> tuple[Path, str, str, list[str]]:
    """Mount point, root within the filesystem, kind, options of the filesystem."""
    before, after = line.split(" - ", 1)
    fields, (kind, _, options) = before.split(), after.split()
    return Path(fields[4].replace("\\040", " ")), fields[3], kind, options.split(",")


def _below(point: Path, root: str, path: str) -> Path:
    """Where the group ``path`` lies when ``root`` of its hierarchy is mounted at ``point``."""
    inside = os.path.relpath(path, root) if root != "/" else path.lstrip("/")
    folder = point / inside
    return point if inside.startswith("..") or not folder.is_dir() else folder


def _made(parent: Path) -> Path | None:
    folder = parent / FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _unified(base: Path) -> dict[str, Path] | None:
    """Version 2: controllers must be handed down, which a group with processes of its own may not do; ours move into a leaf."""
    folder = _made(base)
    if folder is None:
        return None
    offered = _V1 & set((base / "cgroup.controllers").read_text("utf-8").split())
    _hand_down(base, offered)
    _hand_down(folder, offered)
    down = _V1 & set((folder / "cgroup.subtree_control").read_text("utf-8").split())
    return dict.fromkeys([*sorted(down), "freezer"], folder)


def _hand_down(group: Path, controllers: set[str]) -> None:
    text = " ".join(f"+{name}" for name in sorted(controllers))
    try:
        (group / "cgroup.subtree_control").write_text(text, "utf-8")
    except OSError as error:
        if error.errno != errno.EBUSY or not _moved_to_leaf(group):
            return
        _set(group / "cgroup.subtree_control", text, required=False)


def _moved_to_leaf(group: Path) -> bool:
    """Only when every process of the group is this one, its parents or their children: then the group is ours alone."""
    pids = set(map(int, (group / "cgroup.procs").read_text("utf-8").split()))
    ours = _ancestors(os.getpid())
    if not all(pid in ours or ours & _ancestors(pid) - {0, 1} for pid in pids):
        return False
    leaf = group / f"{FOLDER}-hub"
    try:
        leaf.mkdir(exist_ok=True)
        for pid in pids:
            (leaf / "cgroup.procs").write_text(str(pid), "utf-8")
    except OSError:
        return False
    return True


def _ancestors(pid: int) -> set[int]:
    """``pid`` and its parents."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            break
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return found

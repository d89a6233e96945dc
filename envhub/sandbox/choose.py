"""Which sandbox driver a hub uses: the one it asks for, or the first that was tried and works.

Invariant: there is no unsafe driver to fall back to; with none that works, nothing starts.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from envhub.core.clock import Clock
from envhub.core.errors import SandboxUnavailableError, UnavailableError
from envhub.core.sandbox import SandboxDriver
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.docker import DockerDriver
from envhub.sandbox.docker_find import find
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import probe

log = logging.getLogger(__name__)

DriverName = Literal["auto", "bubblewrap", "docker"]
_FOLDER = "envhub-sandboxes"


def choose(
    name: DriverName,
    *,
    clock: Clock,
    owner: Owner | None = None,
    runtime: Path | None = None,
    image_root: Path | None = None,
    docker_url: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> SandboxDriver:
    """``runtime``: a folder for this user's drivers; ``image_root``: where prepared images lie. It tries a sandbox: takes a moment.

    ``docker_url``: the engine; without one it is looked for as Docker's own client does, by ``environ``.

    Raises SandboxUnavailableError that says why each driver does not work and what to install.
    """
    owner = owner or Owner.current()
    reasons: list[str] = []
    if name in ("auto", "bubblewrap"):
        try:
            return _logged(_bubblewrap(owner, clock, runtime or default_runtime(), image_root))
        except SandboxUnavailableError as error:
            reasons.append(f"bubblewrap: {error.message}")
    if name in ("auto", "docker"):
        try:
            return _logged(DockerDriver(clock=clock, url=find(docker_url, environ), owner=owner))
        except (SandboxUnavailableError, UnavailableError) as error:
            reasons.append(f"docker: {error.message}")
    raise SandboxUnavailableError(
        "no safe sandbox on this machine. "
        + "; ".join(reasons)
        + ". Install one: pip install 'envhub[os]' on a Linux that "
        "allows user namespaces, or a Docker engine that this user may use"
    )


def default_runtime() -> Path:
    """A folder of this user alone, on a disk that a restart of the machine empties where there is one."""
    base = Path("/run") if os.access("/run", os.W_OK) else Path(f"/run/user/{os.geteuid()}")
    if not os.access(base, os.W_OK):
        base = Path(tempfile.gettempdir())
    folder = base / (_FOLDER if base.is_relative_to("/run") else f"{_FOLDER}-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise SandboxUnavailableError(f"{folder} must be a folder that only this user can enter; remove it or fix it")
    return folder


def _bubblewrap(owner: Owner, clock: Clock, runtime: Path, image_root: Path | None) -> BubblewrapDriver:
    return BubblewrapDriver(probe(runtime), owner=owner, clock=clock, runtime=runtime, image_root=image_root)


def _logged(driver: SandboxDriver) -> SandboxDriver:
    """What it can enforce; asking a driver for it also shows that it answers."""
    can = driver.capabilities()
    log.info(
        "sandboxes: %s; %s; memory: %s; processes: %s; cpu: %s; disk: %s; network: %s",
        can.driver, can.isolation, can.memory, can.processes, can.cpu, can.disk, can.network,
    )  # fmt: skip
    for note in can.notes:
        log.warning("sandboxes: %s", note)
    return driver

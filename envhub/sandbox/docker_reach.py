"""How the hub gets at a container from outside of it: natively when it is root on the engine's machine, else through the engine.

Invariant: no program of a session or of a task's image ever runs with more than the session's own rights.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, SandboxLostError, UnavailableError
from envhub.sandbox import docker_mounts, reaping
from envhub.sandbox.cgroups import Controllers
from envhub.sandbox.docker_api import Engine, EngineError
from envhub.sandbox.docker_process import Command, Process
from envhub.sandbox.reaping import Session

_MOUNT_S = 60.0
_REAP_S = 10.0
_RETRY_S = 0.05
_MOUNTERS_RIGHTS = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "MKNOD",
    "SETFCAP",
    "SYS_ADMIN",
    "SYS_CHROOT",
    "SYS_PTRACE",
)
_SOURCE = Path(docker_mounts.__file__)


@dataclass(frozen=True, slots=True)
class Container:
    """``pid``: its first process, as the engine's machine sees it; ``disk``: the volume with its disk, and where that lies there."""

    id: str
    pid: int
    disk: str
    disk_path: str


class Reach(Protocol):
    words: str

    async def mount(self, action: str, *arguments: str) -> None:
        """Do ``docker_mounts`` things. Raises EpisodeFailedError."""

    async def copy_disk(self, source: Container, target: Container) -> None:
        """Raises EpisodeFailedError."""

    async def reap(self, container: Container, runner: int | None) -> None:
        """As ``Channel.reap``."""


def is_native(container: Container) -> bool:
    """Whether the engine's process ids are ours, and we may do all with them."""
    if os.geteuid() != 0:
        return False
    try:
        return container.id in Path(f"/proc/{container.pid}/cgroup").read_text("utf-8")
    except OSError:
        return False


class NativeReach:
    words = "by system calls of the hub"

    async def mount(self, action: str, *arguments: str) -> None:
        command = (sys.executable, "-I", "-S", str(_SOURCE), action, *arguments)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_MOUNT_S):
                _, said = await process.communicate()
        except TimeoutError as error:
            raise EpisodeFailedError(f"mounting ({action}) took more than {_MOUNT_S:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise EpisodeFailedError(f"mounting ({action}) failed: {said.decode('utf-8', 'replace').strip()}")

    async def copy_disk(self, source: Container, target: Container) -> None:
        await self.mount("copy", source.disk_path, target.disk_path)

    async def reap(self, container: Container, runner: int | None) -> None:
        await asyncio.to_thread(_reap, container, runner)


def _reap(container: Container, runner: int | None) -> None:
    session = _session(container)
    try:
        if runner is None:
            reaping.reap(session, None)
        elif (seen := reaping.host_pid(session, runner)) is not None:
            reaping.reap(session, seen)
    except (reaping.LostError, OSError) as error:
        raise SandboxLostError(f"the container is gone: {error}") from error


def _session(container: Container) -> Session:
    """The container as ``reaping`` knows sessions; it has no monitor that would have to be spared."""
    try:
        lines = Path(f"/proc/{container.pid}/cgroup").read_text("utf-8").splitlines()
    except OSError as error:
        raise SandboxLostError(f"the container is gone: {error}") from error
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    if not any(container.id in path for path in paths.values()):
        raise SandboxLostError("the container is gone: its process id is another's")
    controllers, name = _controllers(paths)
    return Session(controllers.group(name), monitor=-1, init=container.pid)


def _controllers(paths: Mapping[str, str]) -> tuple[Controllers, str]:
    """Where the engine keeps its groups, and the container's name there; none when they are not to be seen."""
    freezer, unified = paths.get("freezer"), paths.get("", "/")
    if freezer is not None:
        place, version = Path("/sys/fs/cgroup/freezer" + freezer), 1
    else:
        place, version = Path("/sys/fs/cgroup" + unified), 2
    if not (place / "cgroup.procs").is_file():
        return Controllers(0), place.name
    return Controllers(version, {"freezer": place.parent}), place.name


class EngineReach:
    """A hub that is not root there: mounts are made from a container with the rights to make them.

    It is of the base userland and runs the text of ``docker_mounts`` only.

    It sees the machine's process ids; it has no network and lives for one call.
    """

    words = "by short-lived containers with the rights to mount"

    def __init__(self, engine: Engine, *, image: str, name: str, labels: Mapping[str, str], clock: Clock) -> None:
        self._engine = engine
        self._image = image
        self._name = name
        self._labels = labels
        self._clock = clock
        self._numbers = itertools.count()
        self._text = _SOURCE.read_text("utf-8")

    async def mount(self, action: str, *arguments: str) -> None:
        await self._run([action, *arguments], {})

    async def copy_disk(self, source: Container, target: Container) -> None:
        await self._run(["copy", "/srv", "/media"], {source.disk: "/srv", target.disk: "/media"})

    async def _run(self, arguments: list[str], volumes: Mapping[str, str]) -> None:
        name = f"{self._name}-mount{next(self._numbers)}"
        host = {
            "CapDrop": ["ALL"],
            "CapAdd": list(_MOUNTERS_RIGHTS),
            "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"],
            "PidMode": "host",
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "Binds": [f"{volume}:{path}" for volume, path in volumes.items()],
        }
        command = ["python3", "-I", "-S", "-c", self._text, *arguments]
        body = {
            "Image": self._image,
            "Entrypoint": command,
            "Cmd": [],
            "HostConfig": host,
            "Labels": dict(self._labels),
        }
        try:
            await self._engine.call("POST", "/containers/create", body, params={"name": name})
            try:
                await self._engine.call("POST", f"/containers/{name}/start")
                ended = await self._engine.call("POST", f"/containers/{name}/wait", timeout_s=_MOUNT_S)
                if ended["StatusCode"] != 0:
                    said = await self._said(name)
                    raise EpisodeFailedError(f"mounting ({arguments[0]}) failed: {said}")
            finally:
                await self._engine.call("DELETE", f"/containers/{name}", params={"force": "1"})
        except EngineError as error:
            raise EpisodeFailedError(f"mounting ({arguments[0]}) failed: {error.message}") from error

    async def _said(self, name: str) -> str:
        params = {"logs": "1", "stream": "1", "stderr": "1"}
        stream = await self._engine.attach(f"/containers/{name}/attach", params=params)
        try:
            _, data = await stream.receive()
        finally:
            stream.close()
        return data.decode("utf-8", "replace").strip()

    async def reap(self, container: Container, runner: int | None) -> None:
        """By the session's own bash, with nothing but builtins; again while there is no room to start it."""
        command = Command(("/bin/bash", "--norc", "--noprofile", "-c", REAPER, "bash", str(runner or 0)))
        waited_s = 0.0
        while True:
            try:
                done = await Process(self._engine, container.id, command, clock=self._clock).run(timeout_s=_REAP_S)
                if done.exit_code == 0:
                    return
                problem = done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit code {done.exit_code}"
            except UnavailableError as error:
                problem = error.message
            waited_s += _RETRY_S
            if waited_s > _REAP_S:
                raise SandboxLostError(f"processes of the session cannot be killed: {problem}")
            await self._clock.sleep(_RETRY_S)


REAPER = r"""
stat() { local l; read -r l 2>/dev/null < "/proc/$1/stat" || return 1; set -- ${l##*) }; state=$1 parent=$2 born=${20}; }
shopt -s nullglob
runner=$1 since=0 spared=' 1 '
me=$BASHPID
while (( me > 0 )); do spared+="$me "; stat "$me" || break; me=$parent; done
if (( runner )); then
  stat "$runner" || exit 0
  since=$born
  while (( parent > 0 )); do spared+="$parent "; stat "$parent" || break; done
fi
for (( round = 0; round < 400; round++ )); do
  for signal in STOP KILL; do
    found=0
    for entry in /proc/[0-9]*; do
      pid=${entry#/proc/}
      [[ $spared == *" $pid "* ]] && continue
      stat "$pid" || continue
      [[ $state == [ZX] ]] && continue
      (( born > since || (born == since && pid >= runner) )) && found=1 && kill -"$signal" "$pid" 2>/dev/null
    done
  done
  (( found )) || exit 0
done
exit 1
"""
"""Kills the process with the pid that is its argument and everything that started after it, its ancestors spared; with 0, everything
but the first process. It leaves with 0 when all are gone; what was killed may need longer for that than it looks."""

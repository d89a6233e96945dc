"""The docker driver: a container per session, the same shell, a writable root on a disk of bounded size, no network.

Invariant: a container carries its owner's label from the moment it exists; whatever becomes of a call, its session's containers
are either in the hands of the caller or are being removed by the driver, and one session's trouble closes no other.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import shlex
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from envhub.core.clock import Clock
from envhub.core.errors import (
    EpisodeFailedError,
    SandboxFileError,
    SandboxLostError,
    SandboxUnavailableError,
    UnavailableError,
)
from envhub.core.sandbox import Capabilities, CommandResult, ProcessResult, SandboxLimits, SandboxSpec, View
from envhub.sandbox.docker_api import DEFAULT_URL, Attached, Engine, EngineError, ask
from envhub.sandbox.docker_mounts import DISK, STAGE, VIEW
from envhub.sandbox.docker_process import Command, Process
from envhub.sandbox.docker_reach import Container, EngineReach, NativeReach, Reach, is_native
from envhub.sandbox.image_build import REPOSITORY
from envhub.sandbox.loss import telling_whose_doing
from envhub.sandbox.owner import Owner
from envhub.sandbox.recipes import ENVIRONMENT
from envhub.sandbox.shell import Shell

log = logging.getLogger(__name__)

OWNER_LABEL, BOOT_LABEL, PIDS_LABEL, LOCAL_LABEL = "envhub.owner", "envhub.boot", "envhub.pids", "envhub.local"
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
_CREATE_S = 120.0
_REMOVE_S = 60.0
_FILE_S = 30.0
_SPARE_INODES, _SPARE_PROCESSES = 32, 3
_ENVIRONMENT = {**ENVIRONMENT, "HOME": "/root", "USER": "root", "LOGNAME": "root"}
_JUDGE_ENVIRONMENT = {**_ENVIRONMENT, "PYTHONNOUSERSITE": "1"}

T = TypeVar("T")


class DockerDriver:
    """``url``: where the engine listens. An image with ``/`` or ``:`` in its name is Docker's own, any other ``envhub/os-NAME``."""

    def __init__(
        self, *, clock: Clock, url: str = DEFAULT_URL, max_parallel_starts: int = 4, owner: Owner | None = None
    ) -> None:
        self._clock = clock
        self._engine = Engine(url)
        self._owner = owner or Owner.current()
        self._starts = asyncio.Semaphore(max_parallel_starts)
        self._numbers = itertools.count()
        self._labels = {**_place(is_local=self._engine.is_local), OWNER_LABEL: self._owner.label}
        self._reach: Reach | None = None
        self._sessions: set[DockerSandbox] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def capabilities(self) -> Capabilities:
        """Raises UnavailableError when the engine does not answer."""
        info = ask(self._engine.url, "/info")
        options = " ".join(info.get("SecurityOptions") or ())
        seccomp = "seccomp" in options
        notes = [] if seccomp else ["this engine does not filter system calls"]
        if "rootless" in options or "userns" in options:
            notes.append("with user namespaces of the engine, mounting the session's root may fail")
        return Capabilities(
            driver="docker",
            isolation=f"Docker {info['ServerVersion']}: capabilities dropped, no new privileges"
            + (", system calls filtered" if seccomp else ""),
            memory=_bound(info, "MemoryLimit", "cgroup; swap " + ("too" if info.get("SwapLimit") else "not")),
            processes=_bound(info, "PidsLimit", "cgroup"),
            cpu=_bound(info, "CpuCfsQuota", "cgroup"),
            disk="size and inodes of a tmpfs under an overlay; counts as memory",
            network="none",
            notes=tuple(notes),
        )

    def image_digest(self, image: str) -> str:
        reference = _reference(image)
        try:
            return str(ask(self._engine.url, f"/images/{reference}/json")["Id"])
        except EngineError as error:
            raise SandboxUnavailableError(_no_image(reference, image)) from error

    async def start(self, spec: SandboxSpec) -> DockerSandbox:
        return await self._handed_over(self._launched(spec, None))

    async def fork(self, sandbox: DockerSandbox) -> DockerSandbox:
        return await self._handed_over(self._launched(sandbox.spec, sandbox))

    async def _handed_over(self, launching: Awaitable[DockerSandbox]) -> DockerSandbox:
        """A caller that goes away meanwhile does not stop the launch; what comes of it is then removed."""
        task = self._own(asyncio.ensure_future(launching))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._own(asyncio.ensure_future(_discard(task)))
            raise

    def _own(self, task: asyncio.Future[T]) -> asyncio.Future[T]:
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _launched(self, spec: SandboxSpec, origin: DockerSandbox | None) -> DockerSandbox:
        if self._closed:
            raise UnavailableError("the docker driver is closed")
        sandbox = DockerSandbox(self, spec, f"envhub-{self._owner.token}-{next(self._numbers)}")
        self._sessions.add(sandbox)
        try:
            async with self._starts:
                await sandbox.open(origin)
        except BaseException:
            await asyncio.shield(sandbox.close())
            raise
        return sandbox

    async def sweep(self) -> int:
        """What this machine's dead owners left: of this boot by their process, of an earlier one all.

        A hub in a container sweeps after hubs that shared its process ids.
        """
        filters = json.dumps({"label": [OWNER_LABEL]})
        found = await self._engine.call("GET", "/containers/json", params={"all": "1", "filters": filters})
        dead = [each for each in found if _is_dead(each["Labels"], self._labels)]
        for each in sorted(dead, key=_is_session):
            await remove(self._engine, each["Id"], clock=self._clock)
        if dead:
            log.info("removed %d containers of dead owners", len(dead))
        return sum(map(_is_session, dead))

    async def close(self) -> None:
        self._closed = True
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sessions)), return_exceptions=True)
        await self._engine.close()

    # --- for the sandboxes ------------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def clock(self) -> Clock:
        return self._clock

    def forget(self, sandbox: DockerSandbox) -> None:
        self._sessions.discard(sandbox)

    def reach(self, container: Container) -> Reach:
        if self._reach is None:
            if is_native(container):
                self._reach = NativeReach()
            else:
                name = f"envhub-{self._owner.token}"
                base = _reference("default")
                self._reach = EngineReach(self._engine, image=base, name=name, labels=self._labels, clock=self._clock)
            log.info("docker sandboxes are mounted %s", self._reach.words)
        return self._reach

    async def create(self, name: str, image: str, command: Sequence[str], host: dict[str, Any], *, stdin: bool) -> None:
        """Raises SandboxUnavailableError without the image, EpisodeFailedError when the engine refuses."""
        body = {
            "Image": _reference(image),
            "Entrypoint": list(command),
            "Cmd": [],
            "Env": [f"{key}={value}" for key, value in _ENVIRONMENT.items()],
            "Hostname": "localhost",
            "Labels": self._labels,
            "NetworkDisabled": True,
            "OpenStdin": stdin,
            "AttachStdin": stdin,
            "StdinOnce": False,
            "StopSignal": "SIGKILL",
            "User": "0:0",
            "WorkingDir": "/",
            "HostConfig": host,
        }
        try:
            await self._engine.call("POST", "/containers/create", body, params={"name": name}, timeout_s=_CREATE_S)
        except EngineError as error:
            if error.status == 404:
                raise SandboxUnavailableError(_no_image(_reference(image), image)) from error
            raise EpisodeFailedError(f"the container could not be made: {error.message}") from error

    async def run(self, name: str) -> Container:
        """Start a container. Raises EpisodeFailedError."""
        try:
            await self._engine.call("POST", f"/containers/{name}/start", timeout_s=_CREATE_S)
            return _container(await self._engine.call("GET", f"/containers/{name}/json"))
        except EngineError as error:
            raise EpisodeFailedError(f"the container did not start: {error.message}") from error


class DockerSandbox:
    """``open`` is the driver's; everything else the session's."""

    def __init__(self, driver: DockerDriver, spec: SandboxSpec, name: str) -> None:
        self.spec = spec
        self._driver = driver
        self._engine = driver.engine
        self._name = name
        self._container: Container | None = None
        self._judge: Container | None = None
        self._stream: Attached | None = None
        self._shell: Shell | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open(self, origin: DockerSandbox | None) -> None:
        await self._driver.create(
            self._name, self.spec.image, Shell.program(), _session_host(self.spec.limits), stdin=True
        )
        params = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        try:
            self._stream = await self._engine.attach(f"/containers/{self._name}/attach", params=params)
        except EngineError as error:
            raise EpisodeFailedError(f"the container cannot be attached to: {error.message}") from error
        container = self._container = await self._driver.run(self._name)
        reach = self._driver.reach(container)
        state = _first_state(self.spec) if origin is None else await origin._copied(reach, container)
        await reach.mount("tree", str(container.pid))
        self._shell = Shell(_Channel(self._stream, container, reach), clock=self._driver.clock)
        await self._shell.start(state)

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        shell, _ = self._alive()
        async with telling_whose_doing(self._has_ended_itself):
            return await shell.run(script, timeout_s=timeout_s, max_bytes=max_bytes)

    async def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", view: View = "session"
    ) -> ProcessResult:
        self._alive()
        async with telling_whose_doing(self._has_ended_itself):
            if view == "judge":
                return await self._judged(Command(argv, _JUDGE_ENVIRONMENT, stdin, prefix=("chroot", VIEW)), timeout_s)
            return await self._visited(Command(argv, _ENVIRONMENT, stdin), timeout_s)

    async def _has_ended_itself(self) -> bool:
        """The container has ended while the engine lives, and nobody asked the engine to end it."""
        if self._closing is not None or self._container is None:
            return False
        try:
            for _ in range(20):
                found = await self._engine.call("GET", f"/containers/{self._container.id}/json")
                if not found["State"]["Running"]:
                    break
                await self._driver.clock.sleep(0.05)
            else:
                return False
            info = await self._engine.call("GET", "/info")
            asked = {"container": [self._container.id], "event": ["kill", "stop", "destroy"]}
            began, now = (datetime.fromisoformat(at) for at in (found["Created"], info["SystemTime"]))
            return not await self._engine.events(began.timestamp(), now.timestamp(), asked)
        except (EngineError, UnavailableError) as error:
            log.info("who ended container %s is not known: %s", self._name, error.message)
            return False

    async def _visited(self, command: Command, timeout_s: float) -> ProcessResult:
        _, container = self._alive()
        process = Process(self._engine, container.id, command, clock=self._driver.clock)
        done = await process.run(timeout_s=timeout_s)
        if done.timed_out and process.pid is not None:
            await self._driver.reach(container).reap(container, process.pid)
        return done

    async def _judged(self, command: Command, timeout_s: float) -> ProcessResult:
        """Nobody of the session runs meanwhile; what a judge leaves running goes with its container."""
        _, container = self._alive()
        if self._judge is None:
            self._judge = await self._appointed(container)
        judge = self._judge
        await self._pause(container, "pause")
        try:
            await self._driver.reach(container).mount("judge", str(judge.pid), str(container.pid))
            done = await Process(self._engine, judge.id, command, clock=self._driver.clock).run(timeout_s=timeout_s)
        finally:
            await asyncio.shield(self._pause(container, "unpause"))
        if done.timed_out:
            await self._dismissed()
        return done

    async def _appointed(self, container: Container) -> Container:
        name = f"{self._name}-judge"
        await remove(self._engine, name, clock=self._driver.clock)
        host = _judge_host(self.spec.limits, container)
        await self._driver.create(name, self.spec.image, ("sleep", "infinity"), host, stdin=False)
        return await self._driver.run(name)

    async def _dismissed(self) -> None:
        self._judge = None
        await remove(self._engine, f"{self._name}-judge", clock=self._driver.clock)

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        command = Command(("/bin/sh", "-c", _PUT, "sh", _absolute(path), f"{mode:o}"), _ENVIRONMENT, data)
        done = await self._visited(command, _FILE_S)
        if done.exit_code != 0:
            raise SandboxFileError(f"cannot write {path}: {_reason(done)}")

    async def get(self, path: str, *, max_bytes: int) -> bytes:
        argv = ("/bin/sh", "-c", _GET, "sh", _absolute(path), str(max_bytes + 1))
        done = await self._visited(Command(argv, _ENVIRONMENT, max_bytes=max_bytes + 1), _FILE_S)
        if done.exit_code != 0:
            raise SandboxFileError(f"cannot read {path}: {_reason(done)}")
        if len(done.stdout) > max_bytes:
            raise SandboxFileError(f"{path} has more than {max_bytes} bytes")
        return done.stdout

    async def fork(self) -> DockerSandbox:
        self._alive()
        return await self._driver.fork(self)

    async def _copied(self, reach: Reach, target: Container) -> bytes:
        """Give ``target`` a copy of the files; the state of the shell."""
        shell, container = self._alive()
        state = await shell.checkpoint()
        await self._pause(container, "pause")
        try:
            await reach.copy_disk(container, target)
        finally:
            await asyncio.shield(self._pause(container, "unpause"))
        return state

    async def _pause(self, container: Container, verb: str) -> None:
        try:
            await self._engine.call("POST", f"/containers/{container.id}/{verb}")
        except EngineError as error:
            raise SandboxLostError(f"the container is gone: {error.message}") from error

    def _alive(self) -> tuple[Shell, Container]:
        if self._closing is not None or self._shell is None or self._container is None:
            raise SandboxLostError("the sandbox is closed")
        return self._shell, self._container

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._closed(), name=f"close {self._name}")
        await asyncio.shield(self._closing)

    async def _closed(self) -> None:
        try:
            if self._shell is not None:
                await self._shell.close()
            if self._stream is not None:
                self._stream.close()
            for name in (f"{self._name}-judge", self._name):
                await remove(self._engine, name, clock=self._driver.clock)
        except UnavailableError as error:
            log.error("container %s may be left behind until the next start: %s", self._name, error)
        finally:
            self._driver.forget(self)


class _Channel:
    def __init__(self, stream: Attached, container: Container, reach: Reach) -> None:
        self._stream = stream
        self._container = container
        self._reach = reach

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except OSError as error:
            raise SandboxLostError(f"the container is gone: {error}") from error

    async def receive(self) -> bytes:
        _, data = await self._stream.receive()
        return data

    async def reap(self, runner: int | None) -> None:
        await self._reach.reap(self._container, runner)


async def remove(engine: Engine, name: str, *, clock: Clock) -> None:
    """Kill and remove a container and its disk; one that is gone or going is as good. Raises UnavailableError."""
    waited_s = 0.0
    while True:
        try:
            await engine.call("DELETE", f"/containers/{name}", params={"force": "1", "v": "1"}, timeout_s=_REMOVE_S)
            return
        except EngineError as error:
            if error.status == 404:
                return
            problem: Exception = error
        except UnavailableError as error:
            problem = error
        waited_s += 0.1
        if waited_s > 3.0:
            raise UnavailableError(f"container {name} cannot be removed: {problem}") from problem
        await clock.sleep(0.1)


async def _discard(launching: Awaitable[DockerSandbox]) -> None:
    try:
        sandbox = await launching
    except Exception as error:  # boundary: nobody waits for it any more
        log.debug("a start that was given up failed: %s", error)
        return
    await sandbox.close()


def _session_host(limits: SandboxLimits) -> dict[str, Any]:
    options = f"size={limits.disk_bytes},nr_inodes={limits.n_inodes + _SPARE_INODES},mode=0755"
    disk = {
        "Type": "volume",
        "Target": DISK,
        "VolumeOptions": {
            "NoCopy": True,
            "DriverConfig": {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": options}},
        },
    }
    return {**_host_config(limits), "CapAdd": list(_CAPABILITIES), "Mounts": [disk]}


def _judge_host(limits: SandboxLimits, session: Container) -> dict[str, Any]:
    stage = {STAGE: "size=4m,mode=0755"}
    disk = {"Type": "volume", "Source": session.disk, "Target": DISK, "ReadOnly": True}
    return {
        **_host_config(limits),
        "CapAdd": [*_CAPABILITIES, "SYS_CHROOT"],
        "Mounts": [disk],
        "Tmpfs": stage,
        "Init": True,
    }


def _host_config(limits: SandboxLimits) -> dict[str, Any]:
    return {
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "PidsLimit": limits.n_processes + _SPARE_PROCESSES,
        "NanoCpus": int(limits.n_cpus * 1e9),
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "NetworkMode": "none",
        "IpcMode": "private",
        "ReadonlyRootfs": True,
        "LogConfig": {"Type": "none"},
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
    }


def _container(raw: dict[str, Any]) -> Container:
    if not raw["State"]["Running"]:
        raise EpisodeFailedError(f"the container ended at once: exit code {raw['State']['ExitCode']}")
    disk = next(mount for mount in raw["Mounts"] if mount["Destination"] == DISK)
    return Container(raw["Id"], raw["State"]["Pid"], disk["Name"], disk["Source"])


def _first_state(spec: SandboxSpec) -> bytes:
    lines = [f"builtin export {name}={shlex.quote(value)}" for name, value in spec.environment.items()]
    return "\n".join([*lines, f"builtin cd -- {shlex.quote(spec.cwd)}"]).encode()


def _reference(image: str) -> str:
    return image if "/" in image or ":" in image else REPOSITORY + image


def _no_image(reference: str, image: str) -> str:
    if reference == image:
        return f"Docker has no image {reference}; pull or build it"
    return f"Docker has no image {reference}; make it with: envhub images build os --image {image} --docker"


def _bound(info: dict[str, Any], key: str, words: str) -> str:
    return words if info.get(key) else "none"


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise SandboxFileError(f"{path!r} is not an absolute path")
    return path


def _reason(done: ProcessResult) -> str:
    if done.timed_out:
        return "it took too long"
    return done.stderr.decode("utf-8", "replace").strip()[:500] or f"exit code {done.exit_code}"


def _place(*, is_local: bool) -> dict[str, str]:
    """This boot of this machine, and which process ids mean something here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return {BOOT_LABEL: boot, PIDS_LABEL: str(os.stat("/proc/self/ns/pid").st_ino), LOCAL_LABEL: str(is_local).lower()}


def _is_dead(theirs: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Only what is certain: an owner on another machine, or in another container, may well live."""
    owner = Owner.parse(theirs[OWNER_LABEL])
    if owner is None:
        return False
    if theirs.get(BOOT_LABEL) != ours[BOOT_LABEL]:
        return theirs.get(LOCAL_LABEL) == ours[LOCAL_LABEL] == "true"
    return theirs.get(PIDS_LABEL) == ours[PIDS_LABEL] and not owner.alive


def _is_session(container: Mapping[str, Any]) -> bool:
    return not container["Names"][0].endswith("-judge")


_PUT = """
if [ -e "$1" ] && [ ! -f "$1" ]; then echo 'not a regular file' >&2; exit 1; fi
mkdir -p -- "${1%/*}/" && cat > "$1" && chmod -- "$2" "$1"
"""
_GET = """
[ -e "$1" ] || { echo 'no such file' >&2; exit 1; }
[ -f "$1" ] || { echo 'not a regular file' >&2; exit 1; }
exec head -c "$2" -- "$1"
"""

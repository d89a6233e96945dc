"""The ``bubblewrap`` driver: each sandbox is a bwrap with namespaces, a capped disk in memory, and control groups.

Invariant: a sandbox has nothing on the machine but its processes and its control groups, both named after their owner before
they exist; its mounts live in a namespace that ends with its processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, SandboxUnavailableError, UnavailableError
from envhub.core.sandbox import Capabilities, Sandbox, SandboxSpec
from envhub.sandbox import images, seccomp, strays, userland
from envhub.sandbox.bubblewrap_sandbox import BubblewrapSandbox, Setting
from envhub.sandbox.images import PreparedImage
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import Machine
from envhub.sandbox.shell import NOT_COPIED
from envhub.sandbox.spawner_link import SpawnerLink
from envhub.sandbox.stage import Stage
from envhub.sandbox.userland import Userland

log = logging.getLogger(__name__)


_NOT_COPIED = {
    "ENOSPC": "its disk has no inodes left",
    "No space left on device": "its disk has no room left",
    "File name too long": "its folders are nested too deeply",
    "execvp": "its /bin/bash cannot be run",
    "CopyError": "not all of its files can be read",
}
"""What agents do to a system that keeps it from being copied: what cp and bwrap say then, and words for it."""


class BubblewrapDriver:
    """Of one event loop. ``runtime`` is a folder of this user alone; each owner has one of its own in it."""

    def __init__(
        self, machine: Machine, *, owner: Owner, clock: Clock, runtime: Path, image_root: Path | None = None
    ) -> None:
        self._machine = machine
        self._owner = owner
        self._clock = clock
        self._runtime = runtime
        self._folder = runtime / owner.label
        self._image_root = image_root
        self._link: SpawnerLink | None = None
        self._open: set[BubblewrapSandbox] = set()
        self._userlands: dict[str, Userland] = {}
        self._starting = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        self._seccomp = seccomp.program(machine.architecture).hex() if seccomp.supports(machine.architecture) else None
        self._closed = False
        for name in ("disk", "scratch"):
            (self._folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def capabilities(self) -> Capabilities:
        return self._machine.capabilities()

    def image_digest(self, image: str) -> str:
        return self._userland(image).digest

    async def start(self, spec: SandboxSpec) -> Sandbox:
        return await self._start(spec, source=None, restore=None)

    async def sweep(self) -> int:
        """Processes and mounts of a dead owner have ended with it, but for strays; control groups and its folder are left too."""
        n_strays = await asyncio.to_thread(strays.kill, self._runtime, lambda owner: not owner.alive)
        controllers = self._machine.controllers
        folders = {path.name: path for path in self._runtime.iterdir() if path != self._folder}
        owners = {label: Owner.parse(label) for label in {*controllers.owners(), *folders}}
        dead = {label for label, owner in owners.items() if owner is not None and not owner.alive}
        removed: list[str] = []
        if dead & controllers.owners():
            request = {"op": "sweep", "controllers": controllers.to_json(), "alive": dict.fromkeys(dead, False)}
            answer, _ = await self.spawner().request(request)
            removed = [name for name in answer["removed"] if not name.endswith(".judge")]
        for label in dead & folders.keys():
            shutil.rmtree(folders[label], ignore_errors=True)
        return max(len(removed), n_strays)

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._open)))
        if self._link is not None:
            await asyncio.to_thread(self._link.close)
            self._link = None
            await asyncio.to_thread(strays.kill, self._runtime, lambda owner: owner == self._owner)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _userland(self, image: str) -> Userland:
        """Raises SandboxUnavailableError."""
        prepared = self._prepared(image)
        name = f"{image}-{prepared.digest[:16]}" if prepared is not None else image
        if name not in self._userlands:
            folder = self._folder / "userlands"
            made = (
                userland.of_image(prepared, folder / name)
                if prepared is not None
                else userland.of_host(folder / "host")
            )
            self._userlands[name] = made
            log.info(
                "sandboxes of image %s start from %s",
                image,
                made.layers[0].lower if prepared else "this machine's /usr",
            )
        return self._userlands[name]

    def _prepared(self, image: str) -> PreparedImage | None:
        """None: the view of the machine. An image of another user is no use: its root's files would be nobody's inside."""
        found = images.find(image, self._image_root)
        if found is not None and found.owner_uid == os.geteuid():
            return found
        if image != userland.HOST_VIEW:
            found = images.require(image, self._image_root)
            raise SandboxUnavailableError(
                f"the image {image!r} in {found.rootfs} belongs to user {found.owner_uid}; prepare it as user {os.geteuid()}"
            )
        return None

    def _stage(self, image: str) -> Stage:
        tree = self._userland(image)
        return Stage(
            disk=str(self._folder / "disk"),
            scratch=str(self._folder / "scratch"),
            layers=tree.layers,
            hidden=tree.hidden,
            guards=str(tree.guards),
            identity=self._machine.identity,
            bwrap=str(self._machine.bwrap),
        )

    async def _start(
        self, spec: SandboxSpec, *, source: BubblewrapSandbox | None, restore: bytes | None
    ) -> BubblewrapSandbox:
        self._check_open()
        place = self._stage(spec.image)
        async with self._starting:
            self._check_open()
            sandbox = BubblewrapSandbox.prepared(
                self,
                Setting(spec, place, self._machine.controllers, self._seccomp),
                label=self._owner.label,
                clock=self._clock,
            )
            self._open.add(sandbox)
            try:
                await sandbox.start(source, restore)
            except BaseException:
                await asyncio.shield(sandbox.close())
                raise
        return sandbox

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the sandbox driver is closed")

    async def copy(self, source: BubblewrapSandbox, state: bytes) -> Sandbox:
        """A sandbox that starts with the files of ``source`` and its shell in that state.

        Raises EpisodeFailedError that says why in words; paths of the machine are for the log.
        """
        try:
            return await self._start(source.setting.spec, source=source, restore=state)
        except EpisodeFailedError as error:
            log.warning("a sandbox was not copied: %s", error.message)
            reason = next(
                (words for sign, words in _NOT_COPIED.items() if sign in error.message), "its copy does not start"
            )
            raise EpisodeFailedError(f"{NOT_COPIED}: {reason}") from error

    def forget(self, sandbox: BubblewrapSandbox) -> None:
        self._open.discard(sandbox)

    def spawner(self) -> SpawnerLink:
        """The one that runs; a new one when there is none or it has died."""
        if self._link is None or not self._link.alive:
            if self._link is not None:
                log.error("the spawner of sandboxes died; its sandboxes are lost and a new one starts")
                self._link.close()
            self._link = SpawnerLink.spawn()
        return self._link

"""Building of userlands: by debootstrap or by a Docker engine, into a folder of prepared images, and into the engine for its driver.

Invariant: one build at a time per folder; a build that fails or dies leaves nothing that ``images.find`` finds, and the next build
removes what it left. No mount that a build makes outlives it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from envhub.core.errors import SandboxUnavailableError, UnavailableError
from envhub.sandbox import images
from envhub.sandbox.images import PreparedImage
from envhub.sandbox.recipes import COMMON, CWD, ENVIRONMENT, SUITE, Recipe

log = logging.getLogger(__name__)

REPOSITORY = "envhub/os-"
DIGEST_LABEL = "envhub.digest"
_MAKING = ".making-"
_LAST_LINES = 15


def usual_way() -> Literal["debootstrap", "docker"]:
    """debootstrap for root who has it, else Docker."""
    return "debootstrap" if os.geteuid() == 0 and shutil.which("debootstrap") else "docker"


def build_with_debootstrap(recipe: Recipe, root: Path) -> PreparedImage:
    """Needs root and a Debian mirror. Raises SandboxUnavailableError that says what is missing, UnavailableError when it failed."""
    if os.geteuid() != 0:
        raise SandboxUnavailableError("debootstrap needs root; as a user who may use Docker, build with: --from docker")
    if shutil.which("debootstrap") is None:
        raise SandboxUnavailableError(
            "debootstrap is not installed; apt install debootstrap, or build with: --from docker"
        )
    with _making(root) as making:
        rootfs = making / "rootfs"
        packages = COMMON.replace(" ", ",")
        _run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(rootfs))
        _run("chroot", str(rootfs), "/bin/sh", "-s", script=recipe.script())
        return _published(recipe, making, root, made=f"debootstrap {SUITE}")


def build_with_docker(recipe: Recipe, root: Path) -> PreparedImage:
    """Needs the docker program, an engine, and an image debian:bookworm-slim that it has or can pull. Raises as above."""
    _need_docker()
    tag = REPOSITORY + recipe.name
    _run("docker", "build", "--quiet", "--tag", tag, "-", script=recipe.dockerfile())
    with _making(root) as making:
        archive = making / "archive.tar"
        container = _run("docker", "create", tag).strip()
        try:
            _run("docker", "export", "--output", str(archive), container)
        finally:
            _run("docker", "rm", "--force", "--volumes", container)
        _unpack(archive, making / "rootfs")
        archive.unlink()
        return _published(recipe, making, root, made=f"docker {tag}")


def import_into_docker(image: PreparedImage) -> str:
    """Make ``envhub/os-NAME`` of a prepared userland, for the docker driver; its image id. Raises as above."""
    _need_docker()
    changes = [f"ENV {name}={value}" for name, value in ENVIRONMENT.items()]
    changes += [f"WORKDIR {CWD}", 'CMD ["bash"]', f"LABEL {DIGEST_LABEL}={image.digest}"]
    options = [part for change in changes for part in ("--change", change)]
    with tempfile.TemporaryFile() as errors:
        pack = subprocess.Popen(
            ["tar", "--create", "--numeric-owner", "--directory", str(image.rootfs), "."],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        with pack:
            assert pack.stdout is not None
            name = _run("docker", "import", *options, "-", REPOSITORY + image.name, stdin=pack.stdout.fileno())
        if pack.returncode != 0:
            errors.seek(0)
            raise UnavailableError(f"tar of {image.rootfs} failed: {errors.read().decode('utf-8', 'replace').strip()}")
    return name.strip()


@contextmanager
def _making(root: Path) -> Iterator[Path]:
    """A folder beside the images, under the folder's lock; it is gone afterwards unless it was renamed."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in root.glob(_MAKING + "*"):
            shutil.rmtree(left)
        making = Path(tempfile.mkdtemp(prefix=_MAKING, dir=root))
        try:
            yield making
        finally:
            if making.exists():
                shutil.rmtree(making)


def _published(recipe: Recipe, making: Path, root: Path, *, made: str) -> PreparedImage:
    rootfs = making / "rootfs"
    _clear(rootfs)
    digest = _digest(recipe, rootfs)
    image = PreparedImage(recipe.name, rootfs, digest, made, owner_uid=os.geteuid(), n_bytes=_size(rootfs))
    published = images.publish(making, image, root)
    log.info("userland %s is ready: %s, %d bytes", recipe.name, digest[:12], image.n_bytes)
    return published


def _clear(rootfs: Path) -> None:
    """No device nodes, and nothing that tells of the machine it was made on; ``/.dockerenv`` is Docker's."""
    for entry in (rootfs / "dev").iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    (rootfs / ".dockerenv").unlink(missing_ok=True)
    for name, text in (("hostname", "localhost\n"), ("hosts", "127.0.0.1\tlocalhost\n"), ("resolv.conf", "")):
        file = rootfs / "etc" / name
        file.unlink(missing_ok=True)
        file.write_text(text, "ascii")


def _digest(recipe: Recipe, rootfs: Path) -> str:
    """Of the recipe and of every installed package's version; of what apt can install too, since that is seen as well."""
    status = (rootfs / "var/lib/dpkg/status").read_text("utf-8")
    pool = sorted(path.name for path in (rootfs / "usr/share/local-apt").glob("*.deb"))
    text = "\n".join((recipe.dockerfile(), *sorted(_versions(status)), *pool))
    return hashlib.sha256(text.encode()).hexdigest()


def _versions(status: str) -> Iterator[str]:
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            yield f"{fields['Package']} {fields['Version']} {fields['Architecture']}"


def _size(rootfs: Path) -> int:
    """Bytes on disk, a file with several names once."""
    seen: dict[int, int] = {}
    for folder, _, files in os.walk(rootfs):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            found = os.lstat(path)
            seen[found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def _unpack(archive: Path, rootfs: Path) -> None:
    """Regular files, folders and links, with their owners when we are root and as our own when not."""
    rootfs.mkdir(mode=0o755)
    with tarfile.open(archive) as members:
        wanted = (member for member in members if member.isreg() or member.isdir() or member.issym() or member.islnk())
        members.extractall(rootfs, wanted, numeric_owner=True, filter=_as_it_was)


def _as_it_was(member: tarfile.TarInfo, rootfs: str) -> tarfile.TarInfo:
    """Links of a userland are absolute; a name that leaves the userland is refused."""
    if member.name.startswith("/") or ".." in Path(member.name).parts:
        raise UnavailableError(f"the image holds a file outside of itself: {member.name!r}")
    return member


def _need_docker() -> None:
    if shutil.which("docker") is None:
        raise SandboxUnavailableError(
            "the docker program is not installed; apt install docker.io, or --from debootstrap"
        )


def _run(*command: str, script: str = "", stdin: int | None = None) -> str:
    """Its stdout. In a mount namespace of its own when we are root: what it mounts goes with it."""
    isolated = ("unshare", "--mount", "--", *command) if os.geteuid() == 0 else command
    log.debug("running %s", command)
    given = script.encode() if stdin is None else None
    done = subprocess.run(isolated, input=given, stdin=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
        raise UnavailableError(f"{' '.join(command)[:200]} failed ({done.returncode}):\n" + "\n".join(said))
    return done.stdout.decode("utf-8", "replace")

"""Prepared userlands on disk: where they lie and which one a name means now.

Invariant: what ``find`` returns is complete and never changes; a rebuild makes a new folder beside it and moves the name there.

::

    ROOT/NAME                     link to the folder that the name means
    ROOT/NAME-DIGEST12/image.json what it is
    ROOT/NAME-DIGEST12/rootfs/    the userland
    ROOT/.making-*                a build that is going on, or that died; never found
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from envhub.core.errors import SandboxUnavailableError

FORMAT = 1
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """``digest`` (sha256, hex) is equal for equal packages and recipe, whenever and wherever it was built.

    ``owner_uid`` owns the files: 0 suits a hub that is root (identity map), its own uid a hub that is not (single-uid map).
    """

    name: str
    rootfs: Path
    digest: str
    made: str
    owner_uid: int
    n_bytes: int


def default_root() -> Path:
    return Path.home() / ".cache" / "envhub" / "images"


def find(name: str, root: Path | None = None) -> PreparedImage | None:
    """The prepared userland of that name below ``root`` (the user's cache when None), or None."""
    if not _NAME.fullmatch(name):
        return None
    return _read((root or default_root()) / name)


def require(name: str, root: Path | None = None) -> PreparedImage:
    """Like ``find``. Raises SandboxUnavailableError that says how to prepare it."""
    image = find(name, root)
    if image is None:
        where = root or default_root()
        raise SandboxUnavailableError(
            f"no userland {name!r} in {where}; make it with: envhub images build os --image {name} --dir {where}"
        )
    return image


def listed(root: Path | None = None) -> list[PreparedImage]:
    """Every userland that has a name, by name."""
    return sorted(_named(root or default_root()), key=lambda image: image.name)


def _named(root: Path) -> Iterator[PreparedImage]:
    if not root.is_dir():
        return
    for entry in root.iterdir():
        if entry.is_symlink() and (image := find(entry.name, root)) is not None:
            yield image


def _read(link: Path) -> PreparedImage | None:
    try:
        folder = link.resolve(strict=True)
        raw = json.loads((folder / "image.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if raw.pop("format", None) != FORMAT or raw.get("name") != link.name or not (folder / "rootfs").is_dir():
        return None
    return PreparedImage(rootfs=folder / "rootfs", **raw)


def publish(making: Path, image: PreparedImage, root: Path) -> PreparedImage:
    """Give the finished build in ``making`` (its ``rootfs`` inside) its name.

    An equal one that is there already is kept and ``making`` is left to its owner.
    """
    folder = root / f"{image.name}-{image.digest[:12]}"
    raw = {key: value for key, value in asdict(image).items() if key != "rootfs"}
    if not (folder / "image.json").is_file():
        (making / "image.json").write_text(json.dumps({"format": FORMAT, **raw}, indent=2) + "\n", "utf-8")
        os.sync()
        making.rename(folder)
    link = root / f".link-{folder.name}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(root / image.name)
    return require(image.name, root)

"""``envhub images``: make the userlands of the OS environment, and list those there are.

Invariant: an image that could not be made stops the command with its reason; the ones before it stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from envhub.sandbox import image_build, images
from envhub.sandbox.recipes import RECIPES, recipe

Way = Literal["debootstrap", "docker"]


_WAYS = {"debootstrap": image_build.build_with_debootstrap, "docker": image_build.build_with_docker}


def build(
    names: Sequence[str], *, way: Way | None, root: Path | None, into_docker: bool, say: Callable[[str], None]
) -> None:
    """All recipes when ``names`` is empty; ``way`` None is the one that works here.

    Raises InvalidRequestError for an unknown name, SandboxUnavailableError, UnavailableError.
    """
    wanted = [recipe(name) for name in names or RECIPES]
    root = root or images.default_root()
    chosen = way or image_build.usual_way()
    for each in wanted:
        say(f"{each.name}: {each.description} By {chosen}, a minute or more")
        image = _WAYS[chosen](each, root)
        say(f"{each.name}: {image.n_bytes / 2**20:.0f} MiB, digest {image.digest[:12]}, in {image.rootfs}")
        if into_docker:
            say(
                f"{each.name}: Docker image {image_build.REPOSITORY}{each.name} is {image_build.import_into_docker(image)}"
            )


def show(root: Path | None, console: Console) -> None:
    root = root or images.default_root()
    prepared = images.listed(root)
    if not prepared:
        console.print(f"no userlands in {root}; make them with: envhub images build os")
        return
    table = Table(title=str(root), title_justify="left")
    for heading in ("image", "digest", "made by", "MiB", "owner"):
        table.add_column(heading)
    for each in prepared:
        table.add_row(each.name, each.digest[:12], each.made, f"{each.n_bytes / 2**20:.0f}", str(each.owner_uid))
    console.print(table)

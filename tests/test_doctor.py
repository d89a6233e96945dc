"""What ``envhub doctor`` says of Docker, and what a worker makes of an engine that is not there (B071)."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from envhub import cli, doctor
from envhub.config import Settings
from envhub.core.errors import SandboxUnavailableError
from envhub.doctor import Finding
from envhub.envs import registry
from envhub.sandbox import docker_find
from envhub.worker.main import make_environments
from tests.sandbox.engines import Engines, as_nobody

WITH_DOCKER = Settings(environment_settings={"os": {"driver": "docker"}})


@pytest.fixture
def engines() -> Iterator[Engines]:
    made = Engines()
    yield made
    made.close()


@pytest.fixture
def run_dir(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user on a machine where no usual place has an engine."""
    for name in [name for name in os.environ if name.startswith(("ENVHUB_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(docker_find, "DEFAULT_URL", f"unix://{engines.path}/default.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{engines.path}/run")
    monkeypatch.setenv("HOME", f"{engines.path}/home")
    return engines.path / "run"


def of_docker(settings: Settings = Settings()) -> list[Finding]:  # noqa: B008
    return list(doctor._docker(settings.environment_settings.get("os", {})))


def test_without_an_engine_one_line_says_where_it_was_looked_for_and_what_to_do_b071(run_dir: Path) -> None:
    if Path("/run/podman/podman.sock").exists():
        pytest.skip("this machine has a Podman")
    (found,) = of_docker()
    assert found.state == "missing" and found.value.startswith("no socket at ")
    assert f"{run_dir}/docker.sock" in found.value and "DOCKER_HOST" in found.value
    assert [each.state for each in of_docker(WITH_DOCKER)] == ["bad"]


def test_an_engine_is_named_with_its_version_and_what_stands_before_it_is_mentioned_b071(
    engines: Engines, run_dir: Path
) -> None:
    engines.unix("dead", engines.path / "default.sock")
    engines.unix("docker", run_dir / "docker.sock")
    before, found = of_docker()
    assert before.state == "warn" and "nothing listens" in before.value and "systemctl start docker" in before.advice
    assert found == Finding("Docker", "ok", f"Docker 20.10.24 at unix://{run_dir}/docker.sock (rootless Docker)")
    assert [each.state for each in of_docker(WITH_DOCKER)] == ["warn", "ok"]


def test_podman_is_found_and_called_untested_b071(engines: Engines, run_dir: Path) -> None:
    engines.unix("podman", run_dir / "podman" / "podman.sock")
    (found,) = of_docker()
    assert found.state == "ok" and found.value.startswith("Podman 4.3.1 at ") and "not tested" in found.advice


def test_a_socket_that_may_not_be_opened_is_a_warning_that_says_what_to_do_b071(
    engines: Engines, run_dir: Path
) -> None:
    engines.path.chmod(0o755)
    engines.unix("docker", engines.path / "default.sock")
    (engines.path / "default.sock").chmod(0)
    states = as_nobody(lambda: [(each.state, "may not open" in each.value, bool(each.advice)) for each in of_docker()])
    assert states == [("warn", True, True)]


@pytest.mark.parametrize("kind", ["dead", "hang-up", "web server", "tls", "refusing proxy"])
def test_a_broken_docker_host_is_one_warning_and_bad_only_where_docker_was_asked_for_b071(
    engines: Engines, run_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    engines.unix("docker", engines.path / "default.sock")
    url = engines.tcp(kind)
    monkeypatch.setenv("DOCKER_HOST", url)
    (found,) = of_docker()
    assert found.state == "warn" and url in found.value and "(DOCKER_HOST)" in found.value and found.advice
    assert [each.state for each in of_docker(WITH_DOCKER)] == ["bad"]


def test_every_finding_is_one_line_however_narrow_the_terminal() -> None:
    out = io.StringIO()
    findings = [Finding("Docker", "warn", "word " * 60, "advice " * 40), Finding("Python", "ok", "[bold]3.11")]
    doctor.show(findings, Console(file=out, width=40))
    _, docker, python = out.getvalue().splitlines()
    assert docker.startswith("warn    Docker  word word") and docker.rstrip().endswith("advice")
    assert python == "ok      Python  [bold]3.11"


def test_exit_codes_of_the_doctor_b071(
    engines: Engines, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "names", lambda: ("calculator", "os"))
    monkeypatch.setenv("DOCKER_HOST", engines.unix("dead"))
    assert run("doctor", "--json") == 0
    monkeypatch.setenv("ENVHUB_OS_DRIVER", "docker")
    capsys.readouterr()
    assert run("doctor", "--json") == 1
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    by_name = {each["what"]: each for each in found}
    assert by_name["Docker"]["state"] == "bad"
    assert by_name["environment calculator"]["state"] == "ok" and by_name["environment os"]["state"] == "missing"
    assert "nothing listens" in by_name["environment os"]["advice"]


def test_environments_that_need_no_engine_start_without_one_b071(
    engines: Engines, run_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "names", lambda: ("calculator", "os"))
    monkeypatch.setenv("DOCKER_HOST", engines.unix("dead"))
    with caplog.at_level(logging.WARNING):
        assert set(make_environments(WITH_DOCKER)) == {"calculator"}
    (line,) = caplog.messages
    assert "nothing listens" in line and "\n" not in line
    asked = Settings(environments=("os",), environment_settings=WITH_DOCKER.environment_settings)
    with pytest.raises(SandboxUnavailableError, match="nothing listens"):
        make_environments(asked)


def test_a_worker_that_was_asked_for_docker_ends_with_2_and_one_line_b071(
    engines: Engines, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENVHUB_OS_DRIVER", "docker")
    monkeypatch.setenv("DOCKER_HOST", engines.unix("dead"))
    assert run("worker", "-e", "os") == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "Traceback" in line] == []
    assert said[-1].startswith("envhub: ") and "nothing listens" in said[-1]


def run(*arguments: str) -> int:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return cli.main(list(arguments))
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

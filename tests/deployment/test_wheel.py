"""The built wheel in a virtual environment of its own, outside of the checkout: installed with every extra, it serves and plays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment.deployment import ROOT, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NO_INDEX = re.compile(
    "NewConnectionError|Temporary failure in name resolution|No matching distribution found for hatchling"
)


def clean_environ() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("ENVHUB_", "PYTHON", "VIRTUAL_ENV"))
    }


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the installed commands are."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT), python=Path(sys.executable))
    (wheel,) = folder.glob("envhub-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip("install", f"{wheel}[all]", python=folder / "venv" / "bin" / "python")
    return folder / "venv" / "bin"


def pip(*arguments: str, python: Path) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, check=False)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def url(bin_folder: Path, tmp_path: Path) -> Iterator[str]:
    """Of ``envhub up`` with one worker process, started in an empty folder."""
    port = free_port()
    command = [str(bin_folder / "envhub"), "up", "--port", str(port), "--workers", "1"]
    with (tmp_path / "log").open("w") as log:
        hub = subprocess.Popen(command, cwd=tmp_path, env=clean_environ(), stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            hub.terminate()
            assert hub.wait(30) == 0, (tmp_path / "log").read_text()


def test_up_and_bench_work_outside_of_the_checkout(bin_folder: Path, url: str, tmp_path: Path) -> None:
    wanted = ("calculator", "db", "kg", "alfworld", "webshop")
    until = time.monotonic() + 180
    while True:
        command = [str(bin_folder / "envhub"), "environments", "--hub", url]
        listed = subprocess.run(command, cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, check=False)
        if all(name in listed.stdout for name in wanted):
            break
        assert time.monotonic() < until, listed.stdout + listed.stderr + (tmp_path / "log").read_text()
        time.sleep(0.5)
    command = [
        str(bin_folder / "envhub"),
        "bench",
        *(f"{name}:0-4" for name in wanted),
        "--agent",
        "oracle",
        "--hub",
        url,
    ]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "25/25  success 100.0%" in done.stdout + done.stderr, done.stdout + done.stderr
    shown = subprocess.run([str(bin_folder / "pip"), "check"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout

"""The digest of an image: it follows from what goes in, and from nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BUILD = Path(__file__).parents[2] / "task_images" / "build.py"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with an engine that takes everything and remembers it in ``commands``."""
    spec = importlib.util.spec_from_file_location("task_images_build", BUILD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    commands: list[tuple[str, ...]] = []

    def run(*command: str) -> str:
        commands.append(command)
        return "sha256:0\n" if command[1] == "build" else "1000\n"

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "commands", commands, raising=False)
    return module


def digest(
    build: ModuleType, file: Path, *, common: str = "wheel 1", on: str = "", argument: str = "1", revision: str = "r"
) -> str:
    builder = build.Builder(version="1.0", revision=revision, common=[common], labels={})
    found: str = builder.build("envhub/x", file, {"BASE": revision, "SIZE": argument}, on=on).digest
    return found


def test_equal_inputs_give_the_same_digest_and_every_input_changes_it(build: ModuleType, tmp_path: Path) -> None:
    file, other = tmp_path / "Dockerfile", tmp_path / "other"
    file.write_text("FROM x\n")
    other.write_text("FROM y\n")
    same = digest(build, file)
    assert digest(build, file, revision="another commit of the same files") == same
    changed = [
        digest(build, file, common="wheel 2"),
        digest(build, file, on="another base"),
        digest(build, file, argument="2"),
        digest(build, other),
    ]
    assert len({same, *changed}) == 5


def test_the_digest_is_a_label_and_reaches_the_workers_variables(build: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM x\nARG DIGEST\nENV ENVHUB_IMAGE_DIGEST=${DIGEST}\n")
    expected = digest(build, file)
    command = build.commands[0]
    assert f"--label=envhub.digest={expected}" in command and f"--build-arg=DIGEST={expected}" in command
    assert "--label=org.opencontainers.image.version=1.0" in command
    assert "--label=org.opencontainers.image.revision=r" in command

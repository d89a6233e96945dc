"""What is shipped: the wheel's contents, and a core that imports without any extra."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from envhub import __version__

ROOT = Path(__file__).parents[1]
SHIPPED = ("envhub", "datasets", "pyproject.toml", "README.md", "LICENSE")
EXTRAS = ("sqlglot", "re2", "mysql", "pymysql", "aiomysql", "gymnasium", "numpy")
BLOCKED = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy, so that nothing is written into the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    if (ROOT / "trainer_adapter").is_dir():
        shutil.copytree(ROOT / "trainer_adapter", source / "trainer_adapter")
    isolation = [] if importlib.util.find_spec("hatchling") is None else ["--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "wheel", str(source), "--no-deps", "-q", "-w", str(out), *isolation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    if done.returncode and not isolation and "No matching distribution" in done.stderr:
        pytest.skip("hatchling is neither installed nor can it be fetched")
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_is_pure_and_carries_this_version(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert Path(wheel.filename).name == f"envhub-{__version__}-py3-none-any.whl"


def test_the_wheel_carries_the_datasets_with_the_packages_that_read_them(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    for file in ("manifest.json", "train.jsonl.gz", "dev.jsonl.gz", "test.jsonl.gz"):
        assert f"envhub/_datasets/db/{file}" in names
    assert "envhub/py.typed" in names and "envhub/cli.py" in names


def test_the_wheel_carries_the_templates_and_the_style_of_the_shop(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    for file in (
        "webshop_site/templates/item.html",
        "webshop_site/static/shop.css",
        "envs/webshop/templates/page.html",
    ):
        assert f"envhub/{file}" in names


def test_the_wheel_carries_no_tests_no_generators_and_no_root_package_of_another_name(wheel: zipfile.ZipFile) -> None:
    roots = {name.partition("/")[0] for name in wheel.namelist()}
    assert roots <= {"envhub", "trainer_adapter", f"envhub-{__version__}.dist-info"}
    for name in wheel.namelist():
        assert "/generate/" not in name and "/tests/" not in name and not name.endswith(".pyc"), name
        assert "test_" not in Path(name).name, name


def test_the_wheel_has_the_command_the_licence_and_every_extra(wheel: zipfile.ZipFile) -> None:
    info = f"envhub-{__version__}.dist-info"
    assert "envhub = envhub.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    metadata = wheel.read(f"{info}/METADATA").decode()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(f"Provides-Extra: {extra}\n" in metadata for extra in extras)


def test_an_installed_wheel_plays_its_datasets(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    program = (
        "from envhub.envs import datasets, registry\n"
        "print(datasets.dataset_dir('db'))\n"
        "print(registry.create('db').info().splits['test'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    place, size = done.stdout.split()
    assert place == str(tmp_path / "envhub" / "_datasets" / "db") and int(size) == 300


def blocked(program: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program in which no extra is installed."""
    command = [sys.executable, "-c", BLOCKED + program]
    environ = os.environ | settings
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_line_imports_without_any_extra_b068() -> None:
    done = blocked(
        "import envhub.cli, envhub.embedded\nraise SystemExit(envhub.cli.main(['tasks', 'lint', 'calculator']))"
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_extra_names_itself_and_ends_with_2_b068() -> None:
    settings = {"ENVHUB_DB_DRIVER": "mysql", "ENVHUB_DB_URL": "mysql://u:p@127.0.0.1:1/"}
    done = blocked("import envhub.cli\nraise SystemExit(envhub.cli.main(['tasks', 'lint', 'db']))", **settings)
    assert done.returncode == 2 and "pip install 'envhub[db]'" in done.stderr and "Traceback" not in done.stderr


def test_the_gymnasium_part_names_its_extra_b068() -> None:
    done = blocked("import envhub.gym")
    assert done.returncode != 0 and "envhub[gym]" in done.stderr, done.stderr

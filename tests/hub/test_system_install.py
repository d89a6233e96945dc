"""What the core needs, and what it must not."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import envhub

ROOT = Path(envhub.__file__).parent
HEAVY = (
    "docker",
    "torch",
    "ray",
    "openrlhf",
    "alfworld",
    "mysql",
    "sqlglot",
    "re2",
    "numpy",
    "gymnasium",
    "openai",
    "httpx",
)

PROGRAM = f"""
import sys
from importlib.machinery import PathFinder
class Hiding:
    # finds what is installed, but for the heavy packages
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in {HEAVY!r} else PathFinder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
import envhub.cli, envhub.embedded, envhub.up, envhub.client.sync, envhub.worker.main, envhub.controller.main
import envhub.testing.hub, envhub.bench.commands, envhub.store.commands
from envhub.core.errors import MissingExtraError
from envhub.envs import registry
registry.create("calculator")
try:
    registry.create("db")
except MissingExtraError as error:
    assert "envhub[db]" in str(error), error
else:
    print("the DB environment needs no extra")
assert envhub.cli.main([]) == 2
"""


def test_the_core_imports_and_names_the_missing_extra_without_any_extra_b068() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, cwd=ROOT.parent, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_session_identity_is_kept_in_cookies_b068() -> None:
    for folder in ("controller", "client", "link"):
        for path in (ROOT / folder).glob("**/*.py"):
            words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not {"cookie", "set-cookie", b"cookie", b"set-cookie"} & words, path
            assert "set_cookie" not in path.read_text(), path

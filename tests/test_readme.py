"""The README's code runs as it stands."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envhub.testing.contract import CHECKS
from envhub.testing.hub import served_hub

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
LOOP, GYMNASIUM, ENVIRONMENT = BLOCKS


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 200


async def test_loop_plays_an_episode(tmp_path):
    async with served_hub(["db"]) as hub:
        script = tmp_path / "loop.py"
        script.write_text(LOOP.replace("http://127.0.0.1:8800", hub.url))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert out.startswith(b"0.0 turn_limit ["), out.decode()


def test_gymnasium_example_runs():
    exec(compile(GYMNASIUM, "README gymnasium", "exec"), {})  # noqa: S102


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_environment_example_keeps_the_contract(check):
    names = {}
    exec(compile(ENVIRONMENT, "README environment", "exec"), names)  # noqa: S102
    await check(names["create"]({}))

"""Every benchmark can be run the same way, and the hub's makes the claims it is known for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PARTS = {"harness.py", "standin_controller.py"}
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in PARTS)

pytestmark = pytest.mark.slow


def run(script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *flags]
    return subprocess.run(command, cwd=BENCHMARKS.parent, capture_output=True, text=True, timeout=230, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_can_be_quick_and_answer_in_json(script):
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout and "--json" in done.stdout


@pytest.mark.timeout(240)
def test_hub_ends_with_its_claims():
    done = run("hub.py", "--quick", "--json")
    assert done.returncode in (0, 1), done.stderr
    claims = json.loads(done.stdout.splitlines()[-1])["claims"]
    assert set(claims) == {"sessions_lost", "server_cpu_ms_per_step", "controller_kib_per_idle_session"}
    assert all(set(claim) == {"value", "goal", "ok"} for claim in claims.values())
    assert claims["sessions_lost"] == {"value": 0, "goal": 0, "ok": True}
    assert done.returncode == (0 if all(claim["ok"] for claim in claims.values()) else 1)

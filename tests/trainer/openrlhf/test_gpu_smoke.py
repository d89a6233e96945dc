"""The script that proves the tensor code on a GPU, rehearsed on the CPU: with a real engine of vLLM that takes weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gpu_smoke.py"


def test_the_smoke_test_of_a_gpu_holds_on_the_cpu() -> None:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    claims = json.loads(done.stdout.splitlines()[-1])["claims"]
    assert {name for name, claim in claims.items() if claim["ok"]} == {
        "checksums_that_differ_from_the_hosts",
        "normalization_error",
        "weight_updates_judged_wrongly",
        "engine_updates_that_went_wrong",
        "engine_logprob_error",
    }

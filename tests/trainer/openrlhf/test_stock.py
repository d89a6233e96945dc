"""A canary: OpenRLHF's own synchronous trainer and executor on the same packages."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_stock_synchronous_trainer_runs(model: Path, tmp_path: Path, started_run: Callable[..., Any]) -> None:
    """With nothing of ours but the CPU's stand-ins."""
    run = started_run([sys.executable, Path(__file__).with_name("stock_run.py"), model, tmp_path], tmp_path)
    assert run.wait() == 0, run.tail()
    assert "Global step 2" in run.log

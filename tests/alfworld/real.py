"""Where the real packages and the official data are, for the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.require import SHARED, lacking

_REPOSITORY = Path(__file__).parents[2]


def real_python() -> str:
    """An interpreter that has alfworld and textworld; skips, or fails when it is required, where there is none."""
    found = find_python()
    if found is None:
        lacking(
            "alfworld", "ENVHUB_TEST_ALFWORLD_PYTHON names no interpreter that has the packages alfworld and textworld"
        )
    return found


def find_python() -> str | None:
    named = os.environ.get("ENVHUB_TEST_ALFWORLD_PYTHON")
    candidates = [named] if named else [str(_REPOSITORY / ".venv-alfworld" / "bin" / "python")]
    return next((each for each in candidates if Path(each).is_file()), None)


def shared() -> Path:
    """The folder of shared test data; skips, or fails when it is required, where there is none."""
    if find_data() is None:
        lacking("shared", f"no official ALFWorld data in {SHARED}")
    return SHARED


def find_data() -> Path | None:
    """The folder of official games, if there is one."""
    folder = SHARED / "data" / "alfworld"
    return folder if folder.is_dir() else None

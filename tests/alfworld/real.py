"""Where the real packages and the official data are, for the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

_REPOSITORY = Path(__file__).parents[2]
_SHARED = Path(os.environ.get("ENVHUB_SHARED", _REPOSITORY.parent / "shared"))


def real_python() -> str:
    """An interpreter that has alfworld and textworld; skips, or fails when it is required, where there is none."""
    found = find_python()
    if found is None:
        missing(
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
        missing("shared", f"no official ALFWorld data in {_SHARED}")
    return _SHARED


def find_data() -> Path | None:
    """The folder of official games, if there is one."""
    folder = _SHARED / "data" / "alfworld"
    return folder if folder.is_dir() else None


def missing(what: str, reason: str) -> NoReturn:
    if what in os.environ.get("ENVHUB_REQUIRE", "").replace(",", " ").split():
        pytest.fail(f"{what} is required: {reason}")
    pytest.skip(reason)

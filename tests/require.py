"""What a test needs of its machine: without it the test is skipped with the reason, or fails where ENVHUB_REQUIRE lists it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

SHARED = Path(os.environ.get("ENVHUB_SHARED") or Path(__file__).resolve().parents[2] / "shared")
"""The folder of published data, which tests may read and nothing else does."""


def lacking(what: str, why: str) -> NoReturn:
    if what in os.environ.get("ENVHUB_REQUIRE", "").replace(",", " ").split():
        pytest.fail(f"ENVHUB_REQUIRE lists {what}, but: {why}")
    pytest.skip(why)


def published(path: str) -> Path:
    """A file or folder of the published data."""
    found = SHARED / path
    if not found.exists():
        lacking("shared", f"{path} is not here; set ENVHUB_SHARED to the folder that holds the published data")
    return found

"""What holds for every test: it leaves logging as it found it, and examples that Hypothesis makes up may take their time."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("envhub", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("envhub")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A program that a test runs in this process sets up logging, to a stream that is closed after the test."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    levels, handlers = (root.level, uvicorn.level), set(root.handlers)
    yield
    root.setLevel(levels[0])
    uvicorn.setLevel(levels[1])
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)

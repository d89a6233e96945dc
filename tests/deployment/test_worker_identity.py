"""What a worker in a container says of its image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envhub.config import load
from envhub.core.types import EnvironmentInfo
from envhub.envs import calculator
from envhub.testing.clock import FakeClock
from envhub.worker.main import build
from envhub.worker.table import SessionTable


class WithImage:
    """The calculator, played in a userland of its own."""

    def __init__(self) -> None:
        self._inner = calculator.create({})

    def info(self) -> EnvironmentInfo:
        return replace(self._inner.info(), image_digest="userland")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def digests(variables: Mapping[str, str]) -> dict[str, str | None]:
    settings = load(variables, environment_names=("calculator",))
    environments: dict[str, Any] = {"calculator": calculator.create({}), "other": WithImage()}
    service = build(environments, settings, clock=FakeClock())
    assert isinstance(service.table, SessionTable)
    return {name: info.image_digest for name, info in service.table.infos.items()}


def test_the_workers_image_becomes_the_environments_unless_it_has_one_of_its_own() -> None:
    assert digests({"ENVHUB_IMAGE_DIGEST": "abc"}) == {"calculator": "abc", "other": "userland"}
    assert digests({}) == {"calculator": None, "other": "userland"}

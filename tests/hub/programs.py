"""The hub's programs with the probe environment and quick liveness settings: ``python -m tests.hub.programs KIND SETTINGS``.

SETTINGS is JSON: ``{"settings": {...}, "liveness": {...}}`` for KIND ``controller`` or ``worker``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from envhub.config import Settings
from envhub.controller import main as controller_main
from envhub.controller.service import ControllerService
from envhub.controller.workers import LivenessSettings
from envhub.core.protocols import Environment
from envhub.envs import registry
from envhub.worker import main as worker_main
from tests.hub.environments import ProbeEnvironment


def main(kind: str, text: str) -> None:
    asked: Mapping[str, Any] = json.loads(text)
    settings = msgspec.convert(asked["settings"], Settings)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if kind == "controller":
        asyncio.run(
            _controller(settings, LivenessSettings(**asked.get("liveness", {}))), debug=asked.get("debug", False)
        )
    else:
        asyncio.run(_worker(settings), debug=asked.get("debug", False))


async def _controller(settings: Settings, liveness: LivenessSettings) -> None:
    def service(**parts: Any) -> ControllerService:
        return ControllerService(**parts, liveness=liveness)

    vars(controller_main)["ControllerService"] = service  # the program has no such setting
    await controller_main.run(settings)


async def _worker(settings: Settings) -> None:
    environments: dict[str, Environment] = {"probe": ProbeEnvironment(), "calculator": registry.create("calculator")}
    worker_main.make_environments = lambda settings: environments
    await worker_main.run(settings)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

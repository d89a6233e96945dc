"""What a run's processes know of it: the configuration and the tasks, carried to each in one environment variable.

Invariant: every process of a run reads the same settings, and none reads them from anywhere else.
"""

from __future__ import annotations

import os

import msgspec

from trainer_adapter.config import Config
from trainer_adapter.stream import TaskSource

VARIABLE = "TRAINER_ADAPTER_SETTINGS"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    config: Config
    sources: tuple[TaskSource, ...]

    @property
    def cpu(self) -> bool:
        """Whether `cpu.py` stands in for what OpenRLHF expects of a GPU."""
        return self.config.train.device == "cpu"


def dumps(settings: Settings) -> str:
    return msgspec.json.encode(settings).decode()


def of_this_run() -> Settings:
    return msgspec.json.decode(os.environ[VARIABLE], type=Settings)

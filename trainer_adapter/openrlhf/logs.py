"""Makes the adapter's log visible in the processes that Ray starts, and tells wandb where to write.

Invariants: other programs' logs are left as they are; wandb's key is read by the process that logs and by no other.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from pathlib import Path

from trainer_adapter.config import ConfigError, WandbSection, key_in

_FORMAT = "%(levelname)s %(asctime)s %(name)s: %(message)s"


def show() -> None:
    """Idempotent."""
    log = logging.getLogger("trainer_adapter")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


def check_wandb(section: WandbSection | None) -> None:
    """Raises ConfigError for what would stop a run as soon as it logs."""
    if section is None:
        return
    if importlib.util.find_spec("wandb") is None:
        raise ConfigError("train.wandb needs the package wandb: pip install wandb")
    if section.key_file is not None:
        key_in(section.key_file, "train.wandb.key_file")


def for_wandb(section: WandbSection | None) -> None:
    """For this process, before it makes OpenRLHF's logger. Raises ConfigError."""
    if section is None:
        return
    Path(section.folder).mkdir(parents=True, exist_ok=True)
    os.environ["WANDB_DIR"] = section.folder
    if section.offline:
        os.environ["WANDB_MODE"] = "offline"
    if section.key_file is not None:
        os.environ["WANDB_API_KEY"] = key_in(section.key_file, "train.wandb.key_file")

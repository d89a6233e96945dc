"""Whether a model brings Python code of its own.

Invariant: OpenRLHF would run such code wherever it loads a model, and cannot be told not to; so a run with such a model does not start
unless the configuration trusts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer_adapter.config import ConfigError, ModelSection

_FILES = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")


def check(model: ModelSection) -> None:
    """Raises ConfigError for a model with code that is not trusted; nothing of the model is run."""
    if model.trust_remote_code:
        return
    for name, values in _configurations(model.path):
        if "auto_map" in values:
            raise ConfigError(
                f"{model.path} brings Python code of its own (auto_map in {name}), which would be run: read it, then set "
                "model.trust_remote_code = true"
            )


def _configurations(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not Path(path).is_dir():
        yield from _published(path)
        return
    for name in _FILES:
        file = Path(path, name)
        if not file.exists():
            continue
        try:
            yield name, json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"model.path: {file} cannot be read: {error}") from error


def _published(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    from transformers.utils import cached_file

    for file in _FILES:
        try:
            found = cached_file(name, file, _raise_exceptions_for_missing_entries=file == _FILES[0])
        except OSError as error:
            raise ConfigError(f"model.path: {error}") from error
        if found is not None:
            yield file, json.loads(Path(found).read_text("utf-8"))

"""The model's tokenizer and chat format.

Invariant: what does not go together is refused by the name of the setting, before a run has started anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from trainer_adapter.chat import TemplateError
from trainer_adapter.config import ConfigError, ModelSection
from trainer_adapter.formats import chat_format
from trainer_adapter.formats.rendered import RenderedFormat

log = logging.getLogger(__name__)


def chat_format_of(model: ModelSection) -> RenderedFormat:
    """Raises ConfigError."""
    try:
        tokenizer = _tokenizer(model)
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path {model.path}: its tokenizer cannot be loaded: {error}") from error
    return _chat_format(model, tokenizer, log.warning)


def rendering(model: ModelSection) -> str:
    """Who writes conversations, as far as it can be told without a download. Raises ConfigError for a tokenizer that cannot serve."""
    try:
        tokenizer = _tokenizer(model, local_files_only=True)
    except ImportError as error:
        return f"not looked at: {error}"
    except (OSError, ValueError):
        return "not looked at: the tokenizer is not on this machine"
    told: list[str] = []
    _chat_format(model, tokenizer, told.append)
    return told[0] if told else "conversations are written by the tokenizer's chat template"


def _tokenizer(model: ModelSection, **options: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model.path, trust_remote_code=model.trust_remote_code, **options)


def _chat_format(model: ModelSection, tokenizer: Any, tell: Callable[[str], None]) -> RenderedFormat:
    try:
        return chat_format(model.format, tokenizer, template_options=model.template_options, tell=tell)
    except TemplateError as error:
        raise ConfigError(f"model.format {model.format}: {error}") from error

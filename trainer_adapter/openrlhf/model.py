"""The model's tokenizer and chat format.

Invariant: what does not go together is refused by the name of the setting, before a run has started anything.
"""

from __future__ import annotations

from trainer_adapter.chat import TemplateError
from trainer_adapter.config import ConfigError, ModelSection
from trainer_adapter.formats import chat_format
from trainer_adapter.formats.rendered import RenderedFormat


def chat_format_of(model: ModelSection) -> RenderedFormat:
    """Raises ConfigError."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path {model.path}: its tokenizer cannot be loaded: {error}") from error
    try:
        return chat_format(model.format, tokenizer, template_options=model.template_options)
    except TemplateError as error:
        raise ConfigError(f"model.format {model.format}: {error}") from error

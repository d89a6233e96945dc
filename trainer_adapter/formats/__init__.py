"""Chat formats by name: ``hermes`` (Qwen2.5, Qwen3), ``llama3``, ``glm4``, ``glm45`` (GLM-4.5 to 4.7) and ``plain``.

Invariant: nothing heavy is imported; a tokenizer is whatever has the two methods of its protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from envhub.core.types import JSON
from trainer_adapter.chat import TemplateError
from trainer_adapter.formats.family import Family, Renderer, Tokenizer
from trainer_adapter.formats.glm import Glm4Family, Glm45Family
from trainer_adapter.formats.hermes import HermesFamily
from trainer_adapter.formats.llama3 import Llama3Family
from trainer_adapter.formats.plain import Flattened, PlainFamily
from trainer_adapter.formats.rendered import RenderedFormat, TemplateRenderer

__all__ = ["FAMILIES", "Source", "chat_format"]

log = logging.getLogger(__name__)

_PLAIN = "plain"
_OTHERS: Mapping[str, Callable[[], Family]] = {
    "hermes": HermesFamily,
    "llama3": Llama3Family,
    "glm4": Glm4Family,
    "glm45": Glm45Family,
}
FAMILIES: tuple[str, ...] = (*_OTHERS, _PLAIN)


class Source(StrEnum):
    """Who writes conversations: the tokenizer's template, we, or the template where there is one that shows this family's calls."""

    AUTO = "auto"
    TEMPLATE = "template"
    BUILTIN = "builtin"


def chat_format(
    name: str,
    tokenizer: Tokenizer,
    *,
    source: Source = Source.AUTO,
    template_options: Mapping[str, JSON] = MappingProxyType({}),
    tell: Callable[[str], None] = log.warning,
) -> RenderedFormat:
    """``template_options`` go to the template (``enable_thinking``, ``date_string``). ``tell`` hears when ``AUTO`` finds no template
    that serves, and conversations are written as the family has them.

    Raises ValueError for an unknown name, TemplateError for a template or a tokenizer that cannot serve the family.
    """
    if name not in FAMILIES:
        raise ValueError(f"there is no chat format {name!r}; valid: {', '.join(FAMILIES)}")
    family = _OTHERS[name]() if name in _OTHERS else PlainFamily(getattr(tokenizer, "eos_token", None) or "")
    end = family.stops[0] if family.stops else ""
    if name in _OTHERS and len(tokenizer.encode(end, add_special_tokens=False)) != 1:
        raise TemplateError(
            f"the tokenizer has no token {end}, with which turns end in the {name} format: it is another model's"
        )
    template = None if source is Source.BUILTIN else _template(name, family, tokenizer, template_options)
    if template is None and source is not Source.BUILTIN:
        lack = f"the tokenizer has no chat template that shows calls as the {name} format reads them"
        if source is Source.TEMPLATE:
            raise TemplateError(lack)
        tell(f"{lack}: conversations are written in the adapter's own {name} rendering")
    return RenderedFormat(tokenizer, family, template or family)


def _template(name: str, family: Family, tokenizer: Tokenizer, options: Mapping[str, JSON]) -> Renderer | None:
    """The tokenizer's own, where it has one that shows this family's calls."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    template = TemplateRenderer(tokenizer, options)
    if name == _PLAIN:
        return Flattened(template)
    return template if template.shows_calls_of(family) else None

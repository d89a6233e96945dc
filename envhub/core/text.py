"""Text that can leave the program: whatever a model or a database wrote, made encodable."""

from __future__ import annotations


def clean(text: str) -> str:
    """Text that can be encoded as UTF-8: surrogate pairs become one character, lone surrogates U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text

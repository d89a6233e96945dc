"""What a knowledge graph is made of: ids, typed literals and triples, and the one text form each has.

Invariant: a term read back equals the one written. Ids (entities, classes, properties) are plain strings such as
``m.0k3q``, ``g.11b`` or ``people.person.nationality``; everything else is a Literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Literal as OneOf
from typing import NamedTuple

from envhub.core.types import JSON

Kind = OneOf["number", "time", "text"]

NUMBER_TYPES = frozenset({"integer", "decimal", "double", "float", "int", "long", "nonNegativeInteger"})
TIME_TYPES = frozenset({"date", "dateTime", "gYear", "gYearMonth", "time"})
OTHER_TYPES = frozenset({"string", "boolean", "anyURI", "duration", "gMonthDay", "gDay", "gMonth"})
DATATYPES = NUMBER_TYPES | TIME_TYPES | OTHER_TYPES
"""Local names of the XML Schema datatypes a literal may have."""

ENTITY = re.compile(r"[mg]\.[0-9A-Za-z_]{1,64}", re.ASCII)
IDENTIFIER = re.compile(r"[0-9A-Za-z_]+(\.[0-9A-Za-z_]+)+", re.ASCII)
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", re.ASCII)
_OBJECT = re.compile(r'("(?:[^"\\]|\\.)*")(?:@([A-Za-z0-9-]+)|\^\^([A-Za-z]+))?')
_ZONE = re.compile(r"(Z|[+-]\d\d:\d\d)$", re.ASCII)
_TIME = re.compile(r"-?\d{4,}(-\d\d(-\d\d(T\d\d:\d\d:\d\d(\.\d+)?)?)?)?|\d\d:\d\d:\d\d", re.ASCII)


@dataclass(frozen=True)
class Literal:
    """A value with its XML Schema datatype (``integer``, ``date``, ...), or text with a language.

    Raises ValueError for a datatype or language that no graph may hold.
    """

    text: str
    type: str = "string"
    lang: str = ""

    def __post_init__(self) -> None:
        if self.type not in DATATYPES or (self.lang and self.type != "string"):
            raise ValueError(f"a literal cannot have the datatype {self.type!r} and the language {self.lang!r}")
        if self.lang and _LANGUAGE.fullmatch(self.lang) is None:
            raise ValueError(f"{self.lang!r} is not a language tag")

    @property
    def kind(self) -> Kind:
        return "number" if self.type in NUMBER_TYPES else "time" if self.type in TIME_TYPES else "text"

    @cached_property
    def value(self) -> tuple[str, Decimal | str]:
        """Equal for literals that mean the same: ``1``, ``01`` and ``1.0`` do, and times with and without their zone."""
        if self.kind == "number":
            try:
                number = Decimal(self.text)
            except InvalidOperation:
                return "text", self.text
            return ("number", number) if number.is_finite() else ("text", str(number))
        if self.kind == "time":
            return "time", _ZONE.sub("", self.text)
        return "text", self.text


Term = str | Literal


class Triple(NamedTuple):
    subject: str
    predicate: str
    object: Term


def value_of(term: Term) -> tuple[str, Decimal | str]:
    """What two terms that mean the same have in common."""
    return term.value if isinstance(term, Literal) else ("id", term)


def text_of(term: Term) -> str:
    """A term as an agent reads it: the id, or the literal without its datatype."""
    return term.text if isinstance(term, Literal) else term


def plain(text: str) -> Term:
    """The term that an answer known only as text means: an id, a number, a point in time, else text."""
    if ENTITY.fullmatch(text):
        return text
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return Literal(text, "integer")
    if re.fullmatch(r"-?\d*\.\d+", text, re.ASCII):
        return Literal(text, "decimal")
    if _TIME.fullmatch(_ZONE.sub("", text)) and "-" in text:
        return Literal(text, "dateTime" if "T" in text else "gYearMonth" if text.count("-") == 1 else "date")
    return Literal(text)


def write_object(term: Term) -> str:
    """``m.0k3q``, ``"3"^^integer``, ``"Oslo"@en`` or ``"text"``; one line, no tabs."""
    if isinstance(term, str):
        return term
    quoted = json.dumps(term.text, ensure_ascii=True)
    if term.lang:
        return f"{quoted}@{term.lang}"
    return quoted if term.type == "string" else f"{quoted}^^{term.type}"


def read_object(text: str) -> Term:
    """Raises ValueError for what ``write_object`` cannot have written."""
    if not text.startswith('"'):
        if IDENTIFIER.fullmatch(text) is None:
            raise ValueError(f"{text!r} is not an id")
        return text
    found = _OBJECT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a literal")
    return Literal(json.loads(found[1]), found[3] or "string", found[2] or "")


def encode_term(term: Term) -> JSON:
    """As JSON: an id is a string, a literal an object with ``value`` and ``type`` or ``lang``."""
    if isinstance(term, str):
        return term
    return {"value": term.text, "lang": term.lang} if term.lang else {"value": term.text, "type": term.type}


def decode_term(record: JSON) -> Term:
    if isinstance(record, str):
        return record
    raw: Mapping[str, str] = record
    return Literal(raw["value"], raw.get("type", "string"), raw.get("lang", ""))

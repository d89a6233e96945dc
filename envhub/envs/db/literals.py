"""Reads the list text a database client prints, such as ``[(1, 'a'), (Decimal('5.00'), None)]``, without evaluating anything.

Invariant: time and memory are linear in the text, nesting is limited, and text outside the grammar gives None.
"""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from envhub.core.text import clean

MAX_DEPTH = 8

_TOKENS_PER_ATOM = 5  # "(", the atom, ",", ")", ","

Kind = Literal["text", "number", "null", "bool", "bytes"]


@dataclass(frozen=True, slots=True)
class Atom:
    """A leaf. ``text`` is a number as written, a string decoded, a date as MySQL spells it; NULL has empty text.

    ``python`` says whether Python alone, without imports, reads this spelling.
    """

    kind: Kind
    text: str
    python: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """A list or a tuple."""

    kind: Literal["list", "tuple"]
    items: tuple[Atom | Group, ...]


Node = Atom | Group

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<punctuation>[\[\](),])
    | (?P<bytes>[bB](?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    | (?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<wrapped>Decimal\(\s*(?:'[^'\\\n]{0,400}'|"[^"\\\n]{0,400}")\s*\)
        | datetime\.(?:date|datetime|timedelta)\((?:[a-z]{1,12}=|[-0-9, ]){0,120}\))
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<word>None|null|NULL|True|true|False|false)\b
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_WRAPPED_DECIMAL = re.compile(r"""Decimal\(\s*['"](.*)['"]\s*\)""", re.DOTALL)
_TIME_CALL = re.compile(r"datetime\.(\w+)\((.*)\)", re.DOTALL)
_INT = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\n": ""}


def parse(text: str, *, max_atoms: int) -> Node | None:
    """The value that ``text`` spells; None when it is outside this grammar or has many more than ``max_atoms`` leaves."""
    tokens = _tokens(text.strip(), max_atoms)
    try:
        node, token = _value(next(tokens), tokens, 0)
    except (_NotLiteralError, StopIteration):
        return None
    return node if token is _END else None


@dataclass(frozen=True, slots=True)
class _Mark:
    text: str


_END = _Mark("")
_Token = _Mark | Atom


class _NotLiteralError(Exception):
    pass


def _tokens(text: str, max_atoms: int) -> Iterator[_Token]:
    position = n_tokens = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        n_tokens += 1
        if match is None or n_tokens > _TOKENS_PER_ATOM * max_atoms + 2:
            raise _NotLiteralError
        position = match.end()
        yield _token(str(match.lastgroup), match.group(str(match.lastgroup)))
    yield _END


def _token(group: str, text: str) -> _Token:
    if group == "punctuation":
        return _Mark(text)
    if group == "text":
        return Atom("text", _unescape(text[1:-1]))
    if group == "bytes":
        return Atom("bytes", _bytes_text(text))
    if group == "number":
        return Atom("number", text)
    if group == "word":
        return _word(text)
    return _wrapped(text)


def _word(text: str) -> Atom:
    if text in {"None", "null", "NULL"}:
        return Atom("null", "", text == "None")
    return Atom("bool", text.capitalize(), text in {"True", "False"})


def _value(token: _Token, tokens: Iterator[_Token], depth: int) -> tuple[Node, _Token]:
    """A value that starts with ``token``, and the token after it."""
    if isinstance(token, Atom):
        return token, next(tokens)
    if depth == MAX_DEPTH or token.text not in {"[", "("}:
        raise _NotLiteralError
    closing = "]" if token.text == "[" else ")"
    items: list[Node] = []
    comma = False
    token = next(tokens)
    while token != _Mark(closing):
        if items and not comma:
            raise _NotLiteralError
        item, token = _value(token, tokens, depth + 1)
        items.append(item)
        comma = token == _Mark(",")
        if comma:
            token = next(tokens)
    if closing == ")" and len(items) == 1 and not comma:
        return items[0], next(tokens)
    return Group("list" if closing == "]" else "tuple", tuple(items)), next(tokens)


def _unescape(body: str) -> str:
    """JSON's surrogate pairs become one character."""
    if "\\" not in body:
        return body
    return clean(_ESCAPE.sub(_escape, body))


def _escape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "uxU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point <= 0x10FFFF else match.group(0)
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    return code if code in "\\'\"/" else match.group(0)


def _bytes_text(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise _NotLiteralError from None
    return bytes(value).decode("utf-8", "backslashreplace")


def _wrapped(text: str) -> Atom:
    """Decimal('5.00') and the datetime reprs, as MySQL spells their values."""
    decimal = _WRAPPED_DECIMAL.fullmatch(text)
    if decimal is not None:
        return Atom("number", decimal.group(1), python=False)
    call = _TIME_CALL.fullmatch(text)
    if call is None:
        raise _NotLiteralError
    return Atom("text", _time_text(call.group(1), call.group(2)), python=False)


def _time_text(kind: str, arguments: str) -> str:
    positional: list[int] = []
    named: dict[str, int] = {}
    for argument in filter(None, (part.strip() for part in arguments.split(","))):
        name, _, number = argument.rpartition("=")
        if _INT.fullmatch(number) is None:
            raise _NotLiteralError
        if name:
            named[name] = int(number)
        else:
            positional.append(int(number))
    try:
        if kind == "timedelta":
            return duration_text(datetime.timedelta(*positional, **named))
        if kind == "date":
            return datetime.date(*positional, **named).isoformat()
        moment = datetime.datetime(*positional, **named, tzinfo=datetime.UTC)  # type: ignore[arg-type, misc]  # ints only
        return moment.replace(tzinfo=None).isoformat(" ")
    except (TypeError, ValueError, OverflowError):
        raise _NotLiteralError from None


def duration_text(value: datetime.timedelta) -> str:
    """A TIME value as MySQL prints it: ``-26:00:01``, with microseconds only when there are some."""
    micros = abs(value) // datetime.timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    sign = "-" if value < datetime.timedelta(0) else ""
    fraction = f".{micros:06d}" if micros else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"

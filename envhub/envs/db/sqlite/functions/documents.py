"""JSON functions.

Invariant: a JSON value is text in MySQL's own spacing; SQL NULL and JSON null stay distinct.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.functions import Spec

_STEP = re.compile(r'\s*(?:\.\s*(?:"((?:[^"\\]|\\.)*)"|([\w$]+)|(\*))|\[\s*(\d+|\*|last(?:\s*-\s*\d+)?)\s*\])')


def load(text: str | bytes | float) -> Any:
    try:
        return json.loads(text if isinstance(text, str | bytes) else str(text))
    except (ValueError, RecursionError):
        raise MySQLError(3141, 'Invalid JSON text in argument 1 to function: "Invalid value." at position 0.') from None


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def steps(path: str) -> list[str | int]:
    """A JSON path's steps; ``*`` is a wildcard, negative numbers count from the end."""
    if not path.lstrip().startswith("$"):
        raise MySQLError(3143, "Invalid JSON path expression. The error is around character position 1.")
    at = path.index("$") + 1
    out: list[str | int] = []
    while at < len(path.rstrip()):
        match = _STEP.match(path, at)
        if match is None:
            raise MySQLError(3143, f"Invalid JSON path expression. The error is around character position {at}.")
        quoted, word, star, index = match.groups()
        if quoted is not None or word is not None:
            out.append("." + (quoted if quoted is not None else word))
        elif star or index == "*":
            out.append("*")
        elif index.startswith("last"):
            out.append(-1 - int(index.partition("-")[2].strip() or 0))
        else:
            out.append(int(index))
        at = match.end()
    return out


def _follow(value: Any, path: list[str | int]) -> list[Any]:
    found = [value]
    for step in path:
        following: list[Any] = []
        for item in found:
            if step == "*":
                following += item if isinstance(item, list) else item.values() if isinstance(item, dict) else []
            elif isinstance(step, str):
                if isinstance(item, dict) and step[1:] in item:
                    following.append(item[step[1:]])
            elif isinstance(item, list):
                if -len(item) <= step < len(item):
                    following.append(item[step])
            elif step in (0, -1):
                following.append(item)
        found = following
    return found


def extract(document: str, *paths: str) -> str | None:
    value = load(document)
    parsed = [steps(path) for path in paths]
    found = [item for path in parsed for item in _follow(value, path)]
    if not found:
        return None
    many = len(paths) > 1 or "*" in parsed[0]
    return dump(found if many else found[0])


def unquote(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text


def value_at(document: str, path: str) -> str | None:
    found = _follow(load(document), steps(path))
    return None if not found or found[0] is None or isinstance(found[0], dict | list) else _scalar(found[0])


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def tagged(kind: str, value: Any) -> Any:
    """A SQL value inside a JSON document; ``kind`` is its static kind."""
    if value is None or kind in ("int", "real", "str"):
        return value
    if kind == "json":
        return load(value)
    if kind == "dec":
        number = Decimal(value)
        return int(number) if number == number.to_integral_value() and "." not in str(value) else float(number)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def array(*pairs: Any) -> str:
    return dump([tagged(pairs[at], pairs[at + 1]) for at in range(0, len(pairs), 2)])


def object_of(*pairs: Any) -> str:
    values = [tagged(pairs[at], pairs[at + 1]) for at in range(0, len(pairs), 2)]
    if any(name is None for name in values[::2]):
        raise MySQLError(3158, "JSON documents may not contain NULL member names.")
    return dump({str(values[at]): values[at + 1] for at in range(0, len(values), 2)})


def valid(text: str | bytes) -> int:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return 0
    return 1


def length(document: str, path: str = "$") -> int | None:
    found = _follow(load(document), steps(path))
    if not found:
        return None
    return len(found[0]) if isinstance(found[0], dict | list) else 1


def keys(document: str, path: str = "$") -> str | None:
    found = _follow(load(document), steps(path))
    return dump(list(found[0])) if found and isinstance(found[0], dict) else None


def depth(document: str) -> int:
    def measure(value: Any) -> int:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + max(map(measure, children), default=0)

    return measure(load(document))


def type_name(document: str) -> str:
    value = load(document)
    if value is None:
        return "NULL"
    names = {bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE", str: "STRING", list: "ARRAY", dict: "OBJECT"}
    return names[type(value)]


def _contains(whole: Any, piece: Any) -> bool:
    if isinstance(whole, list):
        if isinstance(piece, list):
            return all(any(_contains(item, part) for item in whole) for part in piece)
        return any(_contains(item, piece) for item in whole)
    if isinstance(whole, dict):
        return isinstance(piece, dict) and all(
            name in whole and _contains(whole[name], part) for name, part in piece.items()
        )
    return bool(whole == piece and isinstance(whole, bool) == isinstance(piece, bool))


def contains(document: str, piece: str, path: str = "$") -> int | None:
    found = _follow(load(document), steps(path))
    return int(_contains(found[0], load(piece))) if found else None


def contains_path(document: str, mode: str, *paths: str) -> int:
    value = load(document)
    hits = [bool(_follow(value, steps(path))) for path in paths]
    return int(any(hits) if mode.lower() == "one" else all(hits))


def _place(value: Any, path: list[str | int], new: Any, mode: str) -> Any:
    if not path:
        return new if mode in ("set", "replace") else value
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str) and step != "*":
        name = step[1:]
        if name in value:
            return {**value, name: _place(value[name], rest, new, mode)}
        return {**value, name: new} if not rest and mode != "replace" else value
    if isinstance(value, list) and isinstance(step, int):
        if -len(value) <= step < len(value):
            return [*value[:step], _place(value[step], rest, new, mode), *(value[step + 1 :] if step != -1 else [])]
        return [*value, new] if not rest and mode != "replace" else value
    return value


def change(mode: str, document: str, *triples: Any) -> str:
    """JSON_SET, JSON_INSERT, JSON_REPLACE; ``triples`` are path, kind and value in turn."""
    value = load(document)
    for at in range(0, len(triples), 3):
        value = _place(value, steps(triples[at]), tagged(triples[at + 1], triples[at + 2]), mode)
    return dump(value)


def _without(value: Any, path: list[str | int]) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str) and step[1:] in value:
        if not rest:
            return {name: item for name, item in value.items() if name != step[1:]}
        return {**value, step[1:]: _without(value[step[1:]], rest)}
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        copy = list(value)
        if rest:
            copy[step] = _without(copy[step], rest)
        else:
            del copy[step]
        return copy
    return value


def remove(document: str, *paths: str) -> str:
    value = load(document)
    for path in paths:
        value = _without(value, steps(path))
    return dump(value)


def append(document: str, path: str, kind: str, new: Any) -> str:
    value = load(document)
    found = _follow(value, steps(path))
    if not found:
        return dump(value)
    items = found[0] if isinstance(found[0], list) else [found[0]]
    return dump(_place(value, steps(path), [*items, tagged(kind, new)], "set"))


def quote(text: str) -> str:
    return dump(text)


def merge_patch(*documents: str) -> str:
    def patch(base: Any, new: Any) -> Any:
        if not isinstance(new, dict):
            return new
        result = dict(base) if isinstance(base, dict) else {}
        for name, item in new.items():
            if item is None:
                result.pop(name, None)
            else:
                result[name] = patch(result.get(name), item)
        return result

    value = load(documents[0])
    for document in documents[1:]:
        value = patch(value, load(document))
    return dump(value)


def search(document: str, mode: str, needle: str) -> str | None:
    from envhub.envs.db.sqlite.functions.text import like

    found: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, str) and like(value, needle):
            found.append(path)
        elif isinstance(value, dict):
            for name, item in value.items():
                visit(item, f"{path}.{name}")
        elif isinstance(value, list):
            for place, item in enumerate(value):
                visit(item, f"{path}[{place}]")

    visit(load(document), "$")
    if not found:
        return None
    return dump(found if mode.lower() == "all" and len(found) > 1 else found[0])


FUNCTIONS = {
    "JSON_EXTRACT": Spec("ss*", "json", extract),
    "JSON_UNQUOTE": Spec("s", "str", unquote),
    "JSON_VALUE": Spec("ss", "str", value_at),
    "JSON_VALID": Spec("s", "int", valid),
    "JSON_LENGTH": Spec("s?s", "int", length),
    "JSON_KEYS": Spec("s?s", "json", keys),
    "JSON_DEPTH": Spec("s", "int", depth),
    "JSON_TYPE": Spec("s", "str", type_name),
    "JSON_CONTAINS": Spec("ss?s", "int", contains),
    "JSON_CONTAINS_PATH": Spec("sss*", "int", contains_path),
    "JSON_REMOVE": Spec("ss*", "json", remove),
    "JSON_QUOTE": Spec("s", "str", quote),
    "JSON_MERGE_PATCH": Spec("ss*", "json", merge_patch),
    "JSON_SEARCH": Spec("sss", "json", search),
    "JSON_PRETTY": Spec("s", "json", lambda text: json.dumps(load(text), ensure_ascii=False, indent=2)),
}

INTERNAL: dict[str, Callable[..., Any]] = {
    "m_jarray": array,
    "m_jobject": object_of,
    "m_jchange": change,
    "m_jappend": append,
}

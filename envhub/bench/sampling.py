"""Random JSON values that conform to a tool's parameter schema. The same generator state gives the same value."""

from __future__ import annotations

import random
from collections.abc import Mapping

from envhub.core.types import JSON

_WORDS = ("a", "0", "1", "hello", "SELECT 1", "ls", "name", "red shoes", "north", "")
_MAX_DEPTH = 6


def sample(schema: Mapping[str, JSON], rng: random.Random) -> JSON:
    """A value for the subset of JSON schema that tools are written in; an unknown construct gives a string."""
    return _sample(schema, rng, schema.get("$defs", {}), 0)


def _sample(schema: JSON, rng: random.Random, definitions: Mapping[str, JSON], depth: int) -> JSON:
    if not isinstance(schema, Mapping):
        return rng.choice(_WORDS)
    if "$ref" in schema:
        return _sample(definitions.get(schema["$ref"].rsplit("/", 1)[-1], {}), rng, definitions, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _sample(rng.choice(schema[key]), rng, definitions, depth + 1)
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "object":
        return _object(schema, rng, definitions, depth)
    if kind == "array":
        low = schema.get("minItems", 0)
        n_items = (
            rng.randint(low, max(low, min(schema.get("maxItems", low + 3), low + 3))) if depth < _MAX_DEPTH else low
        )
        return [_sample(schema.get("items", {}), rng, definitions, depth + 1) for _ in range(n_items)]
    return _scalar(kind, schema, rng)


def _object(
    schema: Mapping[str, JSON], rng: random.Random, definitions: Mapping[str, JSON], depth: int
) -> dict[str, JSON]:
    required = schema.get("required", ())
    return {
        name: _sample(each, rng, definitions, depth + 1)
        for name, each in schema.get("properties", {}).items()
        if name in required or (depth < _MAX_DEPTH and rng.random() < 0.5)
    }


def _scalar(kind: str, schema: Mapping[str, JSON], rng: random.Random) -> JSON:
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -10))
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 100))
        if kind == "number":
            return round(rng.uniform(low, high), 3)
        return rng.randint(int(low) + ("exclusiveMinimum" in schema), int(high) - ("exclusiveMaximum" in schema))
    text = rng.choice(_WORDS)
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 100)]

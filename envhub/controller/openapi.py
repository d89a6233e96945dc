"""The OpenAPI page, from the wire records themselves, so that it cannot drift from what is decoded."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from envhub import wire

_RECORDS = (
    wire.StartRequest,
    wire.InteractRequest,
    wire.RenewRequest,
    wire.CancelRequest,
    wire.ForkRequest,
    wire.Started,
    wire.Forked,
    wire.Stepped,
    wire.SessionState,
)
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        }
    },
}


def documented(
    answer: Any,
    description: str = "Done.",
    *,
    body: type[msgspec.Struct] | None = None,
    media: str = "application/json",
) -> dict[str, Any]:
    """Keyword arguments of a route: the shapes of its answer, of its errors and of its body."""
    extra: dict[str, Any] = {
        "responses": {
            "200": {"description": description, "content": {media: {"schema": _schema(answer)}}},
            "4XX": {"$ref": "#/components/responses/Error"},
            "5XX": {"$ref": "#/components/responses/Error"},
        }
    }
    if body is not None:
        extra["requestBody"] = {
            "required": body in (wire.StartRequest, wire.InteractRequest),
            "content": {"application/json": {"schema": _schema(body)}},
        }
    return {"openapi_extra": extra}


def complete(app: FastAPI) -> None:
    """Let the app's page carry the records, the error envelope and the key."""

    def page() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            components = schema.setdefault("components", {})
            components["schemas"] = {**wire.components(_RECORDS), "Error": _ERROR}
            content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
            components["responses"] = {"Error": {"description": "The error envelope.", "content": content}}
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"key": []}]
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = page  # type: ignore[method-assign]  # FastAPI's documented way to extend the page


def _schema(answer: Any) -> dict[str, Any]:
    if isinstance(answer, type) and issubclass(answer, msgspec.Struct):
        return {"$ref": f"#/components/schemas/{answer.__name__}"}
    return {"type": "string" if answer is str else "object"}

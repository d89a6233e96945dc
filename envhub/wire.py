"""The bytes of the public API: request records, OpenAI-shaped messages, results and the one error envelope.

Invariant: a request with an unknown field or a wrong type is refused with a text that names the field; whatever is encoded
here is valid UTF-8 JSON without NaN.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field

from envhub.core.errors import EnvhubError, InternalError, InvalidRequestError, UnavailableError, from_code
from envhub.core.text import clean
from envhub.core.types import (
    JSON,
    EnvironmentInfo,
    Identity,
    Message,
    Observation,
    Role,
    StepResult,
    StopReason,
    ToolCall,
    ToolSpec,
)

T = TypeVar("T")

Name = Annotated[str, Meta(min_length=1, max_length=128)]
LeaseSeconds = Annotated[float, Meta(gt=0, le=86_400)]
MAX_TAGS = 32
Tags = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=256)]], Meta(max_length=MAX_TAGS)
]
MAX_TASK_INDEX = 2**53


class StartRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of ``POST /v1/sessions``."""

    environment: Annotated[Name, Meta(description="Name of the environment, as listed by GET /v1/environments.")]
    split: Annotated[
        Name | None, Meta(description="A split of that environment; null takes the one to measure on.")
    ] = None
    task: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_TASK_INDEX)] | None,
        Meta(description="0-based task index; null draws one, by `seed` when it is given."),
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None, Meta(description="Seed of the episode; null draws one.")
    ] = None
    lease_s: Annotated[
        LeaseSeconds, Meta(description="The session is closed when it has been idle for this many seconds.")
    ] = 300.0
    options: Annotated[dict[str, Any], Meta(description="Environment options to override.")] = field(
        default_factory=dict
    )
    tags: Annotated[Tags, Meta(description="Free labels; kept with the result.")] = field(default_factory=dict)
    request_key: Annotated[
        Name | None, Meta(description="Makes the call repeatable: the same key gives the same session.")
    ] = None
    wait_s: Annotated[
        Annotated[float, Meta(ge=0, le=3600)], Meta(description="How long to wait for a free slot, in seconds.")
    ] = 60.0


class InteractRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/sessions/{id}/interact``."""

    turn: Annotated[
        Annotated[int, Meta(ge=0, le=2**31)],
        Meta(description="Number of this turn: 0 first, then `turn` of the previous answer."),
    ]
    message: Annotated[dict[str, Any], Meta(description="One assistant message in OpenAI's chat format.")]


class RenewRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/sessions/{id}/renew``; an empty body keeps the lease as it is and restarts it."""

    lease_s: LeaseSeconds | None = None


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/sessions/{id}/cancel``; may be empty."""

    reason: Annotated[str, Meta(max_length=256)] = "cancelled by the client"


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/sessions/{id}/fork``; may be empty."""

    turn: Annotated[
        Annotated[int, Meta(ge=0, le=2**31)] | None,
        Meta(description="The turn that the session must be at; null takes it as it is."),
    ] = None
    lease_s: Annotated[LeaseSeconds | None, Meta(description="Lease of the fork; null takes its parent's.")] = None
    tags: Annotated[Tags, Meta(description="Labels of the fork, added to its parent's.")] = field(default_factory=dict)
    request_key: Annotated[
        Name | None, Meta(description="Makes the call repeatable: the same key gives the same fork of this session.")
    ] = None


class ForkCall(Struct, frozen=True):
    """What a controller sends a worker for it; ``request_key`` is unique among all sessions."""

    parent: str
    turn: int | None
    lease_s: float | None
    tags: dict[str, str]
    request_key: str | None


class Started(Struct, frozen=True):
    """Answer to a start."""

    session_id: str
    environment: str
    split: str
    task: int
    seed: int
    turn: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    max_turns: int
    lease_s: float
    identity: dict[str, Any]
    info: dict[str, Any]


class Forked(Started, frozen=True):
    """Answer to a fork: a session that goes on at ``turn``; ``messages`` are those of its parent's start.

    ``fork`` says how: ``native`` (the environment copied its state) or ``replay`` (the parent's messages were played again, and
    every answer was the same).
    """

    parent: str
    fork: Literal["native", "replay"]


class Stepped(Struct, frozen=True):
    """Answer to an interact. ``turn`` is the number of the next turn."""

    turn: int
    messages: list[dict[str, Any]]
    reward: float
    terminated: bool
    truncated: bool
    stop_reason: StopReason | None
    info: dict[str, Any]


class SessionState(Struct, frozen=True, omit_defaults=True):
    """What ``GET /v1/sessions/{id}`` and cancel answer. ``state`` is live, ended, failed or lost."""

    session_id: str
    state: str
    environment: str
    split: str
    task: int
    worker: str
    turn: int = 0
    seed: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    idle_s: float | None = None
    lease_s: float | None = None
    detached: bool = False
    stop_reason: StopReason | None = None
    reason: str | None = None
    episode_return: float | None = None
    error: dict[str, Any] | None = None
    identity: dict[str, Any] | None = None
    tags: dict[str, str] | None = None


class EpisodeRecord(Struct, frozen=True, kw_only=True):
    """A finished episode, as it is stored and exported.

    ``episode_return`` is None when ``error`` is set or the episode was cancelled: neither has a reward. ``trace`` is a JSON object
    ``{"messages": [...], "tools": [...], "steps": [...]}``; times are Unix seconds.
    """

    session_id: str
    environment: str
    split: str
    task: int
    seed: int
    worker: str
    identity: dict[str, Any]
    tags: dict[str, str]
    started_at: float
    ended_at: float
    turns: int
    episode_return: float | None
    terminated: bool
    truncated: bool
    stop_reason: StopReason | None
    error: dict[str, Any] | None
    reason: str | None
    info: dict[str, Any]
    trace: bytes


_encoder = msgspec.json.Encoder(enc_hook=lambda value: _encode_mapping(value))


def _encode_mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot encode {type(value).__name__} as JSON")


def dumps(value: object) -> bytes:
    """JSON bytes. Text with a lone surrogate, which no environment should produce, is repaired rather than refused."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_repaired(msgspec.to_builtins(value, enc_hook=_encode_mapping)))


def _repaired(value: JSON) -> JSON:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_repaired(each) for each in value]
    return value


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def loads(body: bytes, kind: type[T]) -> T:
    """Decode and check a body. Raises InvalidRequestError naming the field; an empty body counts as ``{}``.

    A lone surrogate escape, which models do write and which no text may hold, is read as U+FFFD.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        try:
            return cast(T, decoder.decode(body or b"{}"))
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if b"\\ud" not in body.lower():
                raise
            return cast(T, decoder.decode(_encoder.encode(_repaired(json.loads(body)))))
    except msgspec.ValidationError as error:
        raise InvalidRequestError(str(error)) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not valid JSON: {error}") from None


def loads_json(body: bytes) -> JSON:
    """Decode any JSON. Raises InvalidRequestError."""
    return loads(body, cast("type[JSON]", Any))


# --- messages -------------------------------------------------------------------------------------------------------


def message_to_json(message: Message) -> dict[str, JSON]:
    """OpenAI's chat shape; ``tool_calls`` appears only when there are some."""
    out: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    return out


def message_from_json(value: JSON) -> Message:
    """Read a message of any role; keys this hub does not use are ignored.

    A malformed tool call is the model's mistake: it is kept, with ``problem`` set. A malformed message around it is the
    caller's: InvalidRequestError.
    """
    if not isinstance(value, dict):
        raise InvalidRequestError("message: must be an object")
    role = value.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise InvalidRequestError("message.role: must be one of system, user, assistant, tool")
    calls = value.get("tool_calls")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        raise InvalidRequestError("message.tool_calls: must be an array")
    call_id = value.get("tool_call_id")
    return Message(
        cast(Role, role),
        _text(value.get("content")),
        tuple(_tool_call(position, call) for position, call in enumerate(calls)),
        call_id if isinstance(call_id, str) else None,
    )


def assistant_from_json(value: JSON) -> Message:
    """Read what an agent said. Raises InvalidRequestError."""
    if isinstance(value, dict) and value.get("role", "assistant") != "assistant":
        raise InvalidRequestError("message.role: must be assistant")
    return message_from_json({"role": "assistant", **value} if isinstance(value, dict) else value)


def _text(content: JSON) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequestError("message.content: must be a string, null or an array of text parts")
    parts: list[str] = []
    for position, part in enumerate(content):
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise InvalidRequestError(f"message.content[{position}]: must be a text part")
        parts.append(text)
    return "".join(parts)


def _tool_call(position: int, value: JSON) -> ToolCall:
    where = f"tool_calls[{position}]"
    if not isinstance(value, dict):
        return ToolCall(f"call_{position}", "", "", f"{where}: must be an object")
    call_id = value.get("id")
    if not isinstance(call_id, str) or not call_id:
        call_id = f"call_{position}"
    function = value.get("function")
    if not isinstance(function, dict):
        return ToolCall(call_id, "", "", f"{where}.function: must be an object")
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        return ToolCall(call_id, "", "", f"{where}.function.name: must be a non-empty string")
    if not isinstance(arguments, str):
        return ToolCall(call_id, name, "", f"{where}.function.arguments: must be a string holding a JSON object")
    return ToolCall(call_id, name, arguments)


def tool_to_json(spec: ToolSpec) -> dict[str, JSON]:
    """OpenAI's tool shape."""
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def tool_from_json(value: Mapping[str, JSON]) -> ToolSpec:
    function = value["function"]
    return ToolSpec(function["name"], function.get("description", ""), function.get("parameters", {}))


# --- results --------------------------------------------------------------------------------------------------------


def observation_to_json(observation: Observation) -> tuple[list[dict[str, JSON]], list[dict[str, JSON]]]:
    """The messages and the tools of a reset, ready for JSON."""
    return [message_to_json(each) for each in observation.messages], [tool_to_json(each) for each in observation.tools]


def step_to_wire(result: StepResult, turn: int) -> Stepped:
    messages = [message_to_json(each) for each in result.messages]
    flags = result.terminated, result.truncated, result.stop_reason
    return Stepped(turn, messages, result.reward, *flags, dict(result.info))


def step_from_wire(answer: Stepped) -> StepResult:
    messages = tuple(message_from_json(each) for each in answer.messages)
    flags = answer.terminated, answer.truncated, answer.stop_reason
    return StepResult(messages, answer.reward, *flags, answer.info)


def identity_to_json(identity: Identity) -> dict[str, JSON]:
    """All fields, plus their digest."""
    return {**cast(dict[str, JSON], msgspec.to_builtins(identity)), "digest": identity.digest}


def identity_from_json(value: Mapping[str, JSON]) -> Identity:
    return msgspec.convert({key: each for key, each in value.items() if key != "digest"}, Identity)


def info_to_json(info: EnvironmentInfo) -> dict[str, JSON]:
    return cast(dict[str, JSON], msgspec.to_builtins(info))


def info_from_json(value: Mapping[str, JSON]) -> EnvironmentInfo:
    return msgspec.convert(dict(value), EnvironmentInfo)


# --- errors ---------------------------------------------------------------------------------------------------------


def error_to_json(error: EnvhubError) -> dict[str, JSON]:
    return {"code": error.code, "message": error.message, "details": dict(error.details)}


def error_body(error: EnvhubError) -> bytes:
    """The envelope ``{"error": {"code", "message", "details"}}``."""
    return dumps({"error": error_to_json(error)})


def error_from_body(status: int, body: bytes, retry_after_s: float | None = None) -> EnvhubError:
    """Rebuild what the hub raised; an answer that is not ours (a proxy's page) becomes an error by its status."""
    try:
        record = msgspec.json.decode(body)["error"]
        return from_code(record["code"], record["message"], record.get("details") or {})
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        text = f"HTTP {status}: {body[:200].decode(errors='replace')}"
        if status in (429, 502, 503, 504):
            return UnavailableError(text, retry_after_s=retry_after_s or 1.0)
        return InvalidRequestError(text) if status < 500 else InternalError(text)


def with_truncation(result: StepResult, reason: StopReason) -> StepResult:
    """The same result, cut off by a limit."""
    return replace(result, truncated=True, stop_reason=reason)


def components(kinds: Sequence[type[Struct]]) -> dict[str, JSON]:
    """JSON schemas of wire records, for the OpenAPI page."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return dict(schemas)

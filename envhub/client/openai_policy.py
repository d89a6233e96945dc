"""A policy that asks an OpenAI-compatible chat endpoint for each turn.

Invariant: ``act`` returns what the model said, or raises. ContextLimitError is the agent's own limit; ModelError is a failure of
the endpoint, which says nothing of the agent and must never be counted as a reward of 0.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from envhub import wire
from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EnvhubError
from envhub.core.types import JSON, Message, ToolSpec

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FATAL = frozenset({401, 403, 404})
_MAX_BACKOFF_S = 60.0
_CONTEXT_WORDS = (
    "context_length",
    "context length",
    "context window",
    "context size",
    "max_model_len",
    "maximum context",
    "maximum model length",
    "prompt is too long",
    "too many tokens",
    "input is too long",
    "exceeds the model's max",
)


class ModelError(Exception):
    """The endpoint failed. ``fatal`` when every later call would fail the same way (key, address or model name is wrong)."""

    def __init__(self, message: str, *, status: int | None = None, fatal: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.fatal = fatal


class ContextLimitError(Exception):
    """The conversation no longer fits the model's context: an outcome of the agent (``StopReason.CONTEXT_LIMIT``)."""


class _TransientError(Exception):
    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model and how to ask it. ``base_url`` ends before ``/chat/completions``; None leaves a field to the server.

    ``extra_body`` is merged into every request, last. ``keep_reasoning`` sends the model's ``reasoning_content`` back to it.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, JSON] = field(default_factory=dict)
    timeout_s: float = 600.0
    max_retries: int = 5
    keep_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )


class OpenAIPolicy:
    """One conversation with a model. Make one per episode; they may share the aiohttp session, which the caller closes."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: aiohttp.ClientSession,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._session = session
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._reasoning: dict[Message, str] = {}
        self._repair = False
        self.usage = Usage()

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        """Raises ContextLimitError, ModelError."""
        failures = 0
        while True:
            try:
                return await self._ask(messages, tools)
            except _TransientError as error:
                if failures == self._endpoint.max_retries:
                    text = f"{self._endpoint.model}: {error} (after {failures + 1} tries)"
                    raise ModelError(text, status=error.status) from error
                await self._clock.sleep(self._backoff_s(failures, error.retry_after_s))
                failures += 1

    def _backoff_s(self, failures: int, retry_after_s: float | None) -> float:
        if retry_after_s is not None:
            return min(retry_after_s, _MAX_BACKOFF_S)
        return min(0.5 * 2.0**failures, _MAX_BACKOFF_S) * (0.75 + 0.5 * self._rng.random())

    async def _ask(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        status, retry_after_s, body = await self._post(self._request(messages, tools))
        if status == 200:
            return self._read(body, len(messages))
        text = f"HTTP {status}: {_error_text(body)}"
        if status in (400, 413, 422):
            if _is_context_limit(body):
                raise ContextLimitError(text)
            if not self._repair and any(_unreadable(message) for message in messages):
                self._repair = True  # some servers refuse a history whose arguments are not JSON
                return await self._ask(messages, tools)
        if status in _RETRIED:
            raise _TransientError(text, status=status, retry_after_s=retry_after_s)
        raise ModelError(f"{self._endpoint.model}: {text}", status=status, fatal=status in _FATAL)

    async def _post(self, request: Mapping[str, JSON]) -> tuple[int, float | None, bytes]:
        endpoint = self._endpoint
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        try:
            async with self._session.post(
                endpoint.base_url.rstrip("/") + "/chat/completions",
                data=wire.dumps(request),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s),
            ) as answer:
                return answer.status, _retry_after_s(answer.headers.get("retry-after")), await answer.read()
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise ModelError(f"{endpoint.base_url!r} is not an http(s) URL", fatal=True) from error
        except TimeoutError as error:
            raise _TransientError(f"no answer within {endpoint.timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _TransientError(f"no connection to {endpoint.base_url}: {error or type(error).__name__}") from error

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, JSON]:
        endpoint = self._endpoint
        request: dict[str, JSON] = {
            "model": endpoint.model,
            "messages": [self._history(message) for message in messages],
        }
        if tools:
            request["tools"] = [wire.tool_to_json(spec) for spec in tools]
        if endpoint.temperature is not None:
            request["temperature"] = endpoint.temperature
        if endpoint.max_tokens is not None:
            request["max_tokens"] = endpoint.max_tokens
        return request | dict(endpoint.extra_body)

    def _history(self, message: Message) -> dict[str, JSON]:
        out = wire.message_to_json(message)
        if message.content is None and not message.tool_calls:
            out["content"] = ""  # null is only allowed beside tool calls
        if self._repair:
            for call in out.get("tool_calls", ()):
                _repair(call["function"])
        if self._endpoint.keep_reasoning and message in self._reasoning:
            out["reasoning_content"] = self._reasoning[message]
        return out

    def _read(self, body: bytes, n_messages: int) -> Message:
        try:
            record = json.loads(body)
            raw = record["choices"][0]["message"]
            self.usage += _usage(record.get("usage"))
            raw = {**raw, "tool_calls": _with_ids(raw.get("tool_calls"), n_messages)}
            if raw.get("content") is None and raw.get("refusal"):
                raw["content"] = raw["refusal"]
            message = wire.assistant_from_json(raw)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, EnvhubError) as error:
            text = f"the answer is not a chat completion ({error}): {body[:200].decode(errors='replace')}"
            raise _TransientError(text) from error
        reasoning = raw.get("reasoning_content") or raw.get("reasoning")
        if self._endpoint.keep_reasoning and isinstance(reasoning, str):
            self._reasoning[message] = reasoning
        return message


def _with_ids(calls: JSON, n_messages: int) -> JSON:
    """Give every call an id of its own, and arguments that came as an object their JSON text."""
    if not isinstance(calls, list):
        return None
    seen: set[str] = set()
    out: list[JSON] = []
    for position, call in enumerate(calls):
        if isinstance(call, dict):
            call_id = call.get("id")
            if not isinstance(call_id, str) or not call_id or call_id in seen:
                call_id = f"call_{n_messages}_{position}"
            seen.add(call_id)
            call = {**call, "id": call_id}
            function = call.get("function")
            if isinstance(function, dict) and isinstance(function.get("arguments"), dict):
                call["function"] = {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}
        out.append(call)
    return out


def _unreadable(message: Message) -> bool:
    return any(not call.name or not _is_object(call.arguments) for call in message.tool_calls)


def _repair(function: dict[str, JSON]) -> None:
    function["name"] = function["name"] or "unnamed"
    if not _is_object(function["arguments"]):
        function["arguments"] = json.dumps({"unreadable_arguments": function["arguments"]})


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _usage(raw: JSON) -> Usage:
    if not isinstance(raw, dict):
        return Usage()
    return Usage(int(raw.get("prompt_tokens") or 0), int(raw.get("completion_tokens") or 0))


def _is_context_limit(body: bytes) -> bool:
    text = body[:4000].decode(errors="replace").lower()
    return any(word in text for word in _CONTEXT_WORDS)


def _error_text(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:500]
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def _retry_after_s(header: str | None) -> float | None:
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None

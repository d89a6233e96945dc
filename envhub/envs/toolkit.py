"""Typed tool functions: JSON schemas out of signatures, and one way to parse, check and run an agent's calls.

Invariant: every call of an assistant message gets exactly one tool message, in order, with the call's id; nothing an agent
sends can raise. What raises is a broken tool, which is the environment's fault (EpisodeFailedError).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import EnvhubError, EpisodeFailedError, ToolError
from envhub.core.text import clean
from envhub.core.types import JSON, Message, StepResult, StopReason, ToolCall, ToolSpec

OVER = "The episode is over; this call was not executed."
_MARK = "__envhub_tool__"
_MAX_ERROR_CHARS = 300


@dataclass(frozen=True, slots=True)
class End:
    """Returned by a tool (or by ``on_text``) to end the episode. ``content`` is what the model reads."""

    reward: float
    content: str = "The episode is over."
    stop_reason: StopReason = StopReason.COMPLETED
    info: Mapping[str, JSON] = field(default_factory=dict)


Outcome = str | End


F = TypeVar("F", bound=Callable[..., Any])


def tool(function: F) -> F:
    """Mark a method as a tool. Its docstring's first paragraph is the description; ``Annotated[T, "text"]`` describes a parameter."""
    setattr(function, _MARK, True)
    return function


@dataclass(frozen=True, slots=True)
class _Tool:
    spec: ToolSpec
    arguments: type[msgspec.Struct]
    method: str
    is_async: bool


class Toolset:
    """The tools of one class, derived once per class."""

    def __init__(self, tools: Sequence[_Tool]) -> None:
        self._tools = {each.spec.name: each for each in tools}
        self.specs: tuple[ToolSpec, ...] = tuple(each.spec for each in tools)

    def parse(self, call: ToolCall) -> tuple[_Tool, dict[str, Any]]:
        """The tool and its checked arguments. Raises ToolError with a short text that names the field."""
        if call.problem is not None:
            raise ToolError(f"Error: {call.problem}")
        found = self._tools.get(call.name)
        if found is None:
            valid = ", ".join(self._tools)
            raise ToolError(f"Error: there is no tool named {_short(call.name)!r}; valid: {valid}")
        value = _load_object(call.arguments)
        try:
            checked = msgspec.convert(value, found.arguments, strict=True)
        except msgspec.ValidationError as error:
            raise ToolError(f"Error: invalid arguments of {call.name}: {_short(str(error))}") from None
        return found, {name: getattr(checked, name) for name in found.arguments.__struct_fields__}


_TOOLSETS: dict[type, Toolset] = {}


def toolset_of(owner: type) -> Toolset:
    """The methods of the class ``owner`` marked with ``@tool``, in definition order.

    Raises TypeError for a parameter without a type.
    """
    if owner not in _TOOLSETS:
        _TOOLSETS[owner] = _collect(owner)
    return _TOOLSETS[owner]


def _collect(owner: type) -> Toolset:
    found: dict[str, Callable[..., Any]] = {}
    for cls in reversed(owner.__mro__):
        for name, value in vars(cls).items():
            if inspect.isfunction(value) and getattr(value, _MARK, False):
                found[name] = value
    return Toolset([_derive(name, function) for name, function in found.items()])


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """At most ``max_calls`` calls of one message run, and none starts once ``budget_s`` seconds have gone into the turn."""

    max_calls: int = 32
    budget_s: float = 240.0


class ToolEpisode:
    """Base of episodes whose actions are tool calls: decorate methods with ``@tool``; return text, or End to finish."""

    turn_limits = TurnLimits()
    clock: Clock = SystemClock()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return toolset_of(type(self)).specs

    async def on_text(self, content: str) -> Outcome:
        """Answer a message without tool calls; the text goes back as a user message."""
        names = ", ".join(spec.name for spec in self.tools)
        return f"Your message contains no tool call. Call one of the tools: {names}."

    async def step(self, message: Message) -> StepResult:
        """Run the calls of one assistant message in order."""
        if not message.tool_calls:
            outcome = await self._guard(self.on_text(message.content or ""))
            end = outcome if isinstance(outcome, End) else None
            return _result((Message.user(clean(end.content if end else str(outcome))),), end)
        toolset = toolset_of(type(self))
        replies: list[Message] = []
        end = None
        started = self.clock.now()
        for position, call in enumerate(message.tool_calls):
            if end is not None:
                text = OVER
            elif position >= self.turn_limits.max_calls:
                text = f"Error: not executed; at most {self.turn_limits.max_calls} calls per message are run."
            elif self.clock.now() - started > self.turn_limits.budget_s:
                text = f"Error: not executed; this turn's {self.turn_limits.budget_s:g} s are used up."
            else:
                outcome = await self._call(toolset, call)
                end = outcome if isinstance(outcome, End) else None
                text = end.content if end else str(outcome)
            replies.append(Message.tool(call.id, clean(text)))
        return _result(tuple(replies), end)

    async def _call(self, toolset: Toolset, call: ToolCall) -> Outcome:
        try:
            found, arguments = toolset.parse(call)
        except ToolError as error:
            return str(error)
        method = getattr(self, found.method)
        if found.is_async:
            return await self._guard(method(**arguments))
        return await self._guard(_deferred(method, arguments))

    @staticmethod
    async def _guard(running: Awaitable[Outcome]) -> Outcome:
        try:
            return await running
        except ToolError as error:
            return str(error)
        except EnvhubError:
            raise
        except Exception as error:  # boundary: a broken tool is the environment's failure, never the agent's
            raise EpisodeFailedError(f"tool failed: {type(error).__name__}: {error}") from error


def _result(messages: tuple[Message, ...], end: End | None) -> StepResult:
    if end is None:
        return StepResult(messages)
    return StepResult(messages, end.reward, terminated=True, stop_reason=end.stop_reason, info=end.info)


async def _deferred(method: Callable[..., Outcome], arguments: Mapping[str, Any]) -> Outcome:
    return method(**arguments)


def _derive(name: str, function: Callable[..., Any]) -> _Tool:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.name not in hints:
            raise TypeError(f"parameter {parameter.name!r} of tool {name!r} needs a type annotation")
        field_type = _described(hints[parameter.name])
        has_default = parameter.default is not inspect.Parameter.empty
        fields.append((parameter.name, field_type, parameter.default) if has_default else (parameter.name, field_type))
    arguments = msgspec.defstruct(f"{name}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
    summary = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return _Tool(
        ToolSpec(name, summary, _schema(arguments)), arguments, name, is_async=inspect.iscoroutinefunction(function)
    )


def _described(hint: Any) -> Any:
    if get_origin(hint) is not Annotated:
        return hint
    base, *notes = get_args(hint)
    metas = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    described: Any = base
    for meta in metas:
        described = Annotated[described, meta]
    return described


def _schema(arguments: type[msgspec.Struct]) -> dict[str, JSON]:
    (reference,), definitions = msgspec.json.schema_components((arguments,), ref_template="#/$defs/{name}")
    schema: dict[str, JSON] = dict(definitions.pop(reference["$ref"].rsplit("/", 1)[1]))
    schema.pop("title", None)
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def _load_object(text: str) -> dict[str, JSON]:
    try:
        value = json.loads(
            text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite_float
        )
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ToolError("Error: arguments are not valid text: they contain a lone surrogate") from None
    except (ValueError, RecursionError) as error:
        raise ToolError(f"Error: arguments are not valid JSON: {_short(str(error))}") from None
    if not isinstance(value, dict):
        raise ToolError(f"Error: arguments must be a JSON object, not {_json_type(value)}")
    return value


def _no_duplicates(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {_short(twice)!r} appears twice")
    return found


def _no_constant(word: str) -> JSON:
    raise ValueError(f"{word} is not JSON")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"number {_short(digits)} is out of range")
    return value


def _json_type(value: JSON) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "an array"}
    return names[type(value)]


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= _MAX_ERROR_CHARS else text[:_MAX_ERROR_CHARS] + "..."

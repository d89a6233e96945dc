"""Who plays: the built-in agents and models behind an endpoint. An agent holds no state of an episode; each gets its own player."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
import msgspec

from envhub.bench.sampling import sample
from envhub.client.openai_policy import Endpoint, OpenAIPolicy, Usage
from envhub.core.protocols import Environment, Script
from envhub.core.types import JSON, Identity, Message, Observation, TaskRef, ToolCall, ToolSpec


class AgentError(Exception):
    """The agent cannot play. ``fatal`` when it could not play any other task of this run either."""

    def __init__(self, code: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class Spent:
    """What an episode cost so far; ``actors`` names the model of every turn when several take turns."""

    usage: Usage = field(default_factory=Usage)
    actors: tuple[str, ...] = ()


class Player(Protocol):
    """Plays one episode: a policy that also says what it spent."""

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message: ...

    def spent(self) -> Spent: ...


class Agent(Protocol):
    """``definition`` goes into the plan: two runs may be compared or resumed only when it is equal."""

    @property
    def name(self) -> str: ...

    @property
    def definition(self) -> Mapping[str, JSON]: ...

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        """Raises AgentError."""


class OracleAgent:
    """Plays the reference solutions of the environments installed here, then says nothing more."""

    name = "oracle"
    definition: Mapping[str, JSON] = {"kind": "oracle"}

    def __init__(self, environment: Callable[[str], Environment]) -> None:
        """``environment`` gives the local environment of a name; the caller closes it."""
        self._environment = environment

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        local = self._environment(task.environment)
        expected = local.info().dataset_hash
        if identity.dataset_hash != expected:
            text = (
                f"the hub plays {task.environment} with dataset {identity.dataset_hash}, the solutions here belong to "
                f"dataset {expected}: they may be of other tasks"
            )
            raise AgentError("dataset_mismatch", text, fatal=True)
        solution = local.solution(task)
        if solution is None:
            raise AgentError("no_solution", f"no reference solution of {task} is known")
        return _Recital(solution)


class NullAgent:
    """Says nothing, turn after turn, until the episode is cut off: the least that an agent can do."""

    name = "null"
    definition: Mapping[str, JSON] = {"kind": "null"}

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        return _Recital(())


class RandomAgent:
    """Calls a random tool with random arguments that conform to its schema."""

    name = "random"
    definition: Mapping[str, JSON] = {"kind": "random"}

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        return _Dice(random.Random(seed))


class ScriptAgent:
    """Plays the scripts that ``script`` starts, such as an environment's exploits."""

    def __init__(self, name: str, script: Callable[[Observation], Script]) -> None:
        self.name = name
        self.definition: Mapping[str, JSON] = {"kind": "script"}
        self._script = script

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        return _Actor(self._script)


class ModelAgent:
    """A model behind an endpoint, or several of which a seeded draw picks one for every turn."""

    def __init__(
        self, endpoints: Sequence[Endpoint], session: aiohttp.ClientSession, *, name: str | None = None
    ) -> None:
        if not endpoints:
            raise ValueError("a model agent needs at least one endpoint")
        models = [endpoint.model for endpoint in endpoints]
        self.name = name or (models[0] if len(models) == 1 else f"cross({','.join(models)})")
        self._endpoints = tuple(endpoints)
        self._session = session

    @property
    def definition(self) -> Mapping[str, JSON]:
        """Everything but the key and how patient the client is."""
        unlisted = ("api_key", "timeout_s", "max_retries")
        models = [
            {key: value for key, value in msgspec.to_builtins(endpoint).items() if key not in unlisted}
            for endpoint in self._endpoints
        ]
        return {"kind": "model", "models": models}

    def player(self, task: TaskRef, *, seed: int, identity: Identity) -> Player:
        rng = random.Random(seed)
        policies = [OpenAIPolicy(endpoint, self._session, rng=rng) for endpoint in self._endpoints]
        return _Models([endpoint.model for endpoint in self._endpoints], policies, random.Random(seed))


class _Recital:
    """Says its lines one by one, then nothing."""

    def __init__(self, lines: Sequence[Message]) -> None:
        self._lines = iter(lines)

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        return next(self._lines, Message.assistant(""))

    def spent(self) -> Spent:
        return Spent()


class _Dice:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._turn = 0

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        if not tools:
            return Message.assistant("")
        self._turn += 1
        spec = self._rng.choice(tools)
        arguments = json.dumps(sample(spec.parameters, self._rng))
        return Message.assistant(None, ToolCall(f"call_{self._turn}", spec.name, arguments))

    def spent(self) -> Spent:
        return Spent()


class _Actor:
    def __init__(self, start: Callable[[Observation], Script]) -> None:
        self._start = start
        self._script: Script | None = None
        self._n_seen = 0

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        new = tuple(messages[self._n_seen :])
        self._n_seen = len(messages) + 1  # what is said now comes before what answers it
        try:
            if self._script is None:
                self._script = self._start(Observation(new, tuple(tools)))
                return next(self._script)
            return self._script.send(new)
        except StopIteration:
            return Message.assistant("")

    def spent(self) -> Spent:
        return Spent()


class _Models:
    def __init__(self, names: Sequence[str], policies: Sequence[OpenAIPolicy], rng: random.Random) -> None:
        self._names = names
        self._policies = policies
        self._rng = rng
        self._actors: list[str] = []

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        drawn = self._rng.randrange(len(self._policies))
        self._actors.append(self._names[drawn])
        return await self._policies[drawn].act(messages, tools)

    def spent(self) -> Spent:
        usage = sum((policy.usage for policy in self._policies), Usage())
        return Spent(usage, tuple(self._actors) if len(self._policies) > 1 else ())

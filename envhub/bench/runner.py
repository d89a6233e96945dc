"""Plays the episodes of a plan. Every episode ends as one row: graded, an error of somebody else's, or cancelled; never as a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envhub import wire
from envhub.bench.agents import Agent, AgentError, Player, Spent
from envhub.bench.plan import EpisodeKey, Plan
from envhub.bench.results import Failure, ResultsFolder, Row, Status
from envhub.client.hub import Hub, HubSession
from envhub.client.openai_policy import ContextLimitError, ModelError
from envhub.client.rollout import Trajectory, rollout
from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import (
    AuthenticationError,
    EnvhubError,
    EnvironmentNotFoundError,
    EpisodeError,
    InternalError,
    MissingExtraError,
    SessionEndedError,
    SessionNotFoundError,
    UnavailableError,
)
from envhub.core.types import Identity, Message, StopReason, ToolSpec

_RETRIED = (EpisodeError, UnavailableError, InternalError, SessionNotFoundError)
_FATAL = (AuthenticationError, EnvironmentNotFoundError, MissingExtraError)


class RunAbortedError(Exception):
    """The run cannot go on: what went wrong would go wrong for every episode. What is recorded stays recorded."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to play, as opposed to what. ``attempts`` bounds the sessions an episode may take when the hub fails."""

    jobs: int = 32
    attempts: int = 3
    lease_s: float = 300.0
    wait_s: float = 3600.0
    threshold: float = 1.0
    traces: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)


class Runner:
    """Plays with at most ``jobs`` sessions at a time. Cancelling it cancels the sessions and records nothing of them."""

    def __init__(
        self,
        hub: Hub,
        agents: Sequence[Agent],
        folder: ResultsFolder,
        *,
        options: RunOptions | None = None,
        on_row: Callable[[Row], None] = lambda row: None,
        clock: Clock | None = None,
    ) -> None:
        self._hub = hub
        self._agents = {agent.name: agent for agent in agents}
        self._folder = folder
        self._options = options or RunOptions()
        self._on_row = on_row
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Play every episode of the folder's plan that is not graded yet. Raises RunAbortedError."""
        plan = self._folder.plan
        finished = self._folder.finished()
        pending = [key for key in plan.episodes() if key not in finished]
        queue = iter(pending)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._options.jobs, len(pending))):
                    group.create_task(self._work(plan, queue))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _work(self, plan: Plan, queue: Iterator[EpisodeKey]) -> None:
        for key in queue:
            row, identity = await self._play(plan, key)
            self._folder.add(row, identity)
            self._on_row(row)

    async def _play(self, plan: Plan, key: EpisodeKey) -> tuple[Row, Identity | None]:
        """A hub that fails gets a fresh session, up to the limit; then its failure is the row."""
        attempt = 1
        while True:
            episode = _Played(key, plan.seed_of(key), self._clock)
            try:
                return await self._attempt(plan, episode, attempt), episode.identity
            except _RETRIED as error:
                if attempt == self._options.attempts:
                    return episode.failed(Failure("hub", error.code, error.message), attempt), episode.identity
                await self._clock.sleep(error.details.get("retry_after_s", 0.0))
                attempt += 1

    async def _attempt(self, plan: Plan, episode: _Played, attempt: int) -> Row:
        try:
            return await self._episode(plan, episode, attempt)
        except ContextLimitError as error:
            return episode.context_limit(attempt, error)
        except ModelError as error:
            if error.fatal:
                raise RunAbortedError(error.message) from error
            code = "model_error" if error.status is None else f"model_http_{error.status}"
            return episode.failed(Failure("model", code, error.message), attempt)
        except AgentError as error:
            if error.fatal:
                raise RunAbortedError(error.message) from error
            return episode.failed(Failure("agent", error.code, error.message), attempt)
        except _FATAL as error:
            raise RunAbortedError(error.message) from error
        except _RETRIED:
            raise
        except SessionEndedError as error:
            return episode.ended(error, attempt)
        except EnvhubError as error:
            return episode.failed(Failure("hub", error.code, error.message), attempt)

    async def _episode(self, plan: Plan, episode: _Played, attempt: int) -> Row:
        key, options = episode.key, self._options
        opening = self._hub.session(
            key.task.environment,
            key.task.split,
            key.task.index,
            seed=episode.seed,
            lease_s=options.lease_s,
            options=plan.options,
            tags={"agent": key.agent[:256], "repeat": str(key.repeat), **options.tags},
            wait_s=options.wait_s,
        )
        async with opening as session:
            episode.session_id, episode.identity = session.id, session.identity
            player = self._agents[key.agent].player(session.task, seed=episode.seed, identity=session.identity)
            metered = episode.metered = _Metered(player, session, options.lease_s, self._clock)
            trajectory = await rollout(session, metered)
        trace = self._folder.write_trace(key, _trace(trajectory, metered)) if options.traces else None
        return episode.finished(trajectory, attempt, threshold=options.threshold, trace=trace)


class _Metered:
    """The player as the rollout sees it; holds the lease while it thinks, and keeps what a failed episode would lose."""

    def __init__(self, player: Player, session: HubSession, lease_s: float, clock: Clock) -> None:
        self._player = player
        self._session = session
        self._lease_s = lease_s
        self._clock = clock
        self.model_s = 0.0
        self.turns = 0
        self.tools: tuple[ToolSpec, ...] = ()

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        self.tools = tuple(tools)
        started = self._clock.now()
        renewing = asyncio.create_task(self._renew())
        try:
            message = await self._player.act(messages, tools)
        except (ContextLimitError, ModelError, AgentError):
            raise
        except Exception as error:  # boundary: a player is anyone's code, and its bug is neither the hub's nor a reward
            raise AgentError("agent_failed", f"{type(error).__name__}: {error}") from error
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
            self.model_s += self._clock.now() - started
        self.turns += 1
        return message

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._lease_s / 3)
            try:
                await self._session.renew()
            except EnvhubError:
                return  # the next interact says what became of the session

    def spent(self) -> Spent:
        return self._player.spent()


class _Played:
    """What is known of one try at an episode, and the row it becomes."""

    def __init__(self, key: EpisodeKey, seed: int, clock: Clock) -> None:
        self.key = key
        self.seed = seed
        self.session_id: str | None = None
        self.identity: Identity | None = None
        self.metered: _Metered | None = None
        self._clock = clock
        self._started = clock.now()
        self._started_at = clock.wall()

    def finished(self, trajectory: Trajectory, attempts: int, *, threshold: float, trace: str | None) -> Row:
        cancelled = trajectory.stop_reason is StopReason.CANCELLED
        return replace(
            self._row(Status.CANCELLED if cancelled else Status.GRADED, attempts),
            turns=trajectory.turns,
            episode_return=None if cancelled else trajectory.episode_return,
            success=None if cancelled else trajectory.episode_return >= threshold,
            stop_reason=trajectory.stop_reason,
            terminated=trajectory.terminated,
            truncated=trajectory.truncated,
            metrics=trajectory.info,
            trace=trace,
        )

    def context_limit(self, attempts: int, error: ContextLimitError) -> Row:
        return replace(
            self._row(Status.GRADED, attempts),
            episode_return=0.0,
            success=False,
            stop_reason=StopReason.CONTEXT_LIMIT,
            truncated=True,
            metrics={"context_limit": str(error)[:500]},
        )

    def ended(self, error: SessionEndedError, attempts: int) -> Row:
        """The session was ended from elsewhere."""
        reason = str(error.details.get("stop_reason") or error.details.get("reason") or "")
        if reason.startswith("cancelled"):
            failure = Failure("hub", "cancelled", error.message)
            return replace(self._row(Status.CANCELLED, attempts), stop_reason=StopReason.CANCELLED, error=failure)
        return self.failed(Failure("hub", error.code, error.message), attempts)

    def failed(self, failure: Failure, attempts: int) -> Row:
        return replace(self._row(Status.ERROR, attempts), error=failure)

    def _row(self, status: Status, attempts: int) -> Row:
        metered, task = self.metered, self.key.task
        spent = metered.spent() if metered else Spent()
        model_s = metered.model_s if metered else 0.0
        return Row(
            agent=self.key.agent,
            environment=task.environment,
            split=task.split,
            task=task.index,
            repeat=self.key.repeat,
            seed=self.seed,
            status=status,
            identity=self.identity.digest if self.identity else None,
            session_id=self.session_id,
            turns=metered.turns if metered else 0,
            prompt_tokens=spent.usage.prompt_tokens,
            completion_tokens=spent.usage.completion_tokens,
            hub_s=round(self._clock.now() - self._started - model_s, 6),
            model_s=round(model_s, 6),
            started_at=self._started_at,
            attempts=attempts,
            actors=spent.actors,
        )


def _trace(trajectory: Trajectory, metered: _Metered) -> Mapping[str, object]:
    return {
        "session_id": trajectory.session_id,
        "task": str(trajectory.task),
        "messages": [wire.message_to_json(message) for message in trajectory.messages],
        "tools": [wire.tool_to_json(spec) for spec in metered.tools],
        "rewards": list(trajectory.rewards),
        "actors": list(metered.spent().actors),
    }

"""One trajectory: a policy's tokens in, the hub's tokens out, until the episode ends.

Invariants: whatever happens, the session is ended before the trajectory is returned; a limit that the agent ran into is an outcome
with the penalty as its reward, a failure of engine, hub or environment is a Failure without one; only cancellation is raised.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from envhub.client.hub import HubSession
from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError, NoCapacityError, TaskUnusableError
from envhub.core.types import Message, Observation, StepResult, StopReason
from trainer_adapter.chat import ChatFormat, TemplateError, TemplateRewritesError
from trainer_adapter.engines import EnginePool, Step
from trainer_adapter.metrics import is_told
from trainer_adapter.queue import Ticket
from trainer_adapter.tokens import (
    Completion,
    Failure,
    FailureKind,
    FinishReason,
    SamplerError,
    Timing,
    TokenSequence,
    TokenTrack,
    Trajectory,
)

log = logging.getLogger(__name__)

AGENT_LIMITS = frozenset(
    {StopReason.TURN_LIMIT, StopReason.TIME_LIMIT, StopReason.CONTEXT_LIMIT, StopReason.INVALID_ACTION}
)
"""Ends that the agent has to answer for."""


Sampled = Callable[[Completion], None]


class OnRewrite(StrEnum):
    """What a chat template does to a trajectory that shows earlier turns otherwise than they were sampled: begin another
    sequence, in which those turns are not trained again, or give the trajectory up."""

    SPLIT = "split"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """``context_tokens``: prompt and completions together; ``turn_tokens``: one completion. ``incomplete_penalty`` replaces the
    reward of an episode that ended at one of the agent's limits (None keeps what the environment paid)."""

    context_tokens: int = 8192
    turn_tokens: int = 1024
    incomplete_penalty: float | None = -0.2
    on_rewrite: OnRewrite = OnRewrite.SPLIT

    def __post_init__(self) -> None:
        if self.context_tokens < 1 or self.turn_tokens < 1:
            raise ValueError("context_tokens and turn_tokens must be at least 1")


@dataclass(slots=True)
class _Progress:
    """What is known of a trajectory while it is played."""

    sequences: list[TokenSequence] = field(default_factory=list)
    track: TokenTrack = field(default_factory=TokenTrack)
    rewards: list[float] = field(default_factory=list)
    info: dict[str, object] = field(default_factory=dict)
    start_s: float = 0.0
    generate_s: float = 0.0
    environment_s: float = 0.0
    sampled: Sampled | None = None

    def finished(self) -> tuple[TokenSequence, ...]:
        self.close_track()
        return tuple(sequence for sequence in self.sequences if sequence.n_actions)

    def close_track(self) -> None:
        self.track.trim()
        self.sequences.append(self.track.sequence())
        self.track = TokenTrack()


class Rollout:
    """Plays tickets; one instance serves any number of them at once."""

    def __init__(self, pool: EnginePool, chat: ChatFormat, settings: RolloutSettings, *, clock: Clock) -> None:
        self._pool = pool
        self._chat = chat
        self._settings = settings
        self._clock = clock
        self._n_full = 0

    async def play(self, ticket: Ticket, session: HubSession, *, sampled: Sampled | None = None) -> Trajectory:
        """The trajectory of one ticket on a session that has not been started. ``sampled`` hears of every completion."""
        progress = _Progress(sampled=sampled)
        try:
            stop = await self._play_to_the_end(ticket, session, progress)
        except TaskUnusableError as error:
            return self._failed(ticket, progress, error.code, error.message, FailureKind.UNTRAINABLE)
        except EnvhubError as error:
            return self._failed(ticket, progress, error.code, error.message)
        except SamplerError as error:
            return self._failed(ticket, progress, "engine_failed", str(error))
        except TemplateRewritesError as error:
            return self._failed(ticket, progress, "template_rewrites", str(error), FailureKind.UNTRAINABLE)
        except TemplateError as error:
            return self._failed(ticket, progress, "template_failed", str(error), FailureKind.UNTRAINABLE)
        except Exception as error:  # boundary: one trajectory must never end its group or the run
            log.exception("trajectory %s/%d failed", ticket.group, ticket.member)
            return self._failed(ticket, progress, type(error).__name__, str(error))
        if stop is StopReason.CANCELLED:
            return self._failed(ticket, progress, "session_cancelled", "somebody cancelled the session on the hub")
        earned = sum(progress.rewards)
        if not math.isfinite(earned):
            return self._failed(ticket, progress, "reward_not_finite", f"the rewards add up to {earned}")
        penalty = self._settings.incomplete_penalty
        return Trajectory(
            ticket.group,
            ticket.member,
            ticket.task,
            progress.finished(),
            reward=penalty if penalty is not None and stop in AGENT_LIMITS else earned,
            environment_return=earned,
            stop_reason=stop,
            n_turns=len(progress.rewards),
            timing=self._timing(progress),
            info=dict(progress.info),
        )

    async def _play_to_the_end(self, ticket: Ticket, session: HubSession, progress: _Progress) -> StopReason:
        try:
            return await self._play(ticket, session, progress)
        finally:
            await session.cancel()

    async def _play(self, ticket: Ticket, session: HubSession, progress: _Progress) -> StopReason:
        began = self._clock.now()
        try:
            first = await self._started(session)
        finally:
            progress.start_s = self._clock.now() - began
        messages = list(first.messages)
        progress.track.observe(self._chat.prompt(messages, session.tools))
        while True:
            completion = await self._sample(ticket, session.turn, progress)
            if completion is None:
                return StopReason.CONTEXT_LIMIT
            action = self._chat.parse(completion, session.tools)
            result = await self._step(session, action, progress)
            if result.done:
                return result.stop_reason or StopReason.COMPLETED
            messages += [action, *result.messages]
            self._observe(session, messages, completion, result.messages, progress)

    async def _started(self, session: HubSession) -> Observation:
        """A hub whose workers are all taken is busy, not broken: it is asked again for as long as it has some."""
        while True:
            try:
                return await session.start()
            except NoCapacityError as error:
                if not error.details.get("n_workers"):
                    raise
                self._n_full += 1
                if is_told(self._n_full):
                    log.info("the hub is full, trajectories wait for it (%d times so far): %s", self._n_full, error)

    async def _sample(self, ticket: Ticket, turn: int, progress: _Progress) -> Completion | None:
        """The next completion, already in the track; None when the context ends before it does. Raises SamplerError."""
        room = self._settings.context_tokens - len(progress.track)
        if room <= 0:
            return None
        max_tokens = min(room, self._settings.turn_tokens)
        step = Step(ticket.group, ticket.member, ticket.attempt, turn)
        began = self._clock.now()
        try:
            completion = await self._pool.sample(step, tuple(progress.track.ids), max_tokens=max_tokens)
        finally:
            progress.generate_s += self._clock.now() - began
        if completion.finish is FinishReason.ABORT:
            raise SamplerError(f"engine {completion.engine} aborted a completion")
        if len(completion.ids) > max_tokens:
            raise SamplerError(
                f"engine {completion.engine} sampled {len(completion.ids)} tokens, asked for {max_tokens}"
            )
        progress.track.act(completion)
        if progress.sampled is not None:
            progress.sampled(completion)
        return None if completion.finish is FinishReason.LENGTH and len(completion.ids) == room else completion

    async def _step(self, session: HubSession, action: Message, progress: _Progress) -> StepResult:
        began = self._clock.now()
        try:
            result = await session.interact(action)
        finally:
            progress.environment_s += self._clock.now() - began
        progress.rewards.append(result.reward)
        progress.info.update(result.info)
        return result

    def _observe(
        self,
        session: HubSession,
        messages: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        progress: _Progress,
    ) -> None:
        if not self._chat.rewrites(messages, session.tools):
            progress.track.observe(self._chat.between(completion, replies, session.tools))
        elif self._settings.on_rewrite is OnRewrite.REFUSE:
            raise TemplateRewritesError("the chat template rewrites earlier turns of this conversation")
        else:
            progress.close_track()
            progress.track.observe(self._chat.prompt(messages, session.tools))

    def _timing(self, progress: _Progress) -> Timing:
        return Timing(progress.start_s, progress.generate_s, progress.environment_s, self._clock.now())

    def _failed(
        self,
        ticket: Ticket,
        progress: _Progress,
        code: str,
        message: str,
        kind: FailureKind = FailureKind.INFRASTRUCTURE,
    ) -> Trajectory:
        return Trajectory(
            ticket.group,
            ticket.member,
            ticket.task,
            failure=Failure(kind, code, message),
            n_turns=len(progress.rewards),
            timing=self._timing(progress),
        )

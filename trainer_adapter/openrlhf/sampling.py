"""A turn's request to an engine in another process and its answer, small enough to send thousands of them.

Invariants: a failing, lost or aborted engine is a SamplerError, never a completion; a cancelled caller cancels the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from trainer_adapter.tokens import Completion, FinishReason, SamplerError


@dataclass(frozen=True, slots=True)
class Request:
    ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    stop_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish: str
    version: int


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """Engine ``number`` of the pool; ``limit_s`` is for one completion."""

    handle: Any
    number: int
    temperature: float
    top_p: float
    stop_ids: tuple[int, ...]
    limit_s: float

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion:
        request = Request(tuple(ids), max_tokens, self.temperature, self.top_p, self.stop_ids)
        answer = self.handle.sample.remote(request)
        try:
            async with asyncio.timeout(self.limit_s):
                got: Sampled = await answer
        except asyncio.CancelledError:
            ray.cancel(answer)
            raise
        except TimeoutError:
            ray.cancel(answer)
            raise SamplerError(f"no completion within {self.limit_s:g} s") from None
        except RayError as error:
            raise SamplerError(f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[-1]}") from error
        if got.finish == FinishReason.ABORT:
            raise SamplerError(f"aborted after {len(got.ids)} tokens")
        try:
            return Completion(got.ids, got.logprobs, got.text, FinishReason(got.finish), self.number, got.version)
        except ValueError as error:
            raise SamplerError(str(error)) from error

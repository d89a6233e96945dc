"""One weight update: pause the engines that are due, send, prove that every tensor arrived, let them go on.

Invariants: whatever fails or hangs, the error names the engine and comes within the time limits, and every engine that was paused
has been told to go on; an engine plays with a new version only after its tensors were verified.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from trainer_adapter.versions import Manifest, WeightSyncError, verify

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an engine has come in the update under way: tensors received, and what went wrong with one, if something did."""

    n_tensors: int
    error: str | None = None


class SyncedEngine(Protocol):
    """An engine as the update sees it; every method may fail or hang."""

    async def pause(self) -> None: ...

    async def progress(self) -> Progress: ...

    async def received(self) -> Sequence[Mapping[str, str]]:
        """Checksums by tensor name since the last call, one mapping for each of the engine's workers."""

    async def set_version(self, version: int) -> None: ...

    async def resume(self) -> None: ...


class HoldingEngine(Protocol):
    async def held(self) -> str:
        """Checksum of the weights that it plays with, however it merges and stores them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: for one call to an engine, and for sending all weights."""

    call_s: float = 60.0
    send_s: float = 1800.0


Send = Callable[[], Awaitable[Mapping[str, str]]]
"""Sends all tensors to the engines and returns the checksums of what was sent, by name."""


async def update(engines: Mapping[int, SyncedEngine], send: Send, version: int, limits: Limits) -> Manifest:
    """Bring these engines to a version; what was sent. Raises WeightSyncError naming an engine, or what ``send`` raised."""
    paused: list[int] = []
    try:
        for number, error in (await _each(engines, lambda engine: engine.pause(), limits.call_s)).items():
            if error is not None:
                raise _sync_error(number, "could not be paused", error)
            paused.append(number)
        sent = Manifest(version, await _sent(engines, send, limits))
        await _prove(engines, sent, limits)
    except BaseException:
        await _resume({number: engines[number] for number in engines}, limits)
        raise
    failed = await _resume(engines, limits)
    for number, error in failed.items():
        raise _sync_error(number, "could not be resumed", error)
    log.debug("engines %s have version %d (%s)", paused, version, sent.digest)
    return sent


async def compare(engines: Mapping[int, HoldingEngine], due: Iterable[int], limits: Limits) -> Mapping[int, str]:
    """What every engine holds. Raises WeightSyncError for one that does not tell, or that was due and holds other weights than the
    first of those that were."""

    async def one(number: int) -> str:
        try:
            async with asyncio.timeout(limits.call_s):
                return await engines[number].held()
        except Exception as error:
            raise _sync_error(number, "does not tell what it holds", error) from error

    found = await asyncio.gather(*map(one, sorted(engines)), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    held = dict(zip(sorted(engines), map(str, found), strict=True))
    first, *others = sorted(due)
    for number in others:
        if held[number] != held[first]:
            raise WeightSyncError(f"engine {number} holds other weights than engine {first}", engine=number)
    return held


async def _sent(engines: Mapping[int, SyncedEngine], send: Send, limits: Limits) -> Mapping[str, str]:
    try:
        async with asyncio.timeout(limits.send_s):
            return await send()
    except Exception as error:
        culprit = await _culprit(engines, limits)
        if culprit is None:
            raise
        number, progress = culprit
        raise WeightSyncError(
            f"engine {number} stopped the weight update after {progress.n_tensors} tensors: {progress.error or _text(error)}",
            engine=number,
        ) from error


async def _culprit(engines: Mapping[int, SyncedEngine], limits: Limits) -> tuple[int, Progress] | None:
    """The engine with an error of its own or without an answer, else the one that came least far; None when all came equally far."""
    found: dict[int, Progress] = {}
    for number, engine in sorted(engines.items()):
        try:
            async with asyncio.timeout(limits.call_s):
                found[number] = await engine.progress()
        except Exception as error:  # boundary: whatever an engine does while it fails
            found[number] = Progress(0, f"it does not answer: {_text(error)}")
        if found[number].error is not None:
            return number, found[number]
    least = min(found.items(), key=lambda each: each[1].n_tensors, default=None)
    several = len({progress.n_tensors for progress in found.values()}) > 1
    return least if least is not None and (several or len(found) == 1) else None


async def _prove(engines: Mapping[int, SyncedEngine], sent: Manifest, limits: Limits) -> None:
    for number, engine in sorted(engines.items()):
        try:
            async with asyncio.timeout(limits.call_s):
                by_worker = await engine.received()
                for tensors in by_worker:
                    verify(sent, {number: Manifest(sent.version, tensors)}, (number,))
                if not by_worker:
                    verify(sent, {}, (number,))
                await engine.set_version(sent.version)
        except WeightSyncError:
            raise
        except Exception as error:
            raise _sync_error(number, "does not tell what it received", error) from error


async def _resume(engines: Mapping[int, SyncedEngine], limits: Limits) -> Mapping[int, Exception]:
    ended = await _each(engines, lambda engine: engine.resume(), limits.call_s)
    return {number: error for number, error in ended.items() if error is not None}


async def _each(
    engines: Mapping[int, SyncedEngine], call: Callable[[SyncedEngine], Awaitable[None]], limit_s: float
) -> Mapping[int, Exception | None]:
    """The call on all engines at once; by number, what went wrong."""

    async def one(engine: SyncedEngine) -> Exception | None:
        try:
            async with asyncio.timeout(limit_s):
                await call(engine)
        except Exception as error:  # boundary: whatever an engine does
            return error
        return None

    numbers = sorted(engines)
    ended = await asyncio.gather(*(one(engines[number]) for number in numbers))
    return dict(zip(numbers, ended, strict=True))


def _sync_error(number: int, what: str, error: BaseException) -> WeightSyncError:
    made = WeightSyncError(f"engine {number} {what}: {_text(error)}", engine=number)
    made.__cause__ = error
    return made


def _text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    return f"{type(error).__name__}: {error}"

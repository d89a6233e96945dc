"""An EpisodeRecord as rows and back.

Invariant: ``to_record(to_rows(record)) == record`` for every record that ``to_rows`` accepts, and it accepts none that an
engine would cut, round or refuse.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from envhub.core.errors import InvalidRequestError
from envhub.core.types import JSON, StopReason
from envhub.store.models import NAME_BYTES, SESSION_ID_BYTES, TAG_KEY_BYTES, TAG_VALUE_BYTES, Episode
from envhub.wire import EpisodeRecord, dumps, loads_json

PART_BYTES: Final = 1024 * 1024
"""Half of the smallest statement limit that a MySQL server ships with, because escaping can double a blob."""

ZLIB_LEVEL: Final = 1
"""The fastest. Compressing bounds the store's throughput; level 6 takes five times as long to save another fifth."""

_JSONObject = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Rows:
    """What one record becomes. ``episode`` lacks the row's id."""

    episode: Mapping[str, Any]
    trace_parts: tuple[Mapping[str, Any], ...]
    tags: tuple[Mapping[str, Any], ...]

    @property
    def session_id(self) -> str:
        return cast(str, self.episode["session_id"])

    @property
    def has_return(self) -> bool:
        return self.episode["episode_return"] is not None


def to_rows(record: EpisodeRecord) -> Rows:
    """Check and convert; compresses the trace, so it is work for a thread. Raises InvalidRequestError."""
    _check(record)
    session_id = record.session_id
    packed = zlib.compress(record.trace, ZLIB_LEVEL)
    parts = [packed[start : start + PART_BYTES] for start in range(0, len(packed), PART_BYTES)]
    return Rows(
        _episode(record),
        tuple({"session_id": session_id, "part": part, "data": data} for part, data in enumerate(parts)),
        tuple({"session_id": session_id, "tag": tag, "value": value} for tag, value in record.tags.items()),
    )


def to_record(episode: Episode, trace_parts: Iterable[bytes]) -> EpisodeRecord:
    return EpisodeRecord(
        session_id=episode.session_id,
        environment=episode.environment,
        split=episode.split,
        task=episode.task,
        seed=episode.seed,
        worker=episode.worker,
        identity=episode.identity,
        tags=episode.tags,
        started_at=episode.started_at,
        ended_at=episode.ended_at,
        turns=episode.turns,
        episode_return=episode.episode_return,
        terminated=episode.terminated,
        truncated=episode.truncated,
        stop_reason=None if episode.stop_reason is None else StopReason(episode.stop_reason),
        error=episode.error,
        reason=episode.reason,
        info=episode.info,
        trace=zlib.decompress(b"".join(trace_parts)),
    )


def _episode(record: EpisodeRecord) -> dict[str, Any]:
    identity = _json("identity", record.identity)
    return {
        "session_id": record.session_id,
        "environment": record.environment,
        "split": record.split,
        "task": record.task,
        "seed": record.seed,
        "worker": record.worker,
        "identity_digest": _digest(identity),
        "identity": identity,
        "tags": _json("tags", record.tags),
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "turns": record.turns,
        "episode_return": record.episode_return,
        "terminated": record.terminated,
        "truncated": record.truncated,
        "stop_reason": None if record.stop_reason is None else str(record.stop_reason),
        "failed": record.error is not None,
        "error": _json("error", record.error),
        "reason": _json("reason", record.reason),
        "info": _json("info", record.info),
    }


def _digest(identity: Mapping[str, JSON]) -> str:
    """The digest that the worker computed; for an identity without one, a digest of all that it says."""
    given = identity.get("digest")
    if isinstance(given, str) and 0 < len(given) <= 64 and given.isascii():
        return given
    if not identity:
        return ""
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()[:12]


def _json(field: str, value: JSON) -> JSON:
    """The value as JSON gives it back: no NaN, no lone surrogates."""
    try:
        return loads_json(dumps(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequestError(f"episode.{field}: cannot be JSON: {error}") from None


def _check(record: EpisodeRecord) -> None:
    _check_text("session_id", record.session_id, SESSION_ID_BYTES)
    _check_text("environment", record.environment, NAME_BYTES)
    _check_text("split", record.split, NAME_BYTES)
    _check_text("worker", record.worker, NAME_BYTES)
    for tag, value in record.tags.items():
        _check_text("tags", tag, TAG_KEY_BYTES)
        _check_text("tags", value, TAG_VALUE_BYTES)
    for field, whole in (("task", record.task), ("seed", record.seed), ("turns", record.turns)):
        if not -(2**63) <= whole < 2**63:
            raise InvalidRequestError(f"episode.{field}: must fit 64 bits")
    times = ("started_at", record.started_at), ("ended_at", record.ended_at)
    for field, number in (*times, ("episode_return", record.episode_return)):
        if number is not None and not math.isfinite(number):
            raise InvalidRequestError(f"episode.{field}: must be a finite number, not {number}")
    if record.error is not None and record.episode_return is not None:
        raise InvalidRequestError("episode.episode_return: must be null when error is set")
    _check_trace(record.trace)


def _check_text(field: str, value: str, n_bytes: int) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequestError(f"episode.{field}: is not valid Unicode") from None
    if size > n_bytes:
        raise InvalidRequestError(f"episode.{field}: must be at most {n_bytes} bytes of UTF-8, not {size}")


def _check_trace(trace: bytes) -> None:
    try:
        _JSONObject.decode(trace)
        trace.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"episode.trace: must be a JSON object: {error}") from None

"""Proof that a weight update arrived: every tensor, on every engine that was due.

Invariant: an update counts as done only when each due engine reports each tensor of the trainer with the trainer's checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


class WeightSyncError(Exception):
    """An engine did not get what the trainer sent. ``engine`` is its number."""

    def __init__(self, message: str, engine: int) -> None:
        super().__init__(message)
        self.engine = engine

    def __reduce__(self) -> tuple[type[WeightSyncError], tuple[str, int]]:
        """It travels between processes."""
        return WeightSyncError, (str(self), self.engine)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was sent, or what arrived: tensor name -> checksum of its bytes."""

    version: int
    tensors: Mapping[str, str]

    @property
    def digest(self) -> str:
        """12 hex characters over all tensors."""
        text = "\n".join(f"{name} {checksum}" for name, checksum in sorted(self.tensors.items()))
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def checksum(data: bytes | memoryview) -> str:
    """Of one tensor's bytes as they travel."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def verify(sent: Manifest, arrived: Mapping[int, Manifest], due: Iterable[int]) -> None:
    """Raises WeightSyncError for the first engine that lacks a tensor, has another one, or has another version."""
    for engine in sorted(due):
        got = arrived.get(engine)
        if got is None:
            raise WeightSyncError(f"engine {engine} reports nothing of version {sent.version}", engine=engine)
        if got.version != sent.version:
            raise WeightSyncError(f"engine {engine} has version {got.version}, not {sent.version}", engine=engine)
        missing = [name for name in sent.tensors if name not in got.tensors]
        differing = [name for name, value in sent.tensors.items() if got.tensors.get(name, value) != value]
        extra = [name for name in got.tensors if name not in sent.tensors]
        for what, names in (("lacks", missing), ("has other values in", differing), ("has unknown", extra)):
            if names:
                shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
                raise WeightSyncError(
                    f"engine {engine} {what} {len(names)} of {len(sent.tensors)} tensors: {shown}", engine=engine
                )

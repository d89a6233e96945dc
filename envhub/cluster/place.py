"""What a fleet needs of a cluster, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from envhub.config import Settings


@dataclass(frozen=True, slots=True)
class Order:
    """One worker to place. ``settings`` hold keys: they go to the worker's process and nowhere else.

    ``resources``: what it takes of a node, ``CPU``, ``memory`` in bytes, or custom ones.
    """

    name: str
    settings: Settings
    resources: Mapping[str, float]


class PlacedWorker(Protocol):
    """A worker that was asked for."""

    async def started(self) -> str:
        """The address of its node, as soon as it has one. Raises WorkerGoneError."""

    async def ended(self) -> str:
        """Why its process ended, as soon as it has. Raises WorkerGoneError."""

    async def stop(self, limit_s: float) -> None:
        """End it, in the end by force; harmless when it is gone."""


class Cluster(Protocol):
    def place(self, order: Order) -> PlacedWorker:
        """Ask for a worker; it starts whenever there is room."""

    async def shortage(self, resources: Mapping[str, float]) -> str:
        """Why there is no room for this, in words."""


class WorkerGoneError(Exception):
    """The cluster has lost a worker, or its node; the text says how."""

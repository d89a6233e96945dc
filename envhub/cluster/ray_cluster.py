"""A Ray cluster as a place for workers: one actor each, spread over the nodes by Ray, which alone decides where.

Invariant: actors end with this process; settings go to a running actor as the argument of a call, never into what the cluster keeps.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any

import msgspec
import ray
import ray.exceptions
import ray.util

from envhub.cluster.actor import WorkerActor
from envhub.cluster.place import Order, WorkerGoneError
from envhub.cluster.shortage import explain
from envhub.config import ConfigError

log = logging.getLogger(__name__)

_KNOCK_S = 5.0
_KILL_MARGIN_S = 5.0
_MOST_WORDS = 400


def connect(address: str) -> None:
    """Join a running cluster as a driver. Raises ConfigError."""
    if address.startswith("ray://"):
        raise ConfigError(
            f"{address} is an address for Ray clients, which workers cannot dial back: run envhub on a node of the cluster "
            "and name HOST:PORT or 'auto'"
        )
    _knock(address)
    try:
        ray.init(address, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RaySystemError) as error:
        raise _not_joined(address, _words(error)) from None


def _knock(address: str) -> None:
    """Ray itself tries for minutes where nobody listens. Raises ConfigError."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
    except OSError as error:
        raise _not_joined(address, str(error.strerror or error)) from None


def _not_joined(address: str, why: str) -> ConfigError:
    return ConfigError(
        f"cannot join the Ray cluster {address!r}: {why.rstrip('.')}; to start one on this machine: ray start --head; to name "
        "another: envhub up --ray HOST:PORT"
    )


def leave() -> None:
    ray.shutdown()


def own_address() -> str:
    """The address of this machine in the cluster."""
    return str(ray.util.get_node_ip_address())


def node_addresses() -> set[str]:
    """The addresses of the live nodes."""
    return {str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}


class RayCluster:
    """Implements ``envhub.cluster.place.Cluster``. ``connect`` comes first."""

    def place(self, order: Order) -> RayWorker:
        resources = dict(order.resources)
        options = {
            "name": f"envhub-{order.name}",
            "num_cpus": resources.pop("CPU", 0.0),
            "memory": resources.pop("memory", 0.0) or None,
            "resources": resources,
            "scheduling_strategy": "SPREAD",
            "max_restarts": 0,
        }
        actor = ray.remote(WorkerActor).options(**options).remote()
        return RayWorker(actor, msgspec.json.encode(order.settings))

    async def shortage(self, resources: Mapping[str, float]) -> str:
        nodes = await asyncio.to_thread(ray.nodes)
        free = await asyncio.to_thread(ray.available_resources)
        return explain(resources, [node["Resources"] for node in nodes if node["Alive"]], free)


class RayWorker:
    """Implements ``envhub.cluster.place.PlacedWorker``."""

    def __init__(self, actor: Any, settings: bytes) -> None:
        self._actor = actor
        self._settings = settings
        self._has_started = False

    async def started(self) -> str:
        try:
            node: str = await self._actor.node.remote()
        except ray.exceptions.RayError as error:
            raise WorkerGoneError(_words(error)) from None
        self._has_started = True
        return node

    async def ended(self) -> str:
        try:
            reason: str = await self._actor.run.remote(self._settings)
        except ray.exceptions.RayError as error:
            raise WorkerGoneError(_words(error)) from None
        ray.kill(self._actor)
        return reason

    async def stop(self, limit_s: float) -> None:
        try:
            if self._has_started:
                await self._ask_to_stop(limit_s)
        finally:
            ray.kill(self._actor)

    async def _ask_to_stop(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s + _KILL_MARGIN_S):
                await self._actor.stop.remote(limit_s)
        except TimeoutError:
            log.warning("a worker did not stop in time and is killed")
        except ray.exceptions.RayError as error:
            log.debug("a worker was gone before it was stopped: %s", _words(error))


def _words(error: BaseException) -> str:
    """The text of an error on one line, without the escape codes and stack of the cluster's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:_MOST_WORDS] or type(error).__name__

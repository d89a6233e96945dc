"""Composition root of ``envhub up --ray``: the controller in this process, the workers on a Ray cluster.

Invariant: workers live no longer than the command; whoever listens beyond loopback asks for keys, and the workers' own is drawn anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec
import uvloop

from envhub.cluster.fleet import Fleet, Plan
from envhub.cluster.place import Cluster, Order
from envhub.cluster.scaling import Limits
from envhub.config import ConfigError, RayPlacement, Settings
from envhub.controller import main as controller_main
from envhub.controller.archive import StoreArchive
from envhub.controller.auth import is_loopback
from envhub.core.clock import Clock, SystemClock
from envhub.core.errors import MissingExtraError
from envhub.stopping import stop_signals
from envhub.worker.main import new_worker_id

log = logging.getLogger(__name__)

_WILDCARDS = frozenset({"0.0.0.0", "::"})
_MIB = 1 << 20


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError and its PlacementError, MissingExtraError."""
    settings = _with_worker_key(settings)
    placements = planned(settings)
    with _joined(settings) as (cluster, host):
        uvloop.run(serve(settings, placements, cluster=cluster, host=host, clock=SystemClock()))


def planned(settings: Settings) -> dict[str, RayPlacement]:
    """The environments to place: those asked for, else those with a table of their own. Raises ConfigError."""
    tables = settings.ray.environments
    names = settings.environments or tuple(tables)
    if not names:
        raise ConfigError("say what to place: -e NAME, or tables [ray.environments.NAME] in the settings file")
    placements = {name: tables.get(name, RayPlacement()) for name in names}
    for name, placement in placements.items():
        if placement.min > placement.max:
            raise ConfigError(f"ray.environments.{name}: min {placement.min} is above max {placement.max}")
    return placements


async def serve(
    settings: Settings, placements: dict[str, RayPlacement], *, cluster: Cluster, host: str, clock: Clock
) -> None:
    """The hub with a fleet per environment; ``host`` is what the workers dial. Raises PlacementError."""
    with stop_signals(patience_s=settings.drain_s) as stopped:
        await _serve(settings, placements, cluster, host, clock, stopped)


async def _serve(
    settings: Settings,
    placements: dict[str, RayPlacement],
    cluster: Cluster,
    host: str,
    clock: Clock,
    stopped: asyncio.Event,
) -> None:
    archive = StoreArchive(settings.store_url, clock=clock)
    app, service = controller_main.build(settings, clock=clock, archive=archive)
    bound = controller_main.listen(settings.host, settings.port)
    async with controller_main.running(service), controller_main.serving(app, bound) as url:
        address = f"http://{f'[{host}]' if ':' in host else host}:{urlsplit(url).port}"
        fleets = [
            Fleet(
                plan_of(name, placement, settings, address),
                cluster=cluster,
                controller=service,
                clock=clock,
                new_id=new_worker_id,
            )
            for name, placement in placements.items()
        ]
        log.info("the hub is up at %s; the cluster's workers dial %s", url, address)
        try:
            await _until_stopped_or_failed(fleets, stopped)
            service.workers.shut_down()
        finally:
            await asyncio.gather(*(fleet.close() for fleet in fleets))


def plan_of(name: str, placement: RayPlacement, settings: Settings, address: str) -> Plan:
    """What a worker of environment ``name`` is told, no more than it needs; what it takes; how many of it there may be."""
    capacity = placement.capacity or settings.capacity
    own = msgspec.structs.replace(
        settings,
        controllers=(address,),
        environments=(name,),
        capacity=capacity,
        client_key=None,
        store_url=Settings().store_url,
        image_digest=None,
        health_file=None,
        hub=None,
        environment_settings={name: settings.environment_settings.get(name, {})},
    )
    resources = {"CPU": placement.num_cpus, "memory": float(placement.memory_mib * _MIB), **placement.resources}
    order = Order(name, own, {key: amount for key, amount in resources.items() if amount > 0})
    times = settings.ray
    limits = Limits(placement.min, placement.max, capacity, times.grow_after_s, times.shrink_after_s)
    return Plan(name, order, limits, times.place_within_s)


async def _until_stopped_or_failed(fleets: Sequence[Fleet], stopped: asyncio.Event) -> None:
    """Keep the fleets until a signal. Raises PlacementError."""
    told = asyncio.create_task(stopped.wait(), name="until-stopped")
    running = [asyncio.create_task(fleet.run(), name="fleet") for fleet in fleets]
    try:
        await asyncio.wait({told, *running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (told, *running):
            task.cancel()
        outcomes = await asyncio.gather(told, *running, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


@contextmanager
def _joined(settings: Settings) -> Iterator[tuple[Cluster, str]]:
    """The cluster, and the host by which its nodes reach this machine."""
    try:
        from envhub.cluster import ray_cluster
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise MissingExtraError(
            "a hub on a Ray cluster needs the extra 'ray': pip install 'envhub[ray]'", extra="ray"
        ) from None
    ray_cluster.connect(settings.ray.address)
    try:
        yield ray_cluster.RayCluster(), dialled_host(settings, ray_cluster.own_address(), ray_cluster.node_addresses())
    finally:
        ray_cluster.leave()


def dialled_host(settings: Settings, own: str, nodes: set[str]) -> str:
    """The host that workers dial. Raises ConfigError when it cannot be reached from ``nodes`` on other machines."""
    if settings.ray.advertise is not None:
        return settings.ray.advertise
    if is_loopback(settings.host):
        others = sorted(node for node in nodes if node != own and not is_loopback(node))
        if others:
            raise ConfigError(
                f"the cluster has nodes on other machines ({', '.join(others[:5])}), which cannot reach {settings.host}: listen "
                "with --host 0.0.0.0 and set ENVHUB_CLIENT_KEY"
            )
        return settings.host
    return own if settings.host in _WILDCARDS else settings.host


def _with_worker_key(settings: Settings) -> Settings:
    """Nobody but the workers placed here needs the key, so that it can be new each time."""
    if settings.worker_key is not None:
        return settings
    return msgspec.structs.replace(settings, worker_key=secrets.token_urlsafe(32))

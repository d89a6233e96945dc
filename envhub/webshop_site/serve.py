"""``envhub webshop serve``: the site, in front of a running hub or with a hub of its own at the same address.

Invariant: pages and tools play the same sessions of the same hub; the site plays nothing itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from envhub.client.hub import Hub
from envhub.config import ConfigError, Settings
from envhub.controller import main as controller_main
from envhub.controller.auth import is_loopback
from envhub.core.protocols import Environment
from envhub.core.types import TaskRef
from envhub.embedded import embedded_hub
from envhub.envs.webshop.env import NAME, WebShopEnvironment
from envhub.stopping import stop_signals
from envhub.webshop_site.app import Pages
from envhub.webshop_site.guard import Guard
from envhub.webshop_site.sessions import Sessions

_FIRST_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class Offer:
    """What the start page shows first; ``split`` None is the one to measure on."""

    split: str | None = None
    task: int = 0


@asynccontextmanager
async def served_site(
    environment: WebShopEnvironment,
    settings: Settings,
    *,
    offer: Offer = Offer(),
) -> AsyncIterator[str]:
    """The site's URL; with ``settings.hub`` in front of that hub, else with one of its own below ``/v1`` of the same URL.

    Closes the environment at the end. Raises ConfigError, EnvhubError, OSError.
    """
    task = _first_task(environment, offer)
    bound = controller_main.listen(settings.host, settings.port)
    async with _hub(environment, settings) as (hub, api):
        pages: ASGIApp = Pages(Sessions(hub, environment), environment, task=task).app()
        site = Guard(pages, loopback_only=is_loopback(settings.host))
        async with controller_main.serving(_Address(site, api), bound) as url:
            yield url


async def run(
    environment: Environment,
    settings: Settings,
    say: Callable[[str], None],
    *,
    offer: Offer = Offer(),
) -> None:
    """Serve until SIGTERM or SIGINT. Raises TypeError for an environment that is no shop."""
    if not isinstance(environment, WebShopEnvironment):
        raise TypeError(f"{environment.info().name} has no shop to show")
    with stop_signals() as stopped:
        async with served_site(environment, settings, offer=offer) as url:
            say(f"The shop is open at {url}/")
            say(f"Its sessions are those of the hub at {settings.hub or url}")
            await stopped.wait()


@asynccontextmanager
async def _hub(environment: WebShopEnvironment, settings: Settings) -> AsyncIterator[tuple[Hub, ASGIApp | None]]:
    if settings.hub is None:
        async with embedded_hub({NAME: environment}, settings=settings) as embedded:
            yield embedded.hub, embedded.app
        return
    try:
        async with Hub(settings.hub, key=settings.client_key) as hub:
            await hub.request("GET", "/v1/environments", retry_for_s=_FIRST_ANSWER_S)
            yield hub, None
    finally:
        await environment.close()


class _Address:
    """One address for two programs: the hub's API below ``/v1``, the site everywhere else."""

    def __init__(self, site: ASGIApp, api: ASGIApp | None) -> None:
        self._site = site
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._api is not None and scope["type"] == "http" and scope["path"].startswith("/v1/"):
            await self._api(scope, receive, send)
        else:
            await self._site(scope, receive, send)


def _first_task(environment: WebShopEnvironment, offer: Offer) -> TaskRef:
    info = environment.info()
    split = offer.split or info.default_split
    if split not in info.splits:
        raise ConfigError(f"there is no split {split!r}; valid: {', '.join(info.splits)}")
    if not 0 <= offer.task < info.splits[split]:
        raise ConfigError(f"there is no task {offer.task} in {split}; valid: 0..{info.splits[split] - 1}")
    return TaskRef(NAME, split, offer.task)

"""Composition root of the controller: builds it from settings and serves it until it is told to stop.

Invariant: whoever waits is answered before the process ends, and the process ends in bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from envhub.config import Settings
from envhub.controller.app import HubApp
from envhub.controller.archive import StoreArchive
from envhub.controller.auth import Keys, check_exposure
from envhub.controller.service import Archive, ControllerService
from envhub.core.clock import Clock, SystemClock
from envhub.link.frames import MAX_MESSAGE_BYTES
from envhub.stopping import stop_signals
from envhub.transport import AsgiApp

log = logging.getLogger(__name__)

_GRACE_S = 5


@asynccontextmanager
async def running(service: ControllerService) -> AsyncIterator[None]:
    """Run the service's own loop; on the way out everyone who waits is answered."""
    watch = asyncio.create_task(service.watch(), name="controller-watch")
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await service.close()


def build(settings: Settings, *, clock: Clock, archive: Archive) -> tuple[HubApp, ControllerService]:
    """Raises ValueError when the hub would be exposed without keys."""
    keys = Keys(settings.client_key, settings.worker_key)
    check_exposure(settings.host, keys)
    service = ControllerService(clock=clock, archive=archive)
    return HubApp(service, keys=keys, clock=clock), service


class HttpServer(uvicorn.Server):
    """uvicorn that tells when it is up and leaves signals to the program."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def http_server(app: AsgiApp) -> HttpServer:
    """uvicorn as this hub wants it: quiet, fast, and with a keep-alive longer than any client's."""
    return HttpServer(
        uvicorn.Config(
            app,
            lifespan="off",
            loop="none",
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            access_log=False,
            proxy_headers=False,
            log_config=None,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=_GRACE_S,
            backlog=4096,
            server_header=False,
            date_header=False,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; with it, answers wait 40 ms for an ACK
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    return bound


@asynccontextmanager
async def serving(app: AsgiApp, bound: socket.socket) -> AsyncIterator[str]:
    """Serve on a bound socket; the URL. Signals are left alone."""
    server = http_server(app)
    task = asyncio.create_task(server.serve([bound]), name="http-server")
    up = asyncio.create_task(server.up.wait())
    await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
    up.cancel()
    if task.done():
        await task
    host, port = bound.getsockname()[:2]
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        server.should_exit = True
        await task


async def run(settings: Settings) -> None:
    """The controller program."""
    with stop_signals() as stopped:
        clock = SystemClock()
        archive = StoreArchive(settings.store_url, clock=clock)
        app, service = build(settings, clock=clock, archive=archive)
        bound = listen(settings.host, settings.port)
        async with running(service), serving(app, bound) as url:
            log.info("the hub listens on %s", url)
            await stopped.wait()
            service.workers.shut_down()

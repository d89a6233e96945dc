"""``envhub up``: a hub that stays, in one process or with worker processes beside it.

Invariant: worker processes live no longer than the hub that started them, and one that dies is replaced.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping

from envhub import embedded
from envhub.config import Settings
from envhub.controller import main as controller_main
from envhub.controller.archive import StoreArchive
from envhub.core.clock import Clock, SystemClock
from envhub.stopping import stop_signals
from envhub.worker.main import make_environments

log = logging.getLogger(__name__)

_STOP_LIMIT_S = 20.0
_RESTART_AFTER_S = 1.0


async def run(settings: Settings, *, n_workers: int, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT. ``n_workers`` 0 plays the episodes in this process."""
    with stop_signals(patience_s=_STOP_LIMIT_S) as stopped:
        await _serve(settings, n_workers, environ, stopped)


async def _serve(settings: Settings, n_workers: int, environ: Mapping[str, str], stopped: asyncio.Event) -> None:
    clock = SystemClock()
    archive = StoreArchive(settings.store_url, clock=clock)
    if n_workers == 0:
        environments = make_environments(settings)
        async with embedded.served_hub(environments, settings=settings, clock=clock, archive=archive) as hub:
            log.info("the hub is up at %s with %s", hub.url, ", ".join(environments))
            await stopped.wait()
            hub.controller.workers.shut_down()
        return
    app, service = controller_main.build(settings, clock=clock, archive=archive)
    bound = controller_main.listen(settings.host, settings.port)
    async with controller_main.running(service), controller_main.serving(app, bound) as url:
        workers = [
            asyncio.create_task(_keep_worker(url, settings, environ, clock), name="worker") for _ in range(n_workers)
        ]
        log.info("the hub is up at %s with %d workers", url, n_workers)
        await stopped.wait()
        service.workers.shut_down()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _keep_worker(url: str, settings: Settings, environ: Mapping[str, str], clock: Clock) -> None:
    """Run one worker process, and another one whenever it dies."""
    own = {**environ, "ENVHUB_CONTROLLERS": url}
    if settings.worker_key is not None:
        own["ENVHUB_WORKER_KEY"] = settings.worker_key
    command = (sys.executable, "-m", "envhub.cli", "worker", "--exit-with", str(os.getpid()))
    while True:
        process = await asyncio.create_subprocess_exec(*command, env=own)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        log.error("a worker process ended with code %s; it is started again", code)
        await clock.sleep(_RESTART_AFTER_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_LIMIT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

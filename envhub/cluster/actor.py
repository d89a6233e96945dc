"""The Ray actor on a node: one worker process, started with what the hub sends and ended with the actor.

Invariant: settings reach the process through its standard input only, so that keys are in no argument, variable or file.
"""

from __future__ import annotations

import asyncio
import os
import sys

import ray
import ray.util

_MOST_BYTES = 1 << 16


class WorkerActor:
    """Made by ``RayCluster``; one call of ``run``."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def node(self) -> str:
        return str(ray.util.get_node_ip_address())

    async def run(self, settings: bytes) -> str:
        """Run the worker until it ends; why it did."""
        reading, writing = os.pipe()
        try:
            command = (sys.executable, "-m", "envhub.cluster.program", str(os.getpid()), str(writing), *_labels())
            process = self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, pass_fds=(writing,)
            )
            assert process.stdin is not None
            process.stdin.write(settings)
            process.stdin.close()
            code = await process.wait()
            return _read(reading) or f"its process ended with code {code}"
        finally:
            os.close(reading)
            os.close(writing)

    async def stop(self, limit_s: float) -> None:
        """Ask the worker to end its sessions and leave; kill it after ``limit_s``."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _read(pipe: int) -> str:
    """What is in the pipe now; children of the process may hold its other end for longer."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, _MOST_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return ""


def _labels() -> tuple[str, ...]:
    """Where this is, for the list of workers."""
    node_id = ray.get_runtime_context().get_node_id()
    return f"node={ray.util.get_node_ip_address()}", f"ray_node={node_id}"

"""``python bench_program.py ARGS``: the bench command against a hub in the same process.

With the variable ``HOLD_AFTER`` only that many episodes open; whoever asks for another one waits until the program ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from envhub.bench.commands import add_bench_arguments, bench
from envhub.client.hub import Hub
from envhub.core.protocols import Episode
from envhub.core.types import JSON, TaskRef
from envhub.envs.calculator import CalculatorEnvironment
from envhub.testing.hub import local_hub


class Holding(CalculatorEnvironment):
    def __init__(self, hold_after: float) -> None:
        self._left = hold_after

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> Episode:
        if self._left <= 0:
            await asyncio.Event().wait()
        self._left -= 1
        return await super().open(task, seed=seed, options=options)


@asynccontextmanager
async def connect() -> AsyncIterator[Hub]:
    async with local_hub({"calculator": Holding(float(os.environ.get("HOLD_AFTER", "inf")))}) as local:
        yield local.hub


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_bench_arguments(parser)
    sys.exit(bench(parser.parse_args(), connect))

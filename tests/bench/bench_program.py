"""``python bench_program.py ARGS``: the bench command against a hub in the same process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from envhub.bench.commands import add_bench_arguments, bench
from envhub.client.hub import Hub
from envhub.testing.hub import local_hub


@asynccontextmanager
async def connect() -> AsyncIterator[Hub]:
    async with local_hub() as local:
        yield local.hub


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_bench_arguments(parser)
    sys.exit(bench(parser.parse_args(), connect))

"""``envhub demo``: a hub on this machine, a few agents, every environment, one report. Minutes, no server, no Docker.

With OPENAI_BASE_URL set, the model there plays too.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from rich.console import Console

from envhub import embedded
from envhub.bench import commands
from envhub.client.hub import Hub
from envhub.config import ConfigError, Settings
from envhub.core.types import EnvironmentInfo
from envhub.worker.main import make_environments

log = logging.getLogger(__name__)

_N_TASKS = 30


def run(settings: Settings, environ: Mapping[str, str], *, output: Path, console: Console | None = None) -> int:
    """Play and report; the exit code of the benchmark."""
    environments = make_environments(settings)
    targets = [_target(each.info()) for each in environments.values()]
    words = [*targets, "--agent", "oracle", "--agent", "null", "--jobs", "16", "--output", str(output)]
    if "OPENAI_BASE_URL" in environ:
        words += ["--model", asyncio.run(_model(environ))]
    parser = argparse.ArgumentParser()
    commands.add_bench_arguments(parser)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Hub]:
        async with embedded.served_hub(environments) as served:
            log.info("the hub of this demo is at %s", served.url)
            yield served.hub

    return commands.bench(parser.parse_args(words), connect, console=console)


def _target(info: EnvironmentInfo) -> str:
    split = info.default_split
    return f"{info.name}/{split}:0-{min(_N_TASKS, info.splits[split]) - 1}"


async def _model(environ: Mapping[str, str]) -> str:
    """The model to play: OPENAI_MODEL, or the first the endpoint lists. Raises ConfigError."""
    if model := environ.get("OPENAI_MODEL"):
        return model
    url = environ["OPENAI_BASE_URL"].rstrip("/") + "/models"
    headers = {"Authorization": f"Bearer {environ.get('OPENAI_API_KEY', '')}"}
    try:
        async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as answer:
            listed = await answer.json(content_type=None)
        return str(listed["data"][0]["id"])
    except (aiohttp.ClientError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"no model: set OPENAI_MODEL ({url} lists none: {error})") from None

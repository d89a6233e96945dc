"""Settings of the programs: defaults, then a TOML file, then ``ENVHUB_*`` variables. Read once, at the composition root.

Invariant: an unknown key or a value of the wrong type stops the program with a text that names it; keys can come from files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

PREFIX = "ENVHUB_"
_NOT_SETTINGS = ("CONFIG", "REQUIRE", "SHARED", "MYSQL_URL", "RECORD", "UPDATE_GOLDEN")


class ConfigError(Exception):
    """A setting is missing or wrong; the text says which and what is valid."""


class RayPlacement(Struct, frozen=True, forbid_unknown_fields=True):
    """The workers of one environment on a Ray cluster: between ``min`` and ``max`` of them, and what each of them takes.

    ``capacity``: sessions of one worker, as in the settings when None; ``resources``: custom resources of the cluster's nodes.
    """

    min: Annotated[int, Meta(ge=1)] = 1
    max: Annotated[int, Meta(ge=1)] = 4
    capacity: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    num_cpus: Annotated[float, Meta(ge=0)] = 1.0
    memory_mib: Annotated[int, Meta(ge=0)] = 0
    resources: dict[str, Annotated[float, Meta(gt=0)]] = field(default_factory=dict)


class RaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What ``envhub up --ray`` is told besides.

    ``advertise``: host by which the nodes reach this machine; ``place_within_s``: how long the first worker of an environment may
    take to be placed; a queue that lasts ``grow_after_s`` brings workers, ``shrink_after_s`` of little use takes them away.
    """

    address: str = "auto"
    advertise: str | None = None
    place_within_s: Annotated[float, Meta(gt=0)] = 60.0
    grow_after_s: Annotated[float, Meta(ge=0)] = 2.0
    shrink_after_s: Annotated[float, Meta(ge=0)] = 120.0
    environments: dict[str, RayPlacement] = field(default_factory=dict)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything the controller, the worker and the clients of the command line can be told.

    ``hub``: the running hub that commands talk to; ``controllers``: where a worker dials; ``environments``: what it serves,
    all that are installed when empty. ``environment_settings``: per environment, such as
    ``{"db": {"driver": "mysql", "url": "mysql://..."}}``. ``image_digest``: the container image a worker runs in, part of the
    identity of what is measured there; ``health_file``: touched as long as a worker is linked to a controller; ``labels``: what
    a worker tells about itself in the list of workers.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8800
    client_key: str | None = None
    worker_key: str | None = None
    store_url: str = "sqlite:///envhub.db"
    controllers: tuple[str, ...] = ("http://127.0.0.1:8800",)
    environments: tuple[str, ...] = ()
    capacity: Annotated[int, Meta(ge=1, le=1_000_000)] = 256
    worker_id: Annotated[str, Meta(pattern="^w[a-z0-9]{4,32}$")] | None = None
    datasets: str | None = None
    images: str | None = None
    max_step_s: Annotated[float, Meta(gt=0)] = 330.0
    image_digest: str | None = None
    health_file: str | None = None
    hub: str | None = None
    drain_s: Annotated[float, Meta(ge=0)] = 5.0
    log_level: str = "INFO"
    log_format: Annotated[str, Meta(pattern="^(text|json)$")] = "text"
    labels: dict[str, str] = field(default_factory=dict)
    ray: RaySettings = RaySettings()
    environment_settings: dict[str, dict[str, Any]] = field(default_factory=dict)


_SINGLE = tuple(name for name in Settings.__struct_fields__ if name not in ("ray", "environment_settings"))
_RAY = tuple(name for name in RaySettings.__struct_fields__ if name != "environments")


def load(environ: Mapping[str, str], *, environment_names: Collection[str], file: Path | None = None) -> Settings:
    """Settings from ``environ`` over ``file`` (or the file that ENVHUB_CONFIG names). Raises ConfigError.

    ``ENVHUB_<SETTING>`` sets a setting (lists by commas), ``ENVHUB_<SETTING>_FILE`` reads it from a file,
    ``ENVHUB_RAY_<SETTING>`` sets one of Ray and ``ENVHUB_<ENVIRONMENT>_<KEY>`` a key of an environment.
    """
    if file is None and PREFIX + "CONFIG" in environ:
        file = Path(environ[PREFIX + "CONFIG"])
    values = _from_file(file) if file is not None else {}
    checked(values, f"settings in {file}")
    for name, text in environ.items():
        if name.startswith(PREFIX) and not _for_tests(name.removeprefix(PREFIX)):
            _apply(values, name, text, environment_names)
    settings = checked(values, "settings")
    _check_key("ENVHUB_CLIENT_KEY", settings.client_key)
    _check_key("ENVHUB_WORKER_KEY", settings.worker_key)
    return settings


def _check_key(name: str, key: str | None) -> None:
    """A key travels in an HTTP header: what cannot be sent there would be refused by everyone, with less to say."""
    if key is not None and not (key.isascii() and key.isprintable() and key and " " not in key):
        raise ConfigError(f"{name} (or its _FILE) is empty, or has spaces, line breaks or letters beyond ASCII in it")


def checked(values: Mapping[str, Any], what: str) -> Settings:
    """Settings out of plain values. Raises ConfigError that says ``what`` they were and names the wrong one."""
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}") from None


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read settings from {file}: {error}") from None
    return values


def _for_tests(name: str) -> bool:
    return name in _NOT_SETTINGS or name.startswith("TEST_")


def _apply(values: dict[str, Any], name: str, text: str, environment_names: Collection[str]) -> None:
    key = name[len(PREFIX) :].lower()
    if key not in Settings.__struct_fields__ and key.endswith("_file"):
        key, text = key.removesuffix("_file"), _secret(name, text)
    if key in _SINGLE:
        values[key] = _parsed(name, key, text)
        return
    if key.removeprefix("ray_") in _RAY and key.startswith("ray_"):
        values.setdefault("ray", {})[key.removeprefix("ray_")] = text
        return
    for environment in environment_names:
        if key.startswith(environment + "_"):
            own = values.setdefault("environment_settings", {}).setdefault(environment, {})
            own[key[len(environment) + 1 :]] = text
            return
    valid = ", ".join(PREFIX + each.upper() for each in (*_SINGLE, *(f"ray_{each}" for each in _RAY)))
    raise ConfigError(f"unknown setting {name}; valid: {valid}, ENVHUB_<ENVIRONMENT>_<KEY>")


def _parsed(name: str, key: str, text: str) -> object:
    if key in ("controllers", "environments"):
        return _split(text)
    if key == "labels":
        pairs = [part.partition("=") for part in _split(text)]
        if not all(label and separator for label, separator, _ in pairs):
            raise ConfigError(f"{name}: {text!r} is not name=value, by commas")
        return {label: value for label, _, value in pairs}
    return text.strip() if key in ("client_key", "worker_key") else text


def _secret(name: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot read {path}: {error}") from None


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

"""Names of environments to the factories that make them, loaded on first use.

Third parties register a factory ``create(settings) -> Environment`` through the entry-point group ``envhub.environments``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from envhub.core.errors import EnvironmentNotFoundError, MissingExtraError
from envhub.core.protocols import Environment
from envhub.core.types import JSON

ENTRY_POINT_GROUP = "envhub.environments"
_BUILT_IN = {
    "alfworld": "envhub.envs.alfworld.env:create",
    "calculator": "envhub.envs.calculator:create",
    "db": "envhub.envs.db.env:create",
    "kg": "envhub.envs.kg.env:create",
    "os": "envhub.envs.os.env:create",
    "webshop": "envhub.envs.webshop.env:create",
}
_EXTRA = {"db": "db", "os": "os"}


def names() -> tuple[str, ...]:
    """Every environment that could be created, sorted; a built-in name cannot be taken over."""
    return tuple(sorted({**_third_party(), **_BUILT_IN}))


def create(name: str, settings: Mapping[str, JSON] | None = None) -> Environment:
    """Make an environment.

    Raises EnvironmentNotFoundError for an unknown name and MissingExtraError when a package it needs is not installed.
    """
    target = _BUILT_IN.get(name) or _third_party().get(name)
    if target is None:
        raise EnvironmentNotFoundError(f"no environment is named {name!r}; valid: {', '.join(names())}")
    module, _, attribute = target.partition(":")
    try:
        factory = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "envhub":
            raise
        raise missing_extra(f"environment {name!r}", _EXTRA.get(name, name), error) from error
    environment: Environment = factory(settings or {})
    return environment


def missing_extra(what: str, extra: str, error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(
        f"{what} needs the package {error.name!r}: pip install 'envhub[{extra}]'", package=error.name, extra=extra
    )


def _third_party() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}

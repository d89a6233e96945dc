"""Ids that gymnasium knows, and what happens without the extra."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from envhub.envs import registry
from envhub.gym import environment_id, register_all


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_every_known_environment_has_an_id() -> None:
    for name in registry.names():
        spec = gymnasium.spec(environment_id(name))
        assert spec.kwargs == {"environment": name}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("db", "envhub/DB-v1"),
        ("os", "envhub/OS-v1"),
        ("kg", "envhub/KG-v1"),
        ("alfworld", "envhub/ALFWorld-v1"),
        ("webshop", "envhub/WebShop-v1"),
        ("calculator", "envhub/Calculator-v1"),
        ("my-own_world", "envhub/MyOwnWorld-v1"),
    ],
)
def test_ids_are_spelled_as_is_customary(name: str, expected: str) -> None:
    assert environment_id(name) == expected


def test_registering_again_changes_nothing(recwarn: pytest.WarningsRecorder) -> None:
    before = dict(gymnasium.registry)
    register_all()
    assert dict(gymnasium.registry) == before
    assert not recwarn.list


def test_the_id_may_name_the_module_to_import() -> None:
    script = "import gymnasium; print(gymnasium.make('envhub.gym:envhub/Calculator-v1', split='test').reset(seed=0)[1]['task'])"
    assert run(script).isdigit()


@pytest.mark.parametrize("package", ["gymnasium", "numpy"])
def test_a_missing_package_names_the_extra(package: str) -> None:
    script = f"""
import sys
sys.modules[{package!r}] = None
from envhub.core.errors import MissingExtraError
try:
    import envhub.gym
except MissingExtraError as error:
    print(error)
"""
    assert run(script) == f"envhub.gym needs the package {package!r}: pip install 'envhub[gym]'"


def test_the_rest_of_the_hub_needs_neither() -> None:
    script = "import sys, envhub.client.hub, envhub.worker.table; print({'numpy', 'gymnasium'} & set(sys.modules))"
    assert run(script) == "set()"

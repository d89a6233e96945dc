"""What ``envhub up --ray`` makes of its settings, and what it refuses in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envhub import cli
from envhub.cluster import main
from envhub.config import ConfigError, RayPlacement, RaySettings, Settings, load
from envhub.core.errors import MissingExtraError

OTHERS = {"10.0.0.1", "10.0.0.2"}


def test_a_table_per_environment_is_read_and_variables_set_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(
        "[ray.environments.os]\nmin = 2\nmax = 8\nnum_cpus = 2\nmemory_mib = 4096\nresources = { sandbox = 1 }\n"
    )
    environ = {"ENVHUB_RAY_ADDRESS": "10.0.0.1:6379", "ENVHUB_RAY_SHRINK_AFTER_S": "300"}
    ray = load(environ, environment_names=("os",), file=file).ray
    assert (ray.address, ray.shrink_after_s) == ("10.0.0.1:6379", 300.0)
    assert ray.environments == {"os": RayPlacement(2, 8, None, 2.0, 4096, {"sandbox": 1.0})}


@pytest.mark.parametrize("text", ["maximum = 8", "min = 0", "resources = { sandbox = 0 }"])
def test_a_wrong_key_or_value_of_a_table_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(f"[ray.environments.os]\n{text}\n")
    with pytest.raises(ConfigError, match=r"settings in .*hub.toml: .*ray\.environments"):
        load({}, environment_names=("os",), file=file)


def test_what_is_asked_for_is_placed_and_else_what_has_a_table() -> None:
    tables = {"os": RayPlacement(max=8), "db": RayPlacement(max=2)}
    ray = RaySettings(environments=tables)
    assert main.planned(Settings(ray=ray)) == tables
    assert main.planned(Settings(ray=ray, environments=("kg", "db"))) == {"kg": RayPlacement(), "db": tables["db"]}
    with pytest.raises(ConfigError, match="say what to place"):
        main.planned(Settings())
    with pytest.raises(ConfigError, match=r"ray\.environments\.os: min 9 is above max 4"):
        main.planned(Settings(ray=RaySettings(environments={"os": RayPlacement(min=9)})))


def test_a_worker_is_told_what_it_serves_and_nothing_of_the_clients() -> None:
    settings = Settings(
        client_key="for-clients",
        worker_key="for-workers",
        hub="http://other",
        store_url="mysql+mysqlconnector://user:password@host/episodes",
        environment_settings={"os": {"pool_size": 2}, "db": {"url": "mysql://user:password@host"}},
    )
    placement = RayPlacement(2, 8, 64, 2.0, 4096, {"sandbox": 1.0})
    plan = main.plan_of("os", placement, settings, "http://10.0.0.1:8800")
    own = plan.order.settings
    assert (own.controllers, own.environments, own.capacity) == (("http://10.0.0.1:8800",), ("os",), 64)
    assert (own.client_key, own.worker_key, own.hub) == (None, "for-workers", None)
    assert own.environment_settings == {"os": {"pool_size": 2}}
    assert "password" not in repr(plan)
    assert plan.order.resources == {"CPU": 2.0, "memory": 4096.0 * 2**20, "sandbox": 1.0}
    assert (plan.limits.min, plan.limits.max, plan.limits.capacity) == (2, 8, 64)


def test_workers_dial_an_address_that_their_nodes_can_reach() -> None:
    assert main.dialled_host(Settings(host="0.0.0.0"), "10.0.0.1", OTHERS) == "10.0.0.1"
    assert main.dialled_host(Settings(host="hub.example"), "10.0.0.1", OTHERS) == "hub.example"
    ray = RaySettings(advertise="hub.example")
    assert main.dialled_host(Settings(host="0.0.0.0", ray=ray), "10.0.0.1", OTHERS) == "hub.example"
    assert main.dialled_host(Settings(), "10.0.0.1", {"10.0.0.1"}) == "127.0.0.1"
    with pytest.raises(
        ConfigError, match=r"other machines \(10\.0\.0\.2\).*--host 0\.0\.0\.0 and set ENVHUB_CLIENT_KEY"
    ):
        main.dialled_host(Settings(), "10.0.0.1", OTHERS)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("envhub.cluster.ray_cluster", "envhub.cluster.actor"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("envhub.cluster.ray_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'envhub\[ray\]'"):
        main.run(Settings(environments=("calculator",)))


def test_an_address_for_ray_clients_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    assert cli.main(["up", "--ray", "ray://head:10001", "-e", "calculator"]) == cli.WRONG_USE
    assert "run envhub on a node of the cluster" in capsys.readouterr().err


def test_a_cluster_takes_the_place_of_worker_processes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["up", "--ray", "--workers", "2"])
    assert "not allowed with argument" in capsys.readouterr().err

"""What docker-compose.yml, the Dockerfiles and the scripts beside them promise, read from the files: no engine is needed."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from envhub import __version__

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "task_images"
WORKERS = ("alfworld", "db", "kg", "os", "webshop")
OURS = ("controller", *WORKERS)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = sorted(IMAGES.rglob("*Dockerfile"))


def test_there_is_a_service_for_the_controller_every_environment_and_the_database() -> None:
    assert {*OURS, "mariadb", "db-embedded", "os-docker"} == set(SERVICES)
    full = {name for name, service in SERVICES.items() if "full" in service["profiles"]}
    small = {name for name, service in SERVICES.items() if "small" in service["profiles"]}
    assert full == {*OURS, "mariadb"}
    assert small == {*OURS, "db-embedded"} - {"db"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_bounded_locked_down_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    for bound in ("cpus", "mem_limit", "memswap_limit", "pids_limit", "stop_grace_period"):
        assert service[bound], bound
    assert service["memswap_limit"] == service["mem_limit"]
    assert service["restart"] == "unless-stopped" and service["read_only"] and service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "privileged" not in service and service.get("network_mode") is None


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_fixed_version_and_no_key_in_its_variables(name: str) -> None:
    service = SERVICES[name]
    image = re.sub(r"\$\{HUB_\w+:-([^}]*)\}", r"\1", service["image"])
    assert re.fullmatch(r"[a-z/-]+:\d[\w.]*", image), image
    for variable, value in service["environment"].items():
        assert not re.search("KEY$|PASSWORD$|TOKEN$", variable), variable
        assert not re.search("://[^/@]*:[^/@]*@", str(value)), variable


def test_the_version_that_compose_runs_is_this_one() -> None:
    written = re.findall(r"HUB_VERSION:-([^}]+)}", (ROOT / "docker-compose.yml").read_text("utf-8"))
    assert set(written) == {__version__}


def test_nothing_but_the_controllers_port_on_loopback_is_published() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"controller": ["127.0.0.1:${HUB_PORT:-8800}:8800"]}
    assert all(COMPOSE["networks"][name].get("internal") for name in ("hub", "database"))


def test_every_key_comes_by_a_file_that_is_given_to_whoever_needs_it_alone() -> None:
    given = {name: set(service["secrets"]) for name, service in SERVICES.items()}
    assert given.pop("controller") == {"client_key", "worker_key"}
    assert given.pop("mariadb") == {"db_password"} and given.pop("db") == {"worker_key", "db_password"}
    assert all(keys == {"worker_key"} for keys in given.values())
    for name, service in SERVICES.items():
        files = {value for variable, value in service["environment"].items() if variable.endswith("_FILE")}
        assert files == {f"/run/secrets/{key}" for key in service["secrets"]}, name


def test_workers_wait_for_a_healthy_controller_and_the_db_worker_for_a_healthy_server_b064() -> None:
    for name in WORKERS:
        assert SERVICES[name]["depends_on"]["controller"] == {"condition": "service_healthy"}
    assert SERVICES["db"]["depends_on"]["mariadb"] == {"condition": "service_healthy"}
    # over TCP: the temporary server of a first start listens on its socket alone
    assert "--protocol=tcp" in SERVICES["mariadb"]["healthcheck"]["test"]


def test_only_the_docker_driver_has_the_socket_b071() -> None:
    with_socket = [name for name, service in SERVICES.items() if "docker.sock" in str(service.get("volumes"))]
    assert with_socket == ["os-docker"] and SERVICES["os-docker"]["profiles"] == ["docker-driver"]


def test_the_machines_control_groups_are_in_a_file_that_has_to_be_asked_for() -> None:
    assert "/sys/fs/cgroup" not in (ROOT / "docker-compose.yml").read_text("utf-8")
    asked = yaml.safe_load((ROOT / "docker-compose.cgroups.yml").read_text("utf-8"))
    assert asked == {"services": {"os": {"volumes": ["/sys/fs/cgroup:/sys/fs/cgroup:rw"]}}}


def test_only_the_os_worker_has_capabilities_and_looser_confinement_and_those_are_few() -> None:
    assert [name for name, service in SERVICES.items() if service.get("cap_add")] == ["os"]
    assert "SYS_ADMIN" not in SERVICES["os"]["cap_add"]
    assert [name for name, service in SERVICES.items() if "systempaths=unconfined" in service["security_opt"]] == ["os"]
    assert "seccomp:task_images/os/seccomp.json" in SERVICES["os"]["security_opt"]
    profile = json.loads((IMAGES / "os" / "seccomp.json").read_text("utf-8"))
    (refused,) = profile["syscalls"]
    assert refused["action"] == "SCMP_ACT_ERRNO"
    assert {"bpf", "kexec_load", "init_module", "perf_event_open", "open_by_handle_at", "userfaultfd"} < set(
        refused["names"]
    )
    assert not {"unshare", "clone", "clone3", "mount", "umount2", "pivot_root", "setns"} & set(refused["names"])


def test_the_example_of_settings_names_every_variable_with_its_default() -> None:
    used = dict(re.findall(r"\$\{(HUB_\w+):-([^}]*)\}", (ROOT / "docker-compose.yml").read_text("utf-8")))
    shown = dict(re.findall(r"^# (HUB_\w+)=(\S+)", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert shown == used


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: str(file.relative_to(IMAGES)))
def test_dockerfiles_need_no_buildkit(file: Path) -> None:
    text = file.read_text("utf-8")
    assert not re.search(r"^\s*(RUN|COPY|ADD)\s+--(mount|link|chmod|network|security)", text, re.MULTILINE)
    assert "<<" not in text and "# syntax" not in text
    assert ":latest" not in text


@pytest.mark.parametrize("name", OURS)
def test_images_stand_on_the_common_base_and_have_a_health_check(name: str) -> None:
    text = (IMAGES / name / "Dockerfile").read_text("utf-8")
    final = text[text.rindex("FROM ") :]
    assert final.startswith("FROM ${BASE}\n") and "HEALTHCHECK" in final and "STOPSIGNAL SIGTERM" in final
    assert "USER 0" not in final  # the user of the base, which is not root
    assert ("ENVHUB_IMAGE_DIGEST" in final) == (name != "controller")


def test_the_base_is_not_root_and_its_python_can_be_pinned() -> None:
    text = (IMAGES / "base" / "Dockerfile").read_text("utf-8")
    assert text.rstrip().endswith("USER 10001:10001") and "ARG PYTHON_IMAGE=python:3.11-slim\n" in text


def test_every_container_has_an_init_so_that_no_signal_is_lost_while_a_program_starts_b032() -> None:
    base = (IMAGES / "base" / "Dockerfile").read_text("utf-8")
    # to the program alone: a worker ends its own processes, after it has drained
    assert 'ENTRYPOINT ["/opt/envhub/bin/dumb-init", "--single-child", "--"]\n' in base
    for name in OURS:
        assert "ENTRYPOINT" not in (IMAGES / name / "Dockerfile").read_text("utf-8")
    assert [name for name, service in SERVICES.items() if service.get("init")] == ["mariadb"]
    assert not [name for name, service in SERVICES.items() if "entrypoint" in service]


def test_the_build_context_holds_nothing_but_wheels() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["*", "!dist/images/wheels"]


def test_keys_are_drawn_once_and_kept_from_other_users(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    command = [str(IMAGES / "keys")]
    environ = {"PATH": "/usr/bin:/bin", "HUB_SECRETS": str(secrets)}
    subprocess.run(command, env=environ, check=True)
    drawn = {file.name: file.read_text() for file in secrets.iterdir()}
    assert drawn.keys() == {"client_key", "worker_key", "db_password"}
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in drawn.values())
    assert len(set(drawn.values())) == 3
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    subprocess.run(command, env=environ, check=True)
    again = {file.name: file.read_text() for file in secrets.iterdir()}
    assert again == drawn


@pytest.mark.parametrize("text", ["", "\n", "s3cret\r\n", "two words", "two\nlines\n", "schl\u00fcssel", " s3cret"])
def test_a_key_that_programs_would_read_differently_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "db_password").write_text(text, encoding="utf-8", newline="")
    done = subprocess.run([str(IMAGES / "keys")], env={"HUB_SECRETS": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1 and f"{tmp_path}/db_password is not one line" in done.stderr, done.stderr
    (tmp_path / "db_password").write_text("s3cret\n")
    subprocess.run([str(IMAGES / "keys")], env={"HUB_SECRETS": str(tmp_path)}, check=True)

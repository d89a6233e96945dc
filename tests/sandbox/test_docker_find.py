"""Which Docker engine is taken, and what is said where there is none or a broken one (B071)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxUnavailableError, UnavailableError
from envhub.core.sandbox import SandboxSpec
from envhub.sandbox import docker_find
from envhub.sandbox.docker import DockerDriver
from envhub.sandbox.docker_api import DEFAULT_URL, Engine, get
from envhub.sandbox.docker_find import Look, Place, find, look, looked_at, places
from tests.require import lacking
from tests.sandbox.engines import Engines, as_nobody, forwarded

LIMIT_S = 0.4
"""For engines that never answer. Those that do have as long as ever."""
PATIENCE_S = 20.0


@pytest.fixture
def engines() -> Iterator[Engines]:
    made = Engines()
    yield made
    made.close()


@pytest.fixture
def nowhere(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables of a machine on which no usual place has an engine."""
    monkeypatch.setattr(docker_find, "DEFAULT_URL", f"unix://{engines.path}/default.sock")
    return {"XDG_RUNTIME_DIR": f"{engines.path}/run", "HOME": f"{engines.path}/home"}


def seen(url: str, *, limit_s: float = PATIENCE_S) -> Look:
    began = time.monotonic()
    found = look(Place(url, "DOCKER_HOST", named=True), limit_s=limit_s)
    assert time.monotonic() - began < PATIENCE_S
    assert "\n" not in str(found) and url in str(found)
    return found


# --- what is there ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["unix", "tcp"])
@pytest.mark.parametrize(
    ("kind", "state", "found", "advice"),
    [
        ("docker", "ok", "Docker 20.10.24", ""),
        ("podman", "ok", "Podman 4.3.1", "not tested"),
        ("dead", "dead", "nothing listens at", "start that engine"),
        ("silent", "silent", "does not answer within 0.4 s", "see its log"),
        ("drip", "silent", "does not answer within 0.4 s", "see its log"),
        ("hang-up", "wrong", "no engine", "DOCKER_HOST"),
        ("ssh", "wrong", "no engine", "DOCKER_HOST"),
        ("web server", "wrong", "no engine", "DOCKER_HOST"),
        ("refusing proxy", "wrong", "answers 403", "proxy"),
        ("tls", "wrong", "wants TLS", "ssh -NL"),
        ("full", "silent", "does not answer", "see its log"),
    ],
)
def test_every_kind_of_socket_is_told_from_the_others_in_bounded_time_b071(
    engines: Engines, way: str, kind: str, state: str, found: str, advice: str
) -> None:
    url = engines.unix(kind) if way == "unix" else engines.tcp(kind)
    what = seen(url, limit_s=LIMIT_S if state == "silent" else PATIENCE_S)
    assert what.state == state and found in what.found and advice in what.advice, what
    assert bool(what.advice) == (kind != "docker")


def test_a_path_that_is_no_socket_is_described_b071(engines: Engines) -> None:
    folder, file = engines.path / "folder", engines.path / "file"
    folder.mkdir()
    file.touch()
    for url, found, advice in (
        (f"unix://{folder}", "is a folder", "remove it, start the engine, mount it again"),
        (f"unix://{file}", "is not a socket", "name the engine's socket"),
    ):
        what = seen(url)
        assert what.state == "wrong" and found in what.found and advice in what.advice
    assert seen(f"unix://{engines.path}/none.sock").state == "absent"
    assert seen(f"unix://{file}/none.sock").state == "absent"
    assert seen(f"unix:///{'long/' * 30}docker.sock").state == "absent"


def test_a_socket_that_this_user_may_not_open_names_its_group_b071(engines: Engines) -> None:
    engines.path.chmod(0o755)
    private, grouped = engines.unix("docker"), engines.unix("docker")
    os.chmod(private.removeprefix("unix://"), 0)
    os.chmod(grouped.removeprefix("unix://"), 0o660 if os.geteuid() == 0 else 0o020)
    if os.geteuid() == 0:
        os.chown(grouped.removeprefix("unix://"), 0, 4)  # adm, which every Debian has
    for url, advice in ((private, "is of user"), (grouped, "sudo usermod -aG")):
        found = as_nobody(lambda url=url: seen(url))
        assert found.state == "forbidden" and "may not open" in found.found, found
        if os.geteuid() == 0:
            assert advice in found.advice, found


def test_a_socket_in_a_folder_of_somebody_else_is_out_of_reach_b071(engines: Engines) -> None:
    url = engines.unix("docker", engines.path / "own" / "docker.sock")
    engines.path.chmod(0o755)
    (engines.path / "own").chmod(0)
    found = as_nobody(lambda: seen(url))
    (engines.path / "own").chmod(0o700)
    assert found.state == "forbidden" and "Permission denied" in found.found, found


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("localhost:2375", "tcp://host:port"),
        ("/var/run/docker.sock", "unix:///path"),
        ("tcp://", "tcp://host:port"),
        ("tcp://host:many", "tcp://host:port"),
        ("fd://3", "neither"),
        ("npipe:////./pipe/docker_engine", "neither"),
        ("ssh://me@host", "ssh -NL /tmp/docker.sock:/var/run/docker.sock me@host"),
    ],
)
def test_an_address_of_another_kind_says_what_to_write_instead_b071(host: str, words: str) -> None:
    with pytest.raises(SandboxUnavailableError) as error:
        find(None, {"DOCKER_HOST": host})
    assert words in error.value.message and "DOCKER_HOST" in error.value.message


def test_an_engine_that_must_be_verified_is_not_spoken_to_in_the_open(engines: Engines) -> None:
    host = engines.tcp("docker")
    with pytest.raises(SandboxUnavailableError, match="DOCKER_TLS_VERIFY"):
        find(None, {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1"})
    assert find(None, {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": ""}) == host


def test_a_slow_answer_is_cut_off_and_a_quick_one_is_whole(engines: Engines) -> None:
    with pytest.raises(TimeoutError):
        get(engines.unix("drip"), "/_ping", limit_s=0.2)
    assert get(engines.unix("docker"), "/_ping", limit_s=PATIENCE_S).content == b"OK"


@pytest.mark.parametrize("kind", ["silent", "drip", "dead", "hang-up", "ssh"])
async def test_the_driver_does_not_hang_on_a_broken_engine_b071(engines: Engines, kind: str) -> None:
    for url in (engines.unix(kind), engines.tcp(kind)):
        engine = Engine(url)
        with pytest.raises(UnavailableError):
            await engine.call("GET", "/info", timeout_s=LIMIT_S)
        await engine.close()


# --- which one ----------------------------------------------------------------------------------------------------------


def test_places_are_tried_in_the_order_of_dockers_client(nowhere: dict[str, str]) -> None:
    run, home = nowhere["XDG_RUNTIME_DIR"], nowhere["HOME"]
    assert [each.url for each in places(None, nowhere)][1:] == [
        f"unix://{run}/docker.sock",
        f"unix://{home}/.docker/run/docker.sock",
        f"unix://{home}/.docker/desktop/docker.sock",
        f"unix://{run}/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]
    (named,) = places(None, nowhere | {"DOCKER_HOST": "tcp://other:2375", "DOCKER_CONTEXT": "x"})
    assert (named.url, named.named_by) == ("tcp://other:2375", "DOCKER_HOST")
    (named,) = places("unix:///own.sock", nowhere | {"DOCKER_HOST": "tcp://other:2375"})
    assert (named.url, named.named_by) == ("unix:///own.sock", "the setting docker_url")
    assert places(None, {})[1].url == f"unix:///run/user/{os.geteuid()}/docker.sock"


@pytest.mark.parametrize("kinds", list(itertools.product(["docker", "dead", "absent"], repeat=4)))
def test_the_first_place_that_answers_is_taken_and_the_others_are_described_b071(
    engines: Engines, nowhere: dict[str, str], kinds: tuple[str, ...]
) -> None:
    usual = [Path(each.url.removeprefix("unix://")) for each in places(None, nowhere)]
    of_these = [usual[0], usual[1], usual[2], usual[4]]
    for kind, path in zip(kinds, of_these, strict=True):
        if kind != "absent":
            engines.unix(kind, path)
    if "docker" in kinds:
        expected = of_these[kinds.index("docker")]
        assert find(None, nowhere) == f"unix://{expected}"
        return
    if usual[-1].exists():
        pytest.skip("this machine has a Podman")
    with pytest.raises(SandboxUnavailableError) as error:
        find(None, nowhere)
    assert "\n" not in error.value.message
    for kind, path in zip(kinds, of_these, strict=True):
        assert (f"nothing listens at {path}" in error.value.message) == (kind == "dead")
        assert str(path) in error.value.message


def test_a_place_that_was_named_is_not_replaced_by_another(engines: Engines, nowhere: dict[str, str]) -> None:
    engines.unix("docker", Path(f"{nowhere['XDG_RUNTIME_DIR']}/docker.sock"))
    dead = engines.unix("dead")
    for setting, environ in ((dead, nowhere), (None, nowhere | {"DOCKER_HOST": dead})):
        with pytest.raises(SandboxUnavailableError, match="nothing listens"):
            find(setting, environ)


def test_a_rootless_engine_serves_a_user_who_may_not_use_the_machines_b071(
    engines: Engines, nowhere: dict[str, str]
) -> None:
    engines.path.chmod(0o755)
    machines = engines.path / "default.sock"
    engines.unix("docker", machines)
    machines.chmod(0)
    own = engines.unix("docker", Path(f"{nowhere['XDG_RUNTIME_DIR']}/docker.sock"))
    Path(own.removeprefix("unix://")).chmod(0o777)
    looks = as_nobody(lambda: list(looked_at(None, nowhere)))
    assert [each.state for each in looks] == ["forbidden", "ok"] and looks[1].place.url == own


def context(folder: Path, name: str, host: str) -> Path:
    known_as = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / known_as / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}))
    return folder / "contexts" / "tls" / known_as


def test_the_docker_context_in_use_is_followed(tmp_path: Path, nowhere: dict[str, str]) -> None:
    environ = nowhere | {"DOCKER_CONFIG": str(tmp_path)}
    context(tmp_path, "colima", "unix:///colima.sock")
    context(tmp_path, "far", "tcp://far:2376")
    assert len(places(None, environ)) > 1
    (tmp_path / "config.json").write_text('{"currentContext": "colima"}')
    (found,) = places(None, environ)
    assert (found.url, found.named_by) == ("unix:///colima.sock", "docker context 'colima'")
    (found,) = places(None, environ | {"DOCKER_CONTEXT": "far"})
    assert found.url == "tcp://far:2376"
    assert len(places(None, environ | {"DOCKER_CONTEXT": "default"})) > 1
    home = nowhere | {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".docker").symlink_to(tmp_path)
    assert places(None, home)[0].url == "unix:///colima.sock"


def test_a_docker_context_that_cannot_be_used_says_why(tmp_path: Path, nowhere: dict[str, str]) -> None:
    environ = nowhere | {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"}
    with pytest.raises(SandboxUnavailableError, match=r"nothing of a context of that name.*docker context use"):
        find(None, environ)
    context(tmp_path, "secure", "tcp://far:2376").mkdir(parents=True)
    with pytest.raises(SandboxUnavailableError, match="TLS is not spoken here"):
        find(None, environ | {"DOCKER_CONTEXT": "secure"})
    for broken in ("", "[]", "{", '{"currentContext": 3}'):
        (tmp_path / "config.json").write_text(broken)
        assert len(places(None, nowhere | {"DOCKER_CONFIG": str(tmp_path)})) > 1


# --- a real engine ------------------------------------------------------------------------------------------------------


@pytest.fixture
def real() -> str:
    found = look(Place(DEFAULT_URL, "the default socket"))
    if found.state != "ok":
        lacking("docker", str(found))
    return DEFAULT_URL.removeprefix("unix://")


@pytest.mark.docker
def test_the_machines_engine_is_found_and_named(real: str, tmp_path: Path) -> None:
    (found,) = looked_at(None, {"HOME": str(tmp_path)})
    assert found.state == "ok" and found.found.startswith("Docker ") and found.place.url == DEFAULT_URL
    assert as_nobody(lambda: look(Place(DEFAULT_URL, "")).state) in ("forbidden", "ok")


@pytest.mark.docker
@pytest.mark.timeout(120)
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize("way", ["rootless", "tcp", "tcp6"])
async def test_sessions_run_on_the_engine_that_was_found_wherever_it_listens_b071(
    real: str, engines: Engines, nowhere: dict[str, str], way: str
) -> None:
    if way == "rootless":
        own = Path(nowhere["XDG_RUNTIME_DIR"]) / "docker.sock"
        own.parent.mkdir()
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(own))
        environ = nowhere
    else:
        host = "127.0.0.1" if way == "tcp" else "::1"
        bound = socket.socket(socket.AF_INET6 if way == "tcp6" else socket.AF_INET)
        try:
            bound.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} on this machine")
        port = bound.getsockname()[1]
        environ = nowhere | {"DOCKER_HOST": f"tcp://{host if way == 'tcp' else '[::1]'}:{port}"}
    with forwarded(real, bound):
        driver = DockerDriver(clock=SystemClock(), url=find(None, environ))
        try:
            driver.image_digest("default")
        except SandboxUnavailableError as error:
            lacking("docker", str(error))
        try:
            box = await driver.start(SandboxSpec())
            assert (await box.run("echo $((6 * 7))", timeout_s=20, max_bytes=1000)).output == "42\n"
        finally:
            await driver.close()

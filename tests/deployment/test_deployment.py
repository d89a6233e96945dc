"""The whole hub in containers: healthy, played, scaled, hurt, restarted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from envhub.client.hub import Hub, HubSession
from envhub.core.errors import AuthenticationError, EpisodeFailedError, SessionLostError
from envhub.core.types import Message, StepResult, ToolCall
from tests.deployment.deployment import WORKERS, Deployment, docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("deployment"),
]
SERVICES = {"controller", "mariadb", *WORKERS}
LOOK = Message.assistant(None, ToolCall("1", "execute_sql", '{"query": "SHOW TABLES"}'))


def of_service(container: dict[str, Any]) -> str:
    return str(container["Config"]["Labels"]["com.docker.compose.service"])


def image_label(image: str, label: str) -> str:
    return docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{label}"}}}}', image).strip()


def digest_of_userlands(image: str) -> str:
    """As the os environment has it: of the only one, or of all together."""
    made = docker("run", "--rm", "--entrypoint", "sh", image, "-c", "cat /opt/userlands/*-made/image.json")
    digests = {each["name"]: each["digest"] for each in map(json.loads, made.splitlines())}
    for name, digest in digests.items():
        assert digest == image_label(f"envhub/os-{name}", "envhub.digest")
    if len(digests) == 1:
        return str(digests["default"])
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


async def n_workers(hub: Hub, environment: str) -> int:
    listed = await hub.request("GET", "/v1/workers")
    return sum(
        environment in worker["environments"] for worker in json.loads(listed)["workers"] if worker["state"] == "ready"
    )


async def until_workers(hub: Hub, environment: str, wanted: int, *, limit_s: float = 60) -> None:
    until = time.monotonic() + limit_s
    while (found := await n_workers(hub, environment)) != wanted:
        assert time.monotonic() < until, f"{found} workers of {environment} after {limit_s:g} s"
        await asyncio.sleep(0.5)


def test_every_service_comes_up_healthy(deployment: Deployment) -> None:
    states = {of_service(each): each["State"]["Health"]["Status"] for each in deployment.containers()}
    assert states == dict.fromkeys(SERVICES, "healthy")


def test_only_the_controllers_port_is_published_and_only_on_loopback(deployment: Deployment) -> None:
    published = {
        (of_service(each), port, binding["HostIp"])
        for each in deployment.containers()
        for port, bindings in each["NetworkSettings"]["Ports"].items()
        for binding in bindings or ()
    }
    assert published == {("controller", "8800/tcp", "127.0.0.1")}


def test_no_secret_can_be_read_out_of_inspect_command_lines_variables_or_logs(deployment: Deployment) -> None:
    containers = deployment.containers()
    shown = {"inspect": json.dumps(containers), "config": deployment.compose("config")}
    for each in containers:
        shown[f"logs of {of_service(each)}"] = docker("logs", each["Id"], merged=True)
        shown[f"command lines of {of_service(each)}"] = docker("top", each["Id"], "-eo", "pid,args")
        if of_service(each) != "mariadb":  # the official image's start script gives its server the variable
            variables = docker("exec", "--user", "0", each["Id"], "sh", "-c", "cat /proc/[0-9]*/environ; true")
            assert "ENVHUB_WORKER_KEY_FILE" in variables
            shown[f"variables of {of_service(each)}"] = variables
    for name in ("client_key", "worker_key", "db_password"):
        assert [where for where, text in shown.items() if deployment.key(name) in text] == [], name


def test_containers_have_bounds_a_read_only_root_and_no_capability_they_do_not_need(deployment: Deployment) -> None:
    for container in deployment.containers():
        service, host = of_service(container), container["HostConfig"]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"], service
        assert (
            host["Memory"] > 0
            and host["MemorySwap"] == host["Memory"]
            and host["PidsLimit"] > 0
            and host["NanoCpus"] > 0
        ), service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
        assert not host["Privileged"] and host["NetworkMode"] != "host", service
        assert bool(host["CapAdd"]) == (service == "os"), service
        assert not any("docker.sock" in mount["Source"] for mount in container["Mounts"]), service
        assert (container["Config"]["User"] in ("0", "root", "")) == (service == "os"), service


async def test_a_client_needs_its_key(deployment: Deployment) -> None:
    for key in (None, "wrong", deployment.key("worker_key")):
        async with Hub(deployment.url, key=key) as hub:
            with pytest.raises(AuthenticationError):
                await hub.environments()


def test_the_oracle_solves_every_environment_through_the_published_port(deployment: Deployment, tmp_path: Path) -> None:
    targets = [f"{name}:0-9" for name in WORKERS]
    done = deployment.envhub("bench", *targets, "--agent", "oracle", "--name", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in (tmp_path / "results" / "run" / "results.jsonl").read_text().splitlines()]
    solved = Counter(record["environment"] for record in records if record.get("success"))
    assert solved == dict.fromkeys(WORKERS, 10), done.stdout


async def test_results_carry_the_digest_of_the_image_they_were_measured_in(deployment: Deployment) -> None:
    labels = {of_service(each): each["Config"]["Labels"] for each in deployment.containers()}
    async with Hub(deployment.url, key=deployment.client_key) as hub:
        for name in WORKERS:
            async with hub.session(name, None, 0) as session:
                digest = session.identity.image_digest
            if name == "os":  # of its userlands, which are what an answer depends on
                assert digest == digest_of_userlands(deployment.containers("os")[0]["Image"])
            else:
                assert digest == labels[name]["envhub.digest"]


async def test_a_session_of_the_os_worker_sees_neither_its_keys_nor_a_network(deployment: Deployment) -> None:
    script = "cat /run/secrets/* /proc/1/environ | tr '\\0' '\\n'; id -u; ls /opt /data; cat /proc/net/route | wc -l"
    async with Hub(deployment.url, key=deployment.client_key) as hub, hub.session("os", "test", 0) as session:
        result = await session.interact(
            Message.assistant(None, ToolCall("1", "bash_action", json.dumps({"script": script})))
        )
    shown = result.messages[0].content or ""
    assert deployment.key("worker_key") not in shown and "ENVHUB" not in shown
    assert "No such file or directory" in shown and shown.rstrip().endswith("1"), shown


async def test_sessions_outlive_a_restarted_controller_b034(deployment: Deployment) -> None:
    async with Hub(deployment.url, key=deployment.client_key) as hub, AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(hub.session("db", "test", index)) for index in range(4)]
        before = [await session.interact(LOOK) for session in sessions]
        await asyncio.to_thread(deployment.compose, "restart", "controller")
        after = [await session.interact(LOOK) for session in sessions]
    assert [result.messages[0].content for result in after] == [result.messages[0].content for result in before]


async def test_a_worker_whose_process_dies_costs_its_sessions_one_typed_answer_and_comes_back_b034(
    deployment: Deployment,
) -> None:
    await asyncio.to_thread(deployment.up, "--no-recreate", "--scale", "db=3")
    async with Hub(deployment.url, key=deployment.client_key) as hub, AsyncExitStack() as stack:
        await until_workers(hub, "db", 3)
        sessions = [await stack.enter_async_context(hub.session("db", "test", index)) for index in range(12)]
        victim = deployment.containers("db")[0]
        began = time.monotonic()
        docker("exec", victim["Id"], "sh", "-c", "kill -9 -1")
        answers = await asyncio.gather(*(turn(session) for session in sessions))
        assert time.monotonic() - began < 20
        assert {type(answer) for answer in answers} == {StepResult, SessionLostError}
        lost = [
            session for session, answer in zip(sessions, answers, strict=True) if isinstance(answer, SessionLostError)
        ]
        assert {type(answer) for answer in await asyncio.gather(*map(turn, lost))} == {SessionLostError}
        await until_workers(hub, "db", 3)
    assert sum(each["RestartCount"] for each in deployment.containers("db")) == 1


async def test_a_database_server_that_lost_its_memory_serves_new_sessions_b064(deployment: Deployment) -> None:
    async with Hub(deployment.url, key=deployment.client_key) as hub:
        session = hub.session("db", "test", 0)
        await session.start()
        docker("exec", deployment.containers("mariadb")[0]["Id"], "sh", "-c", "kill -9 -1")
        with pytest.raises(EpisodeFailedError):
            await session.interact(LOOK)
        async with asyncio.timeout(60), hub.session("db", "test", 0) as fresh:
            assert (await fresh.interact(LOOK)).messages[0].content


async def turn(session: HubSession) -> StepResult | SessionLostError:
    try:
        return await session.interact(LOOK)
    except SessionLostError as error:
        return error


def test_finished_episodes_are_on_the_controllers_volume(deployment: Deployment) -> None:
    listed = deployment.compose("exec", "-T", "controller", "envhub", "episodes", "list", "--limit", "5")
    assert "db" in listed, listed

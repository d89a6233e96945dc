"""Deployments that come up from nothing and go away again: cold starts with MariaDB, the other profiles, what is left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envhub.client.hub import Hub
from envhub.core.errors import EnvhubError
from envhub.core.types import Message, ToolCall
from tests.deployment.deployment import Deployment, docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("deployment"),
]
N_COLD_STARTS = int(os.environ.get("ENVHUB_TEST_COLD_STARTS", "3"))
N_SESSIONS = 50
GRACE_S = 30
LOOK = Message.assistant(None, ToolCall("1", "execute_sql", '{"query": "SHOW TABLES"}'))

Make = Callable[..., Deployment]


@pytest.mark.parametrize("number", range(N_COLD_STARTS))
async def test_no_first_session_is_refused_by_a_database_server_that_has_just_started_b064(
    make: Make, number: int
) -> None:
    cold = make("full")
    await asyncio.to_thread(cold.up, "controller", "mariadb", "db")
    async with Hub(cold.url, key=cold.client_key) as hub:
        sessions = [hub.session("db", "test", index) for index in range(N_SESSIONS)]
        await asyncio.gather(*(session.start() for session in sessions))
        results = await asyncio.gather(*(session.interact(LOOK) for session in sessions))
    assert all("error" not in (result.messages[0].content or "error").lower() for result in results)
    await asyncio.to_thread(check_stop, cold)
    await asyncio.to_thread(cold.down)
    assert cold.left() == []


def test_the_temporary_server_of_a_first_start_is_not_taken_for_the_server_b064(make: Make) -> None:
    cold = make("full")
    cold.up("mariadb")
    (server,) = cold.containers("mariadb")
    assert "port: 3306" in docker("logs", server["Id"], merged=True)


def check_stop(deployment: Deployment) -> None:
    """Stopped with live sessions: everything ends by itself, and in time (B032)."""
    began = time.monotonic()
    deployment.compose("stop")
    assert time.monotonic() - began < GRACE_S
    codes = {each["Name"]: each["State"]["ExitCode"] for each in deployment.containers()}
    assert set(codes.values()) == {0}, codes


def test_the_volume_of_episodes_outlives_a_down_that_does_not_ask_for_it(make: Make) -> None:
    kept = make("small")
    kept.up("controller")
    kept.compose("down")
    (volume,) = kept.left()
    assert volume == f"{kept.project}_data"


def test_the_small_profile_plays_every_environment_without_a_database_server(make: Make, tmp_path: Path) -> None:
    small = make("small")
    small.up()
    services = {each["Config"]["Labels"]["com.docker.compose.service"] for each in small.containers()}
    assert services == {"controller", "alfworld", "db-embedded", "kg", "os", "webshop"}
    done = small.envhub("bench", "db:0-4", "os:0-4", "--agent", "oracle", "--name", "run", cwd=tmp_path)
    assert done.returncode == 0 and "10/10  success 100.0%" in done.stdout + done.stderr, done.stdout + done.stderr


def test_the_docker_driver_plays_in_sibling_containers_and_takes_them_away_b041(make: Make, tmp_path: Path) -> None:
    own = make("docker-driver,small")
    own.up("controller", "os-docker")
    networks = docker("network", "ls", "--quiet")
    done = own.envhub("bench", "os:0-4", "--agent", "oracle", "--name", "run", cwd=tmp_path)
    assert done.returncode == 0 and "5/5  success 100.0%" in done.stdout + done.stderr, done.stdout + done.stderr
    assert docker("network", "ls", "--quiet") == networks
    (worker,) = own.containers("os-docker")
    of_worker = docker("exec", worker["Id"], "stat", "--dereference", "--format=%i", "/proc/self/ns/pid").strip()
    kept_ready = ("ps", "--all", "--quiet", f"--filter=label=envhub.pids={of_worker}")
    assert docker(*kept_ready)
    own.compose("stop", "os-docker")
    assert not docker(*kept_ready)


async def test_with_control_groups_a_fork_bomb_does_not_reach_the_sessions_beside_it_b042(make: Make) -> None:
    bounded = make("small", "docker-compose.cgroups.yml")
    await asyncio.to_thread(bounded.up, "controller", "os")
    async with Hub(bounded.url, key=bounded.client_key) as hub:
        hostile, beside = hub.session("os", "test", 0, options={"command_timeout_s": 5.0}), hub.session("os", "test", 1)
        async with hostile, beside:
            bomb = asyncio.create_task(hostile.interact(bash(":(){ :|:& };:\nsleep 20")))
            while not bomb.done():
                answer = await asyncio.wait_for(beside.interact(bash("ls / | wc -l")), 5)
                assert (answer.messages[0].content or "").split()[-1] == "19"
                await asyncio.wait({bomb}, timeout=1.5)
            assert "timed out" in ((await bomb).messages[0].content or "")
    (worker,) = bounded.containers("os")
    await asyncio.to_thread(bounded.down)
    assert groups_of(worker["Id"]) == []


async def test_without_control_groups_a_fork_bomb_ends_with_its_session_b042(make: Make) -> None:
    own = make("small")
    await asyncio.to_thread(own.up, "controller", "os")
    async with Hub(own.url, key=own.client_key) as hub:
        async with hub.session("os", "test", 0, options={"command_timeout_s": 5.0}) as hostile:
            with contextlib.suppress(EnvhubError):
                await asyncio.wait_for(hostile.interact(bash(":(){ :|:& };:\nsleep 20")), 60)
        began = time.monotonic()
        n_played = 0
        while n_played < 6:
            try:
                async with asyncio.timeout(30), hub.session("os", "test", n_played) as session:
                    answer = await session.interact(bash("ls / | wc -l"))
                    assert (answer.messages[0].content or "").split()[-1] == "19"
                n_played += 1
            except (EnvhubError, TimeoutError):
                assert time.monotonic() < began + 90
                await asyncio.sleep(0.5)
    (worker,) = own.containers("os")
    assert len(docker("top", worker["Id"], "-eo", "pid").splitlines()) < 100


def groups_of(container: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"*/docker/{container}"))


def bash(script: str) -> Message:
    return Message.assistant(None, ToolCall("1", "bash_action", json.dumps({"script": script})))

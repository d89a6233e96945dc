"""The OS environment from settings, on this machine's own driver."""

from __future__ import annotations

import asyncio
import json
import logging
import os

import pytest

from envhub.config import Settings
from envhub.core.errors import InvalidRequestError, SandboxUnavailableError
from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs import registry
from envhub.envs.os import env
from envhub.envs.os.tasks import Answer, OSTask, Script, write_dataset
from envhub.worker.main import make_environments

TASKS = (
    OSTask("a", "How many?", Answer("integer", ("1",)), init=(Script("touch x"),), solution=("ls | wc -l",)),
    OSTask("b", "Which?", Answer("string", ("x",)), init=(Script("touch x"),), solution=("ls",)),
)


@pytest.fixture
def datasets(tmp_path):
    write_dataset(tmp_path / "data/os", {"test": TASKS}, name="os", version="1", generator={})
    return str(tmp_path / "data")


async def played(environment, index):
    task = TaskRef("os", "test", index)
    episode = await environment.open(task, seed=0, options=dict(environment.info().options))
    try:
        return sum([(await episode.step(message)).reward for message in environment.solution(task)])
    finally:
        await episode.close()


async def test_it_comes_up_from_settings_and_goes_down_with_its_pool(machine, datasets):
    environment = env.create({"driver": "bubblewrap", "datasets": datasets, "pool_size": "2"})
    info = environment.info()
    assert info.version == "1-bubblewrap" and info.image_digest and info.splits == {"test": 2}
    before = len(os.listdir("/proc/self/fd"))
    assert await asyncio.gather(*(played(environment, n % 2) for n in range(8))) == [1.0] * 8
    await environment.close()
    await environment.close()
    assert len(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(Exception, match="closed"):
        await environment.open(TaskRef("os", "test", 0), seed=0, options=dict(info.options))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("driver", "host"), ("driver", "unsafe"), ("pool_size", "many"), ("pool_size", -1), ("url", "x")],
)
def test_bad_settings_are_refused(datasets, setting, value):
    with pytest.raises(InvalidRequestError, match=setting):
        env.create({"driver": "bubblewrap", "datasets": datasets, setting: value})


@pytest.fixture
def unsafe_machine(monkeypatch, datasets):
    """A machine on which no driver works."""

    def refuse(*_, **__):
        raise SandboxUnavailableError("no safe sandbox on this machine. Install one: pip install 'envhub[os]'")

    monkeypatch.setattr(env, "choose", refuse)
    monkeypatch.setitem(registry._BUILT_IN, "os", "envhub.envs.os.env:create")
    return datasets


def test_without_a_safe_sandbox_it_is_refused_and_says_what_to_install(unsafe_machine):
    settings = Settings(environments=("os",), datasets=unsafe_machine)
    with pytest.raises(SandboxUnavailableError, match="Install one: pip install"):
        make_environments(settings)


def test_a_worker_of_all_environments_goes_on_without_it(unsafe_machine, monkeypatch, caplog):
    monkeypatch.setattr(registry, "names", lambda: ("calculator", "os"))
    with caplog.at_level(logging.WARNING):
        assert set(make_environments(Settings(environment_settings={"os": {"datasets": unsafe_machine}}))) == {
            "calculator"
        }
    assert "no safe sandbox" in caplog.text


async def test_an_answer_is_one_call(machine, datasets):
    environment = env.create({"driver": "bubblewrap", "datasets": datasets, "pool_size": 0})
    try:
        episode = await environment.open(TaskRef("os", "test", 0), seed=0, options=dict(environment.info().options))
        calls = (
            ToolCall("a", "answer_action", json.dumps({"answer": "1"})),
            ToolCall("b", "bash_action", '{"script": "ls"}'),
        )
        result = await episode.step(Message.assistant(None, *calls))
        assert result.reward == 1.0 and "not executed" in result.messages[1].content
        await episode.close()
    finally:
        await environment.close()

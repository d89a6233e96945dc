"""The command line: help, wrong use, settings, and the commands that need no running hub."""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from envhub import __version__, cli
from envhub.config import Settings


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in an empty folder, without settings of whoever runs the tests, and leave logging as it was."""
    for name in [name for name in os.environ if name.startswith("ENVHUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _commands(child, (*path, name))


COMMANDS = sorted(_commands(cli._parser()))


def run(*arguments: str) -> int:
    """The exit code, also where argparse itself ends the program."""
    try:
        return cli.main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "envhub")
def test_every_command_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: envhub") and len(text.splitlines()) > 3


def test_the_commands_of_a_deployment_are_there() -> None:
    names = {" ".join(command) for command in COMMANDS}
    assert {"up", "controller", "worker", "bench", "doctor", "demo", "environments"} <= names
    assert {"tasks lint", "tasks verify", "episodes list", "episodes export", "episodes show"} <= names


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"envhub {__version__}\n"


def test_no_command_prints_help_and_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "nonsense"),
        (["controller", "--port", "x"], "--port"),
        (["controller", "--port", "99999"], "$.port"),
        (["controller", "--port", "-1"], "$.port"),
        (["worker", "--capacity", "0"], "$.capacity"),
        (["controller", "--host", "0.0.0.0", "--port", "0"], "ENVHUB_CLIENT_KEY and ENVHUB_WORKER_KEY"),
        (["up", "--host", "0.0.0.0", "--port", "0", "-e", "calculator"], "ENVHUB_CLIENT_KEY"),
        (["worker", "-e", "chess"], "no environment is named 'chess'; valid:"),
        (["tasks"], "VERB"),
        (["tasks", "lint"], "environment"),
        (["tasks", "lint", "chess"], "valid:"),
        (["tasks", "lint", "calculator", "--play"], "no self-test"),
        (["tasks", "lint", "calculator", "--split", "dev"], "valid: train, test"),
        (["episodes", "list", "--store", "nonsense"], "valid: sqlite:///"),
        (["episodes", "list", "--tag", "x"], "NAME=VALUE"),
        (["episodes", "show", "nobody"], "nobody"),
        (["bench"], "required"),
        (["environments", "--hub", "nonsense"], "not a URL of a hub"),
        (["--config", "/nowhere/envhub.toml", "doctor"], "/nowhere/envhub.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_says_what_is_wrong_and_ends_with_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert named in said.err and "Traceback" not in said.err


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("ENVHUB_PORT", "many", "$.port"),
        ("ENVHUB_PROT", "1", "unknown setting ENVHUB_PROT"),
        ("ENVHUB_LOG_LEVEL", "LOUD", "LOUD"),
        ("ENVHUB_CLIENT_KEY_FILE", "/nowhere", "ENVHUB_CLIENT_KEY_FILE"),
    ],
)
def test_a_wrong_setting_ends_every_command_with_2(
    name: str, value: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert run("doctor", "--json") == 2
    assert named in capsys.readouterr().err


def test_flags_win_over_variables_and_variables_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Settings] = []

    def controller(args: argparse.Namespace, settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(cli, "_controller", controller)
    file = tmp_path / "settings.toml"
    file.write_text('host = "::1"\nport = 9000\nstore_url = "sqlite://"\n')
    monkeypatch.setenv("ENVHUB_PORT", "9001")
    monkeypatch.setenv("ENVHUB_CONFIG", str(file))
    assert run("controller", "--host", "127.0.0.2") == 0
    assert (seen[0].host, seen[0].port, seen[0].store_url) == ("127.0.0.2", 9001, "sqlite://")


def test_doctor_finds_this_machine_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--json") == 0
    findings = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    assert findings["Python"]["state"] == "ok" and findings["environment calculator"]["state"] == "ok"
    assert all(set(each) == {"what", "state", "value", "advice"} for each in findings.values())
    assert {each["state"] for each in findings.values()} <= {"ok", "warn", "missing", "bad"}
    assert all(not each["advice"] for each in findings.values() if each["state"] == "ok")


def test_doctor_knows_an_address_that_needs_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENVHUB_HOST", "0.0.0.0")
    assert run("doctor", "--json") == 1
    findings = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    assert findings["hub address"]["state"] == "bad" and "ENVHUB_CLIENT_KEY" in findings["hub address"]["advice"]


def test_taken_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("controller", "--port", str(port), "--store", "sqlite://") == 2
    assert f"cannot listen on 127.0.0.1:{port}: " in capsys.readouterr().err


def test_doctor_shows_every_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert run("doctor") == 0
    assert "environment calculator" in capsys.readouterr().out


def test_doctor_does_not_show_a_password(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ENVHUB_DB_URL", "mysql://someone:hunter2@127.0.0.1:1/x")
    monkeypatch.setenv("ENVHUB_CLIENT_KEY", "topsecret")
    run("doctor", "--json")
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err and "topsecret" not in said.out + said.err


def test_lint_counts_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tasks", "lint", "calculator") == 0
    assert capsys.readouterr().out.startswith("0 findings")


def test_shipped_tasks_have_no_defects(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tasks", "lint", "db") == 0
    assert capsys.readouterr().out.startswith("0 findings")


def test_environments_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_ENVIRONMENTS", "calculator")
    assert run("environments") == 0
    out = capsys.readouterr().out
    assert "calculator" in out and "train" in out


def test_an_empty_store_is_listed_as_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("episodes", "list", "--store", "sqlite://") == 0


def test_a_run_with_a_built_in_agent_ends_with_0_and_one_without_a_grade_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENVHUB_ENVIRONMENTS", "calculator")
    assert run("bench", "calculator:0-2", "-a", "oracle", "-o", str(tmp_path / "out")) == 0
    assert run("bench", "calculator:999999", "-a", "oracle", "-o", str(tmp_path / "none")) == 2

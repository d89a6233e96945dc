"""The commands as they are called, and a run that is killed."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, call, failed, said
from exam import ExamEnvironment
from rich.console import Console

from envhub.bench import commands
from envhub.bench.commands import INTERRUPTED, NOT_VERIFIED, NOTHING_GRADED, OK, WRONG_USE
from envhub.client.hub import Hub
from envhub.envs import registry
from envhub.testing.hub import local_hub

PROGRAM = Path(__file__).with_name("bench_program.py")


class Shell:
    """Runs commands against a hub of its own and keeps what they print."""

    def __init__(self, folder: Path, *, environment: ExamEnvironment | None = None, chat: Any = None) -> None:
        self._folder = folder
        self._environment = environment
        self._chat = chat
        self.text = ""

    def bench(self, *words: str) -> int:
        parser = argparse.ArgumentParser()
        commands.add_bench_arguments(parser)
        args = parser.parse_args([*words, "--output", str(self._folder)])
        return self._call(lambda console: commands.bench(args, lambda: self._connect(args), console=console))

    def verify(self, *words: str) -> int:
        parser = argparse.ArgumentParser()
        commands.add_verify_arguments(parser)
        args = parser.parse_args(words)
        create = (lambda name: self._environment) if self._environment else registry.create
        return self._call(
            lambda console: commands.verify_tasks(args, lambda: self._connect(args), create=create, console=console)
        )

    def _call(self, command: Any) -> int:
        out = io.StringIO()
        code: int = command(Console(file=out, width=160))
        self.text = out.getvalue()
        return code

    @asynccontextmanager
    async def _connect(self, args: argparse.Namespace) -> AsyncIterator[Hub]:
        environments: Any = {"exam": self._environment} if self._environment else ("calculator",)
        async with local_hub(environments) as local:
            yield local.hub


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_oracle_and_null_play_and_a_table_and_a_page_come_out(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.bench("calculator:0-4,7", "-a", "oracle", "-a", "null", "-n", "2", "--name", "run") == OK
    assert "24/24" in shell.text
    assert "100.0% of graded" in shell.text
    assert str(tmp_path / "run" / "report.html") in shell.text
    assert len(rows(tmp_path / "run")) == 24
    assert "<!doctype html>" in (tmp_path / "run" / "report.html").read_text()
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["plan"]["targets"] == [{"environment": "calculator", "split": "test", "tasks": [0, 1, 2, 3, 4, 7]}]
    assert len(run["identities"]) == 1


def test_b052_nothing_graded_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    environment = ExamEnvironment(breaks=dict.fromkeys(range(10), 99))
    shell = Shell(tmp_path, environment=environment)
    assert shell.bench("exam", "-a", "random") == NOTHING_GRADED
    assert "n/a" in shell.text
    assert "episode_failed 10" in shell.text


def test_a_finished_run_is_not_played_again_and_another_plan_is_refused(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    words = ("calculator:0-4", "-a", "oracle", "--name", "run")
    assert shell.bench(*words) == OK
    before = rows(tmp_path / "run")
    assert shell.bench(*words) == WRONG_USE
    assert "resume" in shell.text
    assert shell.bench(*words, "--resume") == OK
    assert rows(tmp_path / "run") == before
    assert shell.bench(*words, "--resume", "--seed", "9") == WRONG_USE
    assert "seed: was 0, now 9" in shell.text
    assert rows(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["calculator"], "nobody plays"),
        (["calculator/nope", "-a", "null"], "valid: train, test"),
        (["calculator:999", "-a", "null"], "valid: 0-99"),
        (["nope", "-a", "null"], "no environment is named 'nope'"),
        (["calculator", "calculator:1", "-a", "null"], "named twice"),
        (["calculator", "-m", "x"], "OPENAI_BASE_URL"),
        (["calculator", "-a", "null", "--option", "x"], "NAME=VALUE"),
        (["calculator", "-a", "null", "--option", "x=1"], "has no option 'x'; valid: max_turns, max_episode_s"),
    ],
)
def test_wrong_use_says_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], said: str
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    shell = Shell(tmp_path)
    assert shell.bench(*words) == WRONG_USE
    assert said in shell.text


async def test_a_model_is_played_and_its_key_is_kept_out_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with ChatServer(lambda request: said(None, [call("submit", '{"answer": 0}')])) as server:
        shell = Shell(tmp_path)
        words = ("calculator:0-2", "-m", f"tiny@{server.url}", "--temperature", "0", "--name", "run")
        assert await _in_thread(shell.bench, *words) == OK
    assert all(headers["Authorization"] == "Bearer sk-secret" for headers in server.headers)
    assert [row["prompt_tokens"] for row in rows(tmp_path / "run")] == [10, 10, 10]
    kept = "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    assert "sk-secret" not in kept and '"temperature"' in kept


async def test_a_wrong_key_ends_the_run_with_a_reason(tmp_path: Path) -> None:
    async with ChatServer(lambda request: failed(401, "bad key")) as server:
        shell = Shell(tmp_path)
        assert await _in_thread(shell.bench, "calculator", "-m", "tiny", "-u", server.url) == WRONG_USE
    assert "bad key" in shell.text


async def _in_thread(function: Any, *words: str) -> Any:
    return await asyncio.to_thread(function, *words)


# --- verify ---------------------------------------------------------------------------------------------------------


def test_tasks_that_hold_are_verified(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.verify("calculator/test:0-9") == OK
    assert "calculator/test: 10 tasks (dataset generated-2) verified" in shell.text


def test_a_task_whose_solution_earns_nothing_is_named(tmp_path: Path) -> None:
    exam = ExamEnvironment(breaks={3: 1})
    shell = Shell(tmp_path, environment=exam)
    assert shell.verify("exam") == NOT_VERIFIED
    assert "exam/test/3 oracle: episode_failed" in shell.text
    assert "exam/test/9 oracle: no_solution" in shell.text


def test_silence_that_is_paid_for_is_named(tmp_path: Path) -> None:
    shell = Shell(tmp_path, environment=ExamEnvironment(pays_silence=True))
    assert shell.verify("exam:0-1") == NOT_VERIFIED
    assert "exam/test/0 null: saying nothing earned 1" in shell.text


# --- processes ------------------------------------------------------------------------------------------------------

MANY = ("calculator/train:0-999", "-a", "oracle", "-j", "8", "--name", "run")


def start(folder: Path, *words: str, hold_after: float = math.inf) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *MANY, *words, "--output", str(folder)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"HOLD_AFTER": str(hold_after)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever is in the background ignores it
    )


def stop_midway(folder: Path, with_signal: signal.Signals, n_rows: int, *words: str) -> tuple[int, str]:
    """Once it has written ``n_rows`` more; it comes to no end by itself, however late it is stopped."""
    results = folder / "run" / "results.jsonl"
    until = n_rows + (results.read_bytes().count(b"\n") if results.exists() else 0)
    process = start(folder, "-j", "1", *words, hold_after=n_rows + 200)
    deadline = time.monotonic() + 60
    while not results.exists() or results.read_bytes().count(b"\n") < until:
        assert process.poll() is None and time.monotonic() < deadline, process.stdout and process.stdout.read()
        time.sleep(0.005)
    process.send_signal(with_signal)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def test_a_run_killed_and_interrupted_is_resumed_without_recounting_or_skipping(tmp_path: Path) -> None:
    code, _ = stop_midway(tmp_path, signal.SIGKILL, 100)
    assert code == -signal.SIGKILL
    results = tmp_path / "run" / "results.jsonl"
    killed = results.read_bytes()
    whole = killed[: killed.rfind(b"\n") + 1]
    with results.open("ab") as file:
        file.write(b'{"agent":"oracle","environment":"calc')
    code, out = stop_midway(tmp_path, signal.SIGINT, 100, "--resume")
    assert code == INTERRUPTED
    assert "go on with --name run --resume" in out
    process = start(tmp_path, "--resume")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == OK, out
    assert results.read_bytes().startswith(whole)
    counts = Counter((row["agent"], row["task"]) for row in rows(tmp_path / "run"))
    assert len(counts) == 1000
    assert set(counts.values()) == {1}
    assert "1000/1000" in out

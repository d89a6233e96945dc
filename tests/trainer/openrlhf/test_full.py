"""Whole runs that take longer: several ranks, lost processes, a resumed run, and OpenRLHF's own synchronous trainer."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        os.environ.get("TRAINER_FULL") != "1",
        reason="takes minutes: make test-trainer-full (TRAINER_FULL=1)",
    ),
]


def test_two_ranks_with_a_reference_model(start: Callable[..., Any], hub: Any) -> None:
    run = start(n_steps=4, n_gpus=2, micro_batch=2, kl_coef=1e-3)
    assert run.wait() == 0, run.tail()
    metrics = run.metrics(4)
    assert len(metrics["optimizer_steps"]) == 4 and set(metrics["optimizer_steps"]) == {1.0}
    assert max(metrics["kl"]) > 0, "the policy moves away from the reference"
    held = {version: run.held(version) for version in (3, 4)}
    assert held[3][0] == held[3][1] == held[4][1] != held[4][0]
    assert hub.count("envhub_sessions") == 0


def test_critic_with_generalized_advantages(start: Callable[..., Any], hub: Any) -> None:
    run = start(n_steps=2, baseline="gae", b_max=4)
    assert run.wait() == 0, run.tail()
    metrics = run.metrics(2)
    assert len(metrics["critic_loss"]) == 2 and all(value > 0 for value in metrics["critic_loss"])


def test_killed_worker_does_not_end_the_run(start: Callable[..., Any], hub: Any) -> None:
    """B015: what was lost has no reward and is played again."""
    hub.start_worker()
    run = start(n_steps=8)
    run.wait_for_step(1)
    hub.workers[0].send_signal(signal.SIGSTOP)
    time.sleep(5)
    hub.workers[0].kill()
    assert run.wait() == 0, run.tail()
    metrics = run.metrics(8)
    assert len(metrics["optimizer_steps"]) == 8
    assert min(metrics["return/calculator"]) >= 0 and min(metrics["reward/calculator"]) >= -0.2
    assert metrics["queue/retries"][-1] >= 1, "sessions were lost with the worker, and played again"
    assert hub.count("envhub_sessions") == 0


def test_restarted_controller_does_not_end_the_run(start: Callable[..., Any], hub: Any) -> None:
    run = start(n_steps=8)
    run.wait_for_step(1)
    hub.controller.terminate()
    hub.controller.wait(20)
    time.sleep(2)
    hub.start_controller()
    assert run.wait() == 0, run.tail()
    assert len(run.metrics(8)["optimizer_steps"]) == 8
    assert hub.count("envhub_sessions") == 0


def test_hub_that_stays_away_stops_the_run_with_the_reason(start: Callable[..., Any], hub: Any) -> None:
    """B015: a run in which everything fails must not train on what is left."""
    run = start(n_steps=500, failure_window=8, n_retries=1)
    run.wait_for_step(2)
    hub.controller.kill()
    assert run.wait() == 1
    assert "training stopped: InfrastructureDownError" in run.log, run.tail()


def test_hung_engine_stops_the_run_and_is_named(start: Callable[..., Any], hub: Any) -> None:
    """B057"""
    run = start(n_steps=500, call_limit_s=5)
    run.wait_for_step(2)
    core = re.search(r"EngineCore pid=(\d+)", run.log)
    assert core is not None
    os.kill(int(core[1]), signal.SIGSTOP)
    assert run.wait() == 1
    assert re.search(r"training stopped: WeightSyncError: engine \d could not be paused: no answer", run.log), (
        run.tail()
    )
    assert hub.count("envhub_sessions") == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_ends_its_sessions(
    start: Callable[..., Any], hub: Any, number: signal.Signals, status: int
) -> None:
    """B001: nothing is left to leases."""
    run = start(n_steps=500)
    run.wait_for_step(2)
    run.process.send_signal(number)
    assert run.wait(120) == status, run.tail()
    assert hub.count("envhub_sessions") == 0


def test_run_goes_on_from_a_checkpoint(start: Callable[..., Any], hub: Any, tmp_path: Path) -> None:
    first = start(n_steps=3, save_every=2, normalization="running")
    assert first.wait() == 0, first.tail()
    saved = [digest for version, digest, kind in first.sent() if (version, kind) == (2, "fresh")]
    second = start(n_steps=5, save_every=2, normalization="running", resume="true")
    assert second.wait() == 0, second.tail()
    begun = [(version, kind) for version, _, kind in second.sent()][:2]
    assert begun == [(2, "fresh"), (2, "stale")], "all engines get the checkpoint's weights first"
    assert second.sent()[0][1] == saved[0], "and they are the weights that were saved"
    assert " step 3/5" in second.log and " step 5/5" in second.log and " step 1/5" not in second.log
    assert "restored: version 2" in second.log
    assert hub.count("envhub_sessions") == 0


def test_stock_synchronous_trainer_runs(model: Path, tmp_path: Path, started_run: Callable[..., Any]) -> None:
    """A canary: OpenRLHF's own trainer and executor on the same packages, with nothing of ours but the CPU's stand-ins."""
    run = started_run([sys.executable, Path(__file__).with_name("stock_run.py"), model, tmp_path], tmp_path)
    assert run.wait() == 0, run.tail()
    assert "Global step 2" in run.log

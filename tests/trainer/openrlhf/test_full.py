"""More whole runs: a critic, what stops a run, and one that was stopped and goes on with running moments."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        os.environ.get("TRAINER_FULL") != "1",
        reason="takes minutes: make test-trainer-full (TRAINER_FULL=1)",
    ),
]


def test_critic_with_generalized_advantages(start: Callable[..., Any], hub: Any) -> None:
    run = start(n_steps=2, baseline="gae", b_max=4)
    assert run.wait() == 0, run.tail()
    metrics = run.metrics(2)
    assert len(metrics["critic_loss"]) == 2 and all(value > 0 for value in metrics["critic_loss"])


def test_hub_that_stays_away_stops_the_run_with_the_reason(start: Callable[..., Any], hub: Any) -> None:
    """B015: a run in which everything fails must not train on what is left."""
    run = start(n_steps=500, failure_window=8, n_retries=1)
    run.wait_for_step(2)
    hub.controller.kill()
    assert run.wait() == 1
    assert "training stopped: InfrastructureDownError" in run.log, run.tail()


def test_weights_that_are_not_finite_stop_the_run_before_they_are_sent(start: Callable[..., Any], hub: Any) -> None:
    run = start("--actor.adam.weight_decay", "1e300", n_steps=500, save_every=1)
    assert run.wait() == 1
    assert "training stopped: NotFiniteError: weights are not finite" in run.log, run.tail()
    assert not run.sent() and not (run.folder / "checkpoint" / "_actor").exists()
    assert hub.count("envhub_sessions") == 0


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
    assert run.wait() == status, run.tail()
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

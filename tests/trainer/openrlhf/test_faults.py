"""A run of two ranks with a reference model, in whose middle a worker is killed and the controller is restarted."""

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_two_ranks_with_a_reference_model_outlive_a_worker_and_a_controller(
    start: Callable[..., Any], hub: Any, until: Callable[..., None]
) -> None:
    """B015: what was lost has no reward and is played again."""
    n_steps = 16
    hub.start_worker()
    run = start(n_steps=n_steps, n_gpus=2, micro_batch=2, kl_coef=1e-3)
    run.wait_for_step(1)
    policy = re.search(r"Policy pid=(\d+)", run.log)
    assert policy is not None

    def stands_still_in_the_middle() -> bool:
        hub.workers[0].send_signal(signal.SIGSTOP)
        if hub.sessions(0) > 1:
            return True
        hub.workers[0].send_signal(signal.SIGCONT)
        return False

    until(stands_still_in_the_middle, 120, "the worker has sessions, which can not end any more")
    os.kill(int(policy[1]), signal.SIGSTOP)  # or what is lost would become too old before it is known to be lost
    hub.workers[0].kill()
    until(lambda: "failed (session_lost" in run.log, 120, "the sessions are given up")
    os.kill(int(policy[1]), signal.SIGCONT)

    until(lambda: hub.sessions(1) > 1, 120, "the other worker has sessions")
    os.kill(int(policy[1]), signal.SIGSTOP)
    assert run.last_step < n_steps - 4, "there must be more to come than what was played already"
    hub.controller.terminate()
    hub.controller.wait(60)
    os.kill(int(policy[1]), signal.SIGCONT)
    hub.start_controller()
    assert run.wait() == 0, run.tail()

    metrics = run.metrics(n_steps)
    assert len(metrics["optimizer_steps"]) == n_steps and set(metrics["optimizer_steps"]) == {1.0}
    assert max(metrics["kl"]) > 0, "the policy moves away from the reference"
    assert min(metrics["return/calculator"]) >= 0 and min(metrics["reward/calculator"]) >= -0.2
    assert metrics["queue/retries"][-1] >= 1, "sessions were lost with the worker, and played again"
    held = {version: run.held(version) for version in (3, 4)}
    assert held[3][0] == held[3][1] == held[4][1] != held[4][0]
    assert hub.count("envhub_sessions") == 0

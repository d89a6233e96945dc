"""The shortest proof: a whole asynchronous run on a real hub, with a fresh and a stale engine, and one that goes on from it."""

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def first(workshop: Any) -> Any:
    """A run of six steps that has ended."""
    run = workshop.start(n_steps=6, save_every=3, evaluate=True, wandb=True)
    assert run.wait() == 0, run.tail()
    return run


def test_asynchronous_run_over_two_environments_with_a_stale_engine(first: Any, workshop: Any) -> None:
    """B001, B012, B016, B055, B057: six optimizer steps, every update verified, every session ended."""
    run, hub = first, workshop.hub
    kinds = [(version, kind) for version, _, kind in run.sent()]
    fresh = [(version, "fresh") for version in range(1, 7)]
    assert kinds == sorted([*fresh, (3, "stale"), (6, "stale")]), "the stale engine gets every third version"
    digests = [{digest for at, digest, _ in run.sent() if at == version} for version in range(1, 7)]
    assert all(len(each) == 1 for each in digests), "both engines of a version were sent the same"
    assert len(set.union(*digests[1:])) == 5, "each training step changed the weights"
    held = {version: run.held(version) for version in range(1, 7)}
    assert held[3][0] == held[3][1] and held[6][0] == held[6][1]
    assert held[4][1] == held[5][1] == held[3][1] != held[4][0], (
        "between its updates the stale engine keeps its weights"
    )
    assert len({held[version][0] for version in range(2, 7)}) == 5

    metrics = run.metrics(6)
    assert len(metrics["optimizer_steps"]) == 6 and set(metrics["optimizer_steps"]) == {1.0}
    assert min(metrics["engines/0"]) > 0.2 and min(metrics["engines/1"]) > 0.2
    for task in ("calculator", "db"):
        spread = metrics[f"advantage_std_after/{task}"]
        assert all(std == pytest.approx(1, abs=1e-4) or std == 0 for std in spread) and max(spread) > 0.5
        assert metrics[f"advantage_mean_after/{task}"] == pytest.approx([0.0] * len(spread), abs=1e-4)
        assert max(metrics[f"success/{task}"]) > 0
    assert max(metrics["staleness/max"]) <= 3
    assert metrics["ratio/q0.5"][0] == pytest.approx(1, abs=1e-3), "policy and engine agree about the same weights"
    assert metrics["batch/groups"][0] >= 4 and max(metrics["batch/groups"]) <= 8
    assert set(metrics["failure_rate/calculator"]) == {0.0}
    evaluated = run.metrics(6, "eval")
    assert {"pass1/calculator", "pass4/calculator", "success/calculator", "pass1"} <= set(evaluated)

    (best,) = (run.folder / "checkpoint" / "_actor").glob("best_global_step*")
    assert (best / "random_rank0.pt").exists() and f"Saved best checkpoint: {best.name} (pass1=" in run.log
    (written,) = (run.folder / "runs" / "wandb").glob("offline-run-*/*.wandb")
    sent = written.read_bytes()
    assert all(
        name.encode() in sent for name in ("train/reward/calculator", "train/staleness/max", "eval/pass1/calculator")
    )
    assert hub.count("envhub_sessions") == 0

    played = int(metrics["queue/admitted"][-1]) + 4 * len(evaluated["pass1/calculator"])
    hub.wait_for_episodes(played)
    ends = hub.ends("completed", "turn_limit", "cancelled")
    n_ended = ends.pop("all")
    assert sum(ends.values()) == n_ended, "no session failed, expired or was lost"
    assert played <= n_ended <= played + 64, f"one session for every trajectory: {ends}, {played} admitted"


def test_run_goes_on_from_the_newest_complete_checkpoint(first: Any, workshop: Any) -> None:
    """Also when the last one that was begun is not there: OpenRLHF makes room before it saves."""
    (first.folder / "checkpoint" / "_actor" / "latest").write_text("global_step5")
    run = workshop.start(n_steps=8, resume="true")
    assert run.wait() == 0, run.tail()
    assert "training goes on from global_step6" in run.log and "global_step5 is not there" in run.log
    begun = [(version, kind) for version, _, kind in run.sent()]
    assert begun == [(6, "fresh"), (6, "stale"), (7, "fresh"), (8, "fresh")], "all engines get the checkpoint's weights"
    saved = next(digest for version, digest, kind in first.sent() if (version, kind) == (6, "fresh"))
    assert run.sent()[0][1] == run.sent()[1][1] == saved, "and they are the weights that were saved"
    assert "restored: version 6" in run.log and " step 7/8" in run.log and run.last_step == 8
    assert "step 1/8" not in run.log
    assert workshop.hub.count("envhub_sessions") == 0

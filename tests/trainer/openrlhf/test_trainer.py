"""The trainer and the policy's trainer without their models: values that are not finite, and evaluations that are due."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def on_cpu() -> None:
    from trainer_adapter.openrlhf import cpu

    cpu.setup()


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float], list[str]], None]:
    """``step(status, done)``: OpenRLHF's own training step that came to these values, up to the weights that it sends."""
    from openrlhf.trainer import ppo_trainer

    from trainer_adapter.openrlhf.trainer import Trainer

    def run(status: dict[str, float], done: list[str]) -> None:
        import torch

        one = SimpleNamespace(sequences=torch.ones(1, 2), info={"reward": torch.ones(1)})
        trainer = Trainer.__new__(Trainer)
        trainer.experience_maker = SimpleNamespace(make_experience_batch=lambda samples: [one])
        trainer.tokenizer = SimpleNamespace(decode=lambda *given, **options: ["text"])
        trainer.args = SimpleNamespace(train=SimpleNamespace(dynamic_batch_enable=False))
        trainer.actor_model_group = SimpleNamespace(async_run_method_batch=lambda **given: [])
        trainer.critic_model_group, trainer.vllm_engines = None, []
        monkeypatch.setattr(ppo_trainer.ray, "get", lambda answers: answers)
        base = Trainer.__mro__[1]
        monkeypatch.setattr(base, "_compute_rollout_stats", lambda self, made: {})
        monkeypatch.setattr(base, "ppo_train", lambda self, global_steps: dict(status))
        monkeypatch.setattr(Trainer, "broadcast_to_vllm", lambda self: done.append("sent"))
        trainer.train_step([], 4)

    return run


def test_ordinary_checkpoints_leave_by_age_and_not_by_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenRLHF deletes the lowest metric first: after a peak that would be the newest."""
    from openrlhf.trainer import ppo_trainer

    from trainer_adapter.openrlhf.trainer import Trainer

    saved: list[dict[str, Any]] = []
    trainer = Trainer.__new__(Trainer)
    trainer.args = SimpleNamespace(logger=SimpleNamespace(logging_steps=1), ckpt=SimpleNamespace(save_steps=1))
    trainer.wandb_logger = trainer.tensorboard_logger = None
    trainer.best_eval_metric_key, trainer.best_eval_metric_value = "pass1", 0.7
    trainer._latest_eval_metric_value = 0.3
    group = SimpleNamespace(async_run_method=lambda **given: saved.append(given) or [])
    trainer.actor_model_group = trainer.critic_model_group = group
    monkeypatch.setattr(ppo_trainer.ray, "get", lambda answers: answers)
    trainer.save_logs_and_checkpoints(5, {}, {})
    assert [(each["tag"], each["metric_value"]) for each in saved] == [("global_step5", None)] * 2


GOOD = {"policy_loss": -0.5, "actor_grad_norm": 0.0, "critic_loss": 2.0}


@pytest.mark.parametrize("name", ["policy_loss", "actor_grad_norm", "critic_loss", "critic_grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_ends_the_run_before_weights_are_sent(
    step: Callable[..., Any], name: str, value: float
) -> None:
    from trainer_adapter.openrlhf.trainer import NotFiniteError

    done: list[str] = []
    step(GOOD, done)
    assert done == ["sent"]
    with pytest.raises(NotFiniteError, match=f"step 5: {name} {value}; checkpoints are of earlier steps"):
        step({**GOOD, name: value}, done)
    assert done == ["sent"]


@pytest.fixture
def policy_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, float]]:
    """``policy_step(n_skipped=1)``: a batch of one optimizer step on an engine that left out so many."""
    import torch
    from openrlhf.trainer.ray import ppo_actor

    from trainer_adapter.openrlhf.policy import PolicyTrainer

    def run(
        *, n_skipped: int = 0, fp16: bool = False, weight: float = 1.0, shard: float | None = None
    ) -> dict[str, float]:
        module = torch.nn.Linear(2, 2)
        with torch.no_grad():
            module.weight[0, 1] = weight
        if shard is not None:
            module.weight.ds_tensor = torch.tensor([shard])
        engine = SimpleNamespace(
            global_steps=3, skipped_steps=2, optimizer=SimpleNamespace(), fp16_enabled=lambda: fp16, module=module,
            set_train_batch_size=lambda n: None,
        )  # fmt: skip

        def base(self: Any, kl_ctl: float) -> dict[str, float]:
            engine.global_steps += 1
            engine.skipped_steps += n_skipped
            return {"policy_loss": 0.5}

        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
        monkeypatch.setattr(ppo_actor.ActorPPOTrainer, "ppo_train", base)
        trainer = PolicyTrainer.__new__(PolicyTrainer)
        trainer.actor = SimpleNamespace(model=engine)
        trainer.strategy = SimpleNamespace(all_reduce=lambda values, op: values)
        trainer.replay_buffer = SimpleNamespace(items=[None] * 4)
        trainer.micro_train_batch_size, trainer._n_steps, trainer.max_epochs = 2, 1, 1
        return trainer.ppo_train(0.0)

    return run


def test_a_gradient_that_is_no_number_ends_the_run(policy_step: Callable[..., Any]) -> None:
    """Not with fp16, whose loss scale is found that way."""
    from trainer_adapter.openrlhf.policy import NotFiniteError

    assert policy_step()["optimizer_steps"] == 1
    with pytest.raises(NotFiniteError, match=r"a gradient is not finite \(policy_loss 0\.5\)"):
        policy_step(n_skipped=1)
    assert policy_step(n_skipped=1, fp16=True)["optimizer_steps"] == 1


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_weights_that_are_no_numbers_end_the_run(policy_step: Callable[..., Any], broken: float) -> None:
    """With ZeRO-3 DeepSpeed makes a step with a gradient that is none; a rank then holds a shard."""
    from trainer_adapter.openrlhf.policy import NotFiniteError

    for where in ({"weight": broken}, {"shard": broken}):
        with pytest.raises(NotFiniteError, match="weights are not finite"):
            policy_step(**where)
    assert policy_step(weight=broken, shard=2.0)["optimizer_steps"] == 1, "what is not held is not looked at"


def test_an_evaluation_that_is_due_while_one_plays_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import logging

    from trainer_adapter.openrlhf import trainer as module

    asked: list[int] = []
    playing = True
    monkeypatch.setattr(module.ray, "wait", lambda answers, timeout: ([], answers) if playing else (answers, []))
    monkeypatch.setattr(module.ray, "get", lambda answer: {})
    monkeypatch.setattr(logging.getLogger("trainer_adapter"), "propagate", True)
    trainer = module.Trainer.__new__(module.Trainer)
    trainer._config = SimpleNamespace(evaluate=SimpleNamespace(every=2))
    trainer._rollouts = SimpleNamespace(evaluate=SimpleNamespace(remote=asked.append))
    trainer._evaluation, trainer._version = None, 0

    def steps(*numbers: int) -> None:
        for trainer._version in numbers:
            trainer._evaluate(trainer._version)

    steps(1, 2, 3, 4)
    assert asked == [2]
    told = {"the evaluation of step 4 is left out: that of step 2 still plays"}
    assert {record.getMessage() for record in caplog.records} == told
    playing = False
    steps(5, 6)
    assert asked == [2, 6] and {record.getMessage() for record in caplog.records} == told


def test_random_states_are_the_last_that_a_checkpoint_gets_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of the same name is written over."""
    import torch

    from trainer_adapter.openrlhf import policy as module

    checkpoint = tmp_path / "_actor" / "global_step2"
    seen: list[list[str]] = []

    def base(self: Any, tag: str, client_states: dict[str, Any], **given: Any) -> None:
        assert client_states == {"global_step": 2, "tag": tag}
        checkpoint.mkdir(parents=True, exist_ok=True)
        seen.append(sorted(file.name for file in checkpoint.iterdir()))

    monkeypatch.setattr(module.Policy.__mro__[1], "save_checkpoint", base)
    monkeypatch.setenv("RANK", "1")
    policy = module.Policy.__new__(module.Policy)
    policy.strategy = SimpleNamespace(args=SimpleNamespace(ckpt=SimpleNamespace(path=str(tmp_path))))
    policy.disable_ds_ckpt = False
    for _ in range(2):
        policy.save_checkpoint("global_step2", {"global_step": 2})
    assert seen == [[], []]
    assert [file.name for file in checkpoint.iterdir()] == ["random_rank1.pt"]
    drawn = torch.rand(3)
    policy._restore_random("global_step2")
    assert torch.equal(torch.rand(3), drawn)

    def full(state: Any, file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(module.torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        policy.save_checkpoint("global_step2", {"global_step": 2})
    assert not (checkpoint / "random_rank1.pt").exists()

"""In one process: the names we build on, experiences and advantages against OpenRLHF's own code, checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def on_cpu() -> Iterator[None]:
    from trainer_adapter.openrlhf import cpu

    before = dict(os.environ)
    os.environ.update(cpu.ENVIRONMENT)
    cpu.setup()
    yield
    os.environ.clear()
    os.environ.update(before)


def sequence(n: int, actions: tuple[int, ...]) -> Any:
    from trainer_adapter.tokens import TokenSequence

    mask = tuple(int(place in actions) for place in range(n))
    ids = tuple(range(5, 5 + n))
    return TokenSequence(ids, mask, tuple(-0.25 * place * trained for place, trained in enumerate(mask)), mask, mask)


def row(reward: float, *, group: str = "g0", member: int = 0, task: str = "db", n: int = 8) -> Any:
    from trainer_adapter.openrlhf.experience import Row

    return Row(sequence(n, (3, 4, n - 2)), group, member, task, reward)


def maker(baseline: str, *, normalization: str = "off", n_samples: int = 4) -> Any:
    """Our maker or, asked for by ``stock``, OpenRLHF's, without the models that make log-probs."""
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    from trainer_adapter.config import Config, ModelSection, TaskSection
    from trainer_adapter.openrlhf.experience import ExperienceMaker
    from trainer_adapter.plan import _ESTIMATORS

    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=_ESTIMATORS[baseline], gamma=1.0, lambd=1.0, no_std_norm=False)),
        rollout=SimpleNamespace(n_samples_per_prompt=n_samples, micro_batch_size=2),
        reward=SimpleNamespace(clip_range=(-10, 10), overlong_buffer_len=None, stop_properly_penalty_coef=None),
        train=SimpleNamespace(dynamic_batch_enable=False),
    )  # fmt: skip
    config = Config(model=ModelSection(path="m"), tasks=(TaskSection(environment="db"),))
    import msgspec

    algorithm = msgspec.structs.replace(config.algorithm, baseline=baseline, task_normalization=normalization)
    config = msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(config, algorithm=algorithm)), Config)
    common = (
        None,
        None,
        None,
        None,
        SimpleNamespace(value=0.0),
        SimpleNamespace(args=args),
        SimpleNamespace(pad_token_id=0),
    )
    return SimpleNamespace(ours=ExperienceMaker(*common, config=config), stock=RemoteExperienceMaker(*common))


def experiences(rows: list[Any], of: Any, *, shift: float = 0.0) -> list[Any]:
    import torch

    from trainer_adapter.openrlhf.experience import experience

    made = of.split_rollout_samples([experience(each, max_len=64) for each in rows])
    for each in made:
        each.action_log_probs = each.rollout_log_probs + shift
        each.kl = torch.zeros_like(each.rollout_log_probs)
    return list(made)


def test_every_name_is_there() -> None:
    from trainer_adapter.openrlhf import compat

    compat.check()


def test_other_versions_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_adapter.openrlhf import compat

    for found in ("0.10.4", "0.11.1", "0.12.0", "1.0"):
        monkeypatch.setattr(compat, "version", lambda name, found=found: found)
        with pytest.raises(compat.IncompatibleError, match=rf"openrlhf {found}.*>=0.11.2,<0.12"):
            compat.check_version()


def test_missing_name_and_parameter_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_adapter.openrlhf import compat

    used = (
        ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.gone", ()),
        ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.ppo_train", ("other",)),
    )
    monkeypatch.setattr(compat, "_USED", used)
    with pytest.raises(compat.IncompatibleError, match=r"ActorPPOTrainer\.gone, .*ppo_train\(other\)"):
        compat.check_names()


def test_experience_is_what_openrlhf_makes_of_the_same_answer() -> None:
    """Ids, shifted masks and log-probs, lengths: field by field."""
    import torch
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    from trainer_adapter.openrlhf.experience import experience

    one = row(0.5)
    answer = {
        "prompt": one.group, "label": one.task, "images": None, "reward": 0.5, "scores": 0.5, "truncated": False,
        "observation_tokens": list(one.sequence.ids), "action_ranges": list(one.sequence.action_ranges),
        "rollout_log_probs": list(one.sequence.logprobs), "extra_logs": {},
    }  # fmt: skip
    theirs = SamplesGenerator._process_response_into_experience(None, answer, max_len=64)
    ours = experience(one, max_len=64)
    names = (
        "sequences", "attention_mask", "action_mask", "rollout_log_probs", "rewards", "truncated", "total_length", "response_length",
    )  # fmt: skip
    for name in names:
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert ours.info.keys() == theirs.info.keys() and ours.labels == theirs.labels


def test_experiences_survive_batching_and_splitting() -> None:
    import torch
    from openrlhf.trainer.ppo_utils.experience import Experience, split_experience_batch

    from trainer_adapter.openrlhf.experience import experience

    rows = [row(1.0, n=8), row(0.0, n=12, task="kg")]
    merged = Experience.concat_experiences([experience(each, max_len=64) for each in rows], 0)
    assert merged.sequences.shape == (2, 12) and merged.labels == ["db", "kg"]
    for one, back in zip(rows, split_experience_batch(merged), strict=True):
        n = len(one.sequence)
        assert back.sequences[:n].tolist() == list(one.sequence.ids)
        assert back.action_mask[: n - 1].tolist() == list(one.sequence.mask[1:])
        assert back.rollout_log_probs[: n - 1].tolist() == pytest.approx(one.sequence.logprobs[1:])
        assert not back.action_mask[n - 1 :].any()
    assert torch.isfinite(merged.rollout_log_probs).all()


@pytest.mark.parametrize("baseline", ["grpo", "grpo_no_std", "rloo", "reinforce_baseline"])
def test_group_advantages_are_openrlhfs(baseline: str) -> None:
    import torch

    rewards = [0.0, 1.0, 0.5, 0.25, 1.0, 1.0, 0.0, 0.0]
    rows = [row(reward, group=f"g{place // 4}", member=place % 4, n=8 + place) for place, reward in enumerate(rewards)]
    both = maker(baseline)
    both.ours.rows = rows
    ours = both.ours.compute_advantages_and_returns(experiences(rows, both.ours))
    theirs = both.stock.compute_advantages_and_returns(experiences(rows, both.stock))
    for mine, stock in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.advantages * mine.action_mask, stock.advantages * stock.action_mask, atol=1e-5)
        assert torch.equal(mine.rewards, stock.rewards)
        assert mine.info["reward"].tolist() == mine.rewards.tolist()
    assert (
        both.ours.args.rollout.n_samples_per_prompt == 4
        and both.ours.advantage_estimator == both.stock.advantage_estimator
    )


def test_every_turn_of_an_episode_gets_the_whole_advantage_b054() -> None:
    """Whatever the discount: what stands between turns neither ends an episode nor takes part."""
    from dataclasses import replace as changed

    turns = (2, 3, 6, 9, 10)
    rows = [
        changed(row(reward, member=member), sequence=sequence(13, turns)) for member, reward in enumerate([1.0, 0.0])
    ]
    rows.append(changed(row(0.0, member=2), sequence=sequence(5, (2,))))
    both = maker("grpo_no_std", n_samples=3)
    both.ours.args.algo.advantage.gamma = 0.5
    both.ours.rows = rows
    made = both.ours.compute_advantages_and_returns(experiences(rows, both.ours))
    found = [value[: len(mask)] for each in made for value, mask in zip(each.advantages, each.action_mask, strict=True)]
    for values, one, wanted in zip(found, rows, (2 / 3, -1 / 3, -1 / 3), strict=True):
        mask = one.sequence.mask[1:]
        assert values[: len(mask)].tolist() == pytest.approx([wanted * trained for trained in mask])
    assert both.ours.args.algo.advantage.gamma == 0.5


def test_ratios_of_more_tokens_than_a_quantile_of_pytorch_takes() -> None:
    import torch

    from trainer_adapter.advantages import ratio_metrics
    from trainer_adapter.openrlhf.experience import _log_ratios

    n = (1 << 24) + 5
    policy = torch.linspace(-1, 1, n, dtype=torch.float32).reshape(1, n)
    large = SimpleNamespace(action_log_probs=policy, rollout_log_probs=torch.zeros(1, n), action_mask=torch.ones(1, n))
    found = ratio_metrics(_log_ratios([large]))
    assert found["ratio/q0.5"] == pytest.approx(1.0, abs=1e-4) and found["ratio/max"] == pytest.approx(
        2.71828, abs=1e-3
    )
    assert found["ratio/q0.01"] == pytest.approx(0.3753, abs=1e-3)


def test_random_states_are_kept_and_restored() -> None:
    """PyTorch's, Python's and NumPy's, as a resumed run finds them."""
    import random

    import numpy
    import torch

    from trainer_adapter.openrlhf.policy import _random_state, _set_random_state

    def drawn() -> tuple[float, ...]:
        return float(torch.rand(())), random.random(), float(numpy.random.rand())

    state = _random_state()
    first = drawn()
    assert drawn() != first
    _set_random_state(state)
    assert drawn() == first


def test_equal_rewards_in_float_rounding_train_nothing() -> None:
    """B014: OpenRLHF's own group_norm divides the rounding of the mean by a standard deviation of 1e-9."""
    rows = [row(0.1, member=member) for member in range(3)]
    both = maker("grpo", n_samples=3)
    both.ours.rows = rows
    for each in both.ours.compute_advantages_and_returns(experiences(rows, both.ours)):
        assert not each.advantages.any()


def test_groups_of_any_size_and_split_trajectories() -> None:
    """B055: survivors are compared with each other; the sequences of one trajectory count once and share its advantage."""
    rows = [
        row(1.0, group="g0", member=0), row(0.0, group="g0", member=2), row(0.0, group="g0", member=2),
        row(0.0, group="g1", member=0), row(0.0, group="g1", member=1), row(3.0, group="g1", member=2),
    ]  # fmt: skip
    both = maker("grpo_no_std")
    both.ours.rows = rows
    made = both.ours.compute_advantages_and_returns(experiences(rows, both.ours))
    found = [
        float(value[mask.bool()][0])
        for each in made
        for value, mask in zip(each.advantages, each.action_mask, strict=True)
    ]
    assert found == pytest.approx([0.5, -0.5, -0.5, -1.0, -1.0, 2.0])


def test_task_normalization_covers_the_whole_batch_and_spares_fillers() -> None:
    """B012"""
    import torch

    from trainer_adapter.openrlhf.experience import _filler

    rows = [row(reward, group=f"g{n // 4}", member=n % 4, task="db" if n < 4 else "kg", n=8 + n) for n, reward in enumerate(
        [0.0, 1.0, 0.0, 0.0, 5.0, 1.0, 2.0, 2.0])]  # fmt: skip
    rows += [_filler(rows[0])] * 2
    both = maker("grpo", normalization="batch")
    both.ours.rows = rows
    made = both.ours.compute_advantages_and_returns(experiences(rows, both.ours, shift=0.5))
    for task in ("db", "kg"):
        tokens = torch.cat([
            value[mask.bool()]
            for each in made
            for value, mask, label in zip(each.advantages, each.action_mask, each.labels, strict=True)
            if label == task
        ])  # fmt: skip
        assert float(tokens.mean()) == pytest.approx(0, abs=1e-5)
        assert float(tokens.std(unbiased=False)) == pytest.approx(1, abs=1e-5)
        assert both.ours.metrics[f"advantage_std_after/{task}"] == pytest.approx(1, abs=1e-5)
    assert not made[-1].advantages.any() and int(made[-1].action_mask.sum()) == 2
    assert all(not (each.advantages * (1 - each.action_mask)).any() for each in made)
    assert both.ours.metrics["ratio/q0.5"] == pytest.approx(2.718281828**0.5, rel=1e-5)


def test_rows_fill_up_to_a_multiple() -> None:
    from envhub.core.types import TaskRef
    from trainer_adapter.openrlhf.experience import rows_of
    from trainer_adapter.queue import Batch, Group
    from trainer_adapter.tokens import Trajectory

    task = TaskRef("db", "train", 0)
    split = Trajectory("g0", 0, task, (sequence(6, (2,)), sequence(9, (4, 5))), 1.0, 1.0)
    whole = Trajectory("g0", 1, task, (sequence(5, (1, 2)),), 0.0, 0.0)
    rows = rows_of(Batch(1, (Group("g0", 0, 1, task, (split, whole)),), (0,)), multiple=4)
    assert [each.filler for each in rows] == [False, False, False, True]
    assert rows[3].sequence.ids == whole.sequences[0].ids and rows[3].sequence.n_actions == 1


def test_no_micro_batch_makes_a_loss_that_is_no_number_b013() -> None:
    """A filler alone, short and long sequences padded together: each has a token to train, and only those move anything."""
    import torch
    from openrlhf.models import PolicyLoss
    from openrlhf.trainer.ppo_utils.experience import Experience

    from trainer_adapter.openrlhf.experience import _filler, experience

    rows = [row(1.0, n=6), row(0.0, n=40), _filler(row(0.0, n=6))]
    made = [experience(each, max_len=64) for each in rows]
    for each, advantage in zip(made, (1.0, -1.0, 0.0), strict=True):
        assert each.action_mask.sum() > 0
        each.advantages = advantage * each.action_mask
    for micro in (*made, Experience.concat_experiences(made, 0)):
        logprobs = micro.rollout_log_probs.clone().requires_grad_()
        loss, *_ = PolicyLoss()(logprobs, micro.rollout_log_probs, micro.advantages, action_mask=micro.action_mask)
        loss.backward()
        moved = logprobs.grad
        assert moved is not None and torch.isfinite(loss) and torch.isfinite(moved).all()
        assert not moved[(micro.action_mask == 0) | (micro.advantages == 0)].any()
        assert bool(moved.any()) == bool(micro.advantages.any())


def as_openrlhf_reads(config: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The arguments that its command line comes to, after its own checks; nothing is started."""
    import runpy
    import sys

    import openrlhf.utils
    import ray

    from trainer_adapter.plan import plan

    read = []

    def get_strategy(args: Any) -> None:
        read.append(args)
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(openrlhf.utils, "get_strategy", get_strategy)
    monkeypatch.setattr(sys, "argv", ["train", *plan(config).flags])
    with pytest.raises(KeyboardInterrupt):
        runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    return read[0]


def valid(**sections: Any) -> Any:
    """A configuration, or None where the adapter refuses it."""
    import msgspec

    from trainer_adapter.config import Config, ConfigError, check

    config = msgspec.convert({"model": {"path": "m"}, "tasks": [{"environment": "db"}], **sections}, Config)
    try:
        check(config)
    except ConfigError:
        return None
    return config


@pytest.mark.parametrize("level", ["off", "token", "seq"])
def test_every_importance_correction_that_is_accepted_makes_a_loss(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the setting through OpenRLHF's flags to its loss; what the policy samples itself is never left out."""
    import itertools

    import torch
    from openrlhf.models import PolicyLoss

    accepted = 0
    bounds = [[0.5, 5.0], [5.0, 0.5], [-3.0, -1.0], [0.0, 2.0], [0.01], [0.0], [5.0]]
    for mode, gating, threshold in itertools.product(("clip", "mask"), ("ratio", "binary_kl", "tv"), bounds):
        correction = {"level": level, "mode": mode, "gating": gating, "threshold": threshold}
        config = valid(algorithm={"correction": correction})
        if config is None:
            continue
        accepted += 1
        args = as_openrlhf_reads(config, monkeypatch).algo.advantage
        loss = PolicyLoss(
            is_correction_level=args.is_correction_level,
            is_correction_mode=args.is_correction_mode,
            is_correction_gating=args.is_correction_gating,
            is_correction_threshold=args.is_correction_threshold,
        )
        old = torch.tensor([[-1.0, -2.0, -3.0]])
        ones = torch.ones(1, 3)
        value, *_ = loss(old, old, ones, action_mask=ones, rollout_log_probs=old)
        assert float(value) == pytest.approx(-1.0), correction
    assert accepted == (6 if level == "seq" else 8), (
        "two thresholds each: ratio, clipped or masked; divergences, masked"
    )


def test_flags_are_what_openrlhf_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be set at once; and no whole flag of OpenRLHF is taken for the beginning of another."""
    import argparse

    from trainer_adapter.config import ConfigError
    from trainer_adapter.plan import UNSUPPORTED_FLAGS, _flags, plan

    parse, parsers = argparse.ArgumentParser.parse_args, []
    monkeypatch.setattr(
        argparse.ArgumentParser, "parse_args", lambda self, *args: parsers.append(self) or parse(self, *args)
    )
    wandb = {"project": "p", "entity": "e", "group": "g", "name": "n"}
    whole = {"resume": True, "tensorboard": "t", "wandb": wandb, "gradient_checkpointing": True}
    gae = valid(
        algorithm={"baseline": "gae"}, queue={"b_max": 32}, rollout={"on_rewrite": "refuse"}, train=whole,
        evaluate={"tasks": [{"environment": "db"}]},
    )  # fmt: skip
    args = as_openrlhf_reads(gae, monkeypatch)
    assert args.actor.gradient_checkpointing_enable and args.ckpt.load_enable and args.ckpt.best_metric_key == "pass1"
    known = set(parsers[-1]._option_string_actions)
    decided = _flags(gae, "", "")
    assert decided.keys() | UNSUPPORTED_FLAGS <= known
    for flag in known - decided.keys() - UNSUPPORTED_FLAGS - {"-h"}:
        if flag == "--actor.eps_clip":  # without effect beside --actor.eps_clip_low_high
            with pytest.raises(ConfigError, match="eps_clip_low_high"):
                plan(gae, extra=[flag])
        else:
            plan(gae, extra=[flag])


def test_every_learning_rate_schedule_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenRLHF makes it; without a warm-up it begins at the full rate."""
    import typing

    import torch
    from transformers.trainer import get_scheduler

    from trainer_adapter.config import TrainSection

    for name in typing.get_args(typing.get_type_hints(TrainSection)["lr_scheduler"]):
        read = as_openrlhf_reads(valid(train={"lr_scheduler": name}), monkeypatch).actor
        assert (read.lr_scheduler, read.lr_warmup_ratio) == (name, 0.0)
        options = {"min_lr_rate": read.min_lr_ratio} if name == "cosine_with_min_lr" else {}
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        schedule = get_scheduler(
            name, optimizer, num_warmup_steps=0, num_training_steps=9, scheduler_specific_kwargs=options
        )
        assert schedule.get_last_lr() == [1.0]


def test_importance_correction_is_passed_through() -> None:
    """The token-level truncated ratio of OpenRLHF's loss, by hand."""
    import torch
    from openrlhf.models import PolicyLoss

    loss = PolicyLoss(
        0.2, 0.2, is_correction_level="token", is_correction_mode="clip", is_correction_threshold=[0.5, 2.0]
    )
    old = torch.tensor([[-1.0, -1.0, -1.0]])
    rollout = torch.tensor([[-1.0, -3.0, 0.0]])
    advantages = torch.tensor([[1.0, 1.0, 1.0]])
    value, *_ = loss(old, old, advantages, action_mask=torch.ones(1, 3), rollout_log_probs=rollout)
    assert float(value) == pytest.approx(-(1.0 + 2.0 + 0.5) / 3)


def test_checksums_tell_apart_what_differs() -> None:
    import torch

    from trainer_adapter.openrlhf.checksums import checksum

    base = torch.arange(1000, dtype=torch.float32).reshape(10, 100)
    swapped = base.clone()
    swapped[0, 0], swapped[0, 1] = base[0, 1], base[0, 0]
    rows_swapped = base[[1, 0, *range(2, 10)]]
    nudged = base.clone()
    nudged[9, 99] = torch.nextafter(nudged[9, 99], torch.tensor(2000.0))
    found = [checksum(each) for each in (base, swapped, rows_swapped, nudged, base[:9], base.bfloat16(), base.T)]
    assert len(set(found)) == len(found)
    assert checksum(base) == checksum(base.clone()) == checksum(base.T.contiguous().T)
    table = torch.arange(280_000, dtype=torch.float32).to(torch.bfloat16).reshape(70_000, 4)
    for apart in (1, 4_096, 65_521, 65_536):
        moved = table.clone()
        moved[0], moved[apart] = table[apart], table[0]
        assert (moved == table).all() or checksum(moved) != checksum(table)
    for odd in (
        torch.tensor(1.5),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(0),
        torch.ones(7, dtype=torch.uint8)[1:],
    ):
        assert checksum(odd) == checksum(odd.clone())


def test_recorded_checksums_are_those_of_what_travels() -> None:
    import torch

    from trainer_adapter.openrlhf.checksums import RecordingGroup, checksum

    class Group:
        def broadcast(self, tensor: Any, src: int, stream: Any) -> None:
            tensor.fill_(3.0)

    receiver = RecordingGroup(Group(), sends=False)
    receiver.broadcast(torch.zeros(4), src=0)
    assert receiver.checksums == [checksum(torch.full((4,), 3.0))]
    sender = RecordingGroup(SimpleNamespace(broadcast=lambda tensor, src, stream: None), sends=True)
    sender.broadcast(torch.ones(4), src=0)
    assert sender.checksums == [checksum(torch.ones(4))]


def test_cpu_setup_leaves_no_stand_in_behind() -> None:
    import importlib.util
    import sys

    from openrlhf.models import ring_attn_utils

    assert ring_attn_utils is not None and "flash_attn" not in sys.modules
    assert importlib.util.find_spec("flash_attn") is None

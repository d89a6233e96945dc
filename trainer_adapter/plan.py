"""What a configuration comes to: OpenRLHF's flags, the placement, the sizes of batches, the memory; pure.

Invariant: every setting that OpenRLHF must know appears once among the flags, and none that the adapter itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_adapter.config import Config, ConfigError, WandbSection

_ESTIMATORS = {
    "grpo": "group_norm",
    "grpo_no_std": "dr_grpo",
    "rloo": "rloo",
    "reinforce_baseline": "reinforce_baseline",
    "gae": "gae",
}
_GIB = float(1 << 30)
_WEIGHT_BYTES, _ADAM_BYTES = 2, 16
"""Per parameter: bf16 weights; weights, gradients and Adam's float32 master copy and moments."""
_ENVIRONMENTS_KEY = "the-environments"
"""Given for wandb's key, which would otherwise end in logs: OpenRLHF prints its arguments and sends them to wandb."""
OWN_FLAGS = frozenset(
    {
        "--train.agent_func_path", "--train.async_enable", "--train.partial_rollout_enable", "--rollout.n_samples_per_prompt",
        "--rollout.batch_size", "--train.batch_size", "--vllm.num_engines", "--vllm.tensor_parallel_size", "--data.prompt_dataset",
        "--data.label_key", "--data.input_key", "--train.dynamic_batch_enable", "--train.colocate_all", "--train.seed",
        "--train.colocate_actor_ref", "--logger.wandb.key", "--ckpt.best_metric_key",
    }
)  # fmt: skip
"""What the adapter decides; a flag of these on the command line is refused."""
UNSUPPORTED_FLAGS = frozenset(
    {
        "--algo.dynamic_filtering_enable", "--vllm.enable_sleep", "--vllm.sync_with_ray", "--reward.overlong_buffer_len",
        "--reward.stop_properly_penalty_coef", "--ds.ring_attn_size", "--ds.tensor_parallel_size", "--eval.dataset",
    }
)  # fmt: skip
"""Flags of OpenRLHF that go around the queue."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Plan:
    flags: tuple[str, ...]
    rows: tuple[Row, ...]


def plan(config: Config, *, prompts: str = "PROMPTS", agent: str = "AGENT", extra: Sequence[str] = ()) -> Plan:
    """``prompts`` and ``agent``: the files that the launcher writes; ``extra``: further flags for OpenRLHF.

    Raises ConfigError for a flag that the adapter decides itself, or that does not go together with it.
    """
    for flag in (word.partition("=")[0] for word in extra):
        if flag in OWN_FLAGS:
            raise ConfigError(f"{flag} follows from the configuration and cannot be given as a flag")
        if flag in UNSUPPORTED_FLAGS:
            raise ConfigError(f"{flag} does not work with the trajectory queue")
    return Plan((*_flags(config, prompts, agent), *extra), tuple(_rows(config)))


def _flags(config: Config, prompts: str, agent: str) -> list[str]:
    train, rollout, algorithm, engines = config.train, config.rollout, config.algorithm, config.engines
    n_min = config.queue.b_min * rollout.group_size
    flags: list[object] = [
        "--actor.model_name_or_path", config.model.path,
        "--actor.num_nodes", 1, "--actor.num_gpus_per_node", train.n_gpus,
        "--vllm.num_engines", engines.n, "--vllm.tensor_parallel_size", engines.tensor_parallel,
        "--train.async_enable", "--train.partial_rollout_enable",
        "--train.agent_func_path", agent, "--data.prompt_dataset", prompts, "--data.input_key", "prompt", "--data.label_key", "label",
        "--rollout.batch_size", config.queue.b_min, "--rollout.n_samples_per_prompt", rollout.group_size,
        "--rollout.temperature", rollout.temperature, "--rollout.top_p", rollout.top_p,
        "--rollout.max_new_tokens", rollout.turn_tokens, "--data.max_len", rollout.context_tokens,
        "--train.batch_size", n_min // train.steps_per_batch, "--train.micro_batch_size", train.micro_batch,
        "--rollout.micro_batch_size", train.micro_batch, "--train.seed", train.seed,
        "--algo.advantage.estimator", _ESTIMATORS[algorithm.baseline],
        "--actor.adam.lr", algorithm.learning_rate, "--actor.eps_clip_low_high", algorithm.clip_low, algorithm.clip_high,
        "--algo.advantage.is_correction_level", algorithm.correction.level,
        "--algo.advantage.is_correction_mode", algorithm.correction.mode,
        "--algo.advantage.is_correction_gating", algorithm.correction.gating,
        "--algo.advantage.is_correction_threshold", *algorithm.correction.threshold,
        "--algo.kl.init_coef", algorithm.kl_coef, "--ds.zero_stage", train.zero_stage,
        "--ckpt.path", train.checkpoint, "--ckpt.save_steps", train.save_every,
        "--ckpt.output_dir", str(Path(train.checkpoint, "final")),
    ]  # fmt: skip
    if algorithm.kl_coef:
        flags += [
            "--algo.kl.use_loss", "--algo.kl.estimator", "k3",
            "--ref.num_nodes", 1, "--ref.num_gpus_per_node", train.n_gpus, "--train.colocate_actor_ref",
        ]  # fmt: skip
    if algorithm.baseline == "gae":
        flags += ["--critic.num_nodes", 1, "--critic.num_gpus_per_node", train.n_gpus]
    if config.evaluate is not None:
        flags += ["--ckpt.best_metric_key", config.evaluate.best]
    if algorithm.dual_clip is not None:
        flags += ["--actor.dual_clip", algorithm.dual_clip]
    if train.resume:
        flags.append("--ckpt.load_enable")
    if train.tensorboard is not None:
        flags += ["--logger.tensorboard_dir", train.tensorboard]
    if train.wandb is not None:
        flags += ["--logger.wandb.key", _ENVIRONMENTS_KEY, *_wandb_flags(train.wandb)]
    return [str(flag) for flag in flags]


def _wandb_flags(wandb: WandbSection) -> list[str]:
    given = {"project": wandb.project, "org": wandb.entity, "group": wandb.group, "run_name": wandb.name}
    return [word for name, value in given.items() if value is not None for word in (f"--logger.wandb.{name}", value)]


def _rows(config: Config) -> list[Row]:
    train, rollout, queue, engines = config.train, config.rollout, config.queue_settings, config.engine_plan
    total = sum(task.weight for task in config.tasks)
    mix = ", ".join(f"{task.environment}/{task.split} {task.weight / total:.0%}" for task in config.tasks)
    n, tensor_parallel = config.model.n_parameters, config.engines.tensor_parallel
    ranks = train.n_gpus if train.zero_stage else 1
    weights_on = ranks if train.zero_stage == 3 else 1
    policy = n * (_WEIGHT_BYTES / weights_on + (_ADAM_BYTES - _WEIGHT_BYTES) / ranks) / _GIB
    reference = n * _WEIGHT_BYTES / weights_on / _GIB if config.algorithm.kl_coef else 0.0
    per_step = f"{queue.b_min * queue.group_size} to {queue.b_max * queue.group_size} trajectories"
    cuts = "" if train.steps_per_batch == 1 else f", cut into {train.steps_per_batch} optimizer steps"
    return [
        Row("tasks", mix),
        Row("GPUs", _placement(config)),
        Row("engines", f"{len(engines.fresh)} fresh, {engines.n_stale} stale (weights every {engines.stale_every} versions)"),
        Row("batch", f"{queue.b_min} to {queue.b_max} groups of {queue.group_size} = {per_step}{cuts}"),
        Row("multiple", f"{queue.multiple} trajectories (ranks x micro batch x optimizer steps)"),
        Row("window", f"{queue.window} groups unfinished at most; staleness at most {queue.max_staleness} versions"),
        Row("rollouts", f"{rollout.max_live} at once, {rollout.context_tokens} tokens of context, {rollout.turn_tokens} a turn"),
        Row("policy memory", f"{policy:.1f} GiB a GPU for weights, gradients and Adam; activations come on top"),
        Row("reference memory", f"{reference:.1f} GiB a GPU" if reference else "none: kl_coef is 0"),
        Row("engine memory", f"{n * _WEIGHT_BYTES / tensor_parallel / _GIB:.1f} GiB a GPU for weights; the rest is KV cache"),
        Row("advantage", f"{config.algorithm.baseline}, then by task: {config.algorithm.task_normalization}"),
        Row("correction", _correction(config)),
        Row("steps", f"{train.n_steps}, a checkpoint every {train.save_every} to {train.checkpoint}{', resumed' * train.resume}"),
        Row("evaluation", _evaluation(config)),
        Row("logs", ", ".join(_loggers(config)) or "the terminal only: see train.tensorboard and train.wandb"),
    ]  # fmt: skip


def _placement(config: Config) -> str:
    n_train, n_play = config.train.n_gpus, config.engines.n * config.engines.tensor_parallel
    parts = [
        f"{n_train} train" + (" and hold the reference model" if config.algorithm.kl_coef else ""),
        f"{n_play} play",
    ]
    total = n_train + n_play
    if config.algorithm.baseline == "gae":
        parts.append(f"{n_train} train the critic")
        total += n_train
    return f"{total}: {', '.join(parts)}"


def _evaluation(config: Config) -> str:
    section = config.evaluate
    if section is None:
        return "none"
    names = ", ".join(f"{task.environment}/{task.split}" for task in section.tasks)
    best = "" if section.best == "none" else f"; the checkpoint with the best {section.best} is kept"
    return (
        f"every {section.every} steps: {section.n_tasks} tasks at most of {names}, {section.n_samples} times each{best}"
    )


def _loggers(config: Config) -> list[str]:
    train = config.train
    found = [] if train.tensorboard is None else [f"tensorboard in {train.tensorboard}"]
    if train.wandb is not None:
        found.append(f"wandb project {train.wandb.project}{' (offline)' * train.wandb.offline}")
    return found


def _correction(config: Config) -> str:
    correction = config.algorithm.correction
    if correction.level == "off":
        return "off, as in the paper: stale tokens are trained as if they were fresh"
    bounds = " to ".join(f"{bound:g}" for bound in correction.threshold)
    return f"{correction.level} {correction.gating}, {correction.mode} outside {bounds}"

"""What a configuration comes to: OpenRLHF's flags, the placement, the sizes of batches, the memory; pure.

Invariant: every setting that OpenRLHF must know appears once among the flags, and none that the adapter itself does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_adapter.config import Config, ConfigError, WandbSection
from trainer_adapter.queue import QueueSettings

_ESTIMATORS = {
    "grpo": "group_norm",
    "grpo_no_std": "dr_grpo",
    "rloo": "rloo",
    "reinforce_baseline": "reinforce_baseline",
    "gae": "gae",
}
_GIB = float(1 << 30)
_WEIGHT_BYTES, _GRADIENT_BYTES, _ADAM_BYTES = 2, 2, 12
"""Per parameter: bf16 weights and gradients; Adam's float32 master copy and moments."""
_LAYER_BYTES, _INPUT_BYTES = 34, 2
"""Per token and unit of width: what the backward pass keeps of one transformer layer without its attention matrix
(arXiv 2205.05198, section 4.1), and of a layer that is computed again."""
_ENVIRONMENTS_KEY = "the-environments"
"""Given for wandb's key, which would otherwise end in logs: OpenRLHF prints its arguments and sends them to wandb."""
_MAY_BE_GIVEN = frozenset({"--ckpt.output_dir"})
"""What a flag may say otherwise than the configuration."""
UNSUPPORTED_FLAGS = frozenset(
    {
        "--algo.dynamic_filtering_enable", "--vllm.enable_sleep", "--vllm.sync_with_ray", "--reward.overlong_buffer_len",
        "--reward.stop_properly_penalty_coef", "--ds.ring_attn_size", "--ds.tensor_parallel_size", "--eval.dataset",
        "--train.dynamic_batch_enable", "--train.colocate_all", "--train.max_epochs", "--train.num_episodes",
        "--train.async_queue_size", "--data.max_samples", "--eval.steps", "--eval.temperature", "--eval.n_samples_per_prompt",
    }
)  # fmt: skip
"""Flags of OpenRLHF that go around the queue, or do nothing with it."""


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
    decided = _flags(config, prompts, agent)
    for word in (each.partition("=")[0] for each in extra if each.startswith("--")):
        _check_flag(word, decided.keys() - _MAY_BE_GIVEN)
    given = ((flag, *values) for flag, values in decided.items() if values is not None)
    return Plan((*(str(word) for words in given for word in words), *extra), tuple(_rows(config)))


def _check_flag(word: str, decided: Collection[str]) -> None:
    """OpenRLHF takes the beginning of a flag for the flag."""
    for flag in sorted({*decided, *UNSUPPORTED_FLAGS}):
        if flag.startswith(word):
            meant = flag if word == flag else f"{word} may be read as {flag}, which"
            why = "follows from the configuration and cannot be given as a flag"
            raise ConfigError(f"{meant} {why if flag in decided else 'does not work with the trajectory queue'}")


def _flags(config: Config, prompts: str, agent: str) -> Mapping[str, Sequence[object] | None]:
    """Every flag that the adapter decides, with its values; None where OpenRLHF's default is what was decided."""
    train, rollout, algorithm, engines = config.train, config.rollout, config.algorithm, config.engines
    correction, reference, critic = algorithm.correction, algorithm.kl_coef > 0, algorithm.baseline == "gae"
    n_groups = _smallest_batch(config.queue_settings)
    return {
        "--actor.model_name_or_path": [config.model.path],
        "--actor.num_nodes": [1],
        "--actor.num_gpus_per_node": [train.n_gpus],
        "--actor.gradient_checkpointing_enable": [] if train.gradient_checkpointing else None,
        "--actor.adam.lr": [algorithm.learning_rate],
        "--actor.lr_scheduler": [train.lr_scheduler],
        "--actor.lr_warmup_ratio": [train.lr_warmup],
        "--actor.eps_clip_low_high": [algorithm.clip_low, algorithm.clip_high],
        "--actor.dual_clip": _value(algorithm.dual_clip),
        "--ref.num_nodes": [1] if reference else None,
        "--ref.num_gpus_per_node": [train.n_gpus] if reference else None,
        "--critic.num_nodes": [1] if critic else None,
        "--critic.num_gpus_per_node": [train.n_gpus] if critic else None,
        "--critic.lr_scheduler": [train.lr_scheduler] if critic else None,
        "--critic.lr_warmup_ratio": [train.lr_warmup] if critic else None,
        "--vllm.num_engines": [engines.n],
        "--vllm.tensor_parallel_size": [engines.tensor_parallel],
        "--data.prompt_dataset": [prompts],
        "--data.input_key": ["prompt"],
        "--data.label_key": ["label"],
        "--data.max_len": [rollout.context_tokens],
        "--rollout.batch_size": [n_groups],
        "--rollout.n_samples_per_prompt": [rollout.group_size],
        "--rollout.temperature": [rollout.temperature],
        "--rollout.top_p": [rollout.top_p],
        "--rollout.max_new_tokens": [rollout.turn_tokens],
        "--rollout.micro_batch_size": [train.micro_batch],
        "--train.async_enable": [],
        "--train.partial_rollout_enable": [],
        "--train.agent_func_path": [agent],
        "--train.batch_size": [n_groups * rollout.group_size // train.steps_per_batch],
        "--train.micro_batch_size": [train.micro_batch],
        "--train.colocate_actor_ref": [] if reference else None,
        "--train.seed": [train.seed],
        "--algo.advantage.estimator": [_ESTIMATORS[algorithm.baseline]],
        "--algo.advantage.is_correction_level": [correction.level],
        "--algo.advantage.is_correction_mode": [correction.mode],
        "--algo.advantage.is_correction_gating": [correction.gating],
        "--algo.advantage.is_correction_threshold": correction.threshold,
        "--algo.kl.init_coef": [algorithm.kl_coef],
        "--algo.kl.use_loss": [] if reference else None,
        "--algo.kl.estimator": ["k3"] if reference else None,
        "--ds.zero_stage": [train.zero_stage],
        "--ckpt.path": [train.checkpoint],
        "--ckpt.save_steps": [train.save_every],
        "--ckpt.output_dir": [str(Path(train.checkpoint, "final"))],
        "--ckpt.load_enable": [] if train.resume else None,
        "--ckpt.best_metric_key": None if config.evaluate is None else [config.evaluate.best],
        "--logger.tensorboard_dir": _value(train.tensorboard),
        **_wandb_flags(train.wandb),
    }


def _wandb_flags(wandb: WandbSection | None) -> Mapping[str, Sequence[object] | None]:
    names = ("key", "project", "org", "group", "run_name")
    values = (
        (None,) * len(names)
        if wandb is None
        else (_ENVIRONMENTS_KEY, wandb.project, wandb.entity, wandb.group, wandb.name)
    )
    return {f"--logger.wandb.{name}": _value(value) for name, value in zip(names, values, strict=True)}


def _value(value: object | None) -> Sequence[object] | None:
    return None if value is None else [value]


def _smallest_batch(queue: QueueSettings) -> int:
    """In groups. DeepSpeed wants to know a batch that comes to whole micro batches on every rank, before the first one is there;
    each batch then brings its own size."""
    sizes = range(queue.b_min, queue.b_max + 1)
    return next(n for n in sizes if n * queue.group_size % queue.multiple == 0)


def _rows(config: Config) -> list[Row]:
    train, rollout, queue, engines = config.train, config.rollout, config.queue_settings, config.engine_plan
    total = sum(task.weight for task in config.tasks)
    mix = ", ".join(f"{task.environment}/{task.split} {task.weight / total:.0%}" for task in config.tasks)
    n, tensor_parallel = config.model.n_parameters, config.engines.tensor_parallel
    weights_on = train.n_gpus if train.zero_stage == 3 else 1
    reference = n * _WEIGHT_BYTES / weights_on / _GIB if config.algorithm.kl_coef else 0.0
    largest = min(queue.b_max, queue.window)
    per_step = f"{queue.b_min * queue.group_size} to {largest * queue.group_size} trajectories"
    cuts = "" if train.steps_per_batch == 1 else f", cut into {train.steps_per_batch} optimizer steps"
    return [
        Row("tasks", mix),
        Row("GPUs", _gpus_row(config)),
        Row("engines", f"{len(engines.fresh)} fresh, {engines.n_stale} stale (weights every {engines.stale_every} versions)"),
        Row("batch", f"{queue.b_min} to {largest} groups of {queue.group_size} = {per_step}{cuts}"),
        Row("multiple", f"{queue.multiple} trajectories (ranks x micro batch x optimizer steps)"),
        Row("window", f"{queue.window} groups unfinished at most; staleness at most {queue.max_staleness} versions"),
        Row("rollouts", f"{rollout.max_live} at once, {rollout.context_tokens} tokens of context, {rollout.turn_tokens} a turn"),
        Row("policy memory", f"{_policy_bytes(config) / _GIB:.1f} GiB a GPU for weights, gradients and Adam"),
        Row("activations", _activations(config)),
        Row("reference memory", f"{reference:.1f} GiB a GPU" if reference else "none: kl_coef is 0"),
        Row("engine memory", f"{n * _WEIGHT_BYTES / tensor_parallel / _GIB:.1f} GiB a GPU for weights; the rest is KV cache"),
        Row("learning rate", _learning_rate(config)),
        Row("advantage", f"{config.algorithm.baseline}, then by task: {config.algorithm.task_normalization}"),
        Row("correction", _correction(config)),
        Row("steps", f"{train.n_steps}, a checkpoint every {train.save_every} to {train.checkpoint}{', resumed' * train.resume}"),
        Row("evaluation", _evaluation(config)),
        Row("logs", ", ".join(_loggers(config)) or "the terminal only: see train.tensorboard and train.wandb"),
        *(Row("note", note) for note in _notes(config)),
    ]  # fmt: skip


def gpus(config: Config) -> Mapping[str, int]:
    """That a run needs, by what they are for."""
    train, engines = config.train, config.engines
    policy = "train and hold the reference model" if config.algorithm.kl_coef else "train"
    critic = {"train the critic": train.n_gpus} if config.algorithm.baseline == "gae" else {}
    return {policy: train.n_gpus, "play": engines.n * engines.tensor_parallel, **critic}


def placement(config: Config) -> str:
    """As text, with the total first."""
    wanted = gpus(config)
    return f"{sum(wanted.values())}: {', '.join(f'{n} {purpose}' for purpose, n in wanted.items())}"


def _gpus_row(config: Config) -> str:
    where = "none, for train.device is cpu; in their place " if config.train.device == "cpu" else ""
    return where + placement(config)


def _policy_bytes(config: Config) -> float:
    """Of a GPU: ZeRO shards Adam's numbers from stage 1 on, gradients from 2 on, weights in 3."""
    n, ranks, stage = config.model.n_parameters, config.train.n_gpus, config.train.zero_stage
    parts = ((_ADAM_BYTES, 1), (_GRADIENT_BYTES, 2), (_WEIGHT_BYTES, 3))
    return sum(n * size / (ranks if stage >= sharded_from else 1) for size, sharded_from in parts)


def _activations(config: Config) -> str:
    """An upper bound but for the logits: sequences as long as the context, no attention matrix kept (flash attention)."""
    model, train = config.model, config.train
    if model.n_layers is None or model.hidden is None:
        return "unknown: set model.n_layers and model.hidden, for the estimate alone"
    layer = train.micro_batch * config.rollout.context_tokens * model.hidden
    if train.gradient_checkpointing:
        total, how = layer * (_INPUT_BYTES * model.n_layers + _LAYER_BYTES), "with"
    else:
        total, how = layer * _LAYER_BYTES * model.n_layers, "without"
    return (
        f"up to some {total / _GIB:.1f} GiB a GPU {how} train.gradient_checkpointing, by arithmetic; logits come on top"
    )


def _learning_rate(config: Config) -> str:
    train = config.train
    warmup = f", after a warm-up of {train.lr_warmup:.0%} of the run" if train.lr_warmup else ""
    return f"{config.algorithm.learning_rate:g}, {train.lr_scheduler}{warmup}"


def _notes(config: Config) -> list[str]:
    """Settings that have no effect as they stand."""
    queue, engines, notes = config.queue_settings, config.engines, []
    if queue.b_max > queue.window:
        notes.append(
            f"queue.b_max {queue.b_max} has no effect: {queue.window} groups at most are unfinished at once, which is queue.b_min "
            "x (queue.max_staleness + 1)"
        )
    if engines.stale_ratio and not config.engine_plan.n_stale:
        notes.append(
            f"engines.stale_ratio {engines.stale_ratio:g} of {engines.n} engines is less than one: none is stale, and policies are "
            "not crossed"
        )
    return notes


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
    where = "outside" if len(correction.threshold) == 2 else "above"
    return f"{correction.level} {correction.gating}, {correction.mode} {where} {bounds}"

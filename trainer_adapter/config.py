"""The one configuration of a training run: read from TOML, checked, frozen.

Invariant: an unknown key, a value of the wrong type and a combination that cannot work stop the program with a text that names
them; nothing else of the adapter reads files or variables for its settings.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from trainer_adapter.advantage_modes import TaskNormalization
from trainer_adapter.engines import EnginePlan
from trainer_adapter.groups import GroupBaseline
from trainer_adapter.queue import OnFailure, QueueSettings
from trainer_adapter.rollout import OnRewrite, RolloutSettings

Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, lt=1)]


class ConfigError(Exception):
    """A setting is missing or wrong; the text says which and what is valid."""


class HubSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the environments are; the key is read from a file."""

    url: str = "http://127.0.0.1:8800"
    key_file: str | None = None


class TaskSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One environment to train on; ``options`` are its session options."""

    environment: str
    split: str = "train"
    weight: Annotated[float, Meta(gt=0)] = 1.0
    indices: tuple[Annotated[int, Meta(ge=0)], ...] | None = None
    options: dict[str, bool | int | float | str] = field(default_factory=dict)


class ModelSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``path``: a Hugging Face folder or name. ``n_parameters`` serves the memory estimate alone."""

    path: str
    format: Literal["hermes", "llama3", "glm4", "plain"] = "hermes"
    n_parameters: Annotated[float, Meta(gt=0)] = 14e9


class RolloutSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    group_size: Positive = 8
    temperature: Annotated[float, Meta(gt=0)] = 0.8
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    context_tokens: Positive = 8192
    turn_tokens: Positive = 1024
    incomplete_penalty: float | None = -0.2
    on_rewrite: OnRewrite = OnRewrite.SPLIT
    max_live: Positive = 2048
    lease_s: Annotated[float, Meta(gt=0)] = 600.0


class QueueSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``staleness_of``: whether the lag of stale engines counts against ``max_staleness``."""

    b_min: Positive = 32
    b_max: Positive = 64
    max_staleness: Annotated[int, Meta(ge=0)] = 4
    staleness_of: Literal["fresh", "all"] = "fresh"
    on_failure: OnFailure = OnFailure.RETRY
    n_retries: Annotated[int, Meta(ge=0)] = 3
    min_group: Positive = 2
    filter_flat: bool = False
    max_failure_rate: Annotated[float, Meta(gt=0, le=1)] = 0.5
    failure_window: Positive = 256
    abort_hopeless: bool = True


class EnginesSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Seconds: ``call_limit_s`` for an engine to answer while weights are updated, ``send_limit_s`` for all weights to arrive,
    ``turn_limit_s`` for one completion."""

    n: Positive = 4
    tensor_parallel: Positive = 1
    stale_ratio: Share = 0.25
    stale_every: Positive = 25
    weights: tuple[Annotated[float, Meta(ge=0)], ...] = ()
    call_limit_s: Annotated[float, Meta(gt=0)] = 60.0
    send_limit_s: Annotated[float, Meta(gt=0)] = 1800.0
    turn_limit_s: Annotated[float, Meta(gt=0)] = 1800.0


class CorrectionSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Importance correction by OpenRLHF: of ``token`` or ``seq`` ratios, by ``mask`` or ``clip``. The paper uses none."""

    level: Literal["off", "token", "seq"] = "off"
    mode: Literal["mask", "clip"] = "clip"
    gating: Literal["ratio", "binary_kl", "tv"] = "ratio"
    threshold: tuple[float, ...] = (0.5, 5.0)


class AlgorithmSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``baseline`` names the group advantage; ``gae`` and ``reinforce_baseline`` are OpenRLHF's own."""

    baseline: Literal["grpo", "grpo_no_std", "rloo", "reinforce_baseline", "gae"] = "grpo"
    task_normalization: TaskNormalization = TaskNormalization.BATCH
    normalization_momentum: Share = 0.9
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-6
    kl_coef: Annotated[float, Meta(ge=0)] = 1e-4
    clip_low: Annotated[float, Meta(gt=0)] = 0.2
    clip_high: Annotated[float, Meta(gt=0)] = 0.2
    dual_clip: Annotated[float, Meta(gt=1)] | None = 3.0
    correction: CorrectionSection = CorrectionSection()


class TrainSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``n_gpus``: data-parallel ranks of the policy; ``steps_per_batch``: optimizer steps that a drained batch is cut into."""

    n_steps: Positive = 1000
    n_gpus: Positive = 8
    micro_batch: Positive = 1
    steps_per_batch: Positive = 1
    zero_stage: Annotated[int, Meta(ge=0, le=3)] = 3
    seed: int = 42
    checkpoint: str = "checkpoints"
    save_every: Positive = 50
    resume: bool = False
    tensorboard: str | None = None


class EvaluateSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``every``: versions between evaluations; tasks ``n_tasks`` of each entry's split, ``n_samples`` times, on fresh engines."""

    every: Positive = 25
    n_samples: Positive = 4
    n_tasks: Positive = 64
    temperature: Annotated[float, Meta(ge=0)] = 0.8
    tasks: tuple[TaskSection, ...] = ()


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: ModelSection
    tasks: tuple[TaskSection, ...]
    hub: HubSection = HubSection()
    rollout: RolloutSection = RolloutSection()
    queue: QueueSection = QueueSection()
    engines: EnginesSection = EnginesSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    train: TrainSection = TrainSection()
    evaluate: EvaluateSection | None = None

    @property
    def engine_plan(self) -> EnginePlan:
        engines = self.engines
        return EnginePlan(engines.n, engines.stale_ratio, engines.stale_every, engines.weights)

    @property
    def queue_settings(self) -> QueueSettings:
        queue, plan = self.queue, self.engine_plan
        return QueueSettings(
            group_size=self.rollout.group_size,
            b_min=queue.b_min,
            b_max=queue.b_max,
            multiple=self.train.n_gpus * self.train.micro_batch * self.train.steps_per_batch,
            max_staleness=queue.max_staleness,
            fresh_engines=plan.fresh if queue.staleness_of == "fresh" else None,
            on_failure=queue.on_failure,
            n_retries=queue.n_retries,
            min_group=queue.min_group,
            filter_flat=queue.filter_flat,
            max_failure_rate=queue.max_failure_rate,
            failure_window=queue.failure_window,
        )

    @property
    def rollout_settings(self) -> RolloutSettings:
        rollout = self.rollout
        return RolloutSettings(
            rollout.context_tokens, rollout.turn_tokens, rollout.incomplete_penalty, rollout.on_rewrite
        )

    @property
    def group_baseline(self) -> GroupBaseline | None:
        """None where OpenRLHF computes the advantage without comparing a group."""
        known = {each.value: each for each in GroupBaseline}
        return known.get(self.algorithm.baseline)


def load(path: Path) -> Config:
    """Raises ConfigError."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    try:
        config = msgspec.convert(values, Config, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    check(config)
    return config


def check(config: Config) -> None:
    """Raises ConfigError for what the types cannot say."""
    if not config.tasks:
        raise ConfigError("there must be at least one [[tasks]]")
    for name in ("engine_plan", "queue_settings", "rollout_settings"):
        try:
            getattr(config, name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    if config.evaluate is not None and not config.evaluate.tasks:
        raise ConfigError("there must be at least one [[evaluate.tasks]]")
    algorithm, rollout = config.algorithm, config.rollout
    if algorithm.baseline in ("grpo", "grpo_no_std", "rloo") and rollout.group_size < 2:
        raise ConfigError(f"baseline {algorithm.baseline} compares trajectories: rollout.group_size must be at least 2")
    if rollout.turn_tokens > rollout.context_tokens:
        raise ConfigError("rollout.turn_tokens must not be larger than rollout.context_tokens")
    correction = algorithm.correction
    if len(correction.threshold) not in (1, 2) or (len(correction.threshold) == 1) != (correction.gating != "ratio"):
        raise ConfigError("algorithm.correction.threshold takes a low and a high bound for ratio, one bound otherwise")

"""The one configuration of a training run: read from TOML, checked, frozen.

Invariant: an unknown key, a value of the wrong type and a combination that cannot work stop the program with a text that names
them; nothing else of the adapter reads files or variables for its settings.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field, structs

from envhub.core.types import TaskRef
from trainer_adapter.advantage_modes import TaskNormalization
from trainer_adapter.engines import EnginePlan
from trainer_adapter.groups import GroupBaseline
from trainer_adapter.metrics import evaluation_metrics, evaluation_names
from trainer_adapter.queue import OnFailure, QueueSettings
from trainer_adapter.rollout import OnRewrite, RolloutSettings
from trainer_adapter.tokens import Trajectory

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
    """``path``: a Hugging Face folder or name. ``n_parameters``, ``n_layers`` and ``hidden`` (the width of a layer) serve the memory
    estimate alone; the last two are read from a folder. ``template_options`` go to the chat template (``enable_thinking``).
    ``trust_remote_code``: whether a model may bring Python code that is then run."""

    path: str
    format: Literal["hermes", "llama3", "glm4", "glm45", "plain"] = "hermes"
    n_parameters: Annotated[float, Meta(gt=0)] = 14e9
    n_layers: Positive | None = None
    hidden: Positive | None = None
    template_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    trust_remote_code: bool = False


class RolloutSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``lease_s``: the hub ends a session that heard nothing for so long; longer than an engine may take for a turn."""

    group_size: Positive = 8
    temperature: Annotated[float, Meta(gt=0)] = 0.8
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    context_tokens: Positive = 8192
    turn_tokens: Positive = 1024
    incomplete_penalty: float | None = -0.2
    on_rewrite: OnRewrite = OnRewrite.SPLIT
    max_live: Positive = 2048
    lease_s: Annotated[float, Meta(gt=0)] = 900.0


class QueueSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``staleness_of``: whether the lag of stale engines counts against ``max_staleness``. ``max_lost_groups``: the run stops when so
    many groups of an environment in a row could not be trained, or so many of all were flat."""

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
    max_lost_groups: Positive = 256
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
    turn_limit_s: Annotated[float, Meta(gt=0)] = 600.0


class CorrectionSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Importance correction by OpenRLHF, of tokens or of whole sequences (``seq``). ``clip`` clamps the ratio of a token; ``mask``
    leaves out what lies outside ``threshold``: two bounds of a ratio, one of a divergence. The paper uses none."""

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


class WandbSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights & Biases. The key is read from ``key_file``, else from where wandb looks itself; ``offline`` needs none and writes below
    ``folder``, for `wandb sync`."""

    project: str
    entity: str | None = None
    group: str | None = None
    name: str | None = None
    key_file: str | None = None
    offline: bool = False
    folder: str = "."


class TrainSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``n_gpus``: data-parallel ranks of the policy; ``steps_per_batch``: optimizer steps that a drained batch is cut into.
    ``device``: ``cpu`` trains without a GPU, for tests; it is never chosen because none is found. ``lr_warmup``: the share of all
    optimizer steps in which the learning rate rises; those of a critic too."""

    device: Literal["cuda", "cpu"] = "cuda"
    n_steps: Positive = 1000
    n_gpus: Positive = 8
    micro_batch: Positive = 1
    steps_per_batch: Positive = 1
    zero_stage: Annotated[int, Meta(ge=0, le=3)] = 3
    gradient_checkpointing: bool = False
    lr_scheduler: Literal["constant", "constant_with_warmup", "linear", "cosine", "cosine_with_min_lr"] = "constant"
    lr_warmup: Share = 0.0
    seed: Annotated[int, Meta(ge=0, lt=1 << 32)] = 42
    checkpoint: str = "checkpoints"
    save_every: Positive = 50
    resume: bool = False
    tensorboard: str | None = None
    wandb: WandbSection | None = None


class EvaluateSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``every``: versions between evaluations; tasks ``n_tasks`` of each entry's split, ``n_samples`` times, on fresh engines.
    ``best``: the metric whose highest value so far gets a checkpoint of its own (``pass1``, ``success/db``); ``none`` keeps none."""

    every: Positive = 25
    n_samples: Positive = 4
    n_tasks: Positive = 64
    temperature: Annotated[float, Meta(ge=0)] = 0.8
    best: str = "pass1"
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
            max_lost_groups=queue.max_lost_groups,
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
    return _with_shape(_with_whole_paths(config))


def check(config: Config) -> None:
    """Raises ConfigError for what the types cannot say."""
    for name, number in _numbers(msgspec.to_builtins(config)):
        if not math.isfinite(number):
            raise ConfigError(f"{name} must be a finite number, not {number}")
    for name in ("engine_plan", "queue_settings", "rollout_settings"):
        try:
            getattr(config, name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    _check_url(config.hub.url)
    _check_tasks("tasks", config.tasks)
    if config.evaluate is not None:
        _check_tasks("evaluate.tasks", config.evaluate.tasks)
        _check_best(config.evaluate)
    _check_staleness(config)
    _check_rollout(config)
    _check_algorithm(config)
    _check_correction(config.algorithm.correction)


def _with_whole_paths(config: Config) -> Config:
    """Files are read by processes that may run elsewhere on the machine."""
    hub, wandb = config.hub, config.train.wandb
    if hub.key_file is not None:
        hub = structs.replace(hub, key_file=_whole(hub.key_file, "hub.key_file"))
    if wandb is not None:
        key_file = None if wandb.key_file is None else _whole(wandb.key_file, "train.wandb.key_file")
        wandb = structs.replace(wandb, key_file=key_file, folder=_whole(wandb.folder, "train.wandb.folder"))
    return structs.replace(config, hub=hub, train=structs.replace(config.train, wandb=wandb))


def _whole(path: str, setting: str) -> str:
    if "\0" in path:
        raise ConfigError(f"{setting} holds a NUL character")
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as error:  # ~name of nobody
        raise ConfigError(f"{setting} {path}: {error}") from error


def _with_shape(config: Config) -> Config:
    """With the layers of a model that is a folder here; a folder that cannot be read is refused when the model is loaded."""
    model = config.model
    try:
        values = json.loads(Path(model.path, "config.json").read_text("utf-8"))
        shape = msgspec.convert(values, _Shape)
    except (OSError, ValueError, msgspec.ValidationError):
        return config
    n_layers, hidden = model.n_layers or shape.num_hidden_layers, model.hidden or shape.hidden_size
    return structs.replace(config, model=structs.replace(model, n_layers=n_layers, hidden=hidden))


class _Shape(Struct, frozen=True):
    """What is read of a Hugging Face config.json."""

    num_hidden_layers: Positive | None = None
    hidden_size: Positive | None = None


def key_in(file: str, setting: str) -> str:
    """The one line of a key file. Raises ConfigError, which never shows what the file holds."""
    try:
        lines = Path(file).read_text("utf-8").split()
    except UnicodeDecodeError:
        raise ConfigError(f"{setting}: {file} is not a text") from None
    except (OSError, ValueError) as error:  # the latter for a NUL in the name
        raise ConfigError(f"{setting}: {error}") from error
    if len(lines) != 1:
        raise ConfigError(f"{setting}: {file} must hold one key and nothing else, it holds {len(lines)} words")
    return lines[0]


def _numbers(values: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every floating-point number of the configuration with its place."""
    if isinstance(values, float):
        yield name, values
    elif isinstance(values, dict):
        for key, value in values.items():
            yield from _numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _numbers(value, name)


def _check_url(url: str) -> None:
    """Never shows one that holds a password."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigError("hub.url is not a URL such as http://127.0.0.1:8800") from None
    if "@" in parts.netloc:
        raise ConfigError(
            "hub.url must not hold a user or a password: a key belongs in the file that hub.key_file names"
        )
    if not is_valid:
        raise ConfigError(f"hub.url must be a URL such as http://127.0.0.1:8800, not {url!r}")


def _check_tasks(name: str, tasks: tuple[TaskSection, ...]) -> None:
    if not tasks:
        raise ConfigError(f"there must be at least one [[{name}]]")
    seen: set[tuple[str, str]] = set()
    for task in tasks:
        if (task.environment, task.split) in seen:
            raise ConfigError(
                f"[[{name}]] names {task.environment}/{task.split} twice: give it one entry, with a weight"
            )
        seen.add((task.environment, task.split))
    if not math.isfinite(sum(task.weight for task in tasks)):
        raise ConfigError(f"the weights of [[{name}]] are too large: their sum is not finite")


def _check_best(section: EvaluateSection) -> None:
    """The names that an evaluation's metrics will have, asked of what makes them."""
    played = Trajectory("", 0, TaskRef("", "", 0), reward=0.0, environment_return=0.0)
    names = evaluation_names([(task.environment, task.split) for task in section.tasks])
    metrics = evaluation_metrics({name: [[played] * section.n_samples] for name in names})
    valid = [name for name in metrics if not name.startswith("failures/")]
    if section.best not in (*valid, "none"):
        raise ConfigError(
            f"evaluate.best {section.best!r} is no metric of the evaluation; valid: {', '.join(sorted(valid))}, or 'none'"
        )


def _check_staleness(config: Config) -> None:
    queue, plan = config.queue, config.engine_plan
    if queue.staleness_of == "all" and plan.n_stale and plan.stale_every - 1 > queue.max_staleness:
        raise ConfigError(
            f"queue.staleness_of 'all' counts stale engines, which are up to {plan.stale_every - 1} versions behind by "
            f"engines.stale_every: with queue.max_staleness {queue.max_staleness} nothing they take part in could be trained"
        )


def _check_rollout(config: Config) -> None:
    rollout, engines = config.rollout, config.engines
    if rollout.turn_tokens > rollout.context_tokens:
        raise ConfigError("rollout.turn_tokens must not be larger than rollout.context_tokens")
    if rollout.lease_s <= engines.turn_limit_s:
        raise ConfigError(
            f"rollout.lease_s {rollout.lease_s:g} must be longer than engines.turn_limit_s {engines.turn_limit_s:g}: the hub would "
            "end sessions whose turn is still being sampled"
        )


def _check_algorithm(config: Config) -> None:
    algorithm, rollout, queue = config.algorithm, config.rollout, config.queue
    baseline = algorithm.baseline
    if baseline != "gae" and rollout.group_size < 2:
        raise ConfigError(f"baseline {baseline} compares trajectories: rollout.group_size must be at least 2")
    if config.group_baseline is None:
        if queue.on_failure is OnFailure.SURVIVORS:
            raise ConfigError(
                f"baseline {baseline} is OpenRLHF's own and wants whole groups: not queue.on_failure 'survivors'"
            )
        if rollout.on_rewrite is OnRewrite.SPLIT:
            raise ConfigError(
                f"baseline {baseline} wants one sequence a trajectory: set rollout.on_rewrite to 'refuse'"
            )
    if baseline == "gae" and queue.b_min != queue.b_max:
        raise ConfigError("baseline gae trains a critic, whose batches are of one size: set queue.b_max to queue.b_min")
    if config.train.lr_warmup and config.train.lr_scheduler == "constant":
        raise ConfigError("train.lr_warmup has no effect on train.lr_scheduler 'constant': take 'constant_with_warmup'")


def _check_correction(correction: CorrectionSection) -> None:
    """What OpenRLHF's loss refuses when a run has already begun, and bounds that would leave nothing to train on."""
    level, gating, threshold = correction.level, correction.gating, correction.threshold
    where = "algorithm.correction"
    if correction.mode == "clip" and (level == "seq" or gating != "ratio"):
        raise ConfigError(
            f"{where}: mode 'clip' clamps the ratio of a token; level {level!r} with gating {gating!r} takes mode = 'mask'"
        )
    if gating != "ratio":
        if len(threshold) != 1 or threshold[0] <= 0:
            raise ConfigError(f"{where}.threshold takes one bound above 0 for gating {gating!r}, such as [0.01]")
    elif len(threshold) != 2 or not 0 <= threshold[0] <= 1 <= threshold[1] or threshold[0] == threshold[1]:
        raise ConfigError(
            f"{where}.threshold takes a low and a high bound of the ratio, with 1 between them, such as [0.5, 5.0]"
        )

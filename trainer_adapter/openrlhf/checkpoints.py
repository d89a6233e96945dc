"""Which checkpoint a run begins with, decided before anything starts.

Invariants: a run goes on from a checkpoint that is complete, or does not start; a run that begins anew writes over no other run's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import is_zipfile

from trainer_adapter.config import Config, ConfigError

_TAG = re.compile(r"(best_)?global_step(\d+)")


@dataclass(frozen=True, slots=True)
class Start:
    """``tag``: of the checkpoint that OpenRLHF will load, None when there is none; ``text``: what to tell about it. ``unnoted``: the
    folders whose ``latest``, by which DeepSpeed finds it, names another one so far."""

    tag: str | None
    text: str
    unnoted: tuple[Path, ...] = ()

    def note(self) -> None:
        """Make DeepSpeed find it."""
        for part in self.unnoted:
            _write(part / "latest", str(self.tag))


def random_file(checkpoint: Path, rank: int) -> Path:
    """The last file that a rank writes, and whole when it is there: a policy's checkpoint with all of them is complete."""
    return checkpoint / f"random_rank{rank}.pt"


def start_of(config: Config) -> Start:
    """The last checkpoint or, where that is not complete, the newest that is. Changes nothing. Raises ConfigError."""
    folder = Path(config.train.checkpoint)
    policy = folder / "_actor"
    tags = _tags(policy)
    if not config.train.resume or not tags:
        _check_unused(folder, tags)
    if not config.train.resume:
        return Start(None, f"training begins anew, checkpoints go to {folder}")
    if not tags:
        return Start(None, f"train.resume: {folder} holds no checkpoint, training begins anew")
    parts = [policy, folder / "_critic"] if config.algorithm.baseline == "gae" else [policy]
    lacking = {tag: next(filter(None, (_lacking(part / tag, config) for part in parts)), "") for tag in tags}
    complete = [tag for tag in tags if not lacking[tag]]
    if not complete:
        raise ConfigError(_refusal(folder, lacking, config))
    named = list(dict.fromkeys(_latest(part) for part in parts))
    if len(named) == 1 and named[0] in complete:
        return Start(named[0], f"train.resume: training goes on from {named[0]} in {folder}")
    unusable = [f"{tag} {lacking.get(tag, 'is not there')}" for tag in named if tag and tag not in complete]
    return Start(
        complete[0],
        f"train.resume: training goes on from {complete[0]} in {folder}, the newest complete checkpoint: "
        f"{'; '.join(unusable) or 'which one was the last is not noted'}",
        tuple(parts),
    )


def _check_unused(folder: Path, tags: Sequence[str]) -> None:
    others = (path.name for pattern in ("*_hf", "final*") for path in sorted(folder.glob(pattern)))
    found = [*(f"_actor/{tag}" for tag in tags), *(f"_critic/{tag}" for tag in _tags(folder / "_critic")), *others]
    if found:
        go_on = "set train.resume = true to go on from there, " if tags else ""
        raise ConfigError(
            f"train.checkpoint: {folder} holds what an earlier run saved ({', '.join(found)}), and this one would write over it: "
            f"{go_on}name another folder, or delete this one"
        )


def _tags(folder: Path) -> list[str]:
    """Of all checkpoints, the newest first; of the same step the ordinary one before the best one."""
    found = [_TAG.fullmatch(each.name) for each in folder.iterdir() if each.is_dir()] if folder.is_dir() else []
    return [tag[0] for tag in sorted(filter(None, found), key=lambda tag: (-int(tag[2]), tag[1] is not None))]


def _latest(folder: Path) -> str | None:
    try:
        return (folder / "latest").read_text("utf-8").strip() or None
    except OSError:
        return None


def _lacking(checkpoint: Path, config: Config) -> str:
    """What keeps it from being loaded; empty when nothing does."""
    n, stage = config.train.n_gpus, config.train.zero_stage
    wanted = {"*model_states.pt": n if stage == 3 else 1}
    if stage:
        wanted["*optim_states.pt"] = n
    if checkpoint.parent.name == "_actor":
        wanted["random_rank*.pt"] = n
    for pattern, n_wanted in wanted.items():
        files = list(checkpoint.glob(pattern))
        n_whole = sum(map(is_zipfile, files))  # PyTorch's format, whose end is written last
        if not len(files) == n_whole == n_wanted:
            return f"has {len(files)} {pattern}, {n_whole} of them whole, and {n_wanted} are wanted"
    return ""


def _refusal(folder: Path, lacking: Mapping[str, str], config: Config) -> str:
    found = "; ".join(f"{tag} {lack}" for tag, lack in lacking.items())
    return (
        f"train.resume: no checkpoint in {folder} can be used: {found}. One that was cut short while it was saved is of no use: "
        f"delete it. A whole one wants the train.n_gpus and train.zero_stage it was made with, not {config.train.n_gpus} and "
        f"{config.train.zero_stage}"
    )


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, "utf-8")
    os.replace(new, file)
